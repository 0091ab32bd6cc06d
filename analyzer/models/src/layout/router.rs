//! Which rule a request matches first.
//!
//! Each rule is a bit. A site, a context, a segment, a thread, a frame, a size, a lifetime and
//! an alignment each have a word of those rules that they do not contradict; the lowest bit
//! that all the words share is the rule. Words are made when a number is first seen, so
//! patterns are compared once for each name and not once for each request.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::spec::{MOST_RULES, Patterns, Ranges, Role, Rule};
use crate::model::{Moment, SegmentId, ThreadRole};

/// Bit that says of a word that it has been made.
const MADE: u64 = 1 << MOST_RULES;

/// What the numbers in a [`Moment`] are called. What has no name matches no pattern.
pub trait Names: Send + Sync {
    /// A segment's name.
    fn segment(&self, _segment: SegmentId) -> Option<&str> {
        None
    }

    /// A thread's name.
    fn thread(&self, _thread: u32) -> Option<&str> {
        None
    }

    /// Calls `each` with the functions of a backtrace.
    fn site(&self, _site: u32, _each: &mut dyn FnMut(&str)) {}

    /// Calls `each` with the names of a context and of those around it.
    fn context(&self, _context: u32, _each: &mut dyn FnMut(&str)) {}

    /// Calls `each` with the kinds of a context and of those around it, alone and as
    /// `kind:name`.
    fn tags(&self, _context: u32, _each: &mut dyn FnMut(&str)) {}

    /// Calls `each` with the phases that a game frame lies in.
    fn phases(&self, _frame: u32, _each: &mut dyn FnMut(&str)) {}
}

/// Nothing has a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

#[derive(Clone)]
pub(super) struct Router {
    rules: Arc<[(Rule, Ranges, usize)]>,
    names: Arc<dyn Names>,
    sites: Vec<u64>,
    contexts: Vec<u64>,
    segments: Vec<u64>,
    threads: Vec<u64>,
    roles: Vec<ThreadRole>,
    /// The last frame asked for, and its word.
    frame: Option<(u32, u64)>,
    /// (first size, word), ascending from size 0.
    sizes: Vec<(u64, u64)>,
    /// (first lifetime, word), ascending from lifetime 0.
    lifetimes: Vec<(u64, u64)>,
    /// By alignment: of none, of 2^0, of 2^1 and so on.
    aligns: Vec<u64>,
}

impl Router {
    pub(super) fn new(rules: Vec<(Rule, Ranges, usize)>, names: Arc<dyn Names>) -> Router {
        let align = |bits: u32| if bits == 0 { 0 } else { 1 << (bits - 1) };
        let aligns = (0..=64)
            .map(|bits| word(&rules, |_, ranges| ranges.align.contains(&align(bits))))
            .collect();
        Router {
            sizes: steps(&rules, |ranges| &ranges.size),
            lifetimes: steps(&rules, |ranges| &ranges.lifetime),
            aligns,
            rules: rules.into(),
            names,
            sites: Vec::new(),
            contexts: Vec::new(),
            segments: Vec::new(),
            threads: Vec::new(),
            roles: Vec::new(),
            frame: None,
        }
    }

    /// A thread starts, maybe under the number of one that is gone.
    pub(super) fn thread_start(&mut self, thread: u32, role: ThreadRole) {
        let index = thread as usize;
        if index >= self.roles.len() {
            self.roles.resize(index + 1, ThreadRole::default());
        }
        self.roles[index] = role;
        if let Some(word) = self.threads.get_mut(index) {
            *word = 0;
        }
    }

    /// The number of the rule that matches first, and the instance that it names.
    pub(super) fn route(&mut self, at: &Moment, size: u64, align: u64) -> Option<(usize, usize)> {
        if self.rules.is_empty() {
            return None;
        }
        let mut shared = step(&self.sizes, size);
        shared &= step(&self.lifetimes, lifetime(at));
        shared &= self.aligns[align.checked_ilog2().map_or(0, |bits| bits as usize + 1)];
        shared &= self.site(at.site) & self.context(at.context);
        shared &= self.segment(at.segment) & self.thread(at.thread) & self.frame(at.frame);
        let rule = (shared & !MADE).trailing_zeros() as usize;
        Some((rule, self.rules.get(rule)?.2))
    }

    fn site(&mut self, site: u32) -> u64 {
        let (rules, names) = (&self.rules, &self.names);
        made(&mut self.sites, site as usize, || {
            by_names(
                rules,
                |rule| rule.site.as_ref(),
                |each| names.site(site, each),
            )
        })
    }

    fn context(&mut self, context: u32) -> u64 {
        let (rules, names) = (&self.rules, &self.names);
        made(&mut self.contexts, context as usize, || {
            let named = by_names(
                rules,
                |rule| rule.context.as_ref(),
                |each| names.context(context, each),
            );
            named
                & by_names(
                    rules,
                    |rule| rule.tag.as_ref(),
                    |each| names.tags(context, each),
                )
        })
    }

    fn segment(&mut self, segment: SegmentId) -> u64 {
        let (rules, names) = (&self.rules, &self.names);
        let name = |each: &mut dyn FnMut(&str)| names.segment(segment).into_iter().for_each(each);
        made(&mut self.segments, usize::from(segment.0), || {
            by_names(rules, |rule| rule.segment.as_ref(), name)
        })
    }

    fn thread(&mut self, thread: u32) -> u64 {
        let role = self.roles.get(thread as usize).copied().unwrap_or_default();
        let (rules, names) = (&self.rules, &self.names);
        let name = |each: &mut dyn FnMut(&str)| names.thread(thread).into_iter().for_each(each);
        let is = |wanted: Role| ThreadRole::from(wanted) == role;
        made(&mut self.threads, thread as usize, || {
            by_names(rules, |rule| rule.thread.as_ref(), name)
                & word(rules, |rule, _| rule.role.is_none_or(is))
        })
    }

    fn frame(&mut self, frame: u32) -> u64 {
        if let Some((made, word)) = self.frame
            && made == frame
        {
            return word;
        }
        let (rules, names) = (&self.rules, &self.names);
        let phases = by_names(
            rules,
            |rule| rule.phase.as_ref(),
            |each| names.phases(frame, each),
        );
        let word = phases & word(rules, |_, ranges| ranges.frames.contains(&u64::from(frame)));
        self.frame = Some((frame, word));
        word
    }
}

/// A range's lifetime: no range but an open one holds that of a block that is never freed.
fn lifetime(at: &Moment) -> u64 {
    match at.lifetime {
        Moment::FOREVER => u64::MAX,
        frames => u64::from(frames),
    }
}

/// (first number, word) for each stretch of numbers that the rules do not tell apart.
fn steps(
    rules: &[(Rule, Ranges, usize)],
    range: impl Fn(&Ranges) -> &RangeInclusive<u64>,
) -> Vec<(u64, u64)> {
    let mut starts = vec![0];
    for (_, ranges, _) in rules {
        starts.push(*range(ranges).start());
        starts.extend(range(ranges).end().checked_add(1));
    }
    starts.sort_unstable();
    starts.dedup();
    let step = |from: u64| (from, word(rules, |_, ranges| range(ranges).contains(&from)));
    starts.into_iter().map(step).collect()
}

/// The word of the stretch that a number lies in.
fn step(steps: &[(u64, u64)], number: u64) -> u64 {
    steps[steps.partition_point(|&(from, _)| from <= number) - 1].1
}

/// The word of a number, made when it is first asked for.
fn made(words: &mut Vec<u64>, index: usize, make: impl FnOnce() -> u64) -> u64 {
    if index >= words.len() {
        words.resize(index + 1, 0);
    }
    if words[index] == 0 {
        words[index] = make() | MADE;
    }
    words[index]
}

/// The rules for which something holds.
fn word(rules: &[(Rule, Ranges, usize)], holds: impl Fn(&Rule, &Ranges) -> bool) -> u64 {
    let bits = rules
        .iter()
        .enumerate()
        .filter(|(_, (rule, ranges, _))| holds(rule, ranges));
    bits.fold(0, |word, (bit, _)| word | 1 << bit)
}

/// The rules whose patterns one of the names matches, and those without patterns.
fn by_names(
    rules: &[(Rule, Ranges, usize)],
    patterns: impl Fn(&Rule) -> Option<&Patterns>,
    names: impl FnOnce(&mut dyn FnMut(&str)),
) -> u64 {
    let mut matching = word(rules, |rule, _| patterns(rule).is_none());
    names(&mut |name| {
        let matches = |rule: &Rule| patterns(rule).is_some_and(|some| some.match_name(name));
        matching |= word(rules, |rule, _| matches(rule));
    });
    matching
}
