//! Libraries that come and go, in all the ways in which a program can load them: it goes on as
//! without us, and each call is named by the library that made it.

mod support;

use serde_json::Value;
use support::number;
use support::plugins::{Plugins, plugins};
use support::record::{Recording, heapreel, record_with};
use support::run::run;
use support::undisturbed::{assert_undisturbed_and_sound, last_line};

#[track_caller]
fn run_with(plugins: &Plugins, mode: &str) -> Recording {
    let folder = plugins.folder.display().to_string();
    assert_undisturbed_and_sound(&plugins.program, &[mode, &folder])
}

/// The sites of what is still there at the end, by function and module.
#[track_caller]
fn left_by_libraries(plugins: &Plugins, mode: &str) -> Vec<(String, String, u64, u64)> {
    let folder = plugins.folder.display().to_string();
    let recording = record_with(&[], &plugins.program, &[mode, &folder]);
    let report = run(heapreel().arg("leaks").arg(&recording.trace).arg("--json"));
    let report: Value = serde_json::from_str(&report.stdout).expect("a report");
    let text = |site: &Value, key: &str| site[key].as_str().unwrap_or_default().to_owned();
    let sites = report["sites"]
        .as_array()
        .expect("sites")
        .iter()
        .map(|site| {
            (
                text(site, "function"),
                text(site, "module"),
                number(site, "blocks"),
                number(site, "bytes"),
            )
        });
    let mut left: Vec<_> = sites
        .filter(|(function, ..)| function.ends_with("_make"))
        .collect();
    left.sort();
    left
}

fn site(function: &str, module: &str, blocks: u64, bytes: u64) -> (String, String, u64, u64) {
    (function.to_owned(), module.to_owned(), blocks, bytes)
}

#[test]
fn a_library_is_loaded_a_thousand_times() {
    let Some(plugins) = plugins() else { return };
    run_with(&plugins, "same");
    assert_eq!(
        left_by_libraries(&plugins, "same"),
        [site("wolf_make", "libwolf.so", 64, 64 * 2222)]
    );
}

/// The same code address is the wolf's in one turn and the deer's in the next.
#[test]
fn two_libraries_take_turns_at_one_place() {
    let Some(plugins) = plugins() else { return };
    plugins.both();
    let met = number(&last_line(&run_with(&plugins, "swap")), "met");
    assert!(met > 500, "they lay at the same place {met} times of 1,000");
    assert_eq!(
        left_by_libraries(&plugins, "swap"),
        [
            site("deer_make", "libdeer.so", 64, 64 * 3333),
            site("wolf_make", "libwolf.so", 64, 64 * 2222)
        ]
    );
}

/// The loader takes whose RUNPATH counts from the address that called it.
#[test]
fn plug_ins_that_only_a_runpath_finds() {
    let Some(plugins) = plugins() else { return };
    let recording = run_with(&plugins, "runpath");
    assert_eq!(number(&last_line(&recording), "made"), 128);
    assert!(!plugins.scratch.join("plugins/libdeer.so").exists());
}

/// Its own calls of malloc go past us, and one line says so; what the program makes for it
/// is seen, called through it.
#[track_caller]
fn assert_told(mode: &str, word: &str) {
    let Some(plugins) = plugins() else { return };
    let recording = run_with(&plugins, mode);
    let said = recording.ran.stderr.lines();
    let said: Vec<&str> = said.filter(|line| line.contains("is not seen")).collect();
    assert_eq!(said.len(), 1, "{:?}", recording.ran);
    assert!(
        said[0].contains("libwolf.so") && said[0].contains(word),
        "{said:?}"
    );
    let seen = recording.info_between("plugins begin", "plugins end");
    let made = number(&last_line(&recording), "made");
    assert!(number(&seen, "requested_bytes") >= made * 4444, "{seen}");
    assert_eq!(number(&seen, "unknown_releases"), 0);
}

#[test]
fn a_library_that_prefers_its_own_libraries() {
    assert_told("deep", "RTLD_DEEPBIND");
}

#[test]
fn a_library_in_a_namespace_of_its_own() {
    assert_told("namespace", "dlmopen");
}
