//! The upper picture: a bar per frame.

use super::bars::{Bar, Bars};
use super::tag::Tag;
use super::{axes, live_plot, pointer, tip};
use crate::lod::{self, Column};
use crate::metric::Metric;
use crate::state::{Command, State};
use crate::theme::Palette;
use crate::units;
use crate::view_model::{FrameLoop, ViewModel};
use eframe::egui::{Align2, Color32, Role, Ui, WidgetInfo, pos2};
use egui_plot::{HLine, LineStyle, MarkerShape, Plot, PlotTransform, PlotUi, Points, Span};

/// Height in points of a spike's marker, and its distance from the bar.
const MARKER: f32 = 4.5;

pub(super) fn show(
    ui: &mut Ui,
    state: &State,
    model: &ViewModel,
    game: &FrameLoop,
    height: f32,
    commands: &mut Vec<Command>,
) {
    let palette = Palette::current(ui.ctx());
    let scale = ui.pixels_per_point();
    let shown = plot(state, game, height, palette).show(ui, |plot| {
        let pixels = (plot.response().rect.width() * scale).round().max(1.0) as usize;
        let columns = lod::columns(game, state.metric, state.view, pixels);
        let ceiling = lod::ceiling(game, state.metric, state.view);
        plot.set_plot_bounds_x(state.view.from..=state.view.to);
        plot.set_plot_bounds_y(0.0..=ceiling);
        behind(plot, state, model, palette);
        plot.add(Bars::new(bars(&columns, palette)));
        if state.metric == Metric::FrameTime {
            budget(plot, game, palette);
        }
        spikes(plot, &columns, ceiling, state, palette);
        cut(plot, &columns, ceiling, palette);
        live_plot::marks(plot, state, model, palette);
        chosen_edges(plot, state, palette);
        columns
    });
    if state.metric == Metric::FrameTime {
        budget_tag(ui, game, &shown.transform, palette);
    }
    let columns = shown.inner;
    let name = format!("{} of frames", state.metric.label());
    let response = shown.response;
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
    pointer::commands(ui, &response, state, commands);
    let hovered = response
        .hover_pos()
        .map(|place| shown.transform.value_from_position(place).x)
        .and_then(|time| at(&columns, time));
    if let Some(column) = hovered {
        if response.clicked() {
            commands.push(Command::Select(column.top));
        }
        if !response.dragged() {
            response.on_hover_ui_at_pointer(|ui| tip::column(ui, game, column, state.metric));
        }
    }
}

fn plot<'a>(state: &State, game: &'a FrameLoop, height: f32, palette: &Palette) -> Plot<'a> {
    let metric = state.metric;
    let figure = move |value| metric.format(value);
    let plot = axes::plot("frames", height, metric.round(), figure).grid_color(palette.line);
    axes::with_frame_numbers(plot, game)
}

/// The column at an instant.
fn at(columns: &[Column], time: f64) -> Option<&Column> {
    let after = columns.partition_point(|column| column.span.from <= time);
    let column = &columns[after.checked_sub(1)?];
    (time < column.span.to).then_some(column)
}

/// Phases, the chosen frame, the stretch being marked.
fn behind(plot: &mut PlotUi<'_>, state: &State, model: &ViewModel, palette: &Palette) {
    for phase in &model.phases {
        if phase.end >= state.view.from && phase.start <= state.view.to {
            plot.span(Span::new("", phase.start..=phase.end).fill(palette.phase));
        }
    }
    chosen(plot, state, palette);
}

/// The chosen frame and the stretch being marked: their ground.
pub(super) fn chosen(plot: &mut PlotUi<'_>, state: &State, palette: &Palette) {
    for (from, to) in chosen_spans(state) {
        plot.span(Span::new("", from..=to).fill(palette.chosen));
    }
}

/// The chosen frame and the stretch being marked: their edges, over everything.
pub(super) fn chosen_edges(plot: &mut PlotUi<'_>, state: &State, palette: &Palette) {
    for (from, to) in chosen_spans(state) {
        let edges = Span::new("", from..=to).fill(Color32::TRANSPARENT);
        plot.span(edges.border_color(palette.text).border_width(1.0));
    }
}

fn chosen_spans(state: &State) -> impl Iterator<Item = (f64, f64)> {
    let frame = state.selected_frame().map(|frame| (frame.start, frame.end));
    let stretch = state.stretch.map(|s| (s.from.min(s.to), s.from.max(s.to)));
    frame.into_iter().chain(stretch)
}

fn bars(columns: &[Column], palette: &Palette) -> Vec<Bar> {
    columns
        .iter()
        .map(|column| {
            let (colour, spread) = match (column.in_phase, column.spikes) {
                (_, 1..) if column.frames == 1 => (palette.spike, palette.spike),
                (true, 0) => (palette.phase_bar, palette.phase_bar),
                (_, 1..) => (palette.bar, palette.spike),
                _ => (palette.bar, palette.bar_spread),
            };
            Bar {
                from: column.span.from,
                to: column.span.to,
                low: column.min,
                high: column.max,
                colour,
                spread,
            }
        })
        .collect()
}

fn budget(plot: &mut PlotUi<'_>, game: &FrameLoop, palette: &Palette) {
    plot.hline(
        HLine::new("budget", game.budget)
            .color(palette.budget)
            .style(LineStyle::Dashed { length: 6.0 })
            .width(1.2)
            .allow_hover(false),
    );
}

fn budget_tag(ui: &Ui, game: &FrameLoop, transform: &PlotTransform, palette: &Palette) {
    let picture = *transform.frame();
    let height = transform.position_from_point_y(game.budget) - 2.0;
    if height < picture.top() {
        return;
    }
    let text = format!("budget {}", units::budget(game.budget));
    let place = pos2(picture.right() - 3.0, height);
    Tag::new(
        ui,
        picture,
        place,
        Align2::RIGHT_BOTTOM,
        &text,
        palette.budget,
    )
    .draw(ui);
}

/// A marker over each spike, or over the highest of a crowd.
fn spikes(
    plot: &mut PlotUi<'_>,
    columns: &[Column],
    ceiling: f64,
    state: &State,
    palette: &Palette,
) {
    let rect = plot.response().rect;
    let per_point = ceiling / f64::from(rect.height().max(1.0));
    let above = per_point * f64::from(MARKER) * 1.6;
    let tops: Vec<[f64; 2]> = columns
        .iter()
        .filter(|column| column.spikes > 0)
        .map(|column| [middle(column), (column.max + above).min(ceiling)])
        .collect();
    let apart = f64::from(MARKER) * 2.0 * state.view.length() / f64::from(rect.width().max(1.0));
    let places = lod::thin_markers(&tops, apart);
    plot.points(
        Points::new("spikes", places)
            .shape(MarkerShape::Down)
            .radius(MARKER)
            .color(palette.spike)
            .allow_hover(false),
    );
}

/// Bars that go on beyond the upper edge get an arrow there.
fn cut(plot: &mut PlotUi<'_>, columns: &[Column], ceiling: f64, palette: &Palette) {
    let higher: Vec<[f64; 2]> = columns
        .iter()
        .filter(|column| column.max > ceiling)
        .map(|column| [middle(column), ceiling])
        .collect();
    let rect = plot.response().rect;
    let bounds = plot.plot_bounds();
    let apart = bounds.width() * 12.0 / f64::from(rect.width().max(1.0));
    let down = ceiling * 8.0 / f64::from(rect.height().max(1.0));
    let places: Vec<_> = lod::thin_markers(&higher, apart)
        .into_iter()
        .map(|[x, y]| [x, y - down])
        .collect();
    plot.points(
        Points::new("cut", places)
            .shape(MarkerShape::Up)
            .radius(3.5)
            .color(palette.text)
            .allow_hover(false),
    );
}

fn middle(column: &Column) -> f64 {
    (column.span.from + column.span.to) / 2.0
}
