//! The timeline: a bar per frame above, live bytes below, on one time axis.

use super::legend::{self, Swatch};
use super::{frame_plot, live_plot, notice};
use crate::metric::Metric;
use crate::state::{Command, State};
use crate::theme::Palette;
use crate::units;
use crate::view_model::{FrameLoop, ViewModel};
use eframe::egui::{Align, ComboBox, Layout, RichText, Ui, vec2};

/// Share of the height that the frames get.
const FRAMES_SHARE: f32 = 0.56;
/// Width that the legend of the frames takes in points; it is left out where there is less.
const LEGEND: f32 = 310.0;
/// Height of the line above a picture.
const HEADER: f32 = 30.0;

pub(super) fn show(ui: &mut Ui, state: &State, model: &ViewModel, commands: &mut Vec<Command>) {
    match state.current_loop() {
        Some(game) if !game.frames().is_empty() => {
            frames_header(ui, state, model, game, commands);
            let height = (ui.available_height() - HEADER) * FRAMES_SHARE;
            frame_plot::show(ui, state, model, game, height, commands);
        }
        _ => no_frames(ui, ui.available_height() * FRAMES_SHARE * 0.6),
    }
    live_header(ui, model);
    if model.live.points().is_empty() {
        notice::nothing_to_draw(
            ui,
            "No allocations",
            "The trace holds no event that obtained memory, so there is no curve to draw.",
        );
    } else {
        live_plot::show(ui, state, model, ui.available_height(), commands);
    }
}

fn no_frames(ui: &mut Ui, height: f32) {
    let size = vec2(ui.available_width(), height);
    ui.allocate_ui(size, |ui| {
        ui.set_min_size(size);
        notice::nothing_to_draw(
            ui,
            "No frame marks",
            "The program marked no frames. Call `heapreel::frame_mark` once a frame (in C `heapreel_frame`), \
             or record again with `--frame-symbol NAME`: the exported function that ends a frame.",
        );
    });
}

/// Which figure, which loop, spikes, legend.
fn frames_header(
    ui: &mut Ui,
    state: &State,
    model: &ViewModel,
    game: &FrameLoop,
    commands: &mut Vec<Command>,
) {
    let size = vec2(ui.available_width(), HEADER);
    let layout = Layout::left_to_right(Align::Center).with_main_wrap(true);
    ui.allocate_ui_with_layout(size, layout, |ui| {
        metrics(ui, state, commands);
        if model.loops.len() > 1 {
            loops(ui, state, model, commands);
        }
        spikes(ui, game, commands);
        if ui.available_size_before_wrap().x > LEGEND {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                frames_legend(ui, state, game);
            });
        }
    });
}

fn metrics(ui: &mut Ui, state: &State, commands: &mut Vec<Command>) {
    ui.spacing_mut().item_spacing.x = 3.0;
    for metric in Metric::ALL {
        let button = ui.selectable_label(state.metric == metric, metric.label());
        if button.on_hover_text(metric.definition()).clicked() {
            commands.push(Command::SetMetric(metric));
        }
    }
    ui.add_space(10.0);
}

fn loops(ui: &mut Ui, state: &State, model: &ViewModel, commands: &mut Vec<Command>) {
    let current = model.loops.get(state.loop_index);
    ComboBox::from_label("loop")
        .selected_text(current.map_or("", |game| &game.name))
        .show_ui(ui, |ui| {
            for (index, game) in model.loops.iter().enumerate() {
                let chosen = index == state.loop_index;
                if ui.selectable_label(chosen, &game.name).clicked() {
                    commands.push(Command::SetLoop(index));
                }
            }
        });
    ui.add_space(10.0);
}

fn spikes(ui: &mut Ui, game: &FrameLoop, commands: &mut Vec<Command>) {
    let palette = Palette::current(ui.ctx());
    let spikes = game.spikes(0..game.frames().len());
    if spikes == 0 {
        ui.label(RichText::new("no spikes").color(palette.muted));
        return;
    }
    if ui.button("Previous spike").on_hover_text("P").clicked() {
        commands.push(Command::PreviousSpike);
    }
    if ui.button("Next spike").on_hover_text("N").clicked() {
        commands.push(Command::NextSpike);
    }
    ui.add_space(4.0);
    let text = units::counted(spikes as u64, "spike");
    ui.label(RichText::new(text).color(palette.muted))
        .on_hover_text("Frames over the budget, phases such as loading left out.");
}

/// Drawn from right to left.
fn frames_legend(ui: &mut Ui, state: &State, game: &FrameLoop) {
    let palette = Palette::current(ui.ctx());
    if state.metric == Metric::FrameTime {
        let text = format!("budget {}", units::budget(game.budget));
        legend::entry(
            ui,
            Swatch::Dashes(palette.budget),
            &text,
            &format!("Time that a frame may take: {}.", game.budget_source),
        );
    }
    legend::entry(
        ui,
        Swatch::Spike(palette.spike),
        "spike",
        "A frame over the budget that lies in no phase.",
    );
    legend::entry(
        ui,
        Swatch::Bar(palette.phase_bar),
        "phase",
        "Frames in a phase that the game named, such as loading: never a spike.",
    );
    legend::entry(
        ui,
        Swatch::Bar(palette.bar),
        "frame",
        "A bar is a frame. Where frames crowd, a bar shows the lowest of its frames in full colour \
         and the way up to the highest one in a weaker one.",
    );
}

fn live_header(ui: &mut Ui, model: &ViewModel) {
    let palette = Palette::current(ui.ctx());
    ui.allocate_ui_with_layout(
        vec2(ui.available_width(), HEADER),
        Layout::left_to_right(Align::Center),
        |ui| {
            ui.label(RichText::new("Live bytes").strong())
                .on_hover_text("Bytes asked for and not yet given back.");
            if let Some(peak) = model.live.high_water {
                let text = format!("high water {}", units::bytes(peak.bytes));
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    legend::entry(
                        ui,
                        Swatch::Diamond(palette.high_water),
                        &text,
                        "The most bytes in use at once.",
                    );
                });
            }
        },
    );
}
