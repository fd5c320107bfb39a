//! Heatmaps of matrices.

use ndarray::Array2;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, color, short, shortened, text};

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

/// A matrix with labels of its rows and its columns; cells that are not finite are left plain.
pub struct Heatmap<'a> {
    pub matrix: &'a Array2<f64>,
    pub rows: &'a [String],
    pub columns: &'a [String],
    pub title: &'a str,
    /// Leaves the diagonal out of the color scale: its zeros would take up most of it.
    pub plain_diagonal: bool,
}

/// Draws a metric. A large one is drawn as means of blocks, as the title then states.
pub fn metric_heatmap<T>(
    metric: &Array2<f64>,
    labels: &[String],
    title: &str,
    draw: impl FnOnce(&Heatmap) -> T,
) -> T {
    let (n, block) = (metric.nrows(), metric.nrows().div_ceil(MOST_CELLS).max(1));
    if block == 1 {
        return draw(&Heatmap {
            matrix: metric,
            rows: labels,
            columns: labels,
            title,
            plain_diagonal: false,
        });
    }
    let size = n.div_ceil(block);
    let range = |at: usize| at * block..((at + 1) * block).min(n);
    let mean = |(i, j): (usize, usize)| {
        let cells = range(i).flat_map(|a| range(j).map(move |b| metric[[a, b]]));
        cells.sum::<f64>() / (range(i).len() * range(j).len()) as f64
    };
    let matrix = Array2::from_shape_fn((size, size), mean);
    let labels: Vec<String> = (0..size).map(|at| labels[at * block].clone()).collect();
    let title = format!("{title}, means of {block} × {block} entries");
    draw(&Heatmap { matrix: &matrix, rows: &labels, columns: &labels, title: &title, plain_diagonal: false })
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

    /// Draws the cells with their labels, their values if there is space, and the color scale.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let layout = Layout::new(self);
        area.draw_text(self.title, &text(18), (layout.left, 14))?;
        let (down, across) = (self.rows.len(), self.columns.len());
        let (low, high) = self.range();
        for ((row, column), &value) in self.matrix.indexed_iter() {
            let (x, y) = layout.corner(row, column);
            let part = if high > low { (value - low) / (high - low) } else { 0.0 };
            let plain = (self.plain_diagonal && row == column) || !value.is_finite();
            let (paint, ink) = match (plain, part > 0.6) {
                (true, _) => (DIAGONAL, DARK_INK),
                (false, true) => (color(part), DARK_INK),
                (false, false) => (color(part), LIGHT_INK),
            };
            area.draw(&Rectangle::new([(x, y), (x + layout.cell, y + layout.cell)], paint.filled()))?;
            if down.max(across) <= NUMBERED && value.is_finite() {
                let style = text(layout.cell / 5 + 2).color(&ink).pos(Pos::new(HPos::Center, VPos::Center));
                area.draw_text(&short(value), &style, (x + layout.cell / 2, y + layout.cell / 2))?;
            }
        }
        // One label per cell, or as many as fit.
        let every = (12 / layout.cell.max(1)).max(1) as usize;
        for (i, label) in self.rows.iter().enumerate().step_by(every) {
            let (_, y) = layout.corner(i, 0);
            let at_row = text(13).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&shortened(label, LETTERS), &at_row, (layout.left - 8, y + layout.cell / 2))?;
        }
        for (i, label) in self.columns.iter().enumerate().step_by(every) {
            let (x, below) = layout.corner(down, i);
            let turned = ("sans-serif", 13).into_font().transform(FontTransform::Rotate90);
            let at_column = TextStyle::from(turned).color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&shortened(label, LETTERS), &at_column, (x + layout.cell / 2, below + 8))?;
        }
        let lengths = (across as i32 * layout.cell, down as i32 * layout.cell);
        draw_scale(area, &layout, lengths, (low, high))
    }
}

impl Heatmap<'_> {
    /// The smallest and the largest value on the color scale.
    fn range(&self) -> (f64, f64) {
        let shown =
            self.matrix.indexed_iter().filter(|((row, column), _)| !self.plain_diagonal || row != column);
        shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, &x)| (low.min(x), high.max(x)))
    }
}

/// Draws the color scale, with values at its ends.
fn draw_scale<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    layout: &Layout,
    (across, length): (i32, i32),
    (low, high): (f64, f64),
) -> Drawn<B> {
    let left = layout.left + across + 20;
    for step in 0..length {
        let y = layout.top + length - 1 - step;
        let shade = color(f64::from(step) / f64::from(length));
        area.draw(&Rectangle::new([(left, y), (left + 14, y + 1)], shade.filled()))?;
    }
    let beside = text(12).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(&short(high), &beside, (left + 20, layout.top + 4))?;
    area.draw_text(&short(low), &beside, (left + 20, layout.top + length - 6))
}
