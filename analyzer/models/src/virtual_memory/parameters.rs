//! What can be set of the virtual memory model.

use super::physical::{LruMatch, PhysicalRules};
use crate::paged::{Abandon, CollectScope, FreeMode, Geometry, Rules, Sharing};
use crate::parameters::{
    BadParameter, EXAMPLE_SEGMENTS, address, bytes, number, power_of_two, yes_or_no,
};

/// Which threads have a heap of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heaps {
    /// Those that work for the frame; all others share one, under a lock.
    #[default]
    Roles,
    /// Each.
    PerThread,
    /// None: all share one.
    Single,
}

/// The parameters of [`Virtual`](super::Virtual). "sl." is a slide of the talk about RE
/// ENGINE's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes. Smallest unit of a segment, a power of two. Default 16 KiB; sl. 34.
    pub slice: u64,
    /// Bytes. A segment, a power of two. Default 8 MiB, the caption of sl. 34; its macros
    /// give 4 MiB (preset `capcom4`).
    pub segment: u64,
    /// Bytes. A page for medium blocks. Default 128 KiB; sl. 34.
    pub medium_page: u64,
    /// Which threads have a heap of their own: `roles`, `per_thread`, `single`. Default
    /// `roles`; sl. 32.
    pub heaps: Heaps,
    /// Put memory behind whole segments at once. Default off; sl. 30.
    pub eager_commit: bool,
    /// Give memory back at all. Default on; off only in the preset `stock203`.
    pub allow_decommit: bool,
    /// Milliseconds. How long a free span keeps its memory. Default 25; sl. 30, and the same
    /// as in mimalloc.
    pub reset_delay: u64,
    /// Milliseconds. How long a cached segment keeps its memory. Default 0; sl. 30, where
    /// it is called `segment_commit_delay`, which mimalloc does not have.
    pub segment_decommit_delay: u64,
    /// Segments that are kept for all threads. Default 0; that it is capped is from sl. 30,
    /// the number ours.
    pub segment_cache_cap: u32,
    /// Passes. How long an empty page for small blocks stays. Default 0, at once; sl. 30.
    pub retire_cycles_small: u8,
    /// Passes. How long an empty page for medium blocks stays. Default 0, at once; sl. 30.
    pub retire_cycles_medium: u8,
    /// Which pages are collected before a fresh one is taken: `heap`, or `visited`. Default
    /// `heap`; sl. 30.
    pub collect_scope: CollectScope,
    /// How blocks come back: `release_queue`, or `direct` (also `stock`). Default
    /// `release_queue`; sl. 40.
    pub release_queue: bool,
    /// Blocks. Most that an allocation works off of its heap's release queue; `all` for no
    /// limit. Default 100; sl. 40.
    pub gc_steps: u32,
    /// What an exiting thread leaves behind: `heaps`, or `segments`. Default `heaps`; sl. 33.
    pub abandon: Abandon,
    /// Heaps. How many abandoned ones the end of a frame tidies; 0: all. Default 0; that it
    /// is done in the background is from sl. 33, how often ours.
    pub abandoned_gc: u32,
    /// Bytes. Unit of physical memory: 4 KiB, 16 KiB or 64 KiB. Default 64 KiB; sl. 37.
    pub map_granule: u64,
    /// Bytes. Physical memory in all; `segments` for the sum of the segments' budgets.
    /// Default `segments`; sl. 22 and 24.
    pub phys_budget: Option<u64>,
    /// Runs. How many stay mapped after they were given back. Default 16; sl. 35.
    pub lru_entries: u32,
    /// How a new range finds a run that is still mapped: `address`, or `any` (new segments
    /// are put where such a run lies). Default `address`; not published, ours.
    pub lru_match: LruMatch,
    /// What is kept mapped counts against the budget. Default true; ours.
    pub lru_counts_as_used: bool,
    /// What was still mapped is cleared before it is used again. Default true; that memory
    /// is clear is from sl. 36 and 38, the decision ours.
    pub zero_on_hit: bool,
    /// Names and budgets in bytes of the engine's segments, by number; blocks of others are
    /// charged to none. Default: Default 1024 MiB, Permanent 128, Resource 1024, Develop
    /// 256, Temp 64. Names from sl. 12, that they are budgets only from sl. 22, sizes ours.
    /// Set as `segments = "Default=1GiB,Temp=64MiB"`, or one by one as
    /// `segment.NAME = "64MiB"`.
    pub segments: Vec<(String, u64)>,
    /// Bytes. What each heap takes for its thread. Default 8 KiB (measured of mimalloc).
    pub thread_block: u64,
    /// Bytes. Largest alignment. Default 1 MiB (`MI_ALIGNMENT_MAX`).
    pub align_max: u64,
    /// Address. Where address space begins. Default 0x300_0000_0000; ours.
    pub base: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            slice: Geometry::SLIDE_CAPTIONS.slice_bytes,
            segment: Geometry::SLIDE_CAPTIONS.segment_bytes,
            medium_page: Geometry::SLIDE_CAPTIONS.medium_page_bytes,
            heaps: Heaps::Roles,
            eager_commit: false,
            allow_decommit: true,
            reset_delay: Rules::STOCK.reset_delay,
            segment_decommit_delay: 0,
            segment_cache_cap: 0,
            retire_cycles_small: 0,
            retire_cycles_medium: 0,
            collect_scope: CollectScope::Heap,
            release_queue: true,
            gc_steps: 100,
            abandon: Abandon::Heaps,
            abandoned_gc: 0,
            map_granule: 64 << 10,
            phys_budget: None,
            lru_entries: 16,
            lru_match: LruMatch::Address,
            lru_counts_as_used: true,
            zero_on_hit: true,
            segments: EXAMPLE_SEGMENTS
                .map(|(name, bytes)| (name.to_owned(), bytes))
                .to_vec(),
            thread_block: Rules::STOCK.thread_block,
            align_max: Rules::STOCK.align_max,
            base: 0x300_0000_0000,
        }
    }
}

impl Parameters {
    /// Names of presets.
    pub const PRESETS: &[&str] = &["capcom8", "capcom4", "stock203"];

    /// Names of parameters; a segment's is `segment.NAME`.
    pub const NAMES: &[&str] = &[
        "slice",
        "slice_shift",
        "segment",
        "medium_page",
        "heaps",
        "eager_commit",
        "allow_decommit",
        "reset_delay",
        "segment_decommit_delay",
        "segment_cache_cap",
        "retire_cycles_small",
        "retire_cycles_medium",
        "collect_scope",
        "free_mode",
        "gc_steps",
        "abandon",
        "abandoned_gc",
        "map_granule",
        "phys_budget",
        "lru_entries",
        "lru_match",
        "lru_counts_as_used",
        "zero_on_hit",
        "segments",
        "segment.NAME",
        "thread_block",
        "align_max",
        "base",
    ];

    /// A set by its name: `capcom8`, the default, has the sizes of the slide's caption,
    /// `capcom4` those of its macros; `stock203` is mimalloc 2.0.3 as the preset `2.0.3` of
    /// that model has it, over physical memory that is never given back.
    ///
    /// # Errors
    ///
    /// [`BadParameter::Unknown`].
    pub fn preset(name: &str) -> Result<Parameters, BadParameter> {
        match name {
            "capcom8" => Ok(Parameters::default()),
            "capcom4" => Ok(Parameters {
                segment: Geometry::SLIDE_MACROS.segment_bytes,
                ..Parameters::default()
            }),
            "stock203" => Ok(Parameters::stock()),
            _ => Err(BadParameter::unknown("preset", name, Parameters::PRESETS)),
        }
    }

    fn stock() -> Parameters {
        let (rules, geometry) = (Rules::STOCK, Geometry::STOCK);
        Parameters {
            slice: geometry.slice_bytes,
            segment: geometry.segment_bytes,
            medium_page: geometry.medium_page_bytes,
            heaps: Heaps::PerThread,
            allow_decommit: false,
            segment_decommit_delay: rules.segment_decommit_delay,
            segment_cache_cap: rules.cache_slots,
            retire_cycles_small: rules.retire_small,
            retire_cycles_medium: rules.retire_medium,
            collect_scope: rules.collect_scope,
            release_queue: false,
            abandon: rules.abandon,
            lru_entries: 0,
            ..Parameters::default()
        }
    }

    /// Sets a parameter by its name. `slice_shift` sets `slice` to 2^n bytes and
    /// `medium_page` to eight of them.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: there is none of that name, or the value is not one for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "slice" => self.slice = power_of_two(name, value)?,
            "slice_shift" => self.set_slice_shift(name, value)?,
            "segment" => self.segment = power_of_two(name, value)?,
            "medium_page" => self.medium_page = bytes(name, value)?,
            "heaps" => self.heaps = choice(name, value, HEAPS)?,
            "eager_commit" => self.eager_commit = yes_or_no(name, value)?,
            "allow_decommit" => self.allow_decommit = yes_or_no(name, value)?,
            "reset_delay" => self.reset_delay = number(name, value)?,
            "segment_decommit_delay" => self.segment_decommit_delay = number(name, value)?,
            "segment_cache_cap" => self.segment_cache_cap = number(name, value)?,
            "retire_cycles_small" => self.retire_cycles_small = number(name, value)?,
            "retire_cycles_medium" => self.retire_cycles_medium = number(name, value)?,
            "collect_scope" => self.collect_scope = choice(name, value, SCOPES)?,
            "free_mode" => self.release_queue = choice(name, value, FREE_MODES)?,
            "gc_steps" if value.trim() == "all" => self.gc_steps = u32::MAX,
            "gc_steps" => self.gc_steps = number(name, value)?,
            "abandon" => self.abandon = choice(name, value, ABANDONS)?,
            "abandoned_gc" => self.abandoned_gc = number(name, value)?,
            "map_granule" => self.map_granule = power_of_two(name, value)?,
            "phys_budget" if value.trim() == "segments" => self.phys_budget = None,
            "phys_budget" => self.phys_budget = Some(bytes(name, value)?),
            "lru_entries" => self.lru_entries = number(name, value)?,
            "lru_match" => self.lru_match = choice(name, value, MATCHES)?,
            "lru_counts_as_used" => self.lru_counts_as_used = yes_or_no(name, value)?,
            "zero_on_hit" => self.zero_on_hit = yes_or_no(name, value)?,
            "segments" => self.segments = segments(value)?,
            "thread_block" => self.thread_block = bytes(name, value)?,
            "align_max" => self.align_max = power_of_two(name, value)?,
            "base" => self.base = address(name, value)?,
            _ => self.set_segment(name, value)?,
        }
        Ok(())
    }

    fn set_slice_shift(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        let shift: u32 = number(name, value)?;
        if !(12..=18).contains(&shift) {
            return Err(BadParameter::value(name, value, "a number from 12 to 18"));
        }
        self.slice = 1 << shift;
        self.medium_page = 8 << shift;
        Ok(())
    }

    fn set_segment(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        let unknown = || BadParameter::unknown("parameter", name, Parameters::NAMES);
        let segment = name.strip_prefix("segment.").ok_or_else(unknown)?;
        let budget = bytes(name, value)?;
        match self.segments.iter_mut().find(|(known, _)| known == segment) {
            Some((_, known)) => *known = budget,
            None => self.segments.push((segment.to_owned(), budget)),
        }
        Ok(())
    }

    /// The lengths that pages and segments are cut by.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            slice_bytes: self.slice,
            segment_bytes: self.segment,
            medium_page_bytes: self.medium_page,
        }
    }

    /// Physical memory in bytes.
    pub fn physical_bytes(&self) -> u64 {
        let sum = || self.segments.iter().map(|(_, budget)| budget).sum();
        self.phys_budget.unwrap_or_else(sum)
    }

    pub(crate) fn rules(&self) -> Result<Rules, BadParameter> {
        let geometry = self.geometry();
        geometry.validate()?;
        let free_mode = match self.release_queue {
            true => FreeMode::ReleaseQueue {
                steps: self.gc_steps,
            },
            false => FreeMode::Direct,
        };
        Ok(Rules {
            geometry,
            eager_commit: self.eager_commit,
            allow_decommit: self.allow_decommit,
            reset_delay: self.reset_delay,
            segment_decommit_delay: self.segment_decommit_delay,
            cache_slots: self.segment_cache_cap,
            retire_small: self.retire_cycles_small,
            retire_medium: self.retire_cycles_medium,
            collect_scope: self.collect_scope,
            free_mode,
            abandon: self.abandon,
            thread_block: self.thread_block,
            align_max: self.align_max,
            ..Rules::STOCK
        })
    }

    pub(crate) fn physical_rules(&self) -> Result<PhysicalRules, BadParameter> {
        let (granule, budget) = (self.map_granule, self.physical_bytes());
        if ![4, 16, 64].contains(&(granule >> 10)) || granule & 1023 != 0 {
            let expected = "4KiB, 16KiB or 64KiB";
            return Err(BadParameter::value(
                "map_granule",
                &granule.to_string(),
                expected,
            ));
        }
        if !(self.segment..1 << 40).contains(&budget) {
            let expected = "at least one segment, and less than 1 TiB";
            return Err(BadParameter::value(
                "phys_budget",
                &budget.to_string(),
                expected,
            ));
        }
        Ok(PhysicalRules {
            granule,
            slice: self.slice,
            budget,
            lru_entries: self.lru_entries,
            lru_match: self.lru_match,
            lru_counts_as_used: self.lru_counts_as_used,
            zero_on_hit: self.zero_on_hit,
        })
    }

    pub(crate) fn sharing(&self) -> Sharing {
        match self.heaps {
            Heaps::Roles => Sharing::Low,
            Heaps::PerThread => Sharing::None,
            Heaps::Single => Sharing::All,
        }
    }
}

const HEAPS: &[(&str, Heaps)] = &[
    ("roles", Heaps::Roles),
    ("per_thread", Heaps::PerThread),
    ("single", Heaps::Single),
];
const SCOPES: &[(&str, CollectScope)] = &[
    ("heap", CollectScope::Heap),
    ("visited", CollectScope::Visited),
];
const FREE_MODES: &[(&str, bool)] = &[("release_queue", true), ("direct", false), ("stock", false)];
const ABANDONS: &[(&str, Abandon)] = &[("heaps", Abandon::Heaps), ("segments", Abandon::Segments)];
const MATCHES: &[(&str, LruMatch)] = &[("address", LruMatch::Address), ("any", LruMatch::Any)];

/// One of a few words.
fn choice<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, BadParameter> {
    let found = words.iter().find(|(word, _)| *word == value.trim());
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        BadParameter::value(name, value, &format!("one of {}", known.join(", ")))
    })
}

fn segments(value: &str) -> Result<Vec<(String, u64)>, BadParameter> {
    let segment = |text: &str| {
        let bad = || BadParameter::value("segments", value, "NAME=BYTES, ...");
        let (name, budget) = text.split_once('=').ok_or_else(bad)?;
        Ok((name.trim().to_owned(), bytes("segments", budget)?))
    };
    value.split(',').map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_set() {
        let mut parameters = Parameters::default();
        let value = |name: &str| match name {
            "heaps" => "single",
            "collect_scope" => "visited",
            "free_mode" => "direct",
            "abandon" => "segments",
            "lru_match" => "any",
            "segments" => "Default=1GiB,Temp=64MiB",
            "slice_shift" => "16",
            "phys_budget" => "segments",
            _ => "1",
        };
        for name in Parameters::NAMES {
            parameters
                .set(name, value(name))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(parameters.physical_bytes(), (1 << 30) + (64 << 20) + 1);
        let error = parameters.set("lru", "64").unwrap_err().to_string();
        assert!(
            error.starts_with(r#"no parameter "lru"; there are slice, "#),
            "{error}"
        );
        let error = parameters.set("heaps", "some").unwrap_err().to_string();
        assert_eq!(
            error,
            r#"heaps cannot be "some": one of roles, per_thread, single"#
        );
    }

    #[test]
    fn presets_are_sound() {
        for preset in Parameters::PRESETS {
            let parameters = Parameters::preset(preset).unwrap();
            parameters.rules().unwrap();
            parameters.physical_rules().unwrap();
        }
        assert!(Parameters::preset("capcom").is_err());
    }
}
