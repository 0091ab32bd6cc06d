//! The plain list of operations: one a line, as allocator people write them.
//!
//! ```text
//! with threads        without
//! a THREAD ID SIZE    a ID SIZE          allocate
//! A THREAD ID SIZE ALIGN   A ID SIZE ALIGN    allocate aligned
//! r THREAD ID SIZE    r ID SIZE          reallocate
//! f THREAD ID         f ID               free
//! x THREAD                               the thread exits
//! ```
//!
//! The first line decides which form a file has. A thread that comes back after its `x` is
//! a new one. Empty lines and those that begin with `#` are skipped.

use std::collections::HashMap;
use std::fmt;

/// Larger blocks fit no address space.
const MOST_BYTES: u64 = 1 << 46;

/// Whether a file names threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each line names its thread.
    Threads,
    /// All is done by the program's first thread.
    OneThread,
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Allocates so many bytes, aligned to `align` where it is not 0.
    Allocate {
        /// Bytes.
        size: u64,
        /// A power of two or 0.
        align: u64,
    },
    /// Gives a block a new size.
    Reallocate {
        /// Bytes.
        size: u64,
    },
    /// Frees a block.
    Free,
    /// The thread exits.
    Exit,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The thread as the file numbers it; 0 where it does not.
    pub thread: u32,
    /// The block's number in the file; 0 for an exit.
    pub id: u64,
    /// What is done.
    pub kind: OpKind,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Which form it has.
    pub form: Form,
    /// Its operations in order.
    pub ops: Vec<Op>,
}

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

/// Reads a file of operations.
///
/// # Errors
///
/// Every [`BadLine`], in order; never an empty list. A file without operations is one.
pub fn parse_ops(text: &str) -> Result<Ops, Vec<BadLine>> {
    let mut reader = Reader::default();
    let mut bad = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Err(cause) = reader.take(line, index + 1) {
            let line = index + 1;
            bad.push(BadLine { line, cause });
        }
    }
    match reader.form {
        _ if !bad.is_empty() => Err(bad),
        Some((form, _)) => Ok(Ops {
            form,
            ops: reader.ops,
        }),
        None => Err(vec![BadLine {
            line: 1,
            cause: "no operation in the whole file".to_owned(),
        }]),
    }
}

#[derive(Default)]
struct Reader {
    /// The form, and the line that decided.
    form: Option<(Form, usize)>,
    ops: Vec<Op>,
    /// The line in which each live block was allocated.
    live: HashMap<u64, usize>,
}

impl Reader {
    fn take(&mut self, line: &str, number: usize) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        let Some(letter) = words.next().filter(|word| !word.starts_with('#')) else {
            return Ok(());
        };
        let fields = match letter {
            "a" | "r" => 2,
            "A" => 3,
            "f" => 1,
            "x" => 0,
            _ => return Err(format!("no operation {letter:?}; there are a, A, r, f, x")),
        };
        let numbers: Vec<&str> = words.collect();
        let form = self.form(letter, fields, numbers.len(), number)?;
        let (thread, numbers) = match form {
            Form::Threads => (parsed(numbers[0], "thread")?, &numbers[1..]),
            Form::OneThread => (0, &numbers[..]),
        };
        let op = operation(letter, thread, numbers)?;
        self.check_block(&op, number)?;
        self.ops.push(op);
        Ok(())
    }

    /// The file's form, decided by its first operation.
    fn form(
        &mut self,
        letter: &str,
        fields: usize,
        given: usize,
        line: usize,
    ) -> Result<Form, String> {
        let form = match given.checked_sub(fields) {
            Some(1) => Form::Threads,
            Some(0) if letter != "x" => Form::OneThread,
            _ => {
                let one = if letter == "x" { 1 } else { fields };
                let s = if one == 1 { "" } else { "s" };
                let or = if letter == "x" {
                    String::new()
                } else {
                    format!(" or, with its thread, {}", fields + 1)
                };
                return Err(format!(
                    "{letter:?} takes {one} number{s}{or}; here are {given}"
                ));
            }
        };
        let (decided, by) = *self.form.get_or_insert((form, line));
        match (decided == form, form) {
            (true, _) => Ok(form),
            (false, Form::Threads) => Err(format!("names a thread, which line {by} does not")),
            (false, Form::OneThread) => Err(format!("names no thread, which line {by} does")),
        }
    }

    fn check_block(&mut self, op: &Op, line: usize) -> Result<(), String> {
        let Op { id, .. } = *op;
        let since = match op.kind {
            OpKind::Allocate { .. } => self.live.insert(id, line),
            OpKind::Reallocate { .. } if self.live.contains_key(&id) => return Ok(()),
            OpKind::Free if self.live.remove(&id).is_some() => return Ok(()),
            OpKind::Exit => return Ok(()),
            OpKind::Reallocate { .. } | OpKind::Free => {
                return Err(format!("block {id} is not live here"));
            }
        };
        match since {
            Some(since) => Err(format!("block {id} is live since line {since}")),
            None => Ok(()),
        }
    }
}

fn operation(letter: &str, thread: u32, numbers: &[&str]) -> Result<Op, String> {
    let id = match numbers.first() {
        Some(word) => parsed(word, "block")?,
        None => 0,
    };
    let kind = match letter {
        "a" => OpKind::Allocate {
            size: size(numbers[1])?,
            align: 0,
        },
        "A" => OpKind::Allocate {
            size: size(numbers[1])?,
            align: alignment(numbers[2])?,
        },
        "r" => OpKind::Reallocate {
            size: size(numbers[1])?,
        },
        "f" => OpKind::Free,
        _ => OpKind::Exit,
    };
    Ok(Op { thread, id, kind })
}

fn parsed<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{word:?} is no number of a {what}"))
}

fn size(word: &str) -> Result<u64, String> {
    let size: u64 = word
        .parse()
        .map_err(|_| format!("{word:?} is no size in bytes"))?;
    if size > MOST_BYTES {
        return Err(format!("a block of {size} bytes fits no address space"));
    }
    Ok(size)
}

fn alignment(word: &str) -> Result<u64, String> {
    let align: u64 = word.parse().unwrap_or(0);
    if !align.is_power_of_two() || align > MOST_BYTES {
        return Err(format!("{word:?} is no alignment: a power of two"));
    }
    Ok(align)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(thread: u32, id: u64, kind: OpKind) -> Op {
        Op { thread, id, kind }
    }

    fn causes(text: &str) -> Vec<String> {
        let bad = parse_ops(text).expect_err(text);
        bad.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_forms_are_read() {
        let threads = parse_ops("# made up\na 3 7 100\n\nA 3 8 64 32\nr 2 7 90\nf 0 7\nx 3\n");
        let threads = threads.unwrap();
        assert_eq!(threads.form, Form::Threads);
        let aligned = OpKind::Allocate {
            size: 64,
            align: 32,
        };
        assert_eq!(
            threads.ops,
            [
                op(
                    3,
                    7,
                    OpKind::Allocate {
                        size: 100,
                        align: 0
                    }
                ),
                op(3, 8, aligned),
                op(2, 7, OpKind::Reallocate { size: 90 }),
                op(0, 7, OpKind::Free),
                op(3, 0, OpKind::Exit),
            ]
        );
        let one = parse_ops("A 8 64 32\nf 8").unwrap();
        assert_eq!((one.form, one.ops[0]), (Form::OneThread, op(0, 8, aligned)));
    }

    #[test]
    fn each_bad_line_is_told_with_its_cause() {
        assert_eq!(
            causes("a 0 1 30\nf 0 1\nf 0 1\nq 1\na 0 x 3\nA 0 2 8 24\nf 1\na 0 3 8\na 0 3 8\nx\n"),
            [
                "line 3: block 1 is not live here",
                "line 4: no operation \"q\"; there are a, A, r, f, x",
                "line 5: \"x\" is no number of a block",
                "line 6: \"24\" is no alignment: a power of two",
                "line 7: names no thread, which line 1 does",
                "line 9: block 3 is live since line 8",
                "line 10: \"x\" takes 1 number; here are 0",
            ]
        );
        assert_eq!(
            causes("a 0 99999999999999999999\n"),
            ["line 1: \"99999999999999999999\" is no size in bytes"]
        );
        assert_eq!(
            causes("\n# nothing\n"),
            ["line 1: no operation in the whole file"]
        );
        assert_eq!(
            causes("a 1 2 3 4"),
            ["line 1: \"a\" takes 2 numbers or, with its thread, 3; here are 4"]
        );
    }
}
