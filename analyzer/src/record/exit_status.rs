//! How a process ended that is somebody else's child.
#![expect(unsafe_code, reason = "one ioctl that no library wraps yet")]

use heapreel_format::Ended;
use rustix::fd::BorrowedFd;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;

/// `struct pidfd_info` of linux/pidfd.h in its first size, 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// PIDFD_INFO_EXIT: the kernel keeps the status even after the parent has taken it.
const EXIT: u64 = 1 << 3;

struct GetInfo(PidfdInfo);

// SAFETY: PIDFD_GET_INFO is _IOWR(0xFF, 11, struct pidfd_info); the kernel writes at
// most the 64 bytes whose size is in the opcode, and `as_ptr` points to as many.
unsafe impl Ioctl for GetInfo {
    type Output = PidfdInfo;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<PidfdInfo>(0xff, 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        extract_output: *mut c_void,
    ) -> rustix::io::Result<PidfdInfo> {
        // SAFETY: the pointer is the one from `as_ptr`, to a live PidfdInfo, which is
        // valid for any bits.
        Ok(unsafe { *extract_output.cast::<PidfdInfo>() })
    }
}

/// How the process behind `pidfd` ended; `None` while it runs and on kernels before 6.15.
pub fn of(pidfd: BorrowedFd<'_>) -> Option<Ended> {
    let asked = GetInfo(PidfdInfo {
        mask: EXIT,
        ..PidfdInfo::default()
    });
    // SAFETY: the contract of the call is kept by GetInfo above.
    let info = unsafe { ioctl(pidfd, asked) }.ok()?;
    (info.mask & EXIT != 0).then(|| from_raw(info.exit_code))
}

/// A status as wait(2) gives it.
pub fn from_raw(status: i32) -> Ended {
    match status & 0x7f {
        0 => Ended::Exit(status >> 8 & 0xff),
        signal => Ended::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        assert_eq!(from_raw(3 << 8), Ended::Exit(3));
        assert_eq!(from_raw(9), Ended::Signal(9));
        // With a core file.
        assert_eq!(from_raw(0x80 | 11), Ended::Signal(11));
    }
}
