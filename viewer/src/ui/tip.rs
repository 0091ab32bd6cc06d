//! The figures of one frame, for the side panel and under the pointer.

use crate::lod::Column;
use crate::metric::Metric;
use crate::theme::Palette;
use crate::units;
use crate::view_model::{Fact, FrameLoop, FrameRow};
use eframe::egui::{Align, Grid, Layout, RichText, Ui};

/// All figures of a frame.
pub(super) fn facts(frame: &FrameRow) -> Vec<Fact> {
    let figure = |metric: Metric| {
        let value = metric.format(metric.of(frame));
        Fact::new(metric.label(), value, metric.definition())
    };
    let mut facts = vec![
        Fact::new(
            "Starts at",
            units::seconds(frame.start),
            "Time since the recording began.",
        ),
        figure(Metric::FrameTime),
        Fact::new(
            "Recorder's share",
            units::seconds(frame.recorder_time),
            "Estimated time that recording itself cost in this frame; \
             it is not part of the frame time above.",
        ),
        figure(Metric::AllocatorTime),
        Fact::new(
            "On all threads",
            units::seconds(frame.all_allocator_time),
            "Time that all threads together spent inside the allocator; \
             it can exceed the frame's own time.",
        ),
        Fact::new(
            "Slowest call",
            units::seconds(frame.slowest_call),
            "The longest single call into the allocator, on any thread.",
        ),
        figure(Metric::Allocations),
        Fact::new(
            "Deallocations",
            units::count(frame.deallocations),
            "Calls in this frame that gave memory back, on all threads.",
        ),
        figure(Metric::Bytes),
        Fact::new(
            "Live at its end",
            units::bytes(frame.live_bytes as f64),
            "Bytes asked for and not yet given back when the frame ended.",
        ),
    ];
    if frame.failed > 0 {
        let meaning = "Requests that the allocator refused, on all threads.";
        facts.push(Fact::new(
            "Failed requests",
            units::count(frame.failed),
            meaning,
        ));
    }
    facts
}

/// What stands under the pointer on a bar.
pub(super) fn column(ui: &mut Ui, game: &FrameLoop, column: &Column, metric: Metric) {
    let palette = Palette::current(ui.ctx());
    let Some(frame) = game.frames().get(column.top) else {
        return;
    };
    let muted = |text: String| RichText::new(text).color(palette.muted);
    ui.label(RichText::new(format!("Frame {}", frame.number)).strong());
    if column.frames > 1 {
        ui.label(muted(format!(
            "the highest of {} frames here, {} to {}",
            units::count(column.frames as u64),
            metric.format(column.min),
            metric.format(column.max)
        )));
    }
    if frame.spike {
        let over = format!("spike: over the budget of {}", units::budget(game.budget));
        ui.label(RichText::new(over).color(palette.spike));
    }
    if frame.in_phase {
        ui.label(muted("in a phase, so no spike".to_owned()));
    }
    Grid::new("frame").spacing([18.0, 3.0]).show(ui, |ui| {
        for fact in facts(frame) {
            ui.label(muted(fact.name));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.label(fact.value);
            });
            ui.end_row();
        }
    });
    ui.label(muted(metric.definition().to_owned()).small());
}
