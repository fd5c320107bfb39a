//! Scatter plots of point clouds, the last of them on top.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, GRID, series_color, short, shortened, text};

/// Width and height of the plot area in pixels.
const PLANE: (i32, i32) = (480, 420);
/// Pixels to the left of the plot area, for the numbers.
const LEFT: i32 = 86;
/// Pixels to the right, for the legend.
const RIGHT: i32 = 210;
/// Pixels above, for the title.
const TOP: i32 = 50;
/// Pixels below, for numbers and name of the axis.
const BELOW: i32 = 56;
/// Number of grid lines in each direction.
const TICKS: i32 = 4;
/// The maximum number of characters of a name.
const LETTERS: usize = 24;
/// The largest number of clouds in the legend.
const NAMED: usize = 16;
/// The part of the range that is left free on each side.
const MARGIN: f64 = 0.04;

/// Points with a name.
pub struct Cloud {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// The weight of every point, relative to the largest: it is drawn as a black ring of that area.
    pub shares: Option<Vec<f64>>,
}

/// Clouds in two features.
pub struct Scatter<'a> {
    pub title: &'a str,
    /// The names of both axes.
    pub axes: [&'a str; 2],
    pub clouds: &'a [Cloud],
}

impl Scatter<'_> {
    /// The ends of one axis, with a margin.
    fn range(&self, pick: fn(&(f64, f64)) -> f64) -> (f64, f64) {
        let all = self.clouds.iter().flat_map(|cloud| &cloud.points).map(pick);
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let width = if high > low { high - low } else { low.abs().max(1.0) };
        (low - MARGIN * width, high + MARGIN * width)
    }
}

impl Drawing for Scatter<'_> {
    fn size(&self) -> (u32, u32) {
        ((LEFT + PLANE.0 + RIGHT) as u32, (TOP + PLANE.1 + BELOW) as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let (across, up) = (self.range(|point| point.0), self.range(|point| point.1));
        let x_of =
            |x: f64| LEFT + ((x - across.0) / (across.1 - across.0) * f64::from(PLANE.0)).round() as i32;
        let y_of = |y: f64| TOP + PLANE.1 - ((y - up.0) / (up.1 - up.0) * f64::from(PLANE.1)).round() as i32;
        area.draw_text(self.title, &text(18), (16, 12))?;
        let below = text(12).pos(Pos::new(HPos::Center, VPos::Top));
        let beside = text(12).pos(Pos::new(HPos::Right, VPos::Center));
        let line = GRID.mix(0.5).stroke_width(1);
        for tick in 0..=TICKS {
            let part = f64::from(tick) / f64::from(TICKS);
            let (x, y) = (across.0 + part * (across.1 - across.0), up.0 + part * (up.1 - up.0));
            area.draw(&PathElement::new(vec![(x_of(x), TOP), (x_of(x), TOP + PLANE.1)], line))?;
            area.draw(&PathElement::new(vec![(LEFT, y_of(y)), (LEFT + PLANE.0, y_of(y))], line))?;
            area.draw_text(&short(x), &below, (x_of(x), TOP + PLANE.1 + 8))?;
            area.draw_text(&short(y), &beside, (LEFT - 8, y_of(y)))?;
        }
        area.draw_text(
            &shortened(self.axes[0], 2 * LETTERS),
            &below,
            (LEFT + PLANE.0 / 2, TOP + PLANE.1 + 30),
        )?;
        area.draw_text(&shortened(self.axes[1], 2 * LETTERS), &text(12), (16, TOP - 18))?;
        let named = text(12).pos(Pos::new(HPos::Left, VPos::Center));
        let last = self.clouds.len().saturating_sub(1);
        for (number, cloud) in self.clouds.iter().enumerate() {
            for (at, point) in cloud.points.iter().enumerate() {
                let place = (x_of(point.0), y_of(point.1));
                match &cloud.shares {
                    None => area.draw(&Circle::new(place, 3, series_color(number).mix(0.55).filled()))?,
                    Some(shares) if shares[at] > 0.0 => {
                        area.draw(&Circle::new(place, 1.0 + 5.0 * shares[at].sqrt(), BLACK.stroke_width(2)))?;
                    }
                    Some(_) => {}
                }
            }
            // The last cloud is always named.
            let row = if number == last { number.min(NAMED) } else { number };
            if row < NAMED || number == last {
                let y = TOP + 10 + 20 * row as i32;
                let mark = (LEFT + PLANE.0 + 22, y);
                match cloud.shares {
                    None => area.draw(&Circle::new(mark, 5, series_color(number).filled()))?,
                    Some(_) => area.draw(&Circle::new(mark, 5, BLACK.stroke_width(2)))?,
                }
                area.draw_text(&shortened(&cloud.name, LETTERS), &named, (LEFT + PLANE.0 + 34, y))?;
            }
        }
        Ok(())
    }
}
