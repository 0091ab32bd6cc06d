//! Draws egui's triangles into memory: no display, no GPU, the same bytes each time.
//!
//! It follows what egui asks of a renderer: vertex colour times texture, both in
//! gamma space; premultiplied alpha; bilinear textures; clip rectangles rounded to
//! pixels; either winding. Corners are snapped to 1/256 of a pixel and edges are
//! integers with the top-left rule, so that triangles that share an edge neither
//! overlap nor leave a gap.

use eframe::egui::epaint::{ClippedPrimitive, ImageDelta, Mesh, Primitive, Vertex};
use eframe::egui::{Color32, Rect, TextureId, TexturesDelta};
use std::collections::HashMap;
use std::ops::Range;

/// A picture, and the textures that its triangles use.
#[derive(Default)]
pub struct Canvas {
    image: Image,
    textures: HashMap<TextureId, Texture>,
}

#[derive(Default)]
struct Image {
    width: usize,
    height: usize,
    pixels: Vec<Color32>,
}

impl Image {
    fn row(&mut self, row: i64, columns: &Range<i64>) -> &mut [Color32] {
        let start = row as usize * self.width;
        &mut self.pixels[start + columns.start as usize..start + columns.end as usize]
    }
}

#[derive(Default)]
struct Texture {
    width: usize,
    texels: Vec<Color32>,
}

/// Parts of a pixel to which corners are snapped.
const SUBPIXELS: i64 = 256;
/// Corners further out than this many pixels are not drawn: nothing sensible
/// lies there, and products of coordinates stay well within 64 bits.
const FAR: f32 = 1e6;

impl Canvas {
    /// A picture of one colour.
    pub fn new(width: usize, height: usize, colour: Color32) -> Self {
        Self {
            image: Image {
                width,
                height,
                pixels: vec![colour; width * height],
            },
            textures: HashMap::new(),
        }
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.image.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.image.height
    }

    /// The pixels row by row, red, green, blue.
    pub fn rgb(&self) -> Vec<u8> {
        self.image
            .pixels
            .iter()
            .flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()])
            .collect()
    }

    /// Takes over new and changed textures. Call before [`Canvas::paint`].
    ///
    /// What egui no longer uses is kept: a canvas lives for one picture.
    pub fn update_textures(&mut self, mut delta: TexturesDelta) {
        for (id, changes) in delta.set.drain() {
            let texture = self.textures.entry(id).or_default();
            changes.iter().for_each(|change| texture.apply(change));
        }
        delta.clear();
    }

    /// Draws triangles over what is there.
    pub fn paint(&mut self, primitives: &[ClippedPrimitive], pixels_per_point: f32) {
        let Self { image, textures } = self;
        let missing = Texture::default();
        for primitive in primitives {
            let Primitive::Mesh(mesh) = &primitive.primitive else {
                continue; // a callback draws with a GPU; the viewer has none
            };
            let clip = Clip::new(primitive.clip_rect, pixels_per_point, image);
            let texture = textures.get(&mesh.texture_id).unwrap_or(&missing);
            for corners in triangles(mesh) {
                if let Some(triangle) = Triangle::new(corners, pixels_per_point) {
                    triangle.paint(&clip, texture, image);
                }
            }
        }
    }
}

impl Texture {
    fn apply(&mut self, change: &ImageDelta) {
        let eframe::egui::ImageData::Color(image) = &change.image;
        let [width, height] = image.size;
        let Some([left, top]) = change.pos else {
            self.width = width;
            self.texels = image.pixels.clone();
            return;
        };
        for row in 0..height {
            let start = (top + row) * self.width + left;
            let source = &image.pixels[row * width..(row + 1) * width];
            if let Some(target) = self.texels.get_mut(start..start + width) {
                target.copy_from_slice(source);
            }
        }
    }

    /// The colour between the four texels nearest to a place, 0 to 1 a channel.
    fn sample(&self, u: f32, v: f32) -> [f32; 4] {
        let height = self.texels.len().checked_div(self.width).unwrap_or(0);
        if height == 0 {
            return [1.0; 4];
        }
        let (x0, x1, right) = neighbours(u, self.width);
        let (y0, y1, down) = neighbours(v, height);
        let texel = |x: usize, y: usize| self.texels[y * self.width + x].to_array();
        let corners = [texel(x0, y0), texel(x1, y0), texel(x0, y1), texel(x1, y1)];
        std::array::from_fn(|channel| {
            let [a, b, c, d] = corners.map(|corner| f32::from(corner[channel]));
            mix(mix(a, b, right), mix(c, d, right), down) / 255.0
        })
    }
}

/// The two texels around a coordinate from 0 to 1, and the second one's share.
fn neighbours(coordinate: f32, length: usize) -> (usize, usize, f32) {
    let last = (length - 1) as f32;
    let place = (coordinate * length as f32 - 0.5).clamp(0.0, last);
    let first = place.floor();
    let second = (first + 1.0).min(last);
    (first as usize, second as usize, place - first)
}

fn mix(from: f32, to: f32, share: f32) -> f32 {
    from + (to - from) * share
}

/// The corners of each triangle; indices without a vertex draw nothing.
fn triangles(mesh: &Mesh) -> impl Iterator<Item = [&Vertex; 3]> {
    mesh.indices.chunks_exact(3).filter_map(|corners| {
        let vertex = |index: u32| mesh.vertices.get(index as usize);
        Some([
            vertex(corners[0])?,
            vertex(corners[1])?,
            vertex(corners[2])?,
        ])
    })
}

/// The pixels that may be painted.
struct Clip {
    columns: Range<i64>,
    rows: Range<i64>,
}

impl Clip {
    fn new(rect: Rect, pixels_per_point: f32, image: &Image) -> Self {
        let edge = |points: f32, limit: usize| {
            ((points * pixels_per_point).round() as i64).clamp(0, limit as i64)
        };
        Self {
            columns: edge(rect.min.x, image.width)..edge(rect.max.x, image.width),
            rows: edge(rect.min.y, image.height)..edge(rect.max.y, image.height),
        }
    }
}

/// A side of a triangle: `x * run + y * rise + offset` is positive inside,
/// twice the area of the triangle between the side and the point.
struct Side {
    run: i64,
    rise: i64,
    offset: i64,
    /// 0 where points on the side belong to this triangle, else 1.
    least: i64,
}

impl Side {
    fn new(from: [i64; 2], to: [i64; 2]) -> Self {
        let (run, rise) = (from[1] - to[1], to[0] - from[0]);
        let owns_its_points = run > 0 || (run == 0 && rise > 0);
        Self {
            run,
            rise,
            offset: -(run * from[0] + rise * from[1]),
            least: i64::from(!owns_its_points),
        }
    }

    fn at(&self, x: i64, y: i64) -> i64 {
        x * self.run + y * self.rise + self.offset
    }

    /// Narrows a row of pixels to those whose centre is inside.
    fn narrow(&self, row: i64, columns: &mut Range<i64>) {
        let step = self.run * SUBPIXELS;
        let excess = self.at(SUBPIXELS / 2, centre(row)) - self.least;
        match step {
            0 if excess < 0 => columns.end = columns.start,
            0 => {}
            1.. => columns.start = columns.start.max((-excess + step - 1).div_euclid(step)),
            _ => columns.end = columns.end.min(excess.div_euclid(-step) + 1),
        }
    }
}

fn centre(pixel: i64) -> i64 {
    pixel * SUBPIXELS + SUBPIXELS / 2
}

/// A triangle that turns clockwise on the screen.
struct Triangle<'a> {
    corners: [&'a Vertex; 3],
    /// The side opposite to each corner.
    sides: [Side; 3],
    /// Twice its area.
    area: i64,
    rows: Range<i64>,
}

impl<'a> Triangle<'a> {
    /// `None` for a triangle without area or with corners that are nowhere.
    fn new(corners: [&'a Vertex; 3], pixels_per_point: f32) -> Option<Self> {
        let [a, b, c] = corners.map(|corner| snap(corner, pixels_per_point));
        let (a, b, c) = (a?, b?, c?);
        let area = Side::new(a, b).at(c[0], c[1]);
        if area == 0 {
            return None;
        }
        if area < 0 {
            return Self::new([corners[0], corners[2], corners[1]], pixels_per_point);
        }
        let top = a[1].min(b[1]).min(c[1]).div_euclid(SUBPIXELS);
        let bottom = a[1].max(b[1]).max(c[1]).div_euclid(SUBPIXELS) + 1;
        Some(Self {
            corners,
            sides: [Side::new(b, c), Side::new(c, a), Side::new(a, b)],
            area,
            rows: top..bottom,
        })
    }

    /// Paints the pixels whose centre is inside.
    fn paint(&self, clip: &Clip, texture: &Texture, image: &mut Image) {
        let plain = self
            .is_plain()
            .then(|| self.colour([1.0, 0.0, 0.0], texture));
        for row in self.rows.start.max(clip.rows.start)..self.rows.end.min(clip.rows.end) {
            let mut columns = clip.columns.clone();
            for side in &self.sides {
                side.narrow(row, &mut columns);
            }
            if columns.is_empty() {
                continue;
            }
            let line = image.row(row, &columns);
            match plain {
                Some(colour) => blend_all(line, colour),
                None => {
                    for (pixel, column) in line.iter_mut().zip(columns) {
                        *pixel = blend(*pixel, self.colour(self.shares(column, row), texture));
                    }
                }
            }
        }
    }

    /// Each pixel has the same colour.
    fn is_plain(&self) -> bool {
        let [a, b, c] = self.corners;
        a.color == b.color && b.color == c.color && a.uv == b.uv && b.uv == c.uv
    }

    /// How much each corner counts at a pixel's centre.
    fn shares(&self, column: i64, row: i64) -> [f32; 3] {
        let (x, y) = (centre(column), centre(row));
        let share = |side: &Side| side.at(x, y) as f32 / self.area as f32;
        let (first, second) = (share(&self.sides[0]), share(&self.sides[1]));
        [first, second, 1.0 - first - second]
    }

    fn colour(&self, shares: [f32; 3], texture: &Texture) -> Rgba {
        let blended = |of: &dyn Fn(&Vertex) -> f32| {
            let parts = self.corners.iter().zip(shares);
            parts.map(|(corner, share)| of(corner) * share).sum::<f32>()
        };
        let texel = texture.sample(blended(&|c| c.uv.x), blended(&|c| c.uv.y));
        std::array::from_fn(|channel| {
            blended(&|corner| f32::from(corner.color.to_array()[channel])) * texel[channel]
        })
    }
}

/// Premultiplied, 0 to 255 a channel.
type Rgba = [f32; 4];

fn snap(corner: &Vertex, pixels_per_point: f32) -> Option<[i64; 2]> {
    let place = [
        corner.pos.x * pixels_per_point,
        corner.pos.y * pixels_per_point,
    ];
    let here = place.iter().all(|coordinate| coordinate.abs() < FAR);
    here.then(|| place.map(|coordinate| (coordinate * SUBPIXELS as f32).round() as i64))
}

fn blend_all(pixels: &mut [Color32], over: Rgba) {
    if over[3] == 255.0 {
        pixels.fill(blend(Color32::TRANSPARENT, over));
    } else {
        pixels
            .iter_mut()
            .for_each(|pixel| *pixel = blend(*pixel, over));
    }
}

fn blend(under: Color32, over: Rgba) -> Color32 {
    let rest = 1.0 - over[3] / 255.0;
    let [red, green, blue, alpha] = std::array::from_fn(|channel| {
        (over[channel] + f32::from(under.to_array()[channel]) * rest).round() as u8
    });
    Color32::from_rgba_premultiplied(red, green, blue, alpha)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eframe::egui::epaint::ColorImage;
    use eframe::egui::{ImageData, Pos2, TextureOptions, pos2};

    const SIZE: usize = 16;

    fn canvas(texels: &[Color32]) -> Canvas {
        let image = ColorImage::new([texels.len(), 1], texels.to_vec());
        let mut delta = TexturesDelta::default();
        delta.push(
            TextureId::default(),
            ImageDelta::full(ImageData::from(image), TextureOptions::LINEAR),
        );
        let mut canvas = Canvas::new(SIZE, SIZE, Color32::BLACK);
        canvas.update_textures(delta);
        canvas
    }

    fn corner(place: Pos2, uv: f32, color: Color32) -> Vertex {
        Vertex {
            pos: place,
            uv: pos2(uv, 0.5),
            color,
        }
    }

    fn mesh(vertices: Vec<Vertex>, indices: &[u32], clip: Rect) -> ClippedPrimitive {
        let mesh = Mesh {
            indices: indices.to_vec(),
            vertices,
            texture_id: TextureId::default(),
        };
        ClippedPrimitive {
            clip_rect: clip,
            primitive: Primitive::Mesh(mesh),
        }
    }

    /// A square between two corners as two triangles of opposite winding.
    fn square(from: f32, to: f32, color: Color32) -> ClippedPrimitive {
        let places = [(from, from), (to, from), (to, to), (from, to)];
        let vertices = places.map(|(x, y)| corner(pos2(x, y), 0.5, color)).to_vec();
        mesh(vertices, &[0, 1, 2, 0, 3, 2], Rect::EVERYTHING)
    }

    fn painted(canvas: &Canvas) -> usize {
        canvas
            .image
            .pixels
            .iter()
            .filter(|&&p| p != Color32::BLACK)
            .count()
    }

    #[test]
    fn a_square_covers_each_of_its_pixels_once() {
        // Half transparent: a pixel on the shared diagonal painted twice would be brighter.
        let half = Color32::from_rgba_premultiplied(100, 100, 100, 128);
        for (from, to) in [(2.0, 6.0), (2.5, 6.5), (3.3, 9.7), (0.0, 16.0)] {
            let mut canvas = canvas(&[Color32::WHITE]);
            canvas.paint(&[square(from, to, half)], 1.0);
            let side = (to - 0.5_f32).ceil() as usize - (from - 0.5_f32).ceil() as usize;
            assert_eq!(painted(&canvas), side * side, "{from}..{to}");
            assert!(
                canvas
                    .image
                    .pixels
                    .iter()
                    .all(|p| p.r() == 0 || p.r() == 100)
            );
        }
    }

    #[test]
    fn alpha_is_premultiplied_and_blended_in_gamma_space() {
        let mut canvas = canvas(&[Color32::WHITE]);
        canvas.paint(&[square(0.0, 16.0, Color32::from_gray(200))], 1.0);
        let over = Color32::from_rgba_premultiplied(50, 0, 0, 51);
        canvas.paint(&[square(0.0, 16.0, over)], 1.0);
        assert_eq!(canvas.image.pixels[0], Color32::from_rgb(210, 160, 160));
    }

    #[test]
    fn clip_rectangles_and_scale_are_in_points() {
        let mut canvas = canvas(&[Color32::WHITE]);
        let mut all = square(0.0, 8.0, Color32::WHITE);
        all.clip_rect = Rect::from_min_max(pos2(1.0, 2.0), pos2(3.0, 4.0));
        canvas.paint(&[all], 2.0);
        assert_eq!(painted(&canvas), 4 * 4);
        assert_eq!(canvas.image.pixels[4 * SIZE + 2], Color32::WHITE);
    }

    #[test]
    fn textures_are_mixed_between_texels() {
        let mut canvas = canvas(&[Color32::BLACK, Color32::WHITE]);
        let vertices = vec![
            corner(pos2(0.0, 0.0), 0.0, Color32::WHITE),
            corner(pos2(16.0, 0.0), 1.0, Color32::WHITE),
            corner(pos2(16.0, 16.0), 1.0, Color32::WHITE),
            corner(pos2(0.0, 16.0), 0.0, Color32::WHITE),
        ];
        canvas.paint(
            &[mesh(vertices, &[0, 1, 2, 0, 2, 3], Rect::EVERYTHING)],
            1.0,
        );
        let row: Vec<u8> = canvas.image.pixels[..SIZE].iter().map(|p| p.r()).collect();
        assert!(row.is_sorted(), "{row:?}");
        assert_eq!((row[0], row[3], row[12], row[15]), (0, 0, 255, 255));
        assert!((112..144).contains(&row[8]), "{row:?}");
    }

    #[test]
    fn a_patch_changes_only_its_part_of_a_texture() {
        let mut canvas = canvas(&[Color32::BLACK; 4]);
        let patch = ColorImage::new([1, 1], vec![Color32::WHITE]);
        let mut delta = TexturesDelta::default();
        delta.push(
            TextureId::default(),
            ImageDelta::partial([2, 0], ImageData::from(patch), TextureOptions::LINEAR),
        );
        canvas.update_textures(delta);
        let texels = &canvas.textures[&TextureId::default()].texels;
        let expected = [
            Color32::BLACK,
            Color32::BLACK,
            Color32::WHITE,
            Color32::BLACK,
        ];
        assert_eq!(texels[..], expected);
    }

    #[test]
    fn nonsense_draws_nothing() {
        let nowhere = [f32::NAN, f32::INFINITY, -1e30, 3.0];
        for x in nowhere {
            let mut canvas = canvas(&[Color32::WHITE]);
            let vertices = vec![
                corner(pos2(x, 3.0), 0.5, Color32::WHITE),
                corner(pos2(3.0, 3.0), f32::NAN, Color32::WHITE),
                corner(pos2(3.0, 3.0), 0.5, Color32::WHITE),
            ];
            canvas.paint(
                &[mesh(vertices, &[0, 1, 2, 0, 1, 99], Rect::EVERYTHING)],
                1.0,
            );
            assert_eq!(painted(&canvas), 0, "{x}");
        }
    }
}
