//! Wheel and drag on either picture of the timeline.

use crate::lod::Span;
use crate::state::{Command, State};
use eframe::egui::{CursorIcon, PointerButton, Response, Ui};

/// How much a point of scrolling zooms.
const ZOOM_PER_POINT: f32 = 0.004;

/// Commands for what the pointer did on a picture of the view.
pub(super) fn commands(ui: &Ui, response: &Response, state: &State, commands: &mut Vec<Command>) {
    let width = f64::from(response.rect.width().max(1.0));
    let share = |x: f32| f64::from(x - response.rect.left()) / width;
    wheel(ui, response, &share, commands);
    drag(ui, response, state, &share, commands);
    if response.double_clicked() {
        commands.push(Command::ShowAll);
    }
}

fn wheel(ui: &Ui, response: &Response, share: &dyn Fn(f32) -> f64, commands: &mut Vec<Command>) {
    let Some(pointer) = ui.input(|input| input.pointer.hover_pos()) else {
        return;
    };
    if !response.contains_pointer() {
        return;
    }
    let (scroll, pinch) = ui.input(|input| (input.smooth_scroll_delta, input.zoom_delta()));
    let factor = pinch * (scroll.y * ZOOM_PER_POINT).exp();
    if factor != 1.0 {
        commands.push(Command::Zoom {
            factor: f64::from(factor),
            around: share(pointer.x),
        });
    }
    if scroll.x != 0.0 {
        commands.push(Command::Pan(share(response.rect.left() - scroll.x)));
    }
}

fn drag(
    ui: &Ui,
    response: &Response,
    state: &State,
    share: &dyn Fn(f32) -> f64,
    commands: &mut Vec<Command>,
) {
    let pointer = ui.input(|input| input.pointer.latest_pos());
    let shift = ui.input(|input| input.modifiers.shift);
    let primary = response.dragged_by(PointerButton::Primary);
    let marking = response.dragged_by(PointerButton::Secondary)
        || (primary && (shift || state.stretch.is_some()));
    if let (true, Some(pointer)) = (marking, pointer) {
        let here = state.view.at(share(pointer.x));
        let from = state.stretch.map_or(here, |stretch| stretch.from);
        let stretch = Span { from, to: here };
        if state.stretch != Some(stretch) {
            commands.push(Command::Stretch(stretch));
        }
    } else if primary {
        ui.ctx().set_cursor_icon(CursorIcon::Grabbing);
        let moved = response.drag_delta().x;
        if moved != 0.0 {
            commands.push(Command::Pan(share(response.rect.left() - moved)));
        }
    }
    if response.drag_stopped() && state.stretch.is_some() {
        commands.push(Command::ShowStretch);
    }
}
