//! Damaged and malicious files cost names and nothing else.

use crate::build::*;
use heapreel_analyzer::symbols::{ModuleFile, ModuleOutcome, resolve_module, short_name};
use std::fmt::Write;

/// Rounds of the mutation test; more by `HEAPREEL_SYMBOL_ROUNDS`.
fn rounds() -> u64 {
    let text = std::env::var("HEAPREEL_SYMBOL_ROUNDS").ok();
    text.map_or(1500, |text| text.parse().expect("a number"))
}

/// SplitMix64: the same damage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Resolves a file that may be anything. A panic, even a caught one, is a failure.
#[track_caller]
fn survive(path: &str, svmas: &[u64]) -> usize {
    let resolved = resolve_module(
        &ModuleFile {
            path,
            build_id: &[],
        },
        svmas,
        &nowhere(),
    );
    assert_eq!(resolved.frames.len(), svmas.len());
    let is_panic = resolved
        .outcome
        .to_string()
        .contains("in an unforeseen way");
    assert!(!is_panic, "a parser panicked: {}", resolved.outcome);
    for frame in resolved.frames.iter().flatten() {
        assert!(!frame.function.is_empty());
        assert!(!short_name(&frame.function).is_empty());
        assert!(!frame.function.contains(char::is_control));
    }
    resolved
        .frames
        .iter()
        .filter(|frames| !frames.is_empty())
        .count()
}

#[test]
fn damaged_files() {
    for flags in [&["-gdwarf-5"][..], &["-gdwarf-4", "-gz=zlib"]] {
        let Some(program) = build("calls.cpp", flags) else {
            return;
        };
        let svmas: Vec<u64> = program
            .returns
            .values()
            .map(|address| address - 1)
            .collect();
        let whole = std::fs::read(&program.file).expect("it was built");
        let path = program.beside("damaged");
        let name = path.to_str().expect("UTF-8");
        std::fs::write(&path, &whole).expect("written");
        assert_eq!(survive(name, &svmas), svmas.len());

        let mut random = Random(42);
        for _ in 0..rounds() {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(40) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            // The headers at both ends decide most and are small.
            for _ in 0..random.below(3) {
                let at = if random.below(2) == 0 {
                    random.below(0x400)
                } else {
                    bytes.len() - 1 - random.below(0xa00)
                };
                bytes[at] = random.next() as u8;
            }
            std::fs::write(&path, &bytes).expect("written");
            survive(name, &svmas);
        }
        for _ in 0..100 {
            std::fs::write(&path, &whole[..random.below(whole.len())]).expect("written");
            survive(name, &svmas);
        }
    }
}

/// A unit whose inlined functions are nested a hundred thousand times.
fn nested_source(depth: usize) -> String {
    let mut text = String::from(
        ".text\n.globl victim\n.type victim,@function\nvictim: nop\nnop\n.size victim,.-victim\nvictim_end:\n\
         .section .debug_abbrev\n\
         .uleb128 1,0x11,\n.byte 1\n.uleb128 0x11,1,0x12,7,0,0\n\
         .uleb128 2,0x2e\n.byte 1\n.uleb128 0x11,1,0x12,7,0,0\n\
         .uleb128 3,0x1d\n.byte 1\n.uleb128 0,0\n.byte 0\n\
         .section .debug_info\n.long end - start\nstart: .value 4\n.long 0\n.byte 8\n",
    )
    .replace("0x11,\n", "0x11\n");
    for abbreviation in [1, 2] {
        writeln!(
            text,
            ".uleb128 {abbreviation}\n.quad victim\n.quad victim_end - victim"
        )
        .expect("a String");
    }
    writeln!(text, ".fill {depth},1,3\n.fill {},1,0\nend:", depth + 2).expect("a String");
    text
}

#[test]
fn endless_nesting_does_not_overflow_the_stack() {
    if !has_tool("cc") || !has_tool("nm") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for (depth, is_refused) in [(500, false), (200_000, true)] {
        std::fs::write(path("nested.s"), nested_source(depth)).expect("written");
        run(
            "cc",
            &[
                "-shared",
                "-nostdlib",
                &path("nested.s"),
                "-o",
                &path("nested.so"),
            ],
        );
        let output = std::process::Command::new("nm")
            .arg(path("nested.so"))
            .output()
            .expect("found before");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = text
            .lines()
            .find(|line| line.ends_with(" victim"))
            .expect("the symbol");
        let svma = u64::from_str_radix(&line[..16], 16).expect("an address");
        let file = path("nested.so");
        let module = ModuleFile {
            path: &file,
            build_id: &[],
        };
        let resolved = resolve_module(&module, &[svma], &nowhere());
        assert_eq!(resolved.frames[0][0].function, "victim");
        match resolved.outcome {
            ModuleOutcome::SymbolTableOnly {
                damage: Some(cause),
                ..
            } if is_refused => {
                assert_eq!(cause, "nested too deeply");
            }
            ModuleOutcome::Resolved {
                has_lines: false, ..
            } if !is_refused => {}
            other => panic!("depth {depth}: {other}"),
        }
    }
}

#[test]
fn a_section_that_claims_to_be_huge_is_not_believed() {
    let Some(program) = build("calls.c", &["-gz=zlib"]) else {
        return;
    };
    let mut bytes = std::fs::read(&program.file).expect("it was built");
    // Every compression header of type zlib (1, padding 0) gets a size of 16 TiB.
    let header = |at: &usize, bytes: &[u8]| {
        bytes[*at..].starts_with(&[1, 0, 0, 0, 0, 0, 0, 0]) && bytes[at + 24] == 0x78
    };
    let places: Vec<usize> = (0..bytes.len() - 25)
        .filter(|at| header(at, &bytes))
        .collect();
    assert!(!places.is_empty(), "the compressed sections were not found");
    for at in places {
        bytes[at + 8..at + 16].copy_from_slice(&(16u64 << 40).to_le_bytes());
    }
    let path = program.beside("huge");
    std::fs::write(&path, bytes).expect("written");
    let module = ModuleFile {
        path: path.to_str().expect("UTF-8"),
        build_id: BUILD_ID,
    };
    let resolved = resolve_module(&module, &[program.returns["inlined"] - 1], &nowhere());
    assert_eq!(summary(&resolved.frames[0]), [("outer".to_owned(), None)]);
}
