//! What can be set of the mimalloc model.

use crate::paged::{Abandon, CollectScope, FreeMode, Geometry, Rules};
use crate::parameters::{BadParameter, address, bytes, number, power_of_two, yes_or_no};

/// The parameters of [`Mimalloc`](super::Mimalloc). Sources: the options and macros of
/// mimalloc 2.0.3; "slide" is number 34 of the talk about RE ENGINE's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes. Smallest unit of a segment, a power of two. Default 64 KiB
    /// (`MI_SEGMENT_SLICE_SIZE`), slide 16 KiB.
    pub slice: u64,
    /// Bytes. A segment, a power of two. Default 64 MiB (`MI_SEGMENT_SIZE`), the slide's
    /// macros 4 MiB, its caption 8 MiB.
    pub segment: u64,
    /// Bytes. A page for medium blocks. Default 512 KiB (`MI_MEDIUM_PAGE_SIZE`), slide
    /// 128 KiB.
    pub medium_page: u64,
    /// Put memory behind whole segments at once. Default off, as for the golden outputs;
    /// the option `eager_commit` of 2.0.3 is on, as in the preset `2.0.3-options`.
    pub eager_commit: bool,
    /// Segments a thread that `eager_commit` leaves out where the system does not
    /// overcommit and more than two threads run. Default 1 (`eager_commit_delay`).
    pub eager_commit_delay: u32,
    /// Whether the system overcommits. Default true (Linux).
    pub overcommit: bool,
    /// Give memory back at all. Default off, as for the golden outputs; the option
    /// `allow_decommit` of 2.0.3 is on, as in the preset `2.0.3-options`.
    pub allow_decommit: bool,
    /// Milliseconds. How long a free span keeps its memory. Default 25 (`reset_delay`).
    pub reset_delay: u64,
    /// Milliseconds. How long a cached segment keeps its memory. Default 500
    /// (`segment_decommit_delay`).
    pub segment_decommit_delay: u64,
    /// Segments that are kept for all threads. Default 1024 (`MI_CACHE_MAX`).
    pub segment_cache: u32,
    /// Passes. How long an empty page for small blocks stays. Default 9 (`page.c`).
    pub retire_small: u8,
    /// Passes. How long an empty page for medium blocks stays. Default 3 (`page.c`).
    pub retire_medium: u8,
    /// Segments. Abandoned ones that are looked at before a fresh one is taken. Default 8
    /// (`max_segment_reclaim` is at least that).
    pub max_segment_reclaim: u32,
    /// Bytes. What each thread takes for itself. Default 8 KiB (measured).
    pub thread_block: u64,
    /// Number of the thread that takes nothing for itself because the program has its
    /// block, or `none`. Default `none`.
    pub main_thread: Option<u32>,
    /// Bytes. Largest alignment. Default 1 MiB (`MI_ALIGNMENT_MAX`).
    pub align_max: u64,
    /// Address. Where address space begins. Default 0x200_0000_0000; ours.
    pub base: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters::with_geometry(Geometry::STOCK)
    }
}

impl Parameters {
    /// Names of presets.
    pub const PRESETS: &[&str] = &["2.0.3", "2.0.3-4mib", "2.0.3-8mib", "2.0.3-options"];

    /// Names of parameters.
    pub const NAMES: &[&str] = &[
        "slice",
        "segment",
        "medium_page",
        "eager_commit",
        "eager_commit_delay",
        "overcommit",
        "allow_decommit",
        "reset_delay",
        "segment_decommit_delay",
        "segment_cache",
        "retire_small",
        "retire_medium",
        "max_segment_reclaim",
        "thread_block",
        "main_thread",
        "align_max",
        "base",
    ];

    /// A set by its name. `2.0.3` is what is shipped, `2.0.3-4mib` and `2.0.3-8mib` have the
    /// sizes of the slide's macros and of its caption; none of them gives memory back, which
    /// is how the real one was run to compare with. `2.0.3-options` is `2.0.3` with all
    /// options at their defaults.
    ///
    /// # Errors
    ///
    /// [`BadParameter::Unknown`].
    pub fn preset(name: &str) -> Result<Parameters, BadParameter> {
        match name {
            "2.0.3" => Ok(Parameters::default()),
            "2.0.3-4mib" => Ok(Parameters::with_geometry(Geometry::SLIDE_MACROS)),
            "2.0.3-8mib" => Ok(Parameters::with_geometry(Geometry::SLIDE_CAPTIONS)),
            "2.0.3-options" => Ok(Parameters {
                eager_commit: true,
                allow_decommit: true,
                ..Parameters::default()
            }),
            _ => Err(BadParameter::unknown("preset", name, Parameters::PRESETS)),
        }
    }

    /// Sets a parameter by its name.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: there is none of that name, or the value is not one for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "slice" => self.slice = power_of_two(name, value)?,
            "segment" => self.segment = power_of_two(name, value)?,
            "medium_page" => self.medium_page = bytes(name, value)?,
            "eager_commit" => self.eager_commit = yes_or_no(name, value)?,
            "eager_commit_delay" => self.eager_commit_delay = number(name, value)?,
            "overcommit" => self.overcommit = yes_or_no(name, value)?,
            "allow_decommit" => self.allow_decommit = yes_or_no(name, value)?,
            "reset_delay" => self.reset_delay = number(name, value)?,
            "segment_decommit_delay" => self.segment_decommit_delay = number(name, value)?,
            "segment_cache" => self.segment_cache = number(name, value)?,
            "retire_small" => self.retire_small = number(name, value)?,
            "retire_medium" => self.retire_medium = number(name, value)?,
            "max_segment_reclaim" => self.max_segment_reclaim = number(name, value)?,
            "thread_block" => self.thread_block = bytes(name, value)?,
            "main_thread" if value.trim() == "none" => self.main_thread = None,
            "main_thread" => self.main_thread = Some(number(name, value)?),
            "align_max" => self.align_max = power_of_two(name, value)?,
            "base" => self.base = address(name, value)?,
            _ => return Err(BadParameter::unknown("parameter", name, Parameters::NAMES)),
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

    /// The rules that they stand for.
    ///
    /// # Errors
    ///
    /// [`BadParameter`], where lengths do not go together.
    pub(crate) fn rules(&self) -> Result<Rules, BadParameter> {
        let geometry = self.geometry();
        geometry.validate()?;
        Ok(Rules {
            geometry,
            eager_commit: self.eager_commit,
            eager_commit_delay: self.eager_commit_delay,
            overcommit: self.overcommit,
            allow_decommit: self.allow_decommit,
            reset_delay: self.reset_delay,
            segment_decommit_delay: self.segment_decommit_delay,
            cache_slots: self.segment_cache,
            retire_small: self.retire_small,
            retire_medium: self.retire_medium,
            collect_scope: CollectScope::Visited,
            free_mode: FreeMode::Direct,
            abandon: Abandon::Segments,
            thread_block: self.thread_block,
            main_thread: self.main_thread,
            reclaim_tries: self.max_segment_reclaim,
            align_max: self.align_max,
            ..Rules::STOCK
        })
    }

    fn with_geometry(geometry: Geometry) -> Parameters {
        let stock = Rules::STOCK;
        Parameters {
            slice: geometry.slice_bytes,
            segment: geometry.segment_bytes,
            medium_page: geometry.medium_page_bytes,
            eager_commit: false,
            eager_commit_delay: stock.eager_commit_delay,
            overcommit: stock.overcommit,
            allow_decommit: false,
            reset_delay: stock.reset_delay,
            segment_decommit_delay: stock.segment_decommit_delay,
            segment_cache: stock.cache_slots,
            retire_small: stock.retire_small,
            retire_medium: stock.retire_medium,
            max_segment_reclaim: stock.reclaim_tries,
            thread_block: stock.thread_block,
            main_thread: stock.main_thread,
            align_max: stock.align_max,
            base: 0x200_0000_0000,
        }
    }
}
