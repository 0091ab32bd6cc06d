//! The bar at the top: what is open, and the switches of the whole window.

use crate::state::{Command, Document, State};
use crate::theme::Palette;
use crate::units;
use crate::view_model::ViewModel;
use eframe::egui::{Align, Frame, Layout, Margin, Panel, RichText, Theme, Ui};

pub(super) fn show(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    let palette = Palette::current(ui.ctx());
    let frame = Frame::new()
        .fill(palette.panel)
        .inner_margin(Margin::symmetric(14, 8));
    Panel::top("top bar").frame(frame).show(ui, |ui| {
        ui.horizontal(|ui| {
            what_is_open(ui, state, palette);
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                switches(ui, state, commands);
            });
        });
    });
}

fn what_is_open(ui: &mut Ui, state: &State, palette: &Palette) {
    match &state.document {
        Document::Open(model) => {
            ui.label(RichText::new(&model.title).heading().strong());
            ui.label(RichText::new(summary(model)).color(palette.muted));
        }
        Document::Loading(path) | Document::Failed { path, .. } => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            ui.label(RichText::new(name.to_string_lossy()).heading());
        }
        Document::Empty => {
            ui.label(RichText::new("heapreel").heading());
        }
    }
}

/// Length and frames, in a few words.
fn summary(model: &ViewModel) -> String {
    let length = units::seconds(model.duration);
    let frames = |game: &crate::view_model::FrameLoop| game.frames().len() as u64;
    match &model.loops[..] {
        [] => format!("{length}, no frame marks"),
        [one] => format!("{length}, {} frames", units::count(frames(one))),
        many => format!(
            "{length}, {} frames in {} loops",
            units::count(many.iter().map(frames).sum()),
            many.len()
        ),
    }
}

fn switches(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    if ui
        .button("Help")
        .on_hover_text("Keys and mouse (F1)")
        .clicked()
    {
        commands.push(Command::ToggleHelp);
    }
    let other = match state.theme {
        Theme::Dark => "Light",
        Theme::Light => "Dark",
    };
    if ui
        .button(other)
        .on_hover_text("Switch colours (T)")
        .clicked()
    {
        commands.push(Command::ToggleTheme);
    }
}
