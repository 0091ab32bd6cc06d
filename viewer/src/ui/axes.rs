//! Axes and grids that both pictures of the timeline share.

use crate::lod::Span;
use crate::ticks::{self, Round};
use crate::units;
use crate::view_model::FrameLoop;
use eframe::egui::{FontId, Id, Sense, emath::Rangef};
use egui_plot::{AxisHints, GridInput, GridMark, Plot, VPlacement};

/// Width of the value axes in points, so that both pictures line up.
const AXIS_WIDTH: f32 = 64.0;
/// Least distance of lines in points: of time and frames, and of values.
const ACROSS: f64 = 92.0;
const UP: f64 = 40.0;
/// What egui_plot takes for the least distance when it tells the width of a point.
const GRID_SPACING: Rangef = Rangef { min: 1.0, max: 2.0 };

/// A picture that leaves all moving to us, with a value axis.
pub(super) fn plot<'a>(
    name: &str,
    height: f32,
    round: Round,
    figure: impl Fn(f64) -> String + 'a,
) -> Plot<'a> {
    Plot::new(name)
        .height(height)
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_axis_zoom_drag(false)
        .allow_double_click_reset(false)
        .show_crosshair(false)
        .link_cursor(Id::unique("timeline"), [true, false])
        .sense(Sense::click_and_drag())
        .grid_spacing(GRID_SPACING)
        .y_grid_spacer(move |input| lines(&input, round, UP))
        .custom_y_axes(vec![
            axis(AxisHints::new_y())
                .min_thickness(AXIS_WIDTH)
                .formatter(move |mark, _| match mark.value {
                    0.0 => "0".to_owned(),
                    value => units::short(&figure(value)),
                }),
        ])
}

/// Frame numbers along the upper edge.
pub(super) fn with_frame_numbers<'a>(plot: Plot<'a>, game: &'a FrameLoop) -> Plot<'a> {
    plot.x_grid_spacer(move |input| frame_lines(&input, game))
        .custom_x_axes(vec![
            axis(AxisHints::new_x())
                .placement(VPlacement::Top)
                .formatter(move |mark, _| frame_number(game, mark.value)),
        ])
}

/// Time along the lower edge.
pub(super) fn with_time(plot: Plot<'_>) -> Plot<'_> {
    plot.x_grid_spacer(|input| lines(&input, Round::Decimal, ACROSS))
        .custom_x_axes(vec![
            axis(AxisHints::new_x())
                .formatter(|mark, _| units::axis_seconds(mark.value, mark.step_size)),
        ])
}

fn axis(hints: AxisHints<'_>) -> AxisHints<'_> {
    hints
        .label_spacing(GRID_SPACING)
        .tick_label_font(FontId::proportional(12.0))
}

fn lines(input: &GridInput, round: Round, points: f64) -> Vec<GridMark> {
    let step = round.step(input.base_step_size * points);
    let values = ticks::multiples(input.bounds.0, input.bounds.1, step);
    let mark = |value| GridMark {
        value,
        step_size: step,
    };
    values.into_iter().map(mark).collect()
}

fn frame_lines(input: &GridInput, game: &FrameLoop) -> Vec<GridMark> {
    let (from, to) = input.bounds;
    let apart = input.base_step_size * ACROSS;
    let mark = |(value, _)| GridMark {
        value,
        step_size: apart,
    };
    let frames = ticks::frames(game, Span { from, to }, apart);
    frames.into_iter().map(mark).collect()
}

/// The number of the frame that starts at an instant.
fn frame_number(game: &FrameLoop, time: f64) -> String {
    game.at(time)
        .map(|index| units::count(game.frames()[index].number))
        .unwrap_or_default()
}
