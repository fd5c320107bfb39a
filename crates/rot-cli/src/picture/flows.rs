//! Where the values of a column go: the optimal plan between two histograms, as lines from before to after.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, GRID, series_color, short, shortened, text};

/// Width and height of a panel in pixels, with its titles.
const PANEL: (i32, i32) = (232, 236);
/// Width and height of the lines.
const LINES: (i32, i32) = (150, 150);
/// Pixels between the axis of a panel and its left edge, for the numbers.
const NUMBERS: i32 = 44;
/// Pixels above the panels, for title and legend.
const TOP: i32 = 66;
/// Pixels to the left of the first panel.
const LEFT: i32 = 16;
/// The width of a line that carries everything, in pixels.
const WIDEST: f64 = 60.0;
/// The maximum number of characters of a title.
const LETTERS: usize = 28;

/// Shares before and after in the same bins of equal width.
pub struct Flow {
    pub title: String,
    /// The ends of the axis.
    pub range: (f64, f64),
    pub before: Vec<f64>,
    pub after: Vec<f64>,
}

/// Flows side by side, with a common legend.
pub struct Flows<'a> {
    pub title: &'a str,
    pub all: &'a [Flow],
}

impl Drawing for Flows<'_> {
    fn size(&self) -> (u32, u32) {
        ((LEFT + self.all.len().max(2) as i32 * PANEL.0) as u32, (TOP + PANEL.1) as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        area.draw_text(self.title, &text(18), (LEFT, 8))?;
        let beside = text(12).pos(Pos::new(HPos::Left, VPos::Center));
        for (number, (name, paint)) in
            [("up", series_color(1)), ("down", series_color(0)), ("stays", GRID)].into_iter().enumerate()
        {
            let at = LEFT + 90 * number as i32;
            area.draw(&PathElement::new(vec![(at, 44), (at + 16, 44)], paint.stroke_width(4)))?;
            area.draw_text(name, &beside, (at + 22, 44))?;
        }
        for (number, flow) in self.all.iter().enumerate() {
            flow.draw(area, (LEFT + number as i32 * PANEL.0, TOP))?;
        }
        Ok(())
    }
}

impl Flow {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, (left, top): (i32, i32)) -> Drawn<B> {
        area.draw_text(&shortened(&self.title, LETTERS), &text(13), (left, top))?;
        let (left, top) = (left + NUMBERS, top + 26);
        let (right, base) = (left + LINES.0, top + LINES.1);
        let bins = self.before.len().max(1) as f64;
        let height = |bin: usize| base - ((bin as f64 + 0.5) / bins * f64::from(LINES.1)) as i32;
        for (from, to, mass) in monotone_plan(&self.before, &self.after) {
            let paint = match to.cmp(&from) {
                std::cmp::Ordering::Greater => series_color(1),
                std::cmp::Ordering::Less => series_color(0),
                std::cmp::Ordering::Equal => GRID,
            };
            let style = paint.mix(0.6).stroke_width((WIDEST * mass).ceil() as u32);
            area.draw(&PathElement::new(vec![(left, height(from)), (right, height(to))], style))?;
        }
        for (x, name) in [(left, "before"), (right, "after")] {
            area.draw(&PathElement::new(vec![(x, top), (x, base)], GRID.stroke_width(1)))?;
            area.draw_text(name, &text(12).pos(Pos::new(HPos::Center, VPos::Top)), (x, base + 6))?;
        }
        let numbers = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw_text(&short(self.range.0), &numbers, (left - 6, base - 5))?;
        area.draw_text(&short(self.range.1), &numbers, (left - 6, top + 5))
    }
}

/// The plan (from, to, mass) that keeps the order of values, which is optimal for every convex cost.
fn monotone_plan(before: &[f64], after: &[f64]) -> Vec<(usize, usize, f64)> {
    /// Below this, a rest is rounding.
    const REST: f64 = 1e-12;
    let (mut plan, mut from, mut to) = (Vec::new(), 0, 0);
    let mut left = [before.first().copied().unwrap_or(0.0), after.first().copied().unwrap_or(0.0)];
    while from < before.len() && to < after.len() {
        let mass = left[0].min(left[1]);
        if mass > REST {
            plan.push((from, to, mass));
        }
        left = left.map(|rest| rest - mass);
        if left[0] <= REST {
            from += 1;
            left[0] = before.get(from).copied().unwrap_or(0.0);
        }
        if left[1] <= REST {
            to += 1;
            left[1] = after.get(to).copied().unwrap_or(0.0);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_keeps_order_and_mass() {
        let (before, after) = ([0.25, 0.0, 0.5, 0.25], [0.0, 0.5, 0.125, 0.375]);
        let plan = monotone_plan(&before, &after);
        for (bin, (x, y)) in before.into_iter().zip(after).enumerate() {
            let leaves: f64 = plan.iter().filter(|flow| flow.0 == bin).map(|flow| flow.2).sum();
            let arrives: f64 = plan.iter().filter(|flow| flow.1 == bin).map(|flow| flow.2).sum();
            assert!((leaves - x).abs() < 1e-12 && (arrives - y).abs() < 1e-12);
        }
        assert!(plan.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1));
        assert_eq!(monotone_plan(&[], &[]), []);
    }
}
