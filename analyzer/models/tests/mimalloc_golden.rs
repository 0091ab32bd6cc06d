//! The mimalloc model against the real mimalloc 2.0.3: every address, and the committed
//! bytes every 500 events.

mod paged_support;

use heapreel_models::Mimalloc;
use heapreel_models::mimalloc::Parameters;
use paged_support::golden::{assert_same, events, file, replay};

fn check(trace: &str, output: &str, preset: &str) {
    let names_threads = trace != "ar";
    let mut parameters = Parameters::preset(preset).expect("the preset exists");
    // Only the trace without threads was run by the program's first thread.
    parameters.main_thread = (!names_threads).then_some(0);
    let events = events(&file(&format!("{trace}.trace")), names_threads);
    let mut model = Mimalloc::new(&parameters).expect("the preset is sound");
    let got = replay(&mut model, &events);
    let name = format!("{trace}.mi203-{output}.out");
    assert_same(&name, &got, &file(&name));
    model.audit().expect("the books are right at the end");
}

#[test]
fn one_thread_as_shipped() {
    check("st", "default", "2.0.3");
}

#[test]
fn one_thread_with_segments_of_4_mib() {
    check("st", "capcom4", "2.0.3-4mib");
}

#[test]
fn one_thread_with_segments_of_8_mib() {
    check("st", "capcom8", "2.0.3-8mib");
}

#[test]
fn six_threads_as_shipped() {
    check("mt", "default", "2.0.3");
}

#[test]
fn six_threads_with_segments_of_4_mib() {
    check("mt", "capcom4", "2.0.3-4mib");
}

#[test]
fn six_threads_with_segments_of_8_mib() {
    check("mt", "capcom8", "2.0.3-8mib");
}

#[test]
fn aligned_and_resized_as_shipped() {
    check("ar", "default", "2.0.3");
}

#[test]
fn aligned_and_resized_with_segments_of_8_mib() {
    check("ar", "capcom8", "2.0.3-8mib");
}
