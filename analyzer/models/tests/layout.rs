//! Composed layouts: rules in a file's words, invariants W1 to W3.

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use heapreel_models::arena::{Arenas, Parameters as ArenaParameters};
use heapreel_models::heap::{Heap, Parameters as HeapParameters};
use heapreel_models::layout::{BadLayout, InstanceSpec, LayoutSpec, Names, NoNames, RangeText};
use heapreel_models::ledger::Ledger;
use heapreel_models::pool::{Parameters as PoolParameters, Pool};
use heapreel_models::{
    BadParameter, BlockId, Layout, Model, Moment, Request, SegmentId, ThreadRole,
};
use proptest::prelude::*;
use support::{Op, Outcome, Run, Shape};

/// The file's outermost table.
#[derive(serde::Deserialize)]
struct File {
    layout: LayoutSpec,
}

fn parse(text: &str) -> LayoutSpec {
    toml::from_str::<File>(text).unwrap().layout
}

/// Makes the models that these tests name.
fn make(spec: &InstanceSpec) -> Result<Box<dyn Model>, BadParameter> {
    let (name, preset) = spec.model.split_once(':').unwrap_or((&spec.model, ""));
    let values = || {
        spec.set
            .iter()
            .map(|(name, value)| (name, value.to_string()))
    };
    match name {
        "heap" => {
            let mut parameters = HeapParameters::preset(preset)?;
            values().try_for_each(|(name, value)| parameters.set(name, &value))?;
            Ok(Box::new(Heap::new(parameters)?))
        }
        "arena" => {
            let mut parameters = ArenaParameters::default();
            values().try_for_each(|(name, value)| parameters.set(name, &value))?;
            Ok(Box::new(Arenas::new(parameters)))
        }
        "pool" => {
            let mut parameters = PoolParameters::default();
            values().try_for_each(|(name, value)| parameters.set(name, &value))?;
            Ok(Box::new(Pool::new(parameters)?))
        }
        _ => Err(BadParameter::unknown(
            "model",
            name,
            &["heap", "arena", "pool"],
        )),
    }
}

const GENERAL: &str = r#"
    [layout]
    default = "general"

    [layout.instance.general]
    model = "heap:best"
    set = { segments = "Default=64KiB" }
"#;

const GAME: &str = r#"
    [layout]
    default = "general"

    [layout.instance.general]
    model = "heap:best"

    [layout.instance.scratch]
    model = "arena"
    on_full = "general"
    set = { capacity = "4KiB", default_align = 32 }

    [layout.instance.shots]
    model = "pool"
    on_full = "general"
    set = { block = 48, capacity = 2, on_full = "fail" }

    [layout.instance.level]
    model = "heap:first"
    set = { segments = "Level=1MiB" }

    [[layout.rule]]
    into = "level"
    context = "level:*"
    size = "1KiB.."

    [[layout.rule]]
    into = "shots"
    site = ["*Projectile*", "*Bullet*"]
    size = "..=48"

    [[layout.rule]]
    into = "scratch"
    segment = "Temp"
    role = "performance"
    align = "..=32"

    [[layout.rule]]
    into = "scratch"
    thread = "worker ?"
    phase = "combat"
    frames = "100..200"
"#;

struct GameNames;

impl Names for GameNames {
    fn segment(&self, SegmentId(segment): SegmentId) -> Option<&str> {
        ["Default", "Temp"].get(usize::from(segment)).copied()
    }

    fn thread(&self, thread: u32) -> Option<&str> {
        ["main", "worker 1", "worker 10"]
            .get(thread as usize)
            .copied()
    }

    fn site(&self, site: u32, each: &mut dyn FnMut(&str)) {
        if site == 7 {
            ["operator new", "Gun::fireBullet", "main"]
                .into_iter()
                .for_each(each);
        }
    }

    fn context(&self, context: u32, each: &mut dyn FnMut(&str)) {
        if context == 3 {
            ["asset:rock_07", "level:forest"].into_iter().for_each(each);
        }
    }

    fn tags(&self, context: u32, each: &mut dyn FnMut(&str)) {
        if context == 3 {
            ["asset", "asset:rock_07", "level", "level:forest"]
                .into_iter()
                .for_each(each);
        }
    }

    fn phases(&self, frame: u32, each: &mut dyn FnMut(&str)) {
        if frame >= 150 {
            each("combat");
        }
    }
}

/// Where each request went, in the order of asking.
fn routes(layout: &mut Layout, requests: &[(Moment, u64, u64)]) -> Vec<String> {
    let mut homes = Vec::new();
    for (id, &(at, size, align)) in requests.iter().enumerate() {
        let id = BlockId(id as u32);
        layout
            .allocate(
                &at,
                id,
                Request {
                    size,
                    align,
                    zeroed: false,
                },
            )
            .unwrap();
        homes.push(layout.home(id).unwrap().to_owned());
    }
    homes
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut layout = parse(GAME).build(Arc::new(GameNames), make).unwrap();
    layout.thread_start(
        &Moment {
            thread: 1,
            ..Moment::default()
        },
        ThreadRole::Low,
    );
    let plain = Moment {
        site: 1,
        ..Moment::default()
    };
    let temp = Moment {
        segment: SegmentId(1),
        ..plain
    };
    let level = Moment { context: 3, ..temp };
    let bullet = Moment { site: 7, ..plain };
    let worker = Moment { thread: 1, ..plain };
    let requests = [
        (plain, 100, 0),
        (level, 1024, 0),
        // Too small for the level: the segment's rule is next.
        (level, 1023, 0),
        (bullet, 48, 0),
        (bullet, 49, 0),
        (temp, 64, 32),
        (temp, 64, 64),
        // A thread of low rank is not the scratch arena's by segment,
        (Moment { thread: 1, ..temp }, 64, 0),
        // but by name, in the frames and the phase of the last rule.
        (
            Moment {
                frame: 149,
                ..worker
            },
            64,
            0,
        ),
        (
            Moment {
                frame: 150,
                ..worker
            },
            64,
            0,
        ),
        (
            Moment {
                frame: 200,
                ..worker
            },
            64,
            0,
        ),
        (
            Moment {
                thread: 2,
                frame: 150,
                ..plain
            },
            64,
            0,
        ),
    ];
    let expected = [
        "general", "level", "scratch", "shots", "general", "scratch", "general", "general",
        "general", "scratch", "general", "general",
    ];
    assert_eq!(routes(&mut layout, &requests), expected);
    assert_eq!(
        (0..4).map(|rule| layout.matched(rule)).collect::<Vec<_>>(),
        [1, 1, 2, 1]
    );
    assert_eq!(layout.unmatched(), 7);
    // A new thread under the old number has the role of its own start.
    layout.thread_start(&worker, ThreadRole::Performance);
    assert_eq!(
        routes(&mut layout, &[(Moment { thread: 1, ..temp }, 64, 0)]),
        ["scratch"]
    );
}

#[test]
fn rules_tell_lifetimes_and_kinds_of_contexts_apart() {
    let rule = |condition: &str| {
        format!(
            "{GENERAL}\n[layout.instance.other]\nmodel = \"arena\"\n\
             [[layout.rule]]\ninto = \"other\"\n{condition}\n"
        )
    };
    let going_to_other = |condition: &str, moments: &[Moment]| -> Vec<usize> {
        let spec = parse(&rule(condition));
        let mut layout = spec.build(Arc::new(GameNames), make).unwrap();
        let requests: Vec<_> = moments.iter().map(|&at| (at, 64, 0)).collect();
        let homes = routes(&mut layout, &requests);
        (0..homes.len())
            .filter(|&at| homes[at] == "other")
            .collect()
    };
    let lived = |lifetime| Moment {
        lifetime,
        ..Moment::default()
    };
    let lives = [0, 1, 3, 4, u32::MAX - 1, Moment::FOREVER].map(lived);
    for (condition, expected) in [
        ("lifetime = 0", &[0][..]),
        ("lifetime = \"..=3\"", &[0, 1, 2]),
        ("lifetime = \"1..4\"", &[1, 2]),
        ("lifetime = \"4..\"", &[3, 4, 5]),
        ("lifetime = \"permanent\"", &[5]),
        ("size = 64", &[0, 1, 2, 3, 4, 5]),
    ] {
        assert_eq!(going_to_other(condition, &lives), expected, "{condition}");
        let asks = condition.starts_with("lifetime");
        assert_eq!(parse(&rule(condition)).asks_lifetimes(), asks);
    }
    let inside = [0, 3].map(|context| Moment {
        context,
        ..Moment::default()
    });
    for (condition, expected) in [
        ("tag = \"asset\"", &[1][..]),
        ("tag = \"level:f*\"", &[1]),
        ("tag = [\"sound\", \"asset:rock_??\"]", &[1]),
        ("tag = \"rock_07\"", &[]),
    ] {
        assert_eq!(going_to_other(condition, &inside), expected, "{condition}");
    }
    let wrong = parse(&rule("lifetime = \"for ever\"")).build(Arc::new(NoNames), make);
    assert_eq!(
        wrong.err().unwrap().to_string(),
        "rule 1: lifetime cannot be \"for ever\": frames such as 0, ..=3 or 60.., or \"permanent\""
    );
}

#[test]
fn what_an_instance_cannot_serve_another_does_and_both_know() {
    let mut layout = parse(GAME).build(Arc::new(GameNames), make).unwrap();
    let bullet = Moment {
        site: 7,
        ..Moment::default()
    };
    let homes = routes(&mut layout, &[(bullet, 40, 0); 3]);
    assert_eq!(homes, ["shots", "shots", "general"]);
    // A block that outgrows its pool goes to the instance that takes over.
    let moved = layout.reallocate(&bullet, BlockId(0), 100).unwrap();
    assert_eq!(
        (moved.moved, layout.home(BlockId(0))),
        (40, Some("general"))
    );
    assert_eq!(layout.block(BlockId(0)).unwrap().address, moved.address);
    let traffic: HashMap<_, _> = layout
        .instances()
        .map(|it| (it.name.to_owned(), *it.traffic))
        .collect();
    let (shots, general) = (traffic["shots"], traffic["general"]);
    assert_eq!(
        (
            shots.routed,
            shots.failures,
            shots.given_away,
            shots.taken_over
        ),
        (3, 2, 2, 0)
    );
    assert_eq!(
        (general.routed, general.given_away, general.taken_over),
        (0, 0, 2)
    );
    // A block that cannot grow anywhere stays where it is.
    let failure = layout.reallocate(&bullet, BlockId(1), 1 << 40);
    assert!(failure.is_err());
    assert_eq!(layout.home(BlockId(1)), Some("shots"));
    (0..3).for_each(|id| layout.free(&bullet, BlockId(id)));
    assert_eq!(layout.counters().blocks, 0);
}

#[test]
fn an_address_is_looked_up_in_its_instance() {
    let mut layout = parse(GAME).build(Arc::new(GameNames), make).unwrap();
    let level = Moment {
        context: 3,
        ..Moment::default()
    };
    let request = Request {
        size: 2000,
        align: 0,
        zeroed: false,
    };
    let placed = layout.allocate(&level, BlockId(0), request).unwrap();
    let lookup = layout.lookup(placed.address + 1999);
    assert_eq!(lookup.region, "level: Level");
    let block = lookup.block.unwrap();
    assert_eq!((block.id, block.payload), (Some(0), placed.address));
    assert_eq!(lookup.suspects[0].block.payload, placed.address);
}

#[test]
fn a_layout_that_makes_no_sense_is_told_in_one_line() {
    let build = |text: &str| {
        let layout = parse(text).build(Arc::new(NoNames), make);
        layout.err().unwrap().to_string()
    };
    let with = |rest: &str| format!("{GENERAL}\n{rest}");
    assert_eq!(
        build(&with("[[layout.rule]]\ninto = \"generl\"")),
        "rule 1 names no instance of the layout: \"generl\"; there are general"
    );
    assert_eq!(
        build(&with(
            "[[layout.rule]]\ninto = \"general\"\nsize = \"4KiB..1KiB\""
        )),
        "rule 1: size cannot be \"4KiB..1KiB\": a number, or a range such as 64.., ..4KiB or \
         16..=4096"
    );
    assert_eq!(
        build(&GENERAL.replace("heap:best", "heap:bets")),
        "instance \"general\": no preset \"bets\"; there are best, first, next, tlsf, rlsf"
    );
    assert_eq!(
        build(&GENERAL.replace("default = \"general\"", "default = \"gone\"")),
        "default names no instance of the layout: \"gone\"; there are general"
    );
    let rules = "[[layout.rule]]\ninto = \"general\"\n".repeat(64);
    let many = parse(&with(&rules)).build(Arc::new(NoNames), make).err();
    assert_eq!(many, Some(BadLayout::TooManyRules { rules: 64 }));
    let unknown = toml::from_str::<File>(&with("[[layout.rule]]\ninto = \"general\"\nsise = 3"));
    assert!(
        unknown
            .err()
            .unwrap()
            .to_string()
            .contains("unknown field `sise`")
    );
}

#[test]
fn ranges_in_words() {
    let range = |text: &str| RangeText::Text(text.to_owned()).range();
    assert_eq!(range("64"), Some(64..=64));
    assert_eq!(range("64.."), Some(64..=u64::MAX));
    assert_eq!(range("..4KiB"), Some(0..=4095));
    assert_eq!(range("16..=4096"), Some(16..=4096));
    assert_eq!(range("1..1"), None);
    assert_eq!(range("x"), None);
}

const SHAPE: Shape = Shape {
    ops: 300,
    max_size: 8 << 10,
    max_align_log2: 7,
    segments: 2,
    threads: 3,
};

fn game() -> Layout {
    // The arena's and the pool's own semantics take blocks off the books; see their tests.
    let text = GAME.replace("model = \"arena\"", "model = \"heap:next\"");
    let text = text.replace(
        "capacity = \"4KiB\", default_align = 32",
        "segments = \"Scratch=16KiB\"",
    );
    parse(&text).build(Arc::new(GameNames), make).unwrap()
}

proptest! {
    #![proptest_config(support::config(64))]

    #[test]
    fn p0_to_p8(ops in support::ops(SHAPE)) {
        support::drive(Box::new(game()), &ops, 5);
        support::check_repeatable(|| Box::new(game()), &ops);
    }

    /// W1: a block has one instance, and changes it only when its resize was given away.
    /// W2: the live blocks of the instances are those of the trace.
    #[test]
    fn w1_and_w2_each_block_has_one_instance(ops in support::ops(SHAPE)) {
        let mut layout = game();
        let mut books = Books::default();
        let mut most_used = HashMap::new();
        for &op in &ops {
            books.step(&mut layout, op);
            for part in layout.instances() {
                let most = most_used.entry(part.name.to_owned()).or_insert(0);
                *most = part.model.counters().used.max(*most);
                prop_assert_eq!(part.peak_used, *most);
            }
            let blocks: u64 = layout.instances().map(|part| part.model.counters().blocks).sum();
            prop_assert_eq!(blocks, books.live.len() as u64);
            let requested: u64 = layout.instances().map(|part| part.model.counters().requested).sum();
            prop_assert_eq!(requested, books.live.iter().map(|&(_, size)| size).sum::<u64>());
            for &(id, _) in &books.live {
                let holders = layout.instances().filter(|part| part.model.block(id).is_some());
                prop_assert_eq!(holders.count(), 1);
            }
            let taken: u64 = layout.instances().map(|part| part.traffic.taken_over).sum();
            let given: u64 = layout.instances().map(|part| part.traffic.given_away).sum();
            prop_assert!(books.changes <= taken);
            prop_assert_eq!(given, taken);
        }
    }

    /// W3: a layout of the default alone is that model alone.
    #[test]
    fn w3_a_layout_without_rules_is_its_model(ops in support::ops(SHAPE)) {
        let spec = parse(GENERAL);
        let alone = make(&spec.instance["general"]).unwrap();
        let layout = spec.build(Arc::new(NoNames), make).unwrap();
        let (mut left, mut right) = (Run::new(alone), Run::new(Box::new(layout)));
        for &op in &ops {
            prop_assert_eq!(left.step(op), right.step(op));
            prop_assert_eq!(left.model().counters(), right.model().counters());
        }
        prop_assert_eq!(left.ledger.fingerprint(), right.ledger.fingerprint());
        prop_assert_eq!(left.ledger.failures(), right.ledger.failures());
    }
}

/// What the trace says is live, and how often a block changed its instance.
#[derive(Default)]
struct Books {
    live: Vec<(BlockId, u64)>,
    next: u32,
    changes: u64,
}

impl Books {
    fn step(&mut self, layout: &mut Layout, op: Op) -> Outcome {
        let mut at = Moment {
            site: 7,
            context: 3,
            ..Moment::default()
        };
        match op {
            Op::Allocate {
                size,
                align,
                segment,
                thread,
                zeroed,
            } => {
                (at.segment, at.thread) = (SegmentId(segment), thread);
                let id = BlockId(self.next);
                self.next += 1;
                if layout
                    .allocate(
                        &at,
                        id,
                        Request {
                            size,
                            align,
                            zeroed,
                        },
                    )
                    .is_ok()
                {
                    self.live.push((id, size));
                }
            }
            Op::Reallocate { pick, size, .. } if !self.live.is_empty() => {
                let index = pick % self.live.len();
                let (id, _) = self.live[index];
                let before = layout.home(id).map(str::to_owned);
                if layout.reallocate(&at, id, size).is_ok() {
                    self.live[index].1 = size;
                }
                self.changes += u64::from(layout.home(id).map(str::to_owned) != before);
            }
            Op::Free { pick, .. } if !self.live.is_empty() => {
                let (id, _) = self.live.swap_remove(pick % self.live.len());
                layout.free(&at, id);
            }
            _ => {}
        }
        Outcome::Nothing
    }
}

#[test]
fn a_ledger_keeps_a_layouts_books_too() {
    let layout = parse(GAME).build(Arc::new(GameNames), make).unwrap();
    let mut ledger = Ledger::new(Box::new(layout), Default::default());
    let at = Moment::default();
    ledger
        .allocate(
            &at,
            BlockId(0),
            Request {
                size: 64,
                align: 0,
                zeroed: false,
            },
        )
        .unwrap();
    assert_eq!(ledger.johnstone_wilson().peak_held(), ledger.model().held());
    assert!(ledger.free(&at, BlockId(0)));
}
