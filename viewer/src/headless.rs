//! Draws the viewer without a window, for `--screenshot` and for tests.

use crate::app::Viewer;
use crate::raster::Canvas;
use crate::state::State;
use crate::theme::{self, Palette};
use eframe::egui::{Context, Pos2, RawInput, Rect, Vec2, vec2};
use std::io;

/// Pictures until the layout has settled: egui measures in one and places in the next.
const PASSES: usize = 4;

/// Draws a state on so many pixels; the same state gives the same pixels.
pub fn render(state: State, width: u32, height: u32) -> Canvas {
    let context = Context::default();
    let palette = Palette::of(state.theme);
    theme::apply(&context, state.theme);
    let mut canvas = Canvas::new(width as usize, height as usize, palette.background);
    let mut viewer = Viewer::new(state, |_, _| Err("a picture reads no trace".to_owned()));
    let size = vec2(width as f32, height as f32);
    for pass in 0..PASSES {
        let output = context.run_ui(input(size, pass), |ui| viewer.show(ui));
        canvas.update_textures(output.textures_delta);
        if pass + 1 == PASSES {
            let scale = output.pixels_per_point;
            canvas.paint(&context.tessellate(output.shapes, scale), scale);
        }
    }
    canvas
}

/// No clock: time goes on by a fixed step.
fn input(size: Vec2, pass: usize) -> RawInput {
    RawInput {
        screen_rect: Some(Rect::from_min_size(Pos2::ZERO, size)),
        time: Some(pass as f64 / 60.0),
        focused: true,
        ..RawInput::default()
    }
}

/// Writes a canvas as a PNG.
///
/// # Errors
///
/// What the writer says, or [`io::ErrorKind::InvalidInput`] for an empty picture.
pub fn write_png(canvas: &Canvas, to: impl io::Write) -> io::Result<()> {
    let mut encoder = png::Encoder::new(to, canvas.width() as u32, canvas.height() as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().map_err(io::Error::from)?;
    writer
        .write_image_data(&canvas.rgb())
        .map_err(io::Error::from)?;
    writer.finish().map_err(io::Error::from)
}
