//! What the marks in the pictures mean: a shape and a word for each.

use crate::theme::Palette;
use eframe::egui::{Color32, Pos2, Rect, RichText, Sense, Shape, Stroke, Ui, pos2, vec2};

/// The shape of an entry.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    /// A filled square.
    Bar(Color32),
    /// A dashed line.
    Dashes(Color32),
    /// A triangle that points down.
    Spike(Color32),
    /// A diamond.
    Diamond(Color32),
}

/// Draws one entry, in a row from right to left.
pub(super) fn entry(ui: &mut Ui, swatch: Swatch, text: &str, meaning: &str) {
    let palette = Palette::current(ui.ctx());
    ui.spacing_mut().item_spacing.x = 5.0;
    ui.label(RichText::new(text).small().color(palette.muted))
        .on_hover_text(meaning);
    let (rect, _) = ui.allocate_exact_size(vec2(12.0, 12.0), Sense::hover());
    ui.painter().add(shape(swatch, rect));
    ui.add_space(8.0);
}

fn shape(swatch: Swatch, rect: Rect) -> Shape {
    let centre = rect.center();
    match swatch {
        Swatch::Bar(colour) => Shape::rect_filled(rect.shrink(1.5), 1.0, colour),
        Swatch::Dashes(colour) => {
            let line = [rect.left_center(), rect.right_center()];
            Shape::Vec(Shape::dashed_line(
                &line,
                Stroke::new(1.5, colour),
                3.0,
                2.0,
            ))
        }
        Swatch::Spike(colour) => polygon(centre, colour, &[(-4.5, -4.0), (4.5, -4.0), (0.0, 4.5)]),
        Swatch::Diamond(colour) => polygon(
            centre,
            colour,
            &[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)],
        ),
    }
}

fn polygon(centre: Pos2, colour: Color32, corners: &[(f32, f32)]) -> Shape {
    let corners = corners
        .iter()
        .map(|(x, y)| pos2(centre.x + x, centre.y + y));
    Shape::convex_polygon(corners.collect(), colour, Stroke::NONE)
}
