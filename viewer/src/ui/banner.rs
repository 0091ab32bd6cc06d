//! The banner over a trace that is not whole.

use crate::state::{Command, State};
use crate::theme::Palette;
use crate::view_model::ViewModel;
use eframe::egui::{Align, Frame, Layout, Margin, Panel, RichText, Ui};

pub(super) fn show(ui: &mut Ui, state: &State, model: &ViewModel, commands: &mut Vec<Command>) {
    if model.missing.is_empty() || state.banner_dismissed {
        return;
    }
    let palette = Palette::current(ui.ctx());
    let frame = Frame::new()
        .fill(palette.banner)
        .inner_margin(Margin::symmetric(14, 7));
    Panel::top("banner").frame(frame).show(ui, |ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.button("Dismiss").clicked() {
                commands.push(Command::DismissBanner);
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.label(
                    RichText::new("This trace is not whole")
                        .strong()
                        .color(palette.warning),
                );
                ui.add(
                    eframe::egui::Label::new(
                        RichText::new(model.missing.join("; ")).color(palette.text),
                    )
                    .truncate(),
                );
            });
        });
    });
}
