//! The help sheet.

use crate::keys::{MOUSE, SHORTCUTS};
use crate::state::Command;
use crate::theme::Palette;
use eframe::egui::{Frame, Grid, Id, Modal, RichText, Ui};

pub(super) fn show(ui: &mut Ui, commands: &mut Vec<Command>) {
    let palette = Palette::current(ui.ctx());
    let frame = Frame::popup(ui.style()).inner_margin(20);
    let modal = Modal::new(Id::unique("help")).frame(frame);
    let response = modal.show(ui.ctx(), |ui| {
        ui.label(RichText::new("Keys and mouse").heading());
        ui.add_space(6.0);
        ui.horizontal_top(|ui| {
            let keys = SHORTCUTS.iter().map(|key| (key.name, key.does));
            table(
                ui,
                "keys",
                palette,
                keys.filter(|(_, does)| !does.is_empty()),
            );
            ui.add_space(24.0);
            table(ui, "mouse", palette, MOUSE.iter().copied());
        });
        ui.add_space(10.0);
        if ui.button("Close").clicked() {
            commands.push(Command::ToggleHelp);
        }
    });
    if response.backdrop_response.clicked() {
        commands.push(Command::ToggleHelp);
    }
}

fn table(
    ui: &mut Ui,
    name: &str,
    palette: &Palette,
    rows: impl Iterator<Item = (&'static str, &'static str)>,
) {
    Grid::new(name).spacing([18.0, 6.0]).show(ui, |ui| {
        for (key, does) in rows {
            ui.label(RichText::new(key).monospace().color(palette.accent));
            ui.label(does);
            ui.end_row();
        }
    });
}
