//! Linux on x86-64.

pub(crate) mod clock;
pub(crate) mod confined;
pub(crate) mod count;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod process;
mod seccomp;
pub(crate) mod tls;
