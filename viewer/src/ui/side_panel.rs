//! The panel at the side: the chosen frame, findings, totals, the program.

use super::prose::prose;
use super::tip;
use crate::state::{Command, State};
use crate::theme::Palette;
use crate::view_model::{Fact, Finding, Severity, SpikeCause, ViewModel};
use eframe::egui::{
    Align, Frame, Label, Layout, Margin, Panel, RichText, ScrollArea, Stroke, Ui, vec2,
};

/// Width in points.
const WIDTH: f32 = 308.0;
/// Room at the right for the scroll bar.
const SCROLL_BAR: f32 = 14.0;

pub(super) fn show(ui: &mut Ui, state: &State, model: &ViewModel, commands: &mut Vec<Command>) {
    let palette = Palette::current(ui.ctx());
    let margin = Margin {
        right: 0,
        ..Margin::symmetric(14, 10)
    };
    let frame = Frame::new().fill(palette.panel).inner_margin(margin);
    Panel::right("side panel")
        .default_size(WIDTH)
        .size_range(220.0..=520.0)
        .frame(frame)
        .show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                // The scroll bar gets a place of its own beside the figures.
                ui.set_max_width(ui.available_width() - SCROLL_BAR);
                chosen_frame(ui, state, model, palette);
                findings(ui, model, palette, commands);
                spread(ui, state, palette, commands);
                facts(ui, "Totals", &model.totals, palette);
                facts(ui, "Program", &model.process, palette);
            });
        });
}

fn chosen_frame(ui: &mut Ui, state: &State, model: &ViewModel, palette: &Palette) {
    let (Some(game), Some(frame)) = (state.current_loop(), state.selected_frame()) else {
        return;
    };
    heading(ui, &format!("Frame {}", frame.number), palette);
    match game.causes.get(&frame.number) {
        Some(cause) => spike_cause(ui, cause, palette),
        None if frame.spike => {
            prose(
                ui,
                &format!(
                    "A spike that is not among the worst, whose causes are listed: \
                     `heapreel spikes {} --frames {}` tells this one's.",
                    model.title, frame.number
                ),
            );
            ui.separator();
        }
        None => {}
    }
    for fact in &tip::facts(frame) {
        row(ui, fact, palette);
    }
    ui.add_space(10.0);
}

/// How the figure that bars show spreads over the loop's frames.
fn spread(ui: &mut Ui, state: &State, palette: &Palette, commands: &mut Vec<Command>) {
    let Some(game) = state.current_loop() else {
        return;
    };
    let Some(spread) = game.spreads.get(state.metric as usize) else {
        return;
    };
    let metric = state.metric;
    heading(ui, &format!("{}, phases left out", metric.label()), palette);
    let of_100 = |n: u32| format!("{n} of 100 frames are not above this.");
    let figure = |value| metric.format(value);
    let facts = [
        Fact::new(
            "Mean",
            metric.format_mean(spread.mean),
            "Sum over all frames, divided by their number.",
        ),
        Fact::new(
            "Median",
            figure(spread.p50),
            "Half of the frames are not above this.",
        ),
        Fact::new("95 %", figure(spread.p95), of_100(95)),
        Fact::new("99 %", figure(spread.p99), of_100(99)),
        Fact::new(
            "Greatest",
            figure(spread.max),
            format!("Frame {} has it.", spread.max_frame),
        ),
    ];
    for fact in &facts {
        row(ui, fact, palette);
    }
    if spread.max > 0.0 {
        go_to(ui, &game.name, spread.max_frame, commands);
    }
    ui.add_space(10.0);
}

fn findings(ui: &mut Ui, model: &ViewModel, palette: &Palette, commands: &mut Vec<Command>) {
    heading(ui, "Findings", palette);
    if model.findings.is_empty() {
        let text = "Nothing stands out: no spikes, leaks or growth beyond the report's thresholds.";
        ui.label(RichText::new(text).color(palette.muted));
    }
    for finding in &model.findings {
        card(ui, finding, palette, commands);
    }
    ui.add_space(10.0);
}

/// A finding; where it speaks of a frame, a button leads there.
fn card(ui: &mut Ui, finding: &Finding, palette: &Palette, commands: &mut Vec<Command>) {
    let (word, colour) = match finding.severity {
        Severity::Error => ("Error", palette.error),
        Severity::Warning => ("Warning", palette.warning),
        Severity::Note => ("Note", palette.accent),
    };
    let frame = Frame::new()
        .fill(palette.raised)
        .corner_radius(6)
        .stroke(Stroke::new(1.0, palette.line))
        .inner_margin(Margin::symmetric(10, 8));
    frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal(|ui| {
            ui.label(RichText::new(word).small().strong().color(colour));
            if let Some((in_loop, number)) = &finding.frame {
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    go_to(ui, in_loop, *number, commands);
                });
            }
        });
        prose(ui, &finding.text);
        if !finding.command.is_empty() {
            let command = RichText::new(&finding.command).monospace().size(11.0);
            ui.add(Label::new(command.color(palette.muted)).wrap())
                .on_hover_text("The command that tells more.");
        }
    });
}

fn go_to(ui: &mut Ui, in_loop: &str, number: u64, commands: &mut Vec<Command>) {
    let button = ui.small_button(format!("Show frame {number}"));
    if button.clicked() {
        commands.push(Command::GoTo {
            in_loop: Some(in_loop.to_owned()),
            number,
        });
    }
}

fn facts(ui: &mut Ui, title: &str, facts: &[Fact], palette: &Palette) {
    if facts.is_empty() {
        return;
    }
    heading(ui, title, palette);
    for fact in facts {
        row(ui, fact, palette);
    }
    ui.add_space(10.0);
}

fn heading(ui: &mut Ui, text: &str, palette: &Palette) {
    ui.label(RichText::new(text).strong().color(palette.text));
    ui.add_space(1.0);
}

/// Whether allocation explains a spike, and the call sites to blame.
fn spike_cause(ui: &mut Ui, cause: &SpikeCause, palette: &Palette) {
    prose(ui, &cause.verdict);
    for site in &cause.sites {
        let inner = ui.horizontal(|ui| {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.label(&site.time);
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    let name = RichText::new(&site.name).monospace().color(palette.accent);
                    ui.add(Label::new(name).truncate());
                });
            });
        });
        inner.response.on_hover_text(&site.whole);
        ui.label(RichText::new(&site.detail).small().color(palette.muted));
    }
    ui.separator();
}

/// Name at the left, value at the right, its meaning under the pointer.
fn row(ui: &mut Ui, fact: &Fact, palette: &Palette) {
    ui.spacing_mut().item_spacing = vec2(8.0, 4.0);
    let inner = ui.horizontal(|ui| {
        ui.label(RichText::new(&fact.name).color(palette.muted));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add(Label::new(&fact.value).truncate());
        });
    });
    if !fact.meaning.is_empty() {
        inner.response.on_hover_text(&fact.meaning);
    }
}
