//! Modules: found, described, forgotten.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::compare::ours_from;
use crate::unwind::{End, StackBounds, forget_modules, generation, here, init, module_of, walk};

#[test]
fn a_module_is_found_by_an_address_in_it() {
    init();
    let own = module_of(modules_address()).unwrap();
    assert!(own.start < modules_address() && modules_address() < own.end);
    assert!(own.headers.is_code(modules_address()));
    assert!(
        !own.headers.is_code(own.start),
        "the file header is no code"
    );
    // SAFETY: the loader's name of the program itself, which stays.
    assert!(unsafe { CStr::from_ptr(own.name) }.is_empty());

    let libc_address = libc::qsort as *const () as u64;
    let libc_module = module_of(libc_address).unwrap();
    // SAFETY: the loader's name of a library that stays loaded.
    let name = unsafe { CStr::from_ptr(libc_module.name) };
    assert!(name.to_str().unwrap().contains("libc"));
    assert_ne!(libc_module.eh_frame_hdr, 0);
    assert_eq!(
        libc_module.bias, libc_module.start,
        "a library begins at zero"
    );

    assert!(module_of(0).is_none());
    assert!(module_of(8).is_none());
    assert!(module_of(u64::MAX).is_none());
    let heap = Box::new(0_u8);
    assert!(module_of(&raw const *heap as u64).is_none());
}

fn modules_address() -> u64 {
    walk as *const () as u64
}

#[test]
fn the_own_build_id_is_that_of_the_file() {
    init();
    let Some(id) = module_of(libc::qsort as *const () as u64)
        .unwrap()
        .build_id()
    else {
        return;
    };
    let module = module_of(libc::qsort as *const () as u64).unwrap();
    // SAFETY: the loader's name of a library that stays loaded.
    let path = unsafe { CStr::from_ptr(module.name) }.to_str().unwrap();
    let file = std::fs::read(path).unwrap();
    assert!(id.len() >= 8);
    assert!(file.windows(id.len()).any(|bytes| bytes == &*id));
}

#[test]
fn forgetting_modules_changes_no_walk() {
    let before = ours_from(here(), 64).addresses;
    let generation_before = generation();
    forget_modules();
    assert_ne!(generation(), generation_before);
    let after = ours_from(here(), 64).addresses;
    assert_eq!(before[1..], after[1..]);
}

#[test]
fn walks_agree_while_rules_come_and_go() {
    init();
    let walking = AtomicU32::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut bounds = StackBounds::EMPTY;
                let regs = here();
                let mut first = [0; 64];
                let expected = walk(regs, &mut bounds, &mut first);
                let do_agree = (0..1_000).all(|_| {
                    let mut out = [0; 64];
                    let taken = walk(regs, &mut bounds, &mut out);
                    (taken, out) == (expected, first)
                });
                walking.fetch_sub(1, Ordering::Relaxed);
                assert!(do_agree);
                assert_eq!(expected.ended, End::Outermost);
            });
        }
        while walking.load(Ordering::Relaxed) > 0 {
            forget_modules();
            std::thread::yield_now();
        }
    });
}

#[test]
fn the_error_number_is_kept() {
    init();
    // SAFETY: the thread's own error number.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = 4711;
    forget_modules();
    let mut out = [0; 64];
    let mut bounds = StackBounds::EMPTY;
    walk(here(), &mut bounds, &mut out);
    assert_eq!(*errno, 4711);
}
