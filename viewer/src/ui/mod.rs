//! Drawing: takes the state, gives back commands, keeps nothing.

mod axes;
mod banner;
mod bars;
mod frame_plot;
mod help;
mod legend;
mod live_plot;
mod notice;
mod pointer;
mod prose;
mod side_panel;
mod status_bar;
mod tag;
mod timeline;
mod tip;
mod top_bar;

use crate::load::Control;
use crate::state::{Command, Document, State};
use crate::theme::Palette;
use eframe::egui::{CentralPanel, Frame, Margin, Ui};

/// Draws the whole window.
pub fn show(ui: &mut Ui, state: &State, progress: Option<&Control>, commands: &mut Vec<Command>) {
    top_bar::show(ui, state, commands);
    status_bar::show(ui, state);
    if let Document::Open(model) = &state.document {
        banner::show(ui, state, model, commands);
        side_panel::show(ui, state, model, commands);
    }
    let palette = Palette::current(ui.ctx());
    let frame = Frame::new()
        .fill(palette.background)
        .inner_margin(Margin::symmetric(14, 10));
    CentralPanel::default()
        .frame(frame)
        .show(ui, |ui| match &state.document {
            Document::Empty => notice::empty(ui),
            Document::Loading(path) => notice::loading(ui, path, progress, commands),
            Document::Failed { message, .. } => notice::failed(ui, message),
            Document::Open(model) => timeline::show(ui, state, model, commands),
        });
    if state.help {
        help::show(ui, commands);
    }
}
