//! Dot plots of scores: one line per model, with our mean and spread next to the published score.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, GRID, series_color, shortened, text};

/// Height of a line in pixels.
const LINE: i32 = 22;
/// Pixels to the left of the plot area, for the names.
const LEFT: i32 = 230;
/// Width of the plot area in pixels.
const PLANE: i32 = 420;
/// Pixels to the right of the plot area.
const RIGHT: i32 = 30;
/// Pixels above the plot area, for title and legend.
const TOP: i32 = 76;
/// The maximum number of characters of a name.
const LETTERS: usize = 30;
/// The distance between grid lines, in units of the score.
const TICK: f64 = 0.1;

/// One line: a model and its scores.
pub struct Dot {
    pub name: String,
    pub mean: f64,
    pub deviation: f64,
    pub published: Option<f64>,
}

/// A dot plot of scores between 0 and 1.
pub struct Dots<'a> {
    pub title: &'a str,
    pub dots: &'a [Dot],
}

impl Dots<'_> {
    /// The ends of the scale, rounded outward to grid lines.
    fn range(&self) -> (f64, f64) {
        let all = self
            .dots
            .iter()
            .flat_map(|dot| [Some(dot.mean - dot.deviation), Some(dot.mean + dot.deviation), dot.published]);
        let (low, high) = all.flatten().fold((1.0_f64, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        (((low / TICK).floor() * TICK).max(0.0), ((high / TICK).ceil() * TICK).min(1.0).max(low + TICK))
    }
}

impl Drawing for Dots<'_> {
    fn size(&self) -> (u32, u32) {
        ((LEFT + PLANE + RIGHT) as u32, (TOP + LINE * self.dots.len() as i32 + 40) as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let (low, high) = self.range();
        let at = |x: f64| LEFT + ((x - low) / (high - low) * f64::from(PLANE)) as i32;
        let bottom = TOP + LINE * self.dots.len() as i32;
        let (ours, theirs) = (series_color(0), series_color(1));
        area.draw_text(self.title, &text(18), (16, 12))?;
        let beside = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Circle::new((LEFT, 52), 5, ours.filled()))?;
        area.draw_text("ours, mean ± standard deviation", &beside, (LEFT + 12, 52))?;
        if self.dots.iter().any(|dot| dot.published.is_some()) {
            area.draw(&Circle::new((LEFT + 260, 52), 5, theirs.stroke_width(2)))?;
            area.draw_text("published", &beside, (LEFT + 272, 52))?;
        }
        let ticks = ((high - low) / TICK).round() as i32;
        for tick in 0..=ticks {
            let x = low + f64::from(tick) * TICK;
            area.draw(&PathElement::new(
                vec![(at(x), TOP - 6), (at(x), bottom)],
                GRID.mix(0.5).stroke_width(1),
            ))?;
            let below = text(14).pos(Pos::new(HPos::Center, VPos::Top));
            area.draw_text(&format!("{x:.1}"), &below, (at(x), bottom + 8))?;
        }
        for (line, dot) in self.dots.iter().enumerate() {
            let y = TOP + LINE * line as i32 + LINE / 2;
            let name = text(15).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&shortened(&dot.name, LETTERS), &name, (LEFT - 12, y))?;
            let spread = vec![(at(dot.mean - dot.deviation), y), (at(dot.mean + dot.deviation), y)];
            area.draw(&PathElement::new(spread, ours.stroke_width(2)))?;
            area.draw(&Circle::new((at(dot.mean), y), 5, ours.filled()))?;
            if let Some(published) = dot.published {
                area.draw(&Circle::new((at(published), y), 5, theirs.stroke_width(2)))?;
            }
        }
        Ok(())
    }
}
