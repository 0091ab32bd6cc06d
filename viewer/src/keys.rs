//! The keyboard: one table for what keys do and for the help sheet.

use crate::metric::Metric;
use crate::state::Command;
use eframe::egui::{InputState, Key, Modifiers};

/// A key and what it does.
pub struct Shortcut {
    /// The key.
    pub key: Key,
    /// Shift must be held.
    pub shift: bool,
    /// The key as the help sheet names it.
    pub name: &'static str,
    /// What it does, for the help sheet; empty where another line says it.
    pub does: &'static str,
    command: fn() -> Command,
}

const fn plain(
    key: Key,
    name: &'static str,
    does: &'static str,
    command: fn() -> Command,
) -> Shortcut {
    Shortcut {
        key,
        shift: false,
        name,
        does,
        command,
    }
}

const fn shifted(
    key: Key,
    name: &'static str,
    does: &'static str,
    command: fn() -> Command,
) -> Shortcut {
    Shortcut {
        shift: true,
        ..plain(key, name, does, command)
    }
}

/// How much a key press zooms.
const ZOOM: f64 = 1.5;

/// Every key, in the help sheet's order.
pub const SHORTCUTS: &[Shortcut] = &[
    plain(Key::ArrowLeft, "Left", "earlier", || Command::Pan(-0.2)),
    plain(Key::ArrowRight, "Right", "later", || Command::Pan(0.2)),
    plain(Key::ArrowUp, "Up", "zoom in", || zoom(ZOOM)),
    plain(Key::ArrowDown, "Down", "zoom out", || zoom(1.0 / ZOOM)),
    plain(Key::Plus, "+", "", || zoom(ZOOM)),
    plain(Key::Equals, "=", "", || zoom(ZOOM)),
    plain(Key::Minus, "-", "", || zoom(1.0 / ZOOM)),
    plain(Key::Home, "Home", "the whole recording", || {
        Command::ShowAll
    }),
    plain(Key::End, "End", "the end of the recording", || {
        Command::ShowEnd
    }),
    plain(Key::N, "N", "next spike", || Command::NextSpike),
    plain(Key::P, "P", "previous spike", || Command::PreviousSpike),
    shifted(Key::N, "Shift+N", "", || Command::PreviousSpike),
    plain(Key::Period, ".", "next frame", || Command::Step(1)),
    plain(Key::Comma, ",", "previous frame", || Command::Step(-1)),
    plain(Key::Num1, "1", "bars show frame time", || metric(0)),
    plain(Key::Num2, "2", "bars show allocations", || metric(1)),
    plain(Key::Num3, "3", "bars show bytes", || metric(2)),
    plain(Key::Num4, "4", "bars show allocator time", || metric(3)),
    plain(Key::L, "L", "next loop", || Command::NextLoop),
    plain(Key::T, "T", "light or dark", || Command::ToggleTheme),
    plain(Key::F1, "F1", "this sheet", || Command::ToggleHelp),
    plain(Key::Questionmark, "?", "", || Command::ToggleHelp),
    plain(Key::Escape, "Esc", "close, stop loading, let go", || {
        Command::Escape
    }),
];

/// What the mouse does, for the help sheet.
pub const MOUSE: &[(&str, &str)] = &[
    ("Wheel", "zoom at the pointer"),
    ("Drag", "move"),
    ("Shift + drag", "zoom into a stretch"),
    ("Click", "choose a frame"),
    ("Double click", "the whole recording"),
    ("Drop a file", "open a trace"),
];

fn zoom(factor: f64) -> Command {
    Command::Zoom {
        factor,
        around: 0.5,
    }
}

fn metric(index: usize) -> Command {
    Command::SetMetric(Metric::ALL[index])
}

/// The commands of the keys pressed since the last frame.
///
/// While a widget has the focus, the arrow keys are left to it.
pub fn commands(input: &InputState, widget_has_focus: bool) -> Vec<Command> {
    let pressed = |shortcut: &&Shortcut| {
        let modifiers = match shortcut.shift {
            true => Modifiers::SHIFT,
            false => Modifiers::NONE,
        };
        // Some layouts need Shift for "?" and "+".
        let sign = matches!(shortcut.key, Key::Plus | Key::Questionmark);
        let fits = input.modifiers.matches_exact(modifiers)
            || (sign && input.modifiers.matches_exact(Modifiers::SHIFT));
        fits && input.key_pressed(shortcut.key)
    };
    SHORTCUTS
        .iter()
        .filter(|shortcut| !(widget_has_focus && is_arrow(shortcut.key)))
        .filter(pressed)
        .map(|shortcut| (shortcut.command)())
        .collect()
}

fn is_arrow(key: Key) -> bool {
    matches!(
        key,
        Key::ArrowLeft | Key::ArrowRight | Key::ArrowUp | Key::ArrowDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_does_two_things() {
        for (index, one) in SHORTCUTS.iter().enumerate() {
            for other in &SHORTCUTS[index + 1..] {
                assert!(
                    one.key != other.key || one.shift != other.shift,
                    "{} is there twice",
                    one.name
                );
            }
        }
    }
}
