//! Bars with sharp edges: one mesh, corners on whole pixels.

use eframe::egui::{Color32, Mesh, Pos2, Rect, Shape, Ui, pos2};
use egui_plot::{PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotPoint, PlotTransform};
use std::ops::RangeInclusive;

/// A bar from 0 to `low`, and on to `high` in another colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    /// Left edge on the time axis.
    pub from: f64,
    /// Right edge.
    pub to: f64,
    /// Top of the lower part.
    pub low: f64,
    /// Top of the upper part.
    pub high: f64,
    /// Colour of the lower part.
    pub colour: Color32,
    /// Colour of the upper part.
    pub spread: Color32,
}

/// All bars of a picture.
pub(super) struct Bars {
    base: PlotItemBase,
    bars: Vec<Bar>,
}

impl Bars {
    pub(super) fn new(bars: Vec<Bar>) -> Self {
        Self {
            base: PlotItemBase::new("bars".to_owned()),
            bars,
        }
    }
}

/// Bars wider than this many pixels have a gap of one pixel between them.
const GAP_FROM: f64 = 4.5;

impl PlotItem for Bars {
    fn shapes(&self, ui: &Ui, transform: &PlotTransform, shapes: &mut Vec<Shape>) {
        let scale = ui.pixels_per_point();
        let on_pixel = |place: Pos2| pos2((place.x * scale).round(), (place.y * scale).round());
        let place = |x, y| on_pixel(transform.position_from_point(&PlotPoint::new(x, y)));
        let mut mesh = Mesh::default();
        for bar in &self.bars {
            let (left, floor) = (place(bar.from, 0.0), place(bar.to, 0.0));
            let (low, high) = (place(bar.from, bar.low).y, place(bar.from, bar.high).y);
            // The exact width decides, or bars of equal width would differ by rounding.
            let gap = (bar.to - bar.from) * transform.dpos_dvalue_x() * f64::from(scale) > GAP_FROM;
            let width = floor.x - left.x;
            let right = if gap {
                floor.x - 1.0
            } else {
                left.x + width.max(1.0)
            };
            let mut part = |top: f32, bottom: f32, colour| {
                let rect = Rect::from_min_max(pos2(left.x, top), pos2(right, bottom));
                mesh.add_colored_rect(rect / scale, colour);
            };
            // Something is always to be seen, be the figure ever so small.
            let low = if bar.high > 0.0 {
                low.min(floor.y - 1.0)
            } else {
                low
            };
            part(low, floor.y, bar.colour);
            if high < low {
                part(high, low, bar.spread);
            }
        }
        shapes.push(Shape::mesh(mesh));
    }

    fn initialize(&mut self, _x_range: RangeInclusive<f64>) {}

    fn color(&self) -> Color32 {
        self.bars
            .first()
            .map_or(Color32::TRANSPARENT, |bar| bar.colour)
    }

    fn geometry(&self) -> PlotGeometry<'_> {
        PlotGeometry::None
    }

    fn bounds(&self) -> PlotBounds {
        PlotBounds::NOTHING
    }

    fn base(&self) -> &PlotItemBase {
        &self.base
    }

    fn base_mut(&mut self) -> &mut PlotItemBase {
        &mut self.base
    }
}
