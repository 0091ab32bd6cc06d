//! The lower picture: bytes in use over time, with phases and marks.

use super::tag::Tag;
use super::{axes, frame_plot, pointer};
use crate::lod;
use crate::state::{Command, State};
use crate::theme::Palette;
use crate::ticks::Round;
use crate::units;
use crate::view_model::{LivePoint, Mark, ViewModel};
use eframe::egui::{Align2, RichText, Role, Ui, WidgetInfo, pos2};
use egui_plot::{
    HLine, Line, LineStyle, MarkerShape, Plot, PlotPoint, PlotTransform, PlotUi, Points, Span,
    VLine,
};

pub(super) fn show(
    ui: &mut Ui,
    state: &State,
    model: &ViewModel,
    height: f32,
    commands: &mut Vec<Command>,
) {
    let palette = Palette::current(ui.ctx());
    let scale = ui.pixels_per_point();
    let shown = plot(height, palette).show(ui, |plot| {
        let pixels = (plot.response().rect.width() * scale).round().max(1.0) as usize;
        let room = f64::from(LABELS / plot.response().rect.height().max(1.0));
        let ceiling = lod::live_ceiling(&model.live, state.view, room);
        plot.set_plot_bounds_x(state.view.from..=state.view.to);
        plot.set_plot_bounds_y(0.0..=ceiling);
        phases(plot, state, model, palette);
        frame_plot::chosen(plot, state, palette);
        plot.line(
            Line::new("live bytes", lod::curve(&model.live, state.view, pixels))
                .color(palette.live)
                .fill(0.0)
                .fill_alpha(0.22)
                .width(1.3)
                .allow_band(false)
                .allow_hover(false),
        );
        if let Some(peak) = model.live.high_water {
            high_water(plot, peak, state, palette);
        }
        marks(plot, state, model, palette);
        frame_plot::chosen_edges(plot, state, palette);
    });
    if let Some(peak) = model.live.high_water {
        high_water_tag(ui, peak, state, &shown.transform, palette);
    }
    flags(ui, state, model, &shown.transform, palette);
    let response = shown.response;
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, "Live bytes over time"));
    pointer::commands(ui, &response, state, commands);
    let Some(place) = response.hover_pos() else {
        return;
    };
    let time = shown.transform.value_from_position(place).x;
    if response.clicked()
        && let Some(frame) = state.current_loop().and_then(|game| game.at(time))
    {
        commands.push(Command::Select(frame));
    }
    if !response.dragged() {
        response.on_hover_ui_at_pointer(|ui| tip(ui, state, model, time));
    }
}

fn plot<'a>(height: f32, palette: &Palette) -> Plot<'a> {
    let plot = axes::plot("live bytes", height, Round::Binary, units::bytes);
    axes::with_time(plot.grid_color(palette.line))
}

/// Stretches that the game named; the name stands where there is room for it.
fn phases(plot: &mut PlotUi<'_>, state: &State, model: &ViewModel, palette: &Palette) {
    let per_point = state.view.length() / f64::from(plot.response().rect.width().max(1.0));
    for phase in &model.phases {
        let room = phase.end.min(state.view.to) - phase.start.max(state.view.from);
        if room < 0.0 {
            continue;
        }
        let needed = per_point * LETTER * phase.name.chars().count() as f64;
        let name = if room > needed { &*phase.name } else { "" };
        let span = Span::new(name, phase.start..=phase.end).fill(palette.phase);
        plot.span(span.label_align(Align2::CENTER_BOTTOM));
    }
}

fn high_water(plot: &mut PlotUi<'_>, peak: LivePoint, state: &State, palette: &Palette) {
    if peak.time < state.view.from || peak.time > state.view.to {
        return;
    }
    let place = [peak.time, peak.bytes];
    plot.hline(
        HLine::new("high water", peak.bytes)
            .color(palette.high_water.gamma_multiply(0.6))
            .style(LineStyle::Dotted { spacing: 4.0 })
            .width(1.0)
            .allow_hover(false),
    );
    plot.points(
        Points::new("high water", vec![place])
            .shape(MarkerShape::Diamond)
            .radius(4.5)
            .color(palette.high_water)
            .allow_hover(false),
    );
}

fn high_water_tag(
    ui: &Ui,
    peak: LivePoint,
    state: &State,
    transform: &PlotTransform,
    palette: &Palette,
) {
    if peak.time < state.view.from || peak.time > state.view.to {
        return;
    }
    let text = format!(
        "high water {} at {}",
        units::bytes(peak.bytes),
        units::seconds(peak.time)
    );
    let place = transform.position_from_point(&PlotPoint::new(peak.time, peak.bytes));
    let anchor = match peak.time > state.view.at(0.5) {
        true => Align2::RIGHT_BOTTOM,
        false => Align2::LEFT_BOTTOM,
    };
    let above = pos2(place.x, place.y - 5.0);
    let picture = *transform.frame();
    Tag::new(ui, picture, above, anchor, &text, palette.high_water).draw(ui);
}

/// Lines at the game's marks.
pub(super) fn marks(plot: &mut PlotUi<'_>, state: &State, model: &ViewModel, palette: &Palette) {
    let per_point = state.view.length() / f64::from(plot.response().rect.width().max(1.0));
    let mut last = f64::NEG_INFINITY;
    for mark in in_view(&model.marks, state) {
        if mark.time - last < LINES_APART * per_point {
            continue;
        }
        last = mark.time;
        plot.vline(
            VLine::new("", mark.time)
                .color(palette.mark)
                .style(LineStyle::Dashed { length: 3.0 })
                .width(1.0)
                .allow_hover(false),
        );
    }
}

/// Flags with the names of the game's marks, as many as have room beside each other.
fn flags(ui: &Ui, state: &State, model: &ViewModel, transform: &PlotTransform, palette: &Palette) {
    let picture = *transform.frame();
    let mut free_from = f32::NEG_INFINITY;
    for mark in in_view(&model.marks, state) {
        let left = transform.position_from_point_x(mark.time);
        if left >= free_from {
            let place = pos2(left + 1.0, picture.top() + 1.0);
            let flag = Tag::new(
                ui,
                picture,
                place,
                Align2::LEFT_TOP,
                &mark.name,
                palette.mark,
            );
            // One at the right edge was moved to the left.
            if flag.room.left() >= free_from {
                free_from = flag.room.right() + 2.0;
                flag.draw(ui);
            }
        }
    }
}

fn in_view<'a>(marks: &'a [Mark], state: &State) -> &'a [Mark] {
    let from = marks.partition_point(|mark| mark.time < state.view.from);
    let end = marks.partition_point(|mark| mark.time <= state.view.to);
    &marks[from..end.max(from)]
}

/// Height above the curve for two rows of tags, in points.
const LABELS: f32 = 40.0;
/// Least distance of two marks' lines in points.
const LINES_APART: f64 = 3.0;
/// About the width of a letter of a phase's name in points.
const LETTER: f64 = 8.4;

fn tip(ui: &mut Ui, state: &State, model: &ViewModel, time: f64) {
    let palette = Palette::current(ui.ctx());
    let bytes = model.live.at(time).unwrap_or(0.0);
    ui.label(RichText::new(units::bytes(bytes)).strong());
    ui.label(format!("live at {}", units::seconds(time.max(0.0))));
    if let Some(frame) = state
        .current_loop()
        .and_then(|game| Some(&game.frames()[game.at(time)?]))
    {
        ui.label(format!("in frame {}", frame.number));
    }
    let meaning = "Bytes asked for and not yet given back.";
    ui.label(RichText::new(meaning).small().color(palette.muted));
}
