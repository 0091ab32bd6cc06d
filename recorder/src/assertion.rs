//! `assert_allocs!`: how often a piece of code may ask for memory.

use crate::count::count;
use crate::counters::{self, Paused};
use crate::watch::{SITES, Site, Watch};
use std::fmt::{self, Write};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Runs a closure and fails if this thread asks for memory in it more or less often than
/// expected. Gives back what the closure gives back.
///
/// ```
/// use std::alloc::System;
///
/// #[global_allocator]
/// static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();
///
/// fn update(world: &mut Vec<u64>) -> u64 {
///     world.iter_mut().for_each(|x| *x += 1);
///     world.iter().sum()
/// }
///
/// let mut world = vec![1; 1000];
/// let sum = heapreel::assert_allocs!(0, || update(&mut world));
/// assert_eq!(sum, 2000);
///
/// let copy = heapreel::assert_allocs!(1, || world.clone());
/// let text = heapreel::assert_allocs!(..=3, || format!("{}", copy.len()));
/// # assert_eq!(text, "1000");
/// ```
///
/// Each allocation and each reallocation counts, also one that fails; deallocations do not.
/// What is expected is a number or a range of numbers. Only the calling thread is watched,
/// so that tests may run beside each other, and nothing has to be switched on before.
///
/// # Panics
///
/// If the number is another one: the message has the call sites with their backtraces. Also
/// where nothing would be checked because [`Recorder`](crate::Recorder) is not the
/// program's global allocator. A panic of the closure goes on as it came.
#[macro_export]
macro_rules! assert_allocs {
    ($expected:expr, $work:expr $(,)?) => {
        $crate::assertion::checked(&$expected, $work)
    };
}

/// A number of allocations, or a range of them.
pub trait Expected {
    /// Whether so many are as expected.
    fn holds(&self, calls: u64) -> bool;
    /// As in "expected …".
    fn tell(&self, out: &mut dyn Write) -> fmt::Result;
}

/// A whole number of any of Rust's types that are usual.
pub trait Whole: Copy {
    /// As a number that holds them all.
    fn whole(self) -> i128;
}

macro_rules! whole {
    ($($type:ty)*) => {
        $(
            impl Whole for $type {
                fn whole(self) -> i128 {
                    self as i128
                }
            }

            impl Expected for $type {
                fn holds(&self, calls: u64) -> bool {
                    i128::from(calls) == self.whole()
                }

                fn tell(&self, out: &mut dyn Write) -> fmt::Result {
                    write!(out, "{self}")
                }
            }
        )*
    };
}

whole!(i32 u32 i64 u64 usize);

macro_rules! ranges {
    ($($range:ty, |$this:ident, $calls:ident| $holds:expr, $text:literal $(, $bound:expr)*;)*) => {
        $(
            impl<T: Whole> Expected for $range {
                fn holds(&self, calls: u64) -> bool {
                    let ($this, $calls) = (self, i128::from(calls));
                    $holds
                }

                fn tell(&self, out: &mut dyn Write) -> fmt::Result {
                    let $this = self;
                    write!(out, $text $(, $bound)*)
                }
            }
        )*
    };
}

ranges! {
    Range<T>, |range, calls| (range.start.whole()..range.end.whole()).contains(&calls),
        "{}..{}", range.start.whole(), range.end.whole();
    RangeInclusive<T>, |range, calls| (range.start().whole()..=range.end().whole()).contains(&calls),
        "{}..={}", range.start().whole(), range.end().whole();
    RangeFrom<T>, |range, calls| calls >= range.start.whole(), "{}..", range.start.whole();
    RangeTo<T>, |range, calls| calls < range.end.whole(), "..{}", range.end.whole();
    RangeToInclusive<T>, |range, calls| calls <= range.end.whole(), "..={}", range.end.whole();
}

impl Expected for RangeFull {
    fn holds(&self, _: u64) -> bool {
        true
    }

    fn tell(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str("..")
    }
}

/// See [`assert_allocs!`](crate::assert_allocs).
#[track_caller]
#[inline(never)]
pub fn checked<R>(expected: &dyn Expected, work: impl FnOnce() -> R) -> R {
    if !count() {
        panic!(
            "assert_allocs! checks nothing: heapreel::Recorder is not this program's global allocator"
        );
    }
    let Some(counters) = counters::mine() else {
        panic!("assert_allocs! checks nothing: the kernel gives heapreel no memory to count in");
    };
    let mut watch = Watch::new();
    let result = watch.over(counters, work);
    if !expected.holds(watch.calls) {
        let paused = Paused::now();
        let message = failure(expected, &watch);
        drop(paused);
        panic!("{message}");
    }
    result
}

/// What is told of a failure.
fn failure(expected: &dyn Expected, watch: &Watch) -> String {
    let mut text = String::new();
    // Writing to a string never fails.
    _ = tell_failure(&mut text, expected, watch);
    text
}

fn tell_failure(text: &mut String, expected: &dyn Expected, watch: &Watch) -> fmt::Result {
    write!(text, "{}, expected ", allocations(watch.calls))?;
    expected.tell(text)?;
    let mut sites: Vec<&Site> = watch.sites().iter().collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.calls));
    let mut told = 0;
    for site in &sites {
        told += site.calls;
        write!(
            text,
            "\n  {} of {} bytes in all:",
            allocations(site.calls),
            site.bytes
        )?;
        tell_backtrace(text, site)?;
    }
    if told < watch.calls {
        let more = allocations(watch.calls - told);
        write!(text, "\n  and {more} beyond the first {SITES} call sites")?;
    }
    Ok(())
}

fn allocations(calls: u64) -> String {
    match calls {
        1 => "1 allocation".to_owned(),
        calls => format!("{calls} allocations"),
    }
}

/// From the first function that is not the allocator's or a collection's to the closure.
fn tell_backtrace(text: &mut String, site: &Site) -> fmt::Result {
    let mut functions: Vec<Function> = site
        .frames()
        .iter()
        .copied()
        .flat_map(functions_at)
        .collect();
    if site.is_whole {
        // The one that calls the closure.
        functions.pop();
    }
    let first = functions
        .iter()
        .position(|function| !function.is_internal());
    let named = functions.get(first.unwrap_or(0)..).unwrap_or(&[]);
    for function in named
        .iter()
        .filter(|function| !function.is_call_of_a_closure())
    {
        write!(text, "\n      {}", function.name)?;
        if let Some(place) = &function.place {
            write!(text, "\n          at {place}")?;
        }
    }
    Ok(())
}

/// A function in a backtrace.
struct Function {
    name: String,
    /// File and line.
    place: Option<String>,
}

impl Function {
    /// Whether it stands between the program and the hook: ours, or of Rust's library, whose
    /// names would say less than who uses them.
    fn is_internal(&self) -> bool {
        const LIBRARY: &str = "/library/";
        const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
        let name = self.name.trim_start_matches('<');
        let is_named_so = ["heapreel::", "alloc::", "core::", "std::", "__r"]
            .iter()
            .any(|of| name.starts_with(of));
        let is_placed_so = |place: &String| {
            let is_rust = place.starts_with("/rustc/") || place.contains("/rustlib/src/rust/");
            place.starts_with(OURS) || is_rust && place.contains(LIBRARY)
        };
        is_named_so || self.place.as_ref().is_some_and(is_placed_so)
    }

    fn is_call_of_a_closure(&self) -> bool {
        self.name.contains("core::ops::function::Fn")
    }
}

/// The function that a call returns to, and those that were made part of it, innermost first.
fn functions_at(return_address: u64) -> Vec<Function> {
    let mut functions = Vec::new();
    // The call is before its return address.
    let call = (return_address as usize).wrapping_sub(1);
    backtrace::resolve(call as *mut std::ffi::c_void, |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}"));
        let place = symbol.filename().zip(symbol.lineno());
        functions.push(Function {
            name: name.unwrap_or_else(|| format!("{return_address:#x}")),
            place: place.map(|(file, line)| format!("{}:{line}", file.display())),
        });
    });
    functions
}
