//! The map as a picture: a band of lines for each region, a pixel for each cell.
//!
//! The brighter a pixel, the more of its bytes is taken; its colour is the group's. What
//! is free is dark, address space without memory black. A picture has no letters: what
//! the bands and colours mean is in its text chunk `Description`.

use super::groups::{Group, Rgb};
use heapreel_models::Region;
use heapreel_models::map::{Cell, cells};
use std::io::Write;

/// Pixels of a line.
const WIDTH: usize = 1024;
/// Lines of a region's band, where it is drawn in one line of cells.
const BAND: usize = 24;
/// Dark lines between bands.
const GAP: usize = 4;
/// A picture is about this high at most, gaps aside.
const HEIGHT: usize = 4096;
/// A line of cells is not made finer than this many bytes a cell.
const FINEST: u64 = 256;

const GROUND: Rgb = [24, 24, 28];
const FREE: Rgb = [52, 54, 62];
const IDLE: Rgb = [96, 88, 64];
const META: Rgb = [120, 124, 132];

/// Writes regions as a PNG; `group` tells a block's group.
///
/// # Errors
///
/// What `out` says.
pub fn png(
    out: impl Write,
    regions: &[Region],
    groups: &[Group],
    description: &str,
    group: impl Fn(u32) -> Option<usize>,
) -> Result<(), png::EncodingError> {
    let mut rows: Vec<u8> = Vec::new();
    let most = (HEIGHT / BAND / regions.len().max(1)).clamp(1, 16);
    for region in regions {
        let lines = lines(region.bytes, most);
        let cells = cells(region, WIDTH * lines);
        let height = BAND.max(lines * 8) / lines;
        for line in cells.chunks(cells.len().div_ceil(lines).max(1)) {
            let mut row = Vec::with_capacity(WIDTH * 3);
            for at in 0..WIDTH {
                // A region of fewer bytes than pixels is stretched.
                let cell = &line[at * line.len() / WIDTH];
                row.extend(colour(cell, groups, &group));
            }
            (0..height).for_each(|_| rows.extend(&row));
        }
        blank(&mut rows, GAP);
    }
    if rows.is_empty() {
        blank(&mut rows, BAND);
    }
    let height = rows.len() / (WIDTH * 3);
    let mut encoder = png::Encoder::new(out, WIDTH as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_itxt_chunk("Description".to_owned(), description.to_owned())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rows)?;
    writer.finish()
}

fn blank(rows: &mut Vec<u8>, lines: usize) {
    (0..lines * WIDTH).for_each(|_| rows.extend(GROUND));
}

/// Lines of cells for a region: one, or so many that a cell stays above the finest.
fn lines(bytes: u64, most: usize) -> usize {
    let cells = bytes / FINEST / WIDTH as u64;
    (cells as usize).clamp(1, most)
}

fn colour(cell: &Cell, groups: &[Group], group: &impl Fn(u32) -> Option<usize>) -> Rgb {
    let memory = cell.bytes - cell.reserved.bytes;
    if memory == 0 {
        return GROUND;
    }
    let taken = cell.used.bytes + cell.meta.bytes;
    let under = if cell.idle.bytes > cell.free.bytes {
        IDLE
    } else {
        FREE
    };
    if taken == 0 {
        return under;
    }
    let own = cell.block.and_then(group).and_then(|at| groups.get(at));
    let own = own.map_or(META, |group| group.colour);
    // A block that is small in its cell still shows.
    let share = (taken as f64 / memory as f64).max(0.25);
    let mix = |own: u8, under: u8| {
        (f64::from(own) * share + f64::from(under) * (1.0 - share)).round() as u8
    };
    [0, 1, 2].map(|part| mix(own[part], under[part]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragmentation::fixtures::{SLIDE_17, slide};

    #[test]
    fn a_picture_shows_units_where_they_lie() {
        let mut bytes = Vec::new();
        let blue = Group {
            name: "Default".into(),
            blocks: 6,
            bytes: 24 << 20,
            colour: [0, 0, 255],
        };
        png(&mut bytes, &[slide(SLIDE_17)], &[blue], "slide", |_| {
            Some(0)
        })
        .unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.width, 1024);
        // 64 MiB in 16 lines of 1,024 cells: each unit is one line of its own.
        let height = info.height as usize - GAP;
        let pixel = |unit: usize| {
            let at = (height * (2 * unit + 1) / 32 * WIDTH + 512) * 3;
            [pixels[at], pixels[at + 1], pixels[at + 2]]
        };
        for (unit, state) in SLIDE_17.chars().enumerate() {
            let expected = if state == 'U' { [0, 0, 255] } else { FREE };
            assert_eq!(pixel(unit), expected, "unit {unit}");
        }
    }

    #[test]
    fn nothing_is_a_dark_picture() {
        let mut bytes = Vec::new();
        png(&mut bytes, &[], &[], "", |_| None).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
    }
}
