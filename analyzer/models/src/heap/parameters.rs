//! What can be set of a heap.

use crate::parameters::{
    BadParameter, EXAMPLE_SEGMENTS, address, bytes, number, power_of_two, yes_or_no,
};

/// How a free range is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The shortest that is long enough, the lowest of those that are equal.
    #[default]
    Best,
    /// The lowest that is long enough.
    First,
    /// The first that is long enough from where the last block ended, round the segment.
    Next,
    /// Two-level segregated fit: the newest range of the first class that surely suffices.
    Tlsf,
}

/// When free neighbours become one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalesce {
    /// On each free.
    #[default]
    Immediate,
    /// After so many frees, and before a request fails.
    Deferred(u32),
}

/// What happens to a request that a segment cannot serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// It fails.
    #[default]
    Fail,
    /// The segment of this name serves it.
    Overflow(String),
    /// The segment gets as much more as is needed; what would it take?
    Grow,
}

/// One segment of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSpec {
    /// Its name. Segments are numbered as they are listed.
    pub name: String,
    /// Bytes.
    pub capacity: u64,
    /// What happens when it is full.
    pub on_full: OnFull,
}

impl SegmentSpec {
    /// A segment that fails when it is full.
    pub fn new(name: &str, capacity: u64) -> SegmentSpec {
        SegmentSpec {
            name: name.to_owned(),
            capacity,
            on_full: OnFull::Fail,
        }
    }
}

/// The parameters of a [`Heap`](super::Heap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Segments; a number beyond them means the first. Default: Default 1024 MiB,
    /// Permanent 128, Resource 1024, Develop 256, Temp 64. Names from sl. 12 of the talk,
    /// sizes ours. Set as `segments = "Default=1GiB,Temp=64MiB:overflow:Default"` (or
    /// `:grow`), or one by one as `segment.NAME = "64MiB"`.
    pub segments: Vec<SegmentSpec>,
    /// By the caller's number of a segment: its place in `segments`. A number without an
    /// entry means the first. Default: none, numbers are places; not set by name.
    pub numbers: Option<Vec<u16>>,
    /// Address of the first segment; the others follow, each a gap of `base_align` behind
    /// the one before. Default 0x20_0000_0000; ours.
    pub base: u64,
    /// Alignment of segments in bytes. Default 2 MiB, a large page of x86-64; that it is
    /// the largest suitable page is from sl. 15, the figure ours.
    pub base_align: u64,
    /// How a free range is chosen: `best`, `first`, `next` or `tlsf`. Default `best`; ours.
    pub fit: Policy,
    /// Blocks, headers included, are multiples of so many bytes. Default 16, the largest
    /// alignment of a scalar type; ours.
    pub granule: u64,
    /// Bytes in front of each payload. Default 32: that it leads back to the source is
    /// from sl. 15, its layout ours.
    pub header: u64,
    /// The smallest payload in bytes. Default 32, what a free range's links need; ours.
    pub min_payload: u64,
    /// A shorter rest stays in the block. Bytes; default `header + min_payload`; ours.
    pub split_min: Option<u64>,
    /// When free neighbours become one: `immediate`, or `deferred:N`. Default
    /// `immediate`; ours.
    pub coalesce: Coalesce,
    /// Bytes at a segment's start that the heap keeps for itself. Default 0; ours.
    pub control: u64,
    /// Past owners that are remembered for lookups, over all segments. Default 16384; ours.
    pub history: u32,
    /// TLSF: each power of two is `2^n` classes. Default 5; mattconte/tlsf.
    pub tlsf_sl_log2: u32,
    /// TLSF: headers count for a range's class. Default false as in mattconte/tlsf; true
    /// in rlsf.
    pub tlsf_whole: bool,
}

const MIB: u64 = 1 << 20;

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            segments: EXAMPLE_SEGMENTS
                .map(|(name, bytes)| SegmentSpec::new(name, bytes))
                .to_vec(),
            numbers: None,
            base: 0x20_0000_0000,
            base_align: 2 * MIB,
            fit: Policy::Best,
            granule: 16,
            header: 32,
            min_payload: 32,
            split_min: None,
            coalesce: Coalesce::Immediate,
            control: 0,
            history: 16_384,
            tlsf_sl_log2: 5,
            tlsf_whole: false,
        }
    }
}

impl Parameters {
    /// Names of presets.
    pub const PRESETS: &[&str] = &["best", "first", "next", "tlsf", "rlsf"];

    /// Names of parameters; a segment's are `segment.NAME` and `segment.NAME.on_full`.
    pub const NAMES: &[&str] = &[
        "segments",
        "segment.NAME",
        "segment.NAME.on_full",
        "base",
        "base_align",
        "fit",
        "granule",
        "header",
        "min_payload",
        "split_min",
        "coalesce",
        "control",
        "history",
        "tlsf.sl_log2",
        "tlsf.align",
        "tlsf.header",
        "tlsf.whole",
    ];

    /// The parameters of a preset: `best` (the default), `first`, `next`; `tlsf` with the
    /// header and alignment of mattconte/tlsf, `rlsf` with those of the crate rlsf (of which
    /// the model knows no alignment above 16: such requests fail).
    ///
    /// # Errors
    ///
    /// [`BadParameter::Unknown`].
    pub fn preset(name: &str) -> Result<Parameters, BadParameter> {
        let plain = Parameters::default();
        Ok(match name {
            "best" => plain,
            "first" => Parameters {
                fit: Policy::First,
                ..plain
            },
            "next" => Parameters {
                fit: Policy::Next,
                ..plain
            },
            "tlsf" => Parameters {
                fit: Policy::Tlsf,
                granule: 8,
                header: 8,
                min_payload: 24,
                ..plain
            },
            "rlsf" => Parameters {
                fit: Policy::Tlsf,
                granule: 32,
                header: 16,
                min_payload: 16,
                tlsf_whole: true,
                ..plain
            },
            _ => return Err(BadParameter::unknown("preset", name, Parameters::PRESETS)),
        })
    }

    /// Sets a parameter by name.
    ///
    /// # Errors
    ///
    /// [`BadParameter`]: the name or what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        match name {
            "segments" => self.segments = segments(value)?,
            "base" => self.base = address(name, value)?,
            "base_align" => self.base_align = power_of_two(name, value)?,
            "fit" => self.fit = policy(value)?,
            "granule" | "tlsf.align" => self.granule = power_of_two(name, value)?,
            "header" | "tlsf.header" => self.header = bytes(name, value)?,
            "min_payload" => self.min_payload = bytes(name, value)?,
            "split_min" => self.split_min = Some(bytes(name, value)?),
            "coalesce" => self.coalesce = coalesce(value)?,
            "control" => self.control = bytes(name, value)?,
            "history" => self.history = number(name, value)?,
            "tlsf.sl_log2" => self.tlsf_sl_log2 = sub_classes(value)?,
            "tlsf.whole" => self.tlsf_whole = yes_or_no(name, value)?,
            _ => return self.set_segment(name, value),
        }
        Ok(())
    }

    fn set_segment(&mut self, name: &str, value: &str) -> Result<(), BadParameter> {
        let unknown = || BadParameter::unknown("parameter", name, Parameters::NAMES);
        let segment = name.strip_prefix("segment.").ok_or_else(unknown)?;
        if let Some(segment) = segment.strip_suffix(".on_full") {
            let on_full = on_full(value)?;
            let known = self.segments.iter_mut().find(|known| known.name == segment);
            known.ok_or_else(unknown)?.on_full = on_full;
            return Ok(());
        }
        let capacity = bytes(name, value)?;
        match self.segments.iter_mut().find(|known| known.name == segment) {
            Some(known) => known.capacity = capacity,
            None => self.segments.push(SegmentSpec::new(segment, capacity)),
        }
        Ok(())
    }

    /// Checks what a single parameter cannot show.
    pub(super) fn check(&self) -> Result<(), BadParameter> {
        let bad = |name: &str, value: String, expected: &str| {
            Err(BadParameter::value(name, &value, expected))
        };
        if self.segments.is_empty() || self.segments.len() > usize::from(u16::MAX) {
            return bad("segments", String::new(), "at least one segment");
        }
        for (name, bytes) in [
            ("granule", self.granule),
            ("header", self.header),
            ("min_payload", self.min_payload),
            ("split_min", self.split_min.unwrap_or(0)),
        ] {
            if bytes > 1 << 30 {
                return bad(name, bytes.to_string(), "at most 1GiB");
            }
        }
        let smallest = (self.header + self.min_payload).next_multiple_of(self.granule);
        let wrong = |name: &str| self.segments.iter().all(|known| known.name != name);
        for segment in &self.segments {
            if segment.capacity < self.control + smallest {
                let expected = "at least the control area and the smallest block";
                return bad(&segment.name, segment.capacity.to_string(), expected);
            }
            if let OnFull::Overflow(to) = &segment.on_full
                && wrong(to)
            {
                return bad(
                    &segment.name,
                    format!("overflow:{to}"),
                    "overflow to a segment",
                );
            }
        }
        Ok(())
    }

    /// The part of a header that does not count for a range's class.
    pub(super) fn whole_granules_of_header(&self) -> u64 {
        self.header / self.granule * self.granule
    }

    /// Bytes of a block with so much payload, header included.
    pub(super) fn need(&self, size: u64) -> u64 {
        let payload = size.max(self.min_payload).max(1);
        let bytes = self.header.saturating_add(payload);
        bytes
            .checked_next_multiple_of(self.granule)
            .unwrap_or(u64::MAX)
    }

    /// The shortest rest that is split off.
    pub fn split_min(&self) -> u64 {
        let least = self.split_min.unwrap_or(self.header + self.min_payload);
        let smallest = self.header + self.min_payload;
        least.max(smallest).max(1).next_multiple_of(self.granule)
    }
}

fn policy(value: &str) -> Result<Policy, BadParameter> {
    match value.trim() {
        "best" => Ok(Policy::Best),
        "first" => Ok(Policy::First),
        "next" => Ok(Policy::Next),
        "tlsf" => Ok(Policy::Tlsf),
        _ => Err(BadParameter::value(
            "fit",
            value,
            "best, first, next or tlsf",
        )),
    }
}

fn coalesce(value: &str) -> Result<Coalesce, BadParameter> {
    let expected = "immediate or deferred:N with N from 1";
    let bad = || BadParameter::value("coalesce", value, expected);
    match value.trim().split_once(':') {
        None if value.trim() == "immediate" => Ok(Coalesce::Immediate),
        Some(("deferred", frees)) => {
            let frees = frees.parse().ok().filter(|&frees| frees > 0);
            frees.map(Coalesce::Deferred).ok_or_else(bad)
        }
        _ => Err(bad()),
    }
}

fn on_full(value: &str) -> Result<OnFull, BadParameter> {
    match value.trim().split_once(':') {
        None if value.trim() == "fail" => Ok(OnFull::Fail),
        None if value.trim() == "grow" => Ok(OnFull::Grow),
        Some(("overflow", to)) => Ok(OnFull::Overflow(to.to_owned())),
        _ => Err(BadParameter::value(
            "on_full",
            value,
            "fail, grow or overflow:SEGMENT",
        )),
    }
}

fn sub_classes(value: &str) -> Result<u32, BadParameter> {
    let bits: u32 = number("tlsf.sl_log2", value)?;
    let bad = || BadParameter::value("tlsf.sl_log2", value, "1 to 6");
    (1..=6).contains(&bits).then_some(bits).ok_or_else(bad)
}

fn segments(value: &str) -> Result<Vec<SegmentSpec>, BadParameter> {
    let bad = || BadParameter::value("segments", value, "NAME=BYTES[:on_full], ...");
    let segment = |text: &str| {
        let (name, rest) = text.trim().split_once('=').ok_or_else(bad)?;
        let (capacity, full) = rest.split_once(':').unwrap_or((rest, "fail"));
        let capacity = bytes("segments", capacity)?;
        let on_full = on_full(full)?;
        Ok(SegmentSpec {
            name: name.trim().to_owned(),
            capacity,
            on_full,
        })
    };
    value.split(',').map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_by_name() {
        let mut parameters = Parameters::default();
        for (name, value) in [
            ("segments", "Default=1GiB,Temp=64MiB:overflow:Default"),
            ("segment.Temp", "32MiB"),
            ("segment.Level", "8MiB"),
            ("segment.Level.on_full", "grow"),
            ("fit", "tlsf"),
            ("coalesce", "deferred:64"),
            ("tlsf.header", "8"),
        ] {
            parameters.set(name, value).unwrap();
        }
        assert_eq!(parameters.segments.len(), 3);
        assert_eq!(parameters.segments[1].capacity, 32 * MIB);
        assert_eq!(
            parameters.segments[1].on_full,
            OnFull::Overflow("Default".into())
        );
        assert_eq!(parameters.segments[2].on_full, OnFull::Grow);
        assert_eq!(parameters.coalesce, Coalesce::Deferred(64));
        assert_eq!((parameters.fit, parameters.header), (Policy::Tlsf, 8));
        parameters.check().unwrap();
    }

    #[test]
    fn every_listed_preset_and_name_is_known() {
        for preset in Parameters::PRESETS {
            Parameters::preset(preset).unwrap().check().unwrap();
        }
        for name in Parameters::NAMES {
            let name = name.replace("NAME", "Default");
            let error = Parameters::default().set(&name, "?").unwrap_err();
            assert!(matches!(error, BadParameter::Value { .. }), "{error}");
        }
        let error = Parameters::default()
            .set("headr", "8")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(r#"no parameter "headr"; there are segments, "#),
            "{error}"
        );
        let mut parameters = Parameters::default();
        parameters
            .set("segment.Temp.on_full", "overflow:Nowhere")
            .unwrap();
        assert!(parameters.check().is_err());
    }
}
