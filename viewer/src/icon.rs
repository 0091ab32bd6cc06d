//! The window's icon: bars below a budget line, one of them a spike.

use crate::theme::Palette;
use eframe::egui::{Color32, IconData, Theme};

/// Width and height in pixels.
const SIDE: usize = 64;
/// Heights of the bars in pixels, from the left.
const BARS: [usize; 5] = [26, 32, 54, 28, 34];
/// Width of a bar with its gap, and of the gap.
const STEP: usize = 11;
const GAP: usize = 3;
/// Height of the budget line from below.
const BUDGET: usize = 40;

/// Draws the icon.
pub(crate) fn icon() -> IconData {
    let palette = Palette::of(Theme::Dark);
    let pixels =
        (0..SIDE * SIDE).map(|index| pixel(palette, index % SIDE, SIDE - 1 - index / SIDE));
    IconData {
        rgba: pixels.flat_map(|colour| colour.to_array()).collect(),
        width: SIDE as u32,
        height: SIDE as u32,
    }
}

/// The colour at a place counted from the lower left.
fn pixel(palette: &Palette, x: usize, y: usize) -> Color32 {
    let left = (SIDE - BARS.len() * STEP + GAP) / 2;
    let bar = x.checked_sub(left).map(|x| (x / STEP, x % STEP));
    match bar {
        Some((bar, inside)) if bar < BARS.len() && inside < STEP - GAP && y < BARS[bar] => {
            match BARS[bar] > BUDGET {
                true => palette.spike,
                false => palette.bar,
            }
        }
        _ if (BUDGET..BUDGET + 2).contains(&y) => palette.budget,
        _ => palette.background,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icon_has_its_size_and_shows_a_spike() {
        let icon = icon();
        assert_eq!(icon.rgba.len(), SIDE * SIDE * 4);
        let spike = Palette::of(Theme::Dark).spike.to_array();
        assert!(icon.rgba.chunks(4).any(|pixel| pixel == spike));
    }
}
