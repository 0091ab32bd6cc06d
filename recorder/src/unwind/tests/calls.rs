//! Ordinary calls: recursion, callbacks through libc, threads, full output.

use std::hint::black_box;

use super::compare::{assert_same_here, ours_from};
use crate::unwind::{End, here};

#[inline(never)]
fn recurse<R>(depth: u32, then: &mut dyn FnMut() -> R) -> R {
    let mut local = [depth; 5];
    black_box(&mut local);
    let result = if depth == 0 {
        then()
    } else {
        recurse(depth - 1, then)
    };
    black_box(&local);
    result
}

#[test]
fn a_plain_call_is_walked_to_its_end() {
    assert_same_here();
}

#[test]
fn recursion_is_walked_to_its_end() {
    let mut seen = recurse(100, &mut assert_same_here);
    seen.dedup();
    assert!(seen.len() < 60, "a hundred calls from one place");
}

#[test]
fn a_full_output_ends_the_walk() {
    let ours = recurse(100, &mut || ours_from(here(), 16));
    assert_eq!((ours.addresses.len(), ours.ended), (16, End::Full));
    let none = ours_from(here(), 0);
    assert_eq!((none.addresses.len(), none.ended), (0, End::Full));
}

#[test]
fn a_thread_is_walked_to_its_start() {
    let walker = || recurse(30, &mut assert_same_here).len();
    let len = std::thread::spawn(walker).join().unwrap();
    assert!(len > 30);
}

#[test]
fn a_callback_is_walked_through_the_c_library() {
    extern "C" fn compare(left: *const libc::c_void, right: *const libc::c_void) -> libc::c_int {
        recurse(3, &mut assert_same_here);
        (left as usize).cmp(&(right as usize)) as libc::c_int
    }
    let mut items = [3_u32, 1, 2, 5, 4];
    // SAFETY: the array holds so many items of this size; `compare` reads none.
    unsafe { libc::qsort(items.as_mut_ptr().cast(), items.len(), 4, Some(compare)) };
}
