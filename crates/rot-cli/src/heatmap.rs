//! A distance matrix as a picture, SVG or PNG from the same drawing.

use std::path::Path;
use std::sync::Once;

use ndarray::Array2;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;

/// DejaVu Sans, reduced to Latin and Greek; see assets/DejaVuSans-LICENSE.txt.
static FONT: &[u8] = include_bytes!("../assets/DejaVuSans.ttf");
static REGISTER: Once = Once::new();

/// Values are written into the cells of matrices up to this size.
const NUMBERED: usize = 14;
/// Dark for near, light for far: even in brightness, and readable without colour.
const SCALE: [(f64, f64, f64); 5] =
    [(68.0, 1.0, 84.0), (59.0, 82.0, 139.0), (33.0, 145.0, 140.0), (94.0, 201.0, 98.0), (253.0, 231.0, 37.0)];

/// A measure and itself.
const DIAGONAL: RGBColor = RGBColor(225, 225, 225);

/// Where things go, in pixels.
struct Layout {
    cell: i32,
    left: i32,
    top: i32,
    width: u32,
    height: u32,
}

impl Layout {
    fn new(labels: &[String]) -> Self {
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).min(24) as i32;
        let cell = (640 / labels.len() as i32).clamp(6, 64);
        let (left, top) = (longest * 8 + 24, 44);
        let grid = cell * labels.len() as i32;
        let (width, height) = ((left + grid + 110) as u32, (top + grid + longest * 8 + 24) as u32);
        Self { cell, left, top, width, height }
    }

    fn corner(&self, row: usize, column: usize) -> (i32, i32) {
        (self.left + self.cell * column as i32, self.top + self.cell * row as i32)
    }
}

/// Draws the matrix with its labels, a value in each cell if there is room, and a scale.
pub fn draw_heatmap(
    path: &Path,
    matrix: &Array2<f64>,
    labels: &[String],
    title: &str,
) -> Result<(), Failure> {
    register_font();
    let layout = Layout::new(labels);
    let size = (layout.width, layout.height);
    let fail = |error: String| Failure::Other(format!("{}: {error}", path.display()));
    if path.extension().is_some_and(|ending| ending == "png") {
        draw(&BitMapBackend::new(path, size).into_drawing_area(), &layout, matrix, labels, title)
            .map_err(|error| fail(error.to_string()))
    } else {
        draw(&SVGBackend::new(path, size).into_drawing_area(), &layout, matrix, labels, title)
            .map_err(|error| fail(error.to_string()))
    }
}

/// Makes the font known to plotters.
pub fn register_font() {
    REGISTER.call_once(|| {
        // The font is a constant of this program; a test draws with it.
        let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT);
    });
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    layout: &Layout,
    matrix: &Array2<f64>,
    labels: &[String],
    title: &str,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let text = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&BLACK);
    area.draw_text(&format!("Distances, {title}"), &text(18), (layout.left, 14))?;
    let n = labels.len();
    let (low, high) = range(matrix);
    for ((row, column), &value) in matrix.indexed_iter() {
        let (x, y) = layout.corner(row, column);
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        let (paint, ink) = match (row == column, part > 0.6) {
            (true, _) => (DIAGONAL, BLACK),
            (false, true) => (colour(part), BLACK),
            (false, false) => (colour(part), WHITE),
        };
        area.draw(&Rectangle::new([(x, y), (x + layout.cell, y + layout.cell)], paint.filled()))?;
        if n <= NUMBERED {
            let style = text(layout.cell / 5 + 2).color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw_text(&short(value), &style, (x + layout.cell / 2, y + layout.cell / 2))?;
        }
    }
    // A label a cell, or as many as fit.
    let every = (12 / layout.cell.max(1)).max(1) as usize;
    for (i, label) in labels.iter().enumerate().step_by(every) {
        let label = shortened(label);
        let (x, y) = layout.corner(i, i);
        let at_row = text(13).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(&label, &at_row, (layout.left - 8, y + layout.cell / 2))?;
        let turned = ("sans-serif", 13).into_font().transform(FontTransform::Rotate90);
        let at_column = TextStyle::from(turned).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&label, &at_column, (x + layout.cell / 2, layout.top + layout.cell * n as i32 + 8))?;
    }
    draw_scale(area, layout, n as i32 * layout.cell, (low, high))?;
    area.present()
}

/// A bar of all colours with the values at its ends.
fn draw_scale<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    layout: &Layout,
    length: i32,
    (low, high): (f64, f64),
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let left = layout.left + length + 20;
    for step in 0..length {
        let y = layout.top + length - 1 - step;
        let shade = colour(f64::from(step) / f64::from(length));
        area.draw(&Rectangle::new([(left, y), (left + 14, y + 1)], shade.filled()))?;
    }
    let style = TextStyle::from(("sans-serif", 12).into_font()).color(&BLACK);
    let beside = style.pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&short(high), &beside, (left + 20, layout.top + 4))?;
    area.draw_text(&short(low), &beside, (left + 20, layout.top + length - 6))
}

/// Smallest and largest distance between different measures: the diagonal would take up most of the scale.
fn range(matrix: &Array2<f64>) -> (f64, f64) {
    let others = matrix.indexed_iter().filter(|((row, column), _)| row != column);
    others.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, &x)| (low.min(x), high.max(x)))
}

/// The colour of a part between 0 and 1.
pub fn colour(part: f64) -> RGBColor {
    let at = part.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let lower = (at as usize).min(SCALE.len() - 2);
    let (from, to, part) = (SCALE[lower], SCALE[lower + 1], at - lower as f64);
    let mix = |x: f64, y: f64| (x + (y - x) * part).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Three digits, whatever the magnitude.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e4).contains(&size) {
        format!("{value:.1e}")
    } else {
        format!("{value:.*}", (2 - size.log10().floor() as i32).clamp(0, 4) as usize)
    }
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= 24 {
        return label.to_owned();
    }
    label.chars().take(23).chain(['…']).collect()
}
