//! The line at the bottom: what is in view, and how to move.

use crate::state::State;
use crate::theme::Palette;
use crate::units;
use eframe::egui::{Align, Frame, Layout, Margin, Panel, RichText, Ui};

pub(super) fn show(ui: &mut Ui, state: &State) {
    let palette = Palette::current(ui.ctx());
    let frame = Frame::new()
        .fill(palette.panel)
        .inner_margin(Margin::symmetric(14, 4));
    Panel::bottom("status bar").frame(frame).show(ui, |ui| {
        ui.horizontal(|ui| {
            let small = |text: String| RichText::new(text).small().color(palette.muted);
            match &state.remark {
                Some(remark) => ui.label(RichText::new(remark).small().color(palette.warning)),
                None => ui.label(small(in_view(state))),
            };
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let hints = match state.model() {
                    Some(_) => "wheel zooms, drag moves, Home shows all, N next spike, F1 help",
                    None => "F1 help",
                };
                ui.label(small(hints.to_owned()));
            });
        });
    });
}

/// The stretch of time in view and its frames.
fn in_view(state: &State) -> String {
    let Some(model) = state.model() else {
        return String::new();
    };
    let from = state.view.from.max(0.0);
    let to = state.view.to.min(model.duration).max(from);
    let stretch = format!(
        "{} to {} ({})",
        units::seconds(from),
        units::seconds(to),
        units::seconds(to - from)
    );
    let Some(game) = state.current_loop() else {
        return stretch;
    };
    let visible = game.overlapping(state.view.from, state.view.to);
    let spikes = game.spikes(visible.clone());
    match game.frames().get(visible.clone()) {
        Some([first, .., last]) => format!(
            "{stretch}, frames {} to {}, {}",
            first.number,
            last.number,
            units::counted(spikes as u64, "spike")
        ),
        Some([only]) => format!("{stretch}, frame {}", only.number),
        _ => format!("{stretch}, no frames"),
    }
}
