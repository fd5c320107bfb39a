//! Small histograms side by side, each of one or two samples on its own axis.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, GRID, series_color, short, shortened, text};

/// Panels side by side at their usual width.
const ACROSS: usize = 4;
/// Width and height of a panel in pixels, with its titles.
const PANEL: (i32, i32) = (232, 172);
/// Pixels between the bars of two panels.
const BETWEEN: i32 = 28;
/// Height of the bars.
const BARS: i32 = 92;
/// Pixels above the first panel, for title and legend.
const TOP: i32 = 66;
/// Pixels to the left of the first panel.
const LEFT: i32 = 16;
/// The maximum number of characters of a title.
const LETTERS: usize = 28;

/// The maximum number of characters of a caption, whose letters are smaller.
const CAPTION: usize = 40;

/// Histograms of one or two samples in the same bins.
pub struct Panel {
    pub title: String,
    /// A line below the title.
    pub caption: String,
    /// The ends of the axis.
    pub range: (f64, f64),
    /// Shares of each sample in bins of equal width.
    pub samples: Vec<Vec<f64>>,
    /// A value to mark with a vertical line.
    pub mark: Option<f64>,
}

/// Panels with a common legend.
pub struct Panels<'a> {
    pub title: &'a str,
    /// The names of the samples.
    pub samples: &'a [&'a str],
    /// The name of the mark.
    pub mark: Option<&'a str>,
    pub all: &'a [Panel],
    /// The most panels side by side; more than four are narrower.
    pub across: usize,
}

impl Panels<'_> {
    /// The number of panels side by side, and the width of each.
    fn layout(&self) -> (usize, i32) {
        let across = self.all.len().clamp(2, self.across.max(2));
        (across, PANEL.0 * ACROSS as i32 / across.max(ACROSS) as i32)
    }
}

impl Drawing for Panels<'_> {
    fn size(&self) -> (u32, u32) {
        let (across, width) = self.layout();
        let down = self.all.len().div_ceil(across).max(1) as i32;
        ((LEFT + across as i32 * width) as u32, (TOP + down * PANEL.1) as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        area.draw_text(self.title, &text(18), (LEFT, 8))?;
        let beside = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        let mut at = LEFT;
        for (number, name) in self.samples.iter().enumerate() {
            area.draw(&Rectangle::new([(at, 38), (at + 14, 50)], fill(number)))?;
            area.draw_text(name, &beside, (at + 20, 44))?;
            at += 40 + 8 * name.chars().count() as i32;
        }
        if let Some(name) = self.mark {
            area.draw(&PathElement::new(vec![(at + 7, 36), (at + 7, 52)], series_color(1).stroke_width(2)))?;
            area.draw_text(name, &beside, (at + 20, 44))?;
        }
        let (across, width) = self.layout();
        for (number, panel) in self.all.iter().enumerate() {
            let (column, row) = ((number % across) as i32, (number / across) as i32);
            panel.draw(area, (LEFT + column * width, TOP + row * PANEL.1), width - BETWEEN)?;
        }
        Ok(())
    }
}

/// The color of a sample, which others show through.
fn fill(number: usize) -> ShapeStyle {
    series_color(number).mix(if number == 0 { 0.75 } else { 0.6 }).filled()
}

impl Panel {
    /// Draws the panel with bars of this width in all.
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        (left, top): (i32, i32),
        bars: i32,
    ) -> Drawn<B> {
        area.draw_text(&shortened(&self.title, LETTERS), &text(15), (left, top))?;
        area.draw_text(&shortened(&self.caption, CAPTION), &text(12), (left, top + 18))?;
        let base = top + 36 + BARS;
        let highest = self.samples.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        let (low, high) = self.range;
        let width = if high > low { high - low } else { 1.0 };
        for (number, shares) in self.samples.iter().enumerate() {
            let edge = |bin: usize| left + (bin as i32 * bars) / shares.len().max(1) as i32;
            for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let height = (share / highest * f64::from(BARS)).round() as i32;
                area.draw(&Rectangle::new(
                    [(edge(bin), base - height), (edge(bin + 1), base)],
                    fill(number),
                ))?;
            }
        }
        if let Some(mark) = self.mark {
            let at = left + ((mark - low) / width * f64::from(bars)) as i32;
            area.draw(&PathElement::new(
                vec![(at, base - BARS), (at, base)],
                series_color(1).stroke_width(2),
            ))?;
        }
        area.draw(&PathElement::new(vec![(left, base), (left + bars, base)], GRID.stroke_width(1)))?;
        area.draw_text(&short(low), &text(13), (left, base + 5))?;
        let at_right = text(13).pos(Pos::new(HPos::Right, VPos::Top));
        area.draw_text(&short(high), &at_right, (left + bars, base + 5))
    }
}
