//! How a command's failure becomes one line and an exit code.

use crate::exit_code;
use std::fmt;
use std::process::ExitCode;

/// A failure that asks for another exit code than [`exit_code::MISUSE`].
#[derive(Debug)]
pub struct Failure {
    /// What `heapreel` exits with.
    pub code: u8,
    /// One line: what is wrong, and what to do.
    pub message: String,
}

impl Failure {
    /// As an error to be returned from a command.
    pub fn error(code: u8, message: impl Into<String>) -> anyhow::Error {
        let message = message.into();
        anyhow::Error::new(Failure { code, message })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints the error's line and returns its exit code.
///
/// A reader that closed our stdout (`heapreel report … | head`) is no failure.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::from(exit_code::FINE);
    }
    eprintln!("heapreel: {}", one_line(error));
    let code = error.downcast_ref::<Failure>().map(|failure| failure.code);
    ExitCode::from(code.unwrap_or(exit_code::MISUSE))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = Some(std::io::ErrorKind::BrokenPipe);
    error.chain().any(|cause| {
        let io = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        // serde_json hides the cause behind its own error.
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io == broken || json == broken
    })
}

/// The chain of causes, outermost first, without repeating what a cause already says.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_stand_in_one_line() {
        let cause = std::io::Error::other("no space\nleft");
        let error = Err::<(), _>(cause).context("t.hreel").unwrap_err();
        assert_eq!(one_line(&error), "t.hreel: no space left");
    }

    #[test]
    fn a_cause_that_is_already_told_is_not_repeated() {
        let cause = std::io::Error::other("gone");
        let error = Err::<(), _>(cause)
            .context("cannot be read: gone")
            .unwrap_err();
        assert_eq!(one_line(&error), "cannot be read: gone");
    }

    #[test]
    fn a_closed_stdout_is_found_among_the_causes() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let error = Err::<(), _>(closed).context("writing").unwrap_err();
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
