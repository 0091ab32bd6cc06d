//! Words on a picture, on a ground of their own so that they stay readable.

use crate::theme::Palette;
use eframe::egui::{Align2, Color32, FontId, Galley, Pos2, Rect, Ui, Vec2, vec2};
use std::sync::Arc;

/// A word laid out and not yet drawn.
pub(super) struct Tag {
    galley: Arc<Galley>,
    colour: Color32,
    picture: Rect,
    /// The room that it takes.
    pub room: Rect,
}

impl Tag {
    /// A word at a place within a picture, moved inwards where it would stick out.
    pub(super) fn new(
        ui: &Ui,
        picture: Rect,
        place: Pos2,
        anchor: Align2,
        text: &str,
        colour: Color32,
    ) -> Self {
        let font = FontId::proportional(11.5);
        let galley = ui.painter().layout_no_wrap(text.to_owned(), font, colour);
        let room = anchor.anchor_size(place, galley.size() + 2.0 * PADDING);
        Self {
            galley,
            colour,
            picture,
            room: within(room, picture),
        }
    }

    /// Draws it.
    pub(super) fn draw(self, ui: &Ui) {
        let palette = Palette::current(ui.ctx());
        let painter = ui.painter().with_clip_rect(self.picture);
        let ground = palette.background.gamma_multiply(0.88);
        painter.rect_filled(self.room, 3.0, ground);
        painter.galley(self.room.min + PADDING, self.galley, self.colour);
    }
}

/// Room around the text in points.
const PADDING: Vec2 = vec2(4.0, 1.0);

/// A rectangle moved to lie within another, as far as it fits.
fn within(inner: Rect, outer: Rect) -> Rect {
    let left = inner.left().min(outer.right() - inner.width());
    let top = inner.top().min(outer.bottom() - inner.height());
    let corner = Pos2::new(left.max(outer.left()), top.max(outer.top()));
    Rect::from_min_size(corner, inner.size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use eframe::egui::pos2;

    #[test]
    fn a_tag_stays_within_the_picture() {
        let picture = Rect::from_min_max(pos2(10.0, 10.0), pos2(110.0, 60.0));
        for corner in [pos2(0.0, 0.0), pos2(105.0, 55.0), pos2(50.0, 30.0)] {
            let tag = Rect::from_min_size(corner, vec2(30.0, 12.0));
            let moved = within(tag, picture);
            assert!(picture.contains_rect(moved), "{moved:?}");
            assert_eq!(moved.size(), tag.size());
        }
        let wide = Rect::from_min_size(pos2(0.0, 0.0), vec2(500.0, 12.0));
        assert_eq!(within(wide, picture).left(), 10.0);
    }
}
