//! Programs that gain rights when they start: the loader then ignores LD_PRELOAD.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o0010;

/// How a program gains rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It runs as its file's owner.
    SetUser,
    /// It runs as its file's group.
    SetGroup,
    /// Its file carries capabilities.
    Capabilities,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Privilege::SetUser => "is set-user-ID",
            Privilege::SetGroup => "is set-group-ID",
            Privilege::Capabilities => "has file capabilities",
        })
    }
}

/// The rights that this user would gain by running `file`.
pub fn of(file: &File) -> Option<Privilege> {
    let facts = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let changes = changes_identity(facts.mode(), facts.uid(), facts.gid(), user, group);
    changes.or_else(|| (user != 0 && has_capabilities(file)).then_some(Privilege::Capabilities))
}

fn changes_identity(
    mode: u32,
    owner: u32,
    its_group: u32,
    user: u32,
    group: u32,
) -> Option<Privilege> {
    if mode & SETUID != 0 && owner != user {
        return Some(Privilege::SetUser);
    }
    // Without the group's right to execute the bit means mandatory locking.
    let set_group = mode & (SETGID | GROUP_EXECUTES) == SETGID | GROUP_EXECUTES;
    (set_group && its_group != group).then_some(Privilege::SetGroup)
}

fn has_capabilities(file: &File) -> bool {
    let mut room = [0u8; 64];
    rustix::fs::fgetxattr(file, "security.capability", &mut room).is_ok_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_identity_counts() {
        let set_user = Some(Privilege::SetUser);
        assert_eq!(changes_identity(0o104755, 0, 0, 1000, 1000), set_user);
        assert_eq!(changes_identity(0o104755, 1000, 0, 1000, 1000), None);
        assert_eq!(
            changes_identity(0o102755, 1000, 20, 1000, 1000),
            Some(Privilege::SetGroup)
        );
        assert_eq!(changes_identity(0o102744, 1000, 20, 1000, 1000), None);
        assert_eq!(changes_identity(0o100755, 0, 0, 1000, 1000), None);
    }
}
