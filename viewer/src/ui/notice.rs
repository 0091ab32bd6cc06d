//! What stands in the middle while there is nothing to draw: why, and what to do.

use super::prose::{coloured, prose};
use crate::load::Control;
use crate::state::Command;
use crate::theme::Palette;
use eframe::egui::{Align, Layout, ProgressBar, RichText, Ui, vec2};
use std::path::Path;

/// Width of the text in points.
const WIDTH: f32 = 460.0;

pub(super) fn empty(ui: &mut Ui) {
    notice(ui, "No trace is open", |ui| {
        prose(
            ui,
            "Drop a .hreel file on this window, or start the viewer with one: `heapreel view demo.hreel`",
        );
        prose(
            ui,
            "To record a program: `heapreel record -o demo.hreel -- ./game`",
        );
    });
}

pub(super) fn loading(
    ui: &mut Ui,
    path: &Path,
    progress: Option<&Control>,
    commands: &mut Vec<Command>,
) {
    notice(ui, "Reading the trace", |ui| {
        ui.label(path.display().to_string());
        let share = progress.and_then(Control::share);
        let stage = progress.map_or("", Control::stage);
        let bar = match share {
            Some(share) => ProgressBar::new(share).show_percentage(),
            None => ProgressBar::new(0.0).animate(true),
        };
        ui.add(bar.desired_width(WIDTH));
        ui.label(stage);
        if ui.button("Cancel").clicked() {
            commands.push(Command::Escape);
        }
    });
}

/// The message names the file.
pub(super) fn failed(ui: &mut Ui, message: &str) {
    let error = Palette::current(ui.ctx()).error;
    notice(ui, "The trace could not be opened", |ui| {
        coloured(ui, message, error);
        ui.label("Drop another .hreel file on this window to open it.");
    });
}

/// For a part of the timeline that has nothing to draw.
pub(super) fn nothing_to_draw(ui: &mut Ui, title: &str, what_to_do: &str) {
    notice(ui, title, |ui| {
        prose(ui, what_to_do);
    });
}

fn notice(ui: &mut Ui, title: &str, add: impl FnOnce(&mut Ui)) {
    let size = ui.available_size();
    ui.allocate_ui_with_layout(size, Layout::top_down(Align::Center), |ui| {
        ui.add_space((size.y * 0.3).max(8.0));
        ui.allocate_ui_with_layout(
            vec2(WIDTH.min(size.x), 0.0),
            Layout::top_down(Align::Min),
            |ui| {
                ui.label(RichText::new(title).heading());
                add(ui);
            },
        );
    });
}
