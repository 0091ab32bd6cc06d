//! The plain list of operations: one a line, as allocator people write them.
//!
//! ```text
//! with threads        without
//! a THREAD ID SIZE    a ID SIZE          allocate
//! A THREAD ID SIZE ALIGN   A ID SIZE ALIGN    allocate aligned
//! r THREAD ID SIZE    r ID SIZE          reallocate
//! f THREAD ID         f ID               free
//! x THREAD                               the thread exits
//! t THREAD ROLE       t ROLE             the thread works for the frame (critical) or not (background)
//! m THREAD            m                  a frame of the main loop ends, and the next one begins
//! ```
//!
//! The first line decides which form a file has. A thread that comes back after its `x` is
//! a new one. Empty lines and those that begin with `#` are skipped.
//!
//! Behind the numbers a call may say `took=60ns`, `by=FUNCTION` and `in=SEGMENT`; a frame
//! that ends, `took=16.67ms`: so long after the last one's end. Otherwise each line stands
//! a microsecond behind the end of the one before it.

use crate::place::Span;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Larger blocks fit no address space.
const MOST_BYTES: u64 = 1 << 46;
/// A year in nanoseconds: longer lists are no play.
const MOST_NANOS: u64 = 366 * 86_400 * 1_000_000_000;
/// More segments than this are no game's.
const MOST_SEGMENTS: usize = 1024;
/// Nanoseconds from one line's end to the next one's beginning.
const STEP: u64 = 1_000;

/// Whether a file names threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each line names its thread.
    Threads,
    /// All is done by the program's first thread.
    OneThread,
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Allocates so many bytes, aligned to `align` where it is not 0.
    Allocate {
        /// Bytes.
        size: u64,
        /// A power of two or 0.
        align: u64,
    },
    /// Gives a block a new size.
    Reallocate {
        /// Bytes.
        size: u64,
    },
    /// Frees a block.
    Free,
    /// The thread exits.
    Exit,
    /// The thread is said to work for the frame, or not to.
    Role {
        /// The frame does not wait for it.
        background: bool,
    },
    /// A frame of the main loop ends.
    Frame,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The thread as the file numbers it; 0 where it does not.
    pub thread: u32,
    /// The block's number in the file; 0 where the line has none.
    pub id: u64,
    /// What is done.
    pub kind: OpKind,
    /// When it begins, in nanoseconds.
    pub start: u64,
    /// When it has ended.
    pub end: u64,
    /// The function that calls: a position in [`Ops::names`].
    pub by: Option<u32>,
    /// The segment that the thread works in: a position in [`Ops::names`].
    pub segment: Option<u32>,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Which form it has.
    pub form: Form,
    /// Its operations in order.
    pub ops: Vec<Op>,
    /// Functions and segments by name.
    pub names: Vec<String>,
    /// A call says how long it took.
    pub timed: bool,
}

/// A line that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

/// Reads a file of operations.
///
/// # Errors
///
/// Every [`BadLine`], in order; never an empty list. A file without operations is one.
pub fn parse_ops(text: &str) -> Result<Ops, Vec<BadLine>> {
    let mut reader = Reader::default();
    let mut bad = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Err(cause) = reader.take(line, index + 1) {
            let line = index + 1;
            bad.push(BadLine { line, cause });
        }
    }
    match reader.form {
        _ if !bad.is_empty() => Err(bad),
        Some((form, _)) => Ok(Ops {
            form,
            ops: reader.ops,
            names: reader.names,
            timed: reader.timed,
        }),
        None => Err(vec![BadLine {
            line: 1,
            cause: "no operation in the whole file".to_owned(),
        }]),
    }
}

#[derive(Default)]
struct Reader {
    /// The form, and the line that decided.
    form: Option<(Form, usize)>,
    ops: Vec<Op>,
    /// The line in which each live block was allocated.
    live: HashMap<u64, usize>,
    names: Vec<String>,
    numbers_of_names: HashMap<String, u32>,
    segments: BTreeSet<u32>,
    timed: bool,
    /// When the last line ended.
    now: u64,
    /// When the last frame ended.
    frame_end: u64,
}

/// What a line says behind its numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Details {
    took: Option<u64>,
    by: Option<u32>,
    segment: Option<u32>,
}

impl Reader {
    fn take(&mut self, line: &str, number: usize) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        let Some(letter) = words.next().filter(|word| !word.starts_with('#')) else {
            return Ok(());
        };
        let fields = match letter {
            "a" | "r" => 2,
            "A" => 3,
            "f" | "t" => 1,
            "x" | "m" => 0,
            _ => {
                let known = "a, A, r, f, x, t, m";
                return Err(format!("no operation {letter:?}; there are {known}"));
            }
        };
        let (details, numbers): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let form = self.form(letter, fields, numbers.len(), number)?;
        let (thread, numbers) = match form {
            Form::Threads => (parsed(numbers[0], "thread")?, &numbers[1..]),
            Form::OneThread => (0, &numbers[..]),
        };
        let (id, kind) = operation(letter, numbers)?;
        let details = self.details(kind, &details)?;
        self.check_block(id, kind, number)?;
        let (start, end) = self.pass(kind, details.took)?;
        let Details { by, segment, .. } = details;
        self.ops.push(Op {
            thread,
            id,
            kind,
            start,
            end,
            by,
            segment,
        });
        Ok(())
    }

    fn details(&mut self, kind: OpKind, words: &[&str]) -> Result<Details, String> {
        let mut details = Details::default();
        let call = !matches!(kind, OpKind::Exit | OpKind::Role { .. } | OpKind::Frame);
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "took" if call || kind == OpKind::Frame => {
                    let span: Span = value.parse().map_err(|error| format!("{error}"))?;
                    details.took = Some(span.0);
                }
                "by" if call && !value.is_empty() => details.by = Some(self.name(value)),
                "in" if call && !value.is_empty() => details.segment = Some(self.segment(value)?),
                _ => {
                    let known =
                        "took=60ns, by=FUNCTION, in=SEGMENT behind a call, took=16.67ms behind m";
                    return Err(format!("{word:?} says nothing here; there are {known}"));
                }
            }
        }
        self.timed |= call && details.took.is_some();
        Ok(details)
    }

    fn segment(&mut self, name: &str) -> Result<u32, String> {
        let number = self.name(name);
        self.segments.insert(number);
        if self.segments.len() > MOST_SEGMENTS {
            return Err(format!("more than {MOST_SEGMENTS} segments"));
        }
        Ok(number)
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.numbers_of_names.get(name) {
            return known;
        }
        let next = self.names.len() as u32;
        self.numbers_of_names.insert(name.to_owned(), next);
        self.names.push(name.to_owned());
        next
    }

    /// Time goes on by a line: when it begins and ends.
    fn pass(&mut self, kind: OpKind, took: Option<u64>) -> Result<(u64, u64), String> {
        let next = self.now.saturating_add(STEP);
        let (start, end) = match (kind, took) {
            (OpKind::Frame, Some(took)) => {
                let end = self.frame_end.saturating_add(took);
                if end <= self.now {
                    let already = self.now - self.frame_end;
                    return Err(format!("the frame has taken {already} ns already"));
                }
                (end, end)
            }
            (_, took) => (next, next.saturating_add(took.unwrap_or(0))),
        };
        if end > MOST_NANOS {
            return Err("the list takes more than a year up to here".to_owned());
        }
        self.now = end;
        if kind == OpKind::Frame {
            self.frame_end = end;
        }
        Ok((start, end))
    }

    /// The file's form, decided by its first operation.
    fn form(
        &mut self,
        letter: &str,
        fields: usize,
        given: usize,
        line: usize,
    ) -> Result<Form, String> {
        let form = match given.checked_sub(fields) {
            Some(1) => Form::Threads,
            Some(0) if letter != "x" => Form::OneThread,
            _ => {
                let one = if letter == "x" { 1 } else { fields };
                let what = if letter == "t" { "word" } else { "number" };
                let s = if one == 1 { "" } else { "s" };
                let or = if letter == "x" {
                    String::new()
                } else {
                    format!(" or, with its thread, {}", fields + 1)
                };
                return Err(format!(
                    "{letter:?} takes {one} {what}{s}{or}; here are {given}"
                ));
            }
        };
        let (decided, by) = *self.form.get_or_insert((form, line));
        match (decided == form, form) {
            (true, _) => Ok(form),
            (false, Form::Threads) => Err(format!("names a thread, which line {by} does not")),
            (false, Form::OneThread) => Err(format!("names no thread, which line {by} does")),
        }
    }

    fn check_block(&mut self, id: u64, kind: OpKind, line: usize) -> Result<(), String> {
        let since = match kind {
            OpKind::Allocate { .. } => self.live.insert(id, line),
            OpKind::Reallocate { .. } if self.live.contains_key(&id) => return Ok(()),
            OpKind::Free if self.live.remove(&id).is_some() => return Ok(()),
            OpKind::Exit | OpKind::Role { .. } | OpKind::Frame => return Ok(()),
            OpKind::Reallocate { .. } | OpKind::Free => {
                return Err(format!("block {id} is not live here"));
            }
        };
        match since {
            Some(since) => Err(format!("block {id} is live since line {since}")),
            None => Ok(()),
        }
    }
}

fn operation(letter: &str, numbers: &[&str]) -> Result<(u64, OpKind), String> {
    if let ("t", [role]) = (letter, numbers) {
        return Ok((0, role_of(role)?));
    }
    let id = match numbers.first() {
        Some(word) => parsed(word, "block")?,
        None => 0,
    };
    let kind = match letter {
        "a" => OpKind::Allocate {
            size: size(numbers[1])?,
            align: 0,
        },
        "A" => OpKind::Allocate {
            size: size(numbers[1])?,
            align: alignment(numbers[2])?,
        },
        "r" => OpKind::Reallocate {
            size: size(numbers[1])?,
        },
        "f" => OpKind::Free,
        "m" => OpKind::Frame,
        _ => OpKind::Exit,
    };
    Ok((id, kind))
}

fn role_of(word: &str) -> Result<OpKind, String> {
    let background = match word {
        "critical" => false,
        "background" => true,
        _ => return Err(format!("{word:?} is no role: critical or background")),
    };
    Ok(OpKind::Role { background })
}

fn parsed<T: std::str::FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{word:?} is no number of a {what}"))
}

fn size(word: &str) -> Result<u64, String> {
    let size: u64 = word
        .parse()
        .map_err(|_| format!("{word:?} is no size in bytes"))?;
    if size > MOST_BYTES {
        return Err(format!("a block of {size} bytes fits no address space"));
    }
    Ok(size)
}

fn alignment(word: &str) -> Result<u64, String> {
    let align: u64 = word.parse().unwrap_or(0);
    if !align.is_power_of_two() || align > MOST_BYTES {
        return Err(format!("{word:?} is no alignment: a power of two"));
    }
    Ok(align)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations without what a line may leave out.
    fn plain(ops: &[Op]) -> Vec<(u32, u64, OpKind)> {
        ops.iter().map(|op| (op.thread, op.id, op.kind)).collect()
    }

    fn causes(text: &str) -> Vec<String> {
        let bad = parse_ops(text).expect_err(text);
        bad.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_forms_are_read() {
        let threads = parse_ops("# made up\na 3 7 100\n\nA 3 8 64 32\nr 2 7 90\nf 0 7\nx 3\n");
        let threads = threads.unwrap();
        assert_eq!(threads.form, Form::Threads);
        let aligned = OpKind::Allocate {
            size: 64,
            align: 32,
        };
        assert_eq!(
            plain(&threads.ops),
            [
                (
                    3,
                    7,
                    OpKind::Allocate {
                        size: 100,
                        align: 0
                    }
                ),
                (3, 8, aligned),
                (2, 7, OpKind::Reallocate { size: 90 }),
                (0, 7, OpKind::Free),
                (3, 0, OpKind::Exit),
            ]
        );
        let one = parse_ops("A 8 64 32\nf 8").unwrap();
        assert_eq!(one.form, Form::OneThread);
        assert_eq!(plain(&one.ops)[0], (0, 8, aligned));
        assert!(!one.timed && one.names.is_empty());
    }

    #[test]
    fn a_line_may_say_more_than_its_numbers() {
        let list =
            "m\na 1 48 took=40us by=Hud::label in=Temp\nf 1 in=Temp took=60ns\nm took=9ms\nm\n";
        let ops = parse_ops(list).unwrap();
        assert!(ops.timed);
        assert_eq!(ops.names, ["Hud::label", "Temp"]);
        let times: Vec<_> = ops.ops.iter().map(|op| (op.start, op.end)).collect();
        let frame = 9_001_000;
        assert_eq!(
            times,
            [
                (1_000, 1_000),
                (2_000, 42_000),
                (43_000, 43_060),
                (frame, frame),
                (frame + 1_000, frame + 1_000)
            ]
        );
        let names = |at: usize| (ops.ops[at].by, ops.ops[at].segment);
        assert_eq!((names(1), names(2)), ((Some(0), Some(1)), (None, Some(1))));
        let role = parse_ops("t 7 background").unwrap();
        let kind = OpKind::Role { background: true };
        assert_eq!(plain(&role.ops), [(7, 0, kind)]);
    }

    #[test]
    fn each_bad_line_is_told_with_its_cause() {
        assert_eq!(
            causes("a 0 1 30\nf 0 1\nf 0 1\nq 1\na 0 x 3\nA 0 2 8 24\nf 1\na 0 3 8\na 0 3 8\nx\n"),
            [
                "line 3: block 1 is not live here",
                "line 4: no operation \"q\"; there are a, A, r, f, x, t, m",
                "line 5: \"x\" is no number of a block",
                "line 6: \"24\" is no alignment: a power of two",
                "line 7: names no thread, which line 1 does",
                "line 9: block 3 is live since line 8",
                "line 10: \"x\" takes 1 number; here are 0",
            ]
        );
        assert_eq!(
            causes("a 0 99999999999999999999\n"),
            ["line 1: \"99999999999999999999\" is no size in bytes"]
        );
        let details =
            "m\na 1 8 took=9\na 1 8 b=c\na 1 8\nf 1 took=5us\nm took=5us\nm in=Temp\nt idle\nt\n";
        let told = causes(details);
        let starts = [
            "line 2: \"9\" is no duration",
            "line 3: \"b=c\" says nothing here",
            "line 6: the frame has taken 7000 ns already",
            "line 7: \"in=Temp\" says nothing here",
            "line 8: \"idle\" is no role: critical or background",
            "line 9: \"t\" takes 1 word",
        ];
        assert_eq!(told.len(), starts.len(), "{told:?}");
        for (cause, start) in told.iter().zip(starts) {
            assert!(cause.starts_with(start), "{cause}");
        }
        let many = (0..1025).map(|at| format!("a {at} 8 in=s{at}\n"));
        assert_eq!(
            causes(&many.collect::<String>()),
            ["line 1025: more than 1024 segments"]
        );
        assert_eq!(
            causes("a 1 8 took=18446744073709551615ns\n"),
            ["line 1: the list takes more than a year up to here"]
        );
        assert_eq!(
            causes("\n# nothing\n"),
            ["line 1: no operation in the whole file"]
        );
        assert_eq!(
            causes("a 1 2 3 4"),
            ["line 1: \"a\" takes 2 numbers or, with its thread, 3; here are 4"]
        );
    }
}
