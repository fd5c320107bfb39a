//! Heatmaps of matrices.

use ndarray::Array2;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, color, short, shortened, signed_color, text};

/// The largest matrix size whose cells show their values.
const NUMBERED: usize = 14;
/// The maximum number of cells per side of a metric; more would make the page too heavy for a browser.
const MOST_CELLS: usize = 100;
/// The maximum number of characters of a label.
const LETTERS: usize = 24;
/// The width of a letter of the title, in pixels.
const TITLE_LETTER: i32 = 10;
/// The color of a diagonal that carries no information, and of cells without a value.
const DIAGONAL: RGBColor = RGBColor(225, 225, 225);
/// The color of numbers in light cells. It is not pure black, which a dark page would show light.
const DARK_INK: RGBColor = RGBColor(17, 17, 17);
/// The color of numbers in dark cells.
const LIGHT_INK: RGBColor = RGBColor(250, 250, 250);

/// A matrix with labels of its rows and its columns; cells that are not finite are left plain. Negative entries make the color
/// scale diverge from zero.
pub struct Heatmap<'a> {
    pub matrix: &'a Array2<f64>,
    pub rows: &'a [String],
    pub columns: &'a [String],
    pub title: &'a str,
    /// Leaves the diagonal out of the color scale: its zeros would take up most of it.
    pub plain_diagonal: bool,
}

/// A metric: its color scale diverges from zero even if no entry is negative.
pub struct MetricHeatmap<'a>(Heatmap<'a>);

/// Draws a metric. A large one is drawn as means of blocks, as the title then states.
pub fn metric_heatmap<T>(
    metric: &Array2<f64>,
    labels: &[String],
    title: &str,
    draw: impl FnOnce(&MetricHeatmap) -> T,
) -> T {
    let all = |matrix: &Array2<f64>, labels: &[String], title: &str| {
        draw(&MetricHeatmap(Heatmap { matrix, rows: labels, columns: labels, title, plain_diagonal: false }))
    };
    let (n, block) = (metric.nrows(), metric.nrows().div_ceil(MOST_CELLS).max(1));
    if block == 1 {
        return all(metric, labels, title);
    }
    let size = n.div_ceil(block);
    let range = |at: usize| at * block..((at + 1) * block).min(n);
    let mean = |(i, j): (usize, usize)| {
        let cells = range(i).flat_map(|a| range(j).map(move |b| metric[[a, b]]));
        cells.sum::<f64>() / (range(i).len() * range(j).len()) as f64
    };
    let matrix = Array2::from_shape_fn((size, size), mean);
    let labels: Vec<String> = (0..size).map(|at| labels[at * block].clone()).collect();
    all(&matrix, &labels, &format!("{title}, means of {block} × {block} entries"))
}

/// The range of values and their colors.
#[derive(Clone, Copy)]
struct Palette {
    low: f64,
    high: f64,
    diverges: bool,
}

impl Palette {
    /// The palette of some values; one that diverges has zero in its middle.
    fn new(values: impl Iterator<Item = f64>, signed: bool) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let diverges = signed || low < 0.0;
        let largest = low.abs().max(high.abs());
        let (low, high) = if diverges { (-largest, largest) } else { (low, high) };
        Self { low, high, diverges }
    }

    fn color(self, value: f64) -> RGBColor {
        match (self.high > self.low, self.diverges) {
            (true, true) => signed_color(value / self.high),
            (true, false) => color((value - self.low) / (self.high - self.low)),
            (false, true) => signed_color(0.0),
            (false, false) => color(0.0),
        }
    }
}

/// The ink that stands out more from a color.
fn ink_on(paint: RGBColor) -> RGBColor {
    if contrast(paint, DARK_INK) > contrast(paint, LIGHT_INK) { DARK_INK } else { LIGHT_INK }
}

/// The contrast ratio of the Web Content Accessibility Guidelines, (L₁ + 0.05) / (L₂ + 0.05) for the luminances L₁ ≥ L₂.
fn contrast(one: RGBColor, other: RGBColor) -> f64 {
    let linear = |part: u8| {
        let x = f64::from(part) / 255.0;
        if x <= 0.040_45 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
    };
    let light = |RGBColor(red, green, blue)| {
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) + 0.05
    };
    let (x, y) = (light(one), light(other));
    x.max(y) / x.min(y)
}

/// The positions of the parts, in pixels.
struct Layout {
    cell: i32,
    left: i32,
    top: i32,
    width: u32,
    height: u32,
}

impl Layout {
    fn new(Heatmap { rows, columns, title, .. }: &Heatmap) -> Self {
        let longest = |labels: &[String]| {
            labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).min(LETTERS) as i32
        };
        let cell = (640 / rows.len().max(columns.len()).max(1) as i32).clamp(6, 64);
        let (left, top) = (longest(rows) * 8 + 24, 44);
        let (across, down) = (cell * columns.len() as i32, cell * rows.len() as i32);
        let for_title = TITLE_LETTER * title.chars().count() as i32;
        let width = (left + (across + 110).max(for_title)) as u32;
        let height = (top + down + longest(columns) * 8 + 24) as u32;
        Self { cell, left, top, width, height }
    }

    fn corner(&self, row: usize, column: usize) -> (i32, i32) {
        (self.left + self.cell * column as i32, self.top + self.cell * row as i32)
    }
}

impl Drawing for Heatmap<'_> {
    fn size(&self) -> (u32, u32) {
        let layout = Layout::new(self);
        (layout.width, layout.height)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        self.draw_in(Palette::new(self.values(), false), area)
    }
}

impl Drawing for MetricHeatmap<'_> {
    fn size(&self) -> (u32, u32) {
        self.0.size()
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        self.0.draw_in(Palette::new(self.0.values(), true), area)
    }
}

impl Heatmap<'_> {
    /// The values on the color scale.
    fn values(&self) -> impl Iterator<Item = f64> {
        let all = self.matrix.indexed_iter();
        all.filter(|&((row, column), &value)| !self.is_plain(row, column, value)).map(|(_, &value)| value)
    }

    /// Whether a cell has no color.
    fn is_plain(&self, row: usize, column: usize, value: f64) -> bool {
        (self.plain_diagonal && row == column) || !value.is_finite()
    }

    /// Draws the cells with their labels, their values if there is space, and the color scale.
    fn draw_in<B: DrawingBackend>(&self, palette: Palette, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let layout = Layout::new(self);
        area.draw_text(self.title, &text(18), (layout.left, 14))?;
        let (down, across) = (self.rows.len(), self.columns.len());
        for ((row, column), &value) in self.matrix.indexed_iter() {
            let (x, y) = layout.corner(row, column);
            let plain = self.is_plain(row, column, value);
            let paint = if plain { DIAGONAL } else { palette.color(value) };
            area.draw(&Rectangle::new([(x, y), (x + layout.cell, y + layout.cell)], paint.filled()))?;
            if down.max(across) <= NUMBERED && value.is_finite() {
                let ink = ink_on(paint);
                let style = text(layout.cell / 5 + 2).color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
                area.draw_text(&short(value), &style, (x + layout.cell / 2, y + layout.cell / 2))?;
            }
        }
        // One label per cell, or as many as fit.
        let every = (12 / layout.cell.max(1)).max(1) as usize;
        for (i, label) in self.rows.iter().enumerate().step_by(every) {
            let (_, y) = layout.corner(i, 0);
            let at_row = text(15).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&shortened(label, LETTERS), &at_row, (layout.left - 8, y + layout.cell / 2))?;
        }
        for (i, label) in self.columns.iter().enumerate().step_by(every) {
            let (x, below) = layout.corner(down, i);
            let turned = ("sans-serif", 15).into_font().transform(FontTransform::Rotate90);
            let at_column = TextStyle::from(turned).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&shortened(label, LETTERS), &at_column, (x + layout.cell / 2, below + 8))?;
        }
        let lengths = (across as i32 * layout.cell, down as i32 * layout.cell);
        draw_scale(area, &layout, lengths, palette)
    }
}

/// Draws the color scale, with values at its ends, and zero in the middle if it diverges.
fn draw_scale<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    layout: &Layout,
    (across, length): (i32, i32),
    palette: Palette,
) -> Drawn<B> {
    let left = layout.left + across + 20;
    let Palette { low, high, diverges } = palette;
    for step in 0..length {
        let y = layout.top + length - 1 - step;
        let shade = palette.color(low + (high - low) * f64::from(step) / f64::from(length));
        // Steps overlap, so that no seams show between them.
        let below = (y + 2).min(layout.top + length);
        area.draw(&Rectangle::new([(left, y), (left + 14, below)], shade.filled()))?;
    }
    let beside = text(14).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&short(high), &beside, (left + 20, layout.top + 4))?;
    if diverges {
        area.draw_text("0", &beside, (left + 20, layout.top + length / 2))?;
    }
    area.draw_text(&short(low), &beside, (left + 20, layout.top + length - 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_white_on_a_scale_that_diverges() {
        let white = |paint: RGBColor| (paint.0, paint.1, paint.2) == (247, 247, 247);
        for values in [[-3.0, 1.0], [-1.0, 3.0]] {
            let palette = Palette::new(values.into_iter(), false);
            assert!((palette.low + palette.high).abs() < 1e-12 && white(palette.color(0.0)));
            let (cold, warm) = (palette.color(-3.0), palette.color(3.0));
            assert!(cold.2 > cold.0 && warm.0 > warm.2);
        }
        // Without negative values the smallest is the dark end, unless they are signed all the same.
        assert!(!Palette::new([0.0, 2.0].into_iter(), false).diverges);
        assert!(white(Palette::new([0.0, 2.0].into_iter(), true).color(0.0)));
        assert!(white(Palette::new([0.0].into_iter(), true).color(0.0)));
    }

    #[test]
    fn numbers_are_readable_on_every_color() {
        for step in -20..=20 {
            for paint in [signed_color(f64::from(step) / 20.0), color(f64::from(step) / 20.0)] {
                let contrast = contrast(paint, ink_on(paint));
                assert!(contrast > 4.2, "{paint:?} {contrast}");
            }
        }
    }
}
