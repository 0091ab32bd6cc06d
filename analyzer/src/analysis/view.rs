//! Puts names and units to what a replay found.

use super::blame::Stretch;
use super::clock::Times;
use super::contexts::Contexts;
use super::health::{self, ReplayFaults};
use super::heaps::heaps;
use super::leaks::{LeakWord, leaks};
use super::loops::{LoopMaker, frame_at};
use super::recording::CostModel;
use super::second_look::SecondLook;
use super::sites::Sites;
use super::spikes::{Basis, spikes};
use super::threads::{thread_name, threads};
use super::values::*;
use super::{Options, Replayed, WORST_SPIKES, findings, growing};
use crate::facts::{CLASSES, Facts, Histogram, Operation};
use crate::replay::{Dense, StepKind};
use heapreel_format::{
    ClipCause, DecodedChunk, Entry, EventKind, LoopId, ReadError, SegmentId, Trace,
};
use std::collections::{BTreeMap, HashMap};

/// Everything that the parts of an analysis are made from.
struct Source<'a> {
    trace: &'a Trace,
    dense: &'a Dense,
    replayed: &'a Replayed,
    facts: &'a Facts,
    times: Times,
    cost: CostModel,
    sites: Sites,
    contexts: Contexts<'a>,
}

/// The analysis of a replay.
pub(crate) fn analysis(
    trace: &Trace,
    dense: &Dense,
    replayed: &Replayed,
    options: &Options,
) -> Result<Analysis, ReadError> {
    let facts = &replayed.facts;
    let times = Times::of(&trace.header().clock);
    let cost = CostModel::of(trace, facts);
    let sites = Sites::new(trace, dense, facts, &times, &cost);
    let source = Source {
        trace,
        dense,
        replayed,
        facts,
        times,
        cost,
        sites,
        contexts: Contexts::of(&facts.contexts),
    };
    let mut analysis = source.analysis(options)?;
    analysis.findings = findings::findings(&analysis);
    Ok(analysis)
}

impl Source<'_> {
    fn analysis(self, options: &Options) -> Result<Analysis, ReadError> {
        let totals = self.totals();
        let trace = self.trace_facts();
        let recording = self.cost.value(
            &self.times,
            &self.facts.frames.all.counts(),
            trace.duration_nanos,
        );
        let loops = self.loops(options)?;
        let drift = self.drift(&loops)?;
        Ok(Analysis {
            findings: Vec::new(),
            health: health::health(self.trace, &self.facts.calls, self.faults()?),
            totals,
            loops,
            drift,
            live_curve: self.live_curve(),
            peak: self.peak(),
            latency: self.latency(),
            slow_calls: self.slow_calls(),
            segments: self.segments(),
            contexts: self.contexts.values(),
            heaps: heaps(self.trace, &self.facts.heaps, |key| {
                (self.times.since_start(key), self.frame(key))
            }),
            threads: threads(self.trace, self.dense, self.facts, &self.times, &self.cost),
            temporary: self.temporary(),
            foreign_frees: self.foreign_frees(),
            leaks: leaks(
                &self.replayed.live,
                self.facts,
                &self.sites,
                &self.contexts,
                &self.times,
                self.leak_word(options),
            ),
            growth: growing::growing(self.facts, &self.sites, &self.times),
            recording,
            marks: self.marks(),
            phases: self.phases(),
            sites: self.sites.rows,
            trace,
        })
    }

    fn trace_facts(&self) -> TraceFacts {
        let header = self.trace.header();
        let (process, settings) = (&header.process, &header.settings);
        TraceFacts {
            clip: self.clip(),
            file: String::new(),
            bytes: self.trace.bytes(),
            executable: process.executable.clone(),
            arguments: process.arguments.clone(),
            folder: process.folder.clone(),
            pid: process.pid,
            parent_pid: process.parent_pid,
            allocator: process.allocator.clone(),
            machine: process.machine.clone(),
            page_size: process.page_size,
            recorder: settings.recorder.clone(),
            preload: settings.preload,
            backtraces: settings.backtraces,
            latency: settings.latency,
            slow_call_nanos: settings.slow_call_nanos,
            start_unix_nanos: header.clock.start_unix_nanos,
            duration_nanos: self
                .times
                .nanos(self.facts.to.saturating_sub(self.facts.from)),
            stacks: self.trace.definitions().stacks.len() as u64,
            has_symbols: !self.trace.symbols().addresses.is_empty(),
        }
    }

    /// Why a clip was made and of which frame.
    fn clip(&self) -> Option<String> {
        let clip = self.trace.definitions().clip.as_ref()?;
        let time = |ticks| crate::units::nanos(self.times.nanos(ticks));
        let frame = clip.frame;
        Some(match clip.cause {
            ClipCause::Budget => format!(
                "frame {frame} took {}, over its budget of {}",
                time(clip.took),
                time(clip.budget)
            ),
            ClipCause::Signal => format!("asked for by a signal after frame {frame}"),
            ClipCause::Call => format!("asked for by the game after frame {frame}: {}", clip.name),
            ClipCause::Crash => format!("the program ended after frame {frame}: {}", clip.name),
        })
    }

    fn totals(&self) -> Totals {
        let all = self.facts.frames.all.counts();
        Totals {
            events: all.events(),
            allocations: all.allocations,
            zeroed_allocations: self.facts.frames.all.of(StepKind::AllocZeroed),
            reallocations: all.reallocations,
            deallocations: all.deallocations,
            failed_allocations: all.failed,
            failed_reallocations: self.facts.frames.all.of(StepKind::FailedRealloc),
            requested_bytes: all.requested_bytes,
            freed_bytes: all.freed_bytes,
            live_blocks: self.facts.ledger.live_blocks,
            live_bytes: self.facts.ledger.live_bytes,
            allocator_nanos: self
                .cost
                .allocator_nanos(&self.times, all.ticks, all.events()),
            frames: self
                .facts
                .frames
                .loops
                .values()
                .map(|facts| facts.frames.len() as u64)
                .sum(),
            calls_by_entry: self.calls_by_entry(),
        }
    }

    /// Acquisitions are counted by backtrace, which knows its entry point.
    fn calls_by_entry(&self) -> BTreeMap<String, u64> {
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        for (position, facts) in self.facts.ledger.stacks.iter().enumerate() {
            let id = self.dense.stacks.get(position).copied().unwrap_or_default();
            let entry = self
                .trace
                .definitions()
                .stacks
                .get(&id)
                .map_or(Entry::Unknown, |stack| stack.entry);
            let count = facts.allocations + facts.reallocations + facts.failed;
            if count > 0 {
                *calls.entry(entry.name().to_owned()).or_default() += count;
            }
        }
        for (entry, count) in self.facts.calls.releases() {
            *calls.entry(entry.name().to_owned()).or_default() += count;
        }
        calls
    }

    fn loops(&self, options: &Options) -> Result<Vec<LoopAnalysis>, ReadError> {
        let maker = LoopMaker {
            trace: self.trace,
            dense: self.dense,
            facts: self.facts,
            sites: &self.sites,
            times: self.times,
            cost: self.cost,
            budget_nanos: options.budget_nanos,
            count_budget: options.count_budget,
        };
        let basis = Basis {
            latency: self.trace.header().settings.latency,
            cost_known: self.cost.is_known(),
            slow_call_nanos: self.trace.header().settings.slow_call_nanos,
        };
        let limit = if options.spikes == 0 {
            WORST_SPIKES
        } else {
            options.spikes
        };
        let mut loops = Vec::new();
        for (id, mut game_loop) in maker.loops() {
            game_loop.spikes = spikes(&game_loop, basis, limit, options.spike_frames.as_ref());
            self.blame(id, &mut game_loop.spikes.worst)?;
            loops.push(game_loop);
        }
        Ok(loops)
    }

    /// Adds the call sites to blame.
    fn blame(&self, id: LoopId, spikes: &mut [Spike]) -> Result<(), ReadError> {
        let Some(facts) = self.facts.frames.loops.get(&id) else {
            return Ok(());
        };
        let first = self.facts.first_frame(id);
        let stretches = spikes.iter().filter_map(|spike| {
            let frame = facts
                .frames
                .get(usize::try_from(spike.frame.checked_sub(first)?).ok()?)?;
            let thread = self.dense.threads.get(frame.thread as usize)?;
            Some(Stretch {
                thread: *thread,
                start: frame.start,
                end: frame.end,
            })
        });
        let stretches: Vec<_> = stretches.collect();
        let shares = self.second_look().shares(&stretches)?;
        for (spike, sites) in spikes.iter_mut().zip(shares) {
            spike.sites = sites;
            spike.sites.truncate(findings::SITES_OF_A_SPIKE);
        }
        Ok(())
    }

    /// Of the main loop.
    fn drift(&self, loops: &[LoopAnalysis]) -> Result<Drift, ReadError> {
        let facts = self.facts.frames.loops.get(&self.facts.frames.primary);
        let (Some(main), Some(facts)) = (loops.first(), facts) else {
            return Ok(Drift::default());
        };
        self.second_look().drift(facts, &main.frames)
    }

    fn second_look(&self) -> SecondLook<'_> {
        SecondLook {
            trace: self.trace,
            dense: self.dense,
            sites: &self.sites,
            times: self.times,
            cost: self.cost,
            contexts: &self.contexts,
        }
    }

    fn live_curve(&self) -> Vec<CurvePoint> {
        let points = self.facts.ledger.curve.points();
        points
            .into_iter()
            .map(|(key, bytes)| CurvePoint {
                nanos: self.times.since_start(key),
                bytes,
            })
            .collect()
    }

    fn peak(&self) -> Peak {
        let peak = self.facts.ledger.peak;
        Peak {
            bytes: peak.bytes,
            blocks: peak.blocks,
            nanos: self.times.since_start(peak.key),
            frame: self.frame(peak.key),
        }
    }

    /// The main loop's frame at a key.
    fn frame(&self, key: u64) -> Option<u64> {
        let primary = self.facts.frames.primary;
        frame_at(
            self.facts.frames.loops.get(&primary)?,
            self.facts.first_frame(primary),
            key,
        )
    }

    fn latency(&self) -> Vec<LatencyTable> {
        let operations = [
            ("allocation", Operation::Allocation),
            ("reallocation", Operation::Reallocation),
            ("deallocation", Operation::Deallocation),
        ];
        let classes = ["to 4 KiB", "to 1 MiB", "above 1 MiB", "unknown size"];
        let cells = operations
            .iter()
            .flat_map(|of| (0..CLASSES).map(move |class| (of, class)));
        let tables = cells.filter_map(|((name, operation), class)| {
            let histogram = self.facts.latency.of(*operation, class);
            let shown = class < 3 || histogram.count() > 0;
            shown.then(|| LatencyTable {
                operation: (*name).to_owned(),
                size_class: classes[class].to_owned(),
                ..self.latency_table(histogram)
            })
        });
        tables.collect()
    }

    /// Values less what the clock alone shows.
    fn latency_table(&self, histogram: &Histogram) -> LatencyTable {
        let nanos = |ticks: f64| self.cost.latency_nanos(&self.times, ticks);
        let quantile = |q| nanos(histogram.quantile(q) as f64);
        let buckets = histogram
            .powers()
            .into_iter()
            .map(|(from, count)| LatencyBucket {
                from_nanos: self.times.nanos(from),
                to_nanos: self.times.nanos((from * 2).max(1)),
                count,
            });
        LatencyTable {
            operation: String::new(),
            size_class: String::new(),
            count: histogram.count(),
            mean_nanos: nanos(histogram.mean()),
            p50_nanos: if histogram.count() == 0 {
                0
            } else {
                quantile(0.5)
            },
            p99_nanos: if histogram.count() == 0 {
                0
            } else {
                quantile(0.99)
            },
            p999_nanos: if histogram.count() == 0 {
                0
            } else {
                quantile(0.999)
            },
            max_nanos: nanos(histogram.max as f64),
            histogram: buckets.collect(),
        }
    }

    fn slow_calls(&self) -> Vec<SlowCall> {
        let calls = self
            .facts
            .slow
            .slowest()
            .into_iter()
            .map(|(call, cause)| SlowCall {
                nanos: self.times.since_start(call.key),
                duration_nanos: self.cost.latency_nanos(&self.times, call.ticks as f64),
                operation: operation(call.kind).to_owned(),
                bytes: call.size,
                frame: self.frame(call.key),
                thread: self.thread(call.thread),
                site: self.sites.of(call.stack),
                context: self.contexts.index_of(call.context),
                cause: cause.map(|cause| CallCause {
                    minor_faults: cause.minor_faults,
                    major_faults: cause.major_faults,
                    voluntary_switches: cause.voluntary_switches,
                    involuntary_switches: cause.involuntary_switches,
                    interval_nanos: self.times.nanos(cause.interval_ticks),
                }),
            });
        calls.collect()
    }

    fn thread(&self, position: u32) -> String {
        let id = self
            .dense
            .threads
            .get(position as usize)
            .copied()
            .unwrap_or_default();
        thread_name(self.trace, id)
    }

    fn segments(&self) -> Vec<SegmentUse> {
        let defined = &self.trace.definitions().segments;
        let used = self.facts.ledger.segments.iter().enumerate();
        let rows = used.filter_map(|(number, facts)| {
            let known = defined.get(&SegmentId(number as u16));
            if known.is_none() && facts.allocations == 0 && facts.live_blocks == 0 {
                return None;
            }
            let (name, budget) = match known {
                Some((name, budget)) => (name.clone(), *budget),
                None if number == 0 => ("Default".to_owned(), 0),
                None => (format!("segment {number}"), 0),
            };
            Some(SegmentUse {
                name,
                budget_bytes: budget,
                peak_bytes: facts.peak_bytes,
                live_bytes: facts.live_bytes,
                live_blocks: facts.live_blocks,
                allocations: facts.allocations,
                requested_bytes: facts.requested_bytes,
            })
        });
        let mut rows: Vec<_> = rows.collect();
        let unused = defined
            .iter()
            .filter(|(id, _)| usize::from(id.0) >= self.facts.ledger.segments.len());
        rows.extend(unused.map(|(_, (name, budget))| SegmentUse {
            name: name.clone(),
            budget_bytes: *budget,
            ..SegmentUse::default()
        }));
        rows
    }

    fn temporary(&self) -> Temporary {
        let primary = self.facts.frames.loops.get(&self.facts.frames.primary);
        let Some(frames) = primary
            .map(|facts| &facts.frames)
            .filter(|frames| !frames.is_empty())
        else {
            return Temporary::default();
        };
        let all = || frames.iter().chain(primary.map(|facts| &facts.after));
        let blocks: u64 = all().map(|frame| frame.temporary).sum();
        let allocations: u64 = all().map(|frame| frame.all.allocations).sum();
        Temporary {
            blocks: Some(blocks),
            share: (allocations > 0).then(|| blocks as f64 / allocations as f64),
            bytes: self
                .facts
                .ledger
                .stacks
                .iter()
                .map(|stack| stack.temporary_bytes)
                .sum(),
        }
    }

    fn foreign_frees(&self) -> ForeignFrees {
        let all = self.facts.frames.all.counts();
        let unknown: u64 = self
            .facts
            .calls
            .unknown_releases()
            .map(|(_, count)| count)
            .sum();
        let known = all.deallocations - unknown.min(all.deallocations);
        let share = if known == 0 {
            0.0
        } else {
            all.foreign_frees as f64 / known as f64
        };
        ForeignFrees {
            count: all.foreign_frees,
            share,
        }
    }

    fn leak_word(&self, options: &Options) -> LeakWord {
        let ended = self.trace.health().ended;
        if options.from.is_some() || options.to.is_some() {
            LeakWord::Window
        } else if ended.is_some_and(|ended| ended.orderly()) {
            LeakWord::Leaked
        } else {
            LeakWord::Abrupt
        }
    }

    fn faults(&self) -> Result<ReplayFaults, ReadError> {
        let anomalies = &self.replayed.anomalies;
        Ok(ReplayFaults {
            decode: self.replayed.decode,
            acquired_while_live: anomalies.acquired_while_live,
            acquired_after_gap: anomalies.acquired_after_gap,
            released_twice: match anomalies.unknown.as_slice() {
                [] => 0,
                unknown => health::released_twice(unknown, |tell| acquisitions(self.trace, tell))?,
            },
        })
    }

    fn marks(&self) -> Vec<MarkAt> {
        let mut seen: HashMap<&str, u64> = HashMap::new();
        let names = &self.trace.definitions().names;
        let marks = self.facts.timeline.marks.iter().map(|(key, id)| {
            let name = names.get(id).map_or("?", String::as_str);
            let occurrence = seen.entry(name).or_default();
            *occurrence += 1;
            MarkAt {
                nanos: self.times.since_start(*key),
                name: name.to_owned(),
                occurrence: *occurrence,
                frame: self.frame(*key),
            }
        });
        marks.collect()
    }

    fn phases(&self) -> Vec<PhaseAt> {
        let names = &self.trace.definitions().names;
        let phases = self.facts.timeline.phases.iter().map(|phase| PhaseAt {
            name: names
                .get(&phase.name)
                .map_or("?", String::as_str)
                .to_owned(),
            start_nanos: self.times.since_start(phase.start),
            end_nanos: phase.end.map(|end| self.times.since_start(end)),
        });
        phases.collect()
    }
}

fn operation(kind: Option<StepKind>) -> &'static str {
    match kind {
        Some(StepKind::Alloc | StepKind::AllocZeroed) => "allocation",
        Some(StepKind::ReallocEnd) => "reallocation",
        Some(StepKind::FailedAlloc | StepKind::FailedRealloc) => "failed request",
        _ => "deallocation",
    }
}

/// Tells key and address of every acquisition, in no order.
fn acquisitions(trace: &Trace, tell: &mut dyn FnMut(u64, u64)) -> Result<(), ReadError> {
    let mut decoded = DecodedChunk::default();
    for chunk in trace.chunks() {
        match trace.decode_into(chunk, &mut decoded) {
            Ok(()) => {}
            Err(ReadError::ChunkDamaged { .. }) => continue,
            Err(error) => return Err(error),
        }
        for event in &decoded.events {
            if matches!(
                event.kind,
                EventKind::Alloc | EventKind::AllocZeroed | EventKind::Realloc
            ) {
                tell(event.key(), event.address);
            }
        }
    }
    Ok(())
}
