//! The map as rows of characters, one a region.
//!
//! A cell's shade says how much of it is taken, its colour or letter the group of the
//! block with the most bytes in it. A gap or a block too small for its cell still shows.

use super::groups::Rgb;
use super::picture::{MapCell, RegionMap};
use std::fmt::Write;

/// How a group is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Not at all.
    Plain,
    /// By colours of a terminal.
    Colour,
    /// By letters: A is the legend's first group.
    Letters,
}

/// What the characters mean, as lines for below a map.
pub fn key(ink: Ink) -> String {
    let taken = match ink {
        Ink::Letters => "A full, a partly full".to_owned(),
        _ => "█ full, ▓▒░ partly full".to_owned(),
    };
    format!("{taken}, · free, ~ given back and not yet reusable, blank no memory")
}

/// A region's cells as a row of characters.
pub fn row(map: &RegionMap, colours: &[Rgb], ink: Ink) -> String {
    let mut out = String::new();
    let mut lit: Option<Rgb> = None;
    for cell in &map.map {
        let colour = cell
            .group
            .and_then(|group| colours.get(group).copied())
            .filter(|_| ink == Ink::Colour);
        if colour != lit {
            match colour {
                Some(colour) => _ = write!(out, "\x1b[38;5;{}m", nearest(colour)),
                None => out.push_str("\x1b[0m"),
            }
            lit = colour;
        }
        out.push(glyph(cell, ink));
    }
    if lit.is_some() {
        out.push_str("\x1b[0m");
    }
    out
}

/// A group's sign in the legend.
pub fn sign(at: usize, colour: Rgb, ink: Ink) -> String {
    match ink {
        Ink::Plain => "-".to_owned(),
        Ink::Colour => format!("\x1b[38;5;{}m█\x1b[0m", nearest(colour)),
        Ink::Letters => letter(at, true).to_string(),
    }
}

fn glyph(cell: &MapCell, ink: Ink) -> char {
    let cell_ = &cell.cell;
    let taken = cell_.used.bytes + cell_.meta.bytes;
    if taken == 0 {
        return match (cell_.idle.bytes, cell_.free.bytes) {
            (0, 0) => ' ',
            (0, _) => '·',
            _ => '~',
        };
    }
    let full = cell_.free.bytes + cell_.idle.bytes + cell_.reserved.bytes == 0;
    if let (Ink::Letters, Some(group)) = (ink, cell.group) {
        return letter(group, full);
    }
    match taken as f64 / cell_.bytes as f64 {
        _ if full => '█',
        share if share >= 2.0 / 3.0 => '▓',
        share if share >= 1.0 / 3.0 => '▒',
        _ => '░',
    }
}

fn letter(group: usize, full: bool) -> char {
    let first = if full { b'A' } else { b'a' };
    char::from(first + group.min(25) as u8)
}

/// The nearest of a terminal's 216 colours of the cube.
fn nearest(colour: Rgb) -> u8 {
    let step = |part: u8| match part {
        0..48 => 0,
        48..115 => 1,
        _ => (part - 35) / 40,
    };
    let [red, green, blue] = colour.map(step);
    16 + 36 * red + 6 * green + blue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::fixtures::{SLIDE_17, slide};
    use crate::fragmentation::picture::RegionMap;
    use heapreel_models::{BlockId, Region, RunState};

    fn map(region: &Region, width: usize) -> RegionMap {
        RegionMap::of(region, 0, width, |block| Some(block as usize % 2))
    }

    #[test]
    fn the_slide_is_recognised() {
        let map = map(&slide(SLIDE_17), 16);
        let row = row(&map, &[], Ink::Plain);
        assert_eq!(row, "····█··█·█·█·█·█");
        assert_eq!(super::row(&map, &[], Ink::Letters), "····A··B·B·B·B·B");
    }

    #[test]
    fn a_gap_and_a_block_too_small_for_their_cells_still_show() {
        let used = RunState::Used(BlockId(0));
        let runs = vec![
            (999, used),
            (1, RunState::Free),
            (1, used),
            (999, RunState::Free),
            (500, used),
            (500, RunState::Idle),
            (1000, RunState::Idle),
            (1000, RunState::Reserved),
        ];
        let region = Region {
            name: "r".into(),
            segment: None,
            start: 0,
            bytes: 5000,
            runs,
        };
        let map = map(&region, 5);
        assert_eq!(row(&map, &[], Ink::Plain), "▓░▒~ ");
        assert_eq!(row(&map, &[], Ink::Letters), "aaa~ ");
    }

    #[test]
    fn colours_change_only_where_they_differ_and_end_with_the_row() {
        let map = map(&slide("UU.U"), 4);
        let red = [255, 0, 0];
        let row = row(&map, &[red, red], Ink::Colour);
        assert_eq!(row, "\x1b[38;5;196m██\x1b[0m·\x1b[38;5;196m█\x1b[0m");
    }
}
