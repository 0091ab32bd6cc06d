//! What a context costs: `cargo bench -p heapreel --bench contexts`.
//!
//! Prints nanoseconds for entering and leaving, the best and the median of rounds; first
//! without a recording, then with one, whose trace goes to the temporary folder.

use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 41;
/// Few enough that a round's records do not fill a buffer.
const TURNS: usize = 2_000;

fn main() {
    println!("enter and leave              best ns  median ns");
    all("off:");
    let trace = std::env::temp_dir().join(format!("contexts-{}.hreel", std::process::id()));
    heapreel::start(heapreel::Config::new(&trace)).expect("a recording");
    all("on:");
    heapreel::stop();
    _ = std::fs::remove_file(trace);
}

fn all(what: &str) {
    let names: Vec<String> = (0..200).map(|number| format!("rock_{number:03}")).collect();
    let path = String::from("levels/forest/props/rock_07.mesh");
    report(what, "\"asset\", \"rock\"", |_| {
        let _scope = heapreel::context!("asset", "rock");
    });
    report(what, "a path of 32 bytes", |_| {
        let _scope = heapreel::context!("asset", path);
    });
    report(what, "200 names in turn", |turn| {
        let _scope = heapreel::context!("asset", names[turn % names.len()]);
    });
    report(what, "a format of a number", |turn| {
        let _scope = heapreel::context!("entity", "orc_{}", turn % 50);
    });
    let outer = heapreel::context!("level", "forest");
    let context = heapreel::Context::current();
    drop(outer);
    report(what, "a carried context", |_| {
        let _scope = black_box(context).enter();
    });
}

fn report(what: &str, name: &str, mut work: impl FnMut(usize)) {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round(&mut work)).collect();
    rounds.sort_by(f64::total_cmp);
    println!(
        "{what:4} {name:22} {:8.1} {:8.1}",
        rounds[0],
        rounds[ROUNDS / 2]
    );
}

fn round(work: &mut impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    for turn in 0..TURNS {
        work(turn);
        black_box(());
    }
    begin.elapsed().as_nanos() as f64 / TURNS as f64
}
