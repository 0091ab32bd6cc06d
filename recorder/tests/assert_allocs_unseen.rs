//! A check that checks nothing fails: here `Recorder` is not the global allocator.

use std::panic::catch_unwind;

#[test]
fn without_the_recorder_nothing_is_checked_and_that_fails() {
    assert!(!heapreel::count());
    let failure = catch_unwind(|| heapreel::assert_allocs!(.., || 1)).expect_err("it fails");
    assert_eq!(
        failure.downcast_ref::<&str>().copied(),
        Some(
            "assert_allocs! checks nothing: heapreel::Recorder is not this program's global allocator"
        )
    );
    // Nor is anything counted.
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(heapreel::thread_stats().total.allocations, 0);
    assert!(!heapreel::is_recording());
}
