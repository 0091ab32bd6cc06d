//! Walks from a signal handler, on the interrupted stack and on another.

use std::cell::RefCell;
use std::mem;
use std::ptr;

use super::compare::{Ours, ours_from, theirs};
use crate::unwind::{End, here};

thread_local! {
    static TAKEN: RefCell<Option<(Ours, Vec<u64>)>> = const { RefCell::new(None) };
}

extern "C" fn handler(_signal: libc::c_int) {
    let both = (ours_from(here(), 4096), theirs());
    TAKEN.with_borrow_mut(|taken| *taken = Some(both));
}

#[test]
fn a_handler_on_the_same_stack() {
    assert_walks_through(libc::SIGUSR1, 0);
}

#[test]
fn a_handler_on_an_alternate_stack() {
    let mut stack = vec![0_u8; 1 << 18];
    let alternate = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the memory lives to the end of this test, which restores the
    // former stack before; the null pointer asks for nothing.
    let former = unsafe {
        let mut former = mem::zeroed();
        assert_eq!(libc::sigaltstack(&raw const alternate, &raw mut former), 0);
        former
    };
    assert_walks_through(libc::SIGUSR2, libc::SA_ONSTACK);
    // SAFETY: `former` is what the call above gave.
    let restored = unsafe { libc::sigaltstack(&raw const former, ptr::null_mut()) };
    assert_eq!(restored, 0);
}

/// Raises `signal` and compares what its handler saw.
#[inline(never)]
fn assert_walks_through(signal: libc::c_int, flags: libc::c_int) {
    let outer = ours_from(here(), 4096);
    // SAFETY: the handler does nothing that a handler of a signal raised by the
    // thread itself may not do. The signal is used by this test only.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(
            libc::sigaction(signal, &raw const action, ptr::null_mut()),
            0
        );
        assert_eq!(libc::raise(signal), 0);
    }
    let (ours, theirs) = TAKEN.take().unwrap();
    assert_eq!(ours.ended, End::Outermost);
    assert!(ours.addresses.ends_with(&outer.addresses));
    let theirs = &theirs[theirs.len() - ours.addresses.len()..];
    let differing: Vec<_> = (ours.addresses.iter().zip(theirs))
        .filter(|(ours, theirs)| ours != theirs)
        .collect();
    // The interrupted instruction, which we give as if a call of one byte
    // stood there.
    assert_eq!(differing.len(), 1, "{differing:x?}");
    assert_eq!(*differing[0].0, differing[0].1 + 1);
}
