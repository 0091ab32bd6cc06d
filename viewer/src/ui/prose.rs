//! Sentences in which `code` stands between backticks.

use crate::theme::Palette;
use eframe::egui::text::{LayoutJob, TextFormat};
use eframe::egui::{Align, Color32, FontId, Label, Response, TextStyle, Ui};

/// Draws a sentence, wrapped to the width that is there.
pub(super) fn prose(ui: &mut Ui, text: &str) -> Response {
    let colour = ui.visuals().text_color();
    coloured(ui, text, colour)
}

/// Draws a sentence in a colour.
pub(super) fn coloured(ui: &mut Ui, text: &str, colour: Color32) -> Response {
    let code = Palette::current(ui.ctx()).accent;
    let mut job = LayoutJob::default();
    for (is_code, part) in parts(text) {
        let (font_id, color) = match is_code {
            true => (FontId::monospace(12.0), code),
            false => (TextStyle::Body.resolve(ui.style()), colour),
        };
        let format = TextFormat {
            font_id,
            color,
            valign: Align::BOTTOM,
            ..TextFormat::default()
        };
        job.append(part, 0.0, format);
    }
    ui.add(Label::new(job).wrap())
}

/// The parts of a sentence, and whether each is code. A backtick without its
/// partner starts no code.
fn parts(text: &str) -> Vec<(bool, &str)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, code, after)) = next_code(rest) {
        parts.push((false, before));
        parts.push((true, code));
        rest = after;
    }
    parts.push((false, rest));
    parts.retain(|(_, part)| !part.is_empty());
    parts
}

fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        assert_eq!(
            parts("calls from `Tile::load` (`heapreel spikes`)"),
            [
                (false, "calls from "),
                (true, "Tile::load"),
                (false, " ("),
                (true, "heapreel spikes"),
                (false, ")")
            ]
        );
        assert_eq!(parts("`a`"), [(true, "a")]);
        assert_eq!(parts("one ` alone"), [(false, "one ` alone")]);
        assert_eq!(parts(""), []);
    }
}
