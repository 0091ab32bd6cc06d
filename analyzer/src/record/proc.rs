//! What /proc tells of a process.

use std::fs;

/// Whether one of the process's mappings is of a file whose path contains `part`;
/// `None` where that cannot be read, or where it has none any more: it is about to end.
pub fn maps(pid: u32, part: &str) -> Option<bool> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    (!maps.is_empty()).then(|| memchr::memmem::find(&maps, part.as_bytes()).is_some())
}

/// Whether the process's first environment contains `text`; `None` where nothing can be
/// read, which is so of one that has none, and of any one in the midst of an exec.
pub fn environment_contains(pid: u32, text: &str) -> Option<bool> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    (!environment.is_empty()).then(|| memchr::memmem::find(&environment, text.as_bytes()).is_some())
}

/// The process's children.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let lists = tasks.flatten().filter_map(of_task);
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// All processes below `pid`, itself left out.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut at = 0;
    while at < all.len() {
        let below = children(all[at]);
        all.extend(below);
        at += 1;
    }
    all
}

/// The name of one thread, as the kernel keeps it.
pub fn thread_name(pid: u32, thread: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/task/{thread}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// The process's name, for people.
pub fn name(pid: u32) -> String {
    thread_name(pid, pid).unwrap_or_else(|| "?".to_owned())
}

/// One letter for what the process does, and its start in clock ticks since boot.
pub fn state(pid: u32) -> Option<(char, u64)> {
    parse_state(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may itself hold spaces and parentheses.
fn parse_state(stat: &str) -> Option<(char, u64)> {
    // Field 22 of proc(5), counted from the third, which is the state.
    const START: usize = 19;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(START - 1)?.trim_end().parse().ok()?;
    Some((state, start))
}

/// How a process ended whose parent has not asked yet, as wait(2) would tell it.
pub fn zombie_status(pid: u32) -> Option<i32> {
    parse_zombie(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_zombie(stat: &str) -> Option<i32> {
    // Field 52 of proc(5), the last one.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.trim_end().split(' ');
    (fields.next()? == "Z").then(|| fields.next_back()?.parse().ok())?
}

/// Bit mask of the signals that this process ignores; bit 0 is signal 1.
pub fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_is_no_trap() {
        let mut fields = vec!["S".to_owned()];
        fields.extend((4..=22).map(|n| n.to_string()));
        let stat = format!("12 (a) b) {} 23\n", fields.join(" "));
        assert_eq!(parse_state(&stat), Some(('S', 22)));
        assert_eq!(parse_state("12 (a"), None);
    }

    #[test]
    fn only_a_zombie_has_a_status() {
        assert_eq!(parse_zombie("12 (a b) Z 1 2 9\n"), Some(9));
        assert_eq!(parse_zombie("12 (a b) S 1 2 9\n"), None);
        let mut child = std::process::Command::new("false").spawn().unwrap();
        let seen = loop {
            match zombie_status(child.id()) {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(seen, 1 << 8);
        // It is there and has no mappings: it has not mapped other files instead.
        assert_eq!(maps(child.id(), "false"), None);
        child.wait().unwrap();
        assert_eq!(zombie_status(child.id()), None);
    }

    #[test]
    fn this_process_is_known() {
        let own = std::process::id();
        assert!(state(own).is_some());
        assert_eq!(maps(own, "libc"), Some(true));
        assert_eq!(maps(own, "no such library"), Some(false));
        assert_eq!(maps(4_194_305, "libc"), None);
    }

    /// Nothing to read is no answer: in the midst of an exec it is so of every process.
    #[test]
    fn an_environment_is_known_if_it_can_be_read() {
        let child = |variable: Option<&str>| {
            let mut command = std::process::Command::new("/bin/cat");
            command.env_clear().stdin(std::process::Stdio::piped());
            command.envs(variable.map(|value| ("VARIABLE", value)));
            command.spawn().unwrap()
        };
        let (mut with, mut without) = (child(Some("session")), child(None));
        while maps(with.id(), "bin/cat") != Some(true)
            || environment_contains(with.id(), "").is_none()
        {
            std::thread::yield_now();
        }
        assert_eq!(
            environment_contains(with.id(), "VARIABLE=session"),
            Some(true)
        );
        assert_eq!(
            environment_contains(with.id(), "VARIABLE=other"),
            Some(false)
        );
        assert_eq!(environment_contains(without.id(), "VARIABLE=session"), None);
        assert_eq!(environment_contains(4_194_305, "VARIABLE=session"), None);
        for child in [&mut with, &mut without] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
