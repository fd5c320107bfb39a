//! Line charts with linear or logarithmic axes.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Drawing, Drawn, GRID, series_color, short, text};

/// Width and height of the picture in pixels.
const SIZE: (i32, i32) = (720, 420);
/// Margins around the plot area in pixels: left, right, top, bottom.
const MARGINS: (i32, i32, i32, i32) = (76, 150, 44, 56);
/// The approximate number of grid lines per axis.
const TICKS: f64 = 6.0;
/// The maximum number of points of a curve whose points are marked.
const MARKED: usize = 24;

/// An axis: its name and whether it is logarithmic.
pub struct Axis<'a> {
    pub name: &'a str,
    pub logarithmic: bool,
}

/// A named series of points.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A chart of several curves.
pub struct Curves<'a> {
    pub title: &'a str,
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub all: &'a [Curve],
}

/// An axis with the range of its values.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let shown = values.filter(|x| x.is_finite() && (!axis.logarithmic || *x > 0.0));
        let (low, high) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let logarithmic = axis.logarithmic;
        if low > high {
            return Self { low: 1.0, high: 2.0, logarithmic };
        }
        let (low, high) = if logarithmic {
            let workspace = (high / low).powf(0.05).max(1.05);
            (low / workspace, high * workspace)
        } else {
            let workspace = if high > low { 0.04 * (high - low) } else { 0.5 * high.abs().max(1e-3) };
            (low - workspace, high + workspace)
        };
        Self { low, high, logarithmic }
    }

    /// The position of a value between the low end (0) and the high end (1).
    fn part(&self, x: f64) -> f64 {
        if self.logarithmic {
            (x / self.low).ln() / (self.high / self.low).ln()
        } else {
            (x - self.low) / (self.high - self.low)
        }
    }

    /// Round numbers within the range.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let digits: &[f64] = if (self.high / self.low).log10() > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
            return all.filter(|x| (self.low..=self.high).contains(x)).collect();
        }
        let rough = (self.high - self.low) / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        if !(step.is_normal() && (self.high - self.low) / step < 100.0) {
            return Vec::new();
        }
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

impl Drawing for Curves<'_> {
    fn size(&self) -> (u32, u32) {
        (SIZE.0 as u32, SIZE.1 as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let all = || self.all.iter().flat_map(|curve| curve.points.iter());
        let x = Scale::new(&self.x, all().map(|point| point.0));
        let y = Scale::new(&self.y, all().map(|point| point.1));
        let (left, right, top, bottom) = MARGINS;
        let (width, height) = (SIZE.0 - left - right, SIZE.1 - top - bottom);
        let place = |(a, b): (f64, f64)| {
            (
                left + (x.part(a) * f64::from(width)) as i32,
                top + height - (y.part(b) * f64::from(height)) as i32,
            )
        };
        area.draw_text(self.title, &text(18), (left, 12))?;
        let fine = GRID.mix(0.5).stroke_width(1);
        for tick in x.ticks() {
            let at = place((tick, y.low));
            area.draw(&PathElement::new(vec![at, (at.0, top)], fine))?;
            let below = text(14).pos(Pos::new(HPos::Center, VPos::Top));
            area.draw_text(&plain(tick), &below, (at.0, at.1 + 8))?;
        }
        for tick in y.ticks() {
            let at = place((x.low, tick));
            area.draw(&PathElement::new(vec![at, (left + width, at.1)], fine))?;
            let beside = text(14).pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&plain(tick), &beside, (left - 8, at.1))?;
        }
        let below = text(15).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(self.x.name, &below, (left + width / 2, SIZE.1 - 16))?;
        let turned = ("sans-serif", 15).into_font().transform(FontTransform::Rotate270);
        let upwards = TextStyle::from(turned).color(&BLACK).pos(Pos::new(HPos::Center, VPos::Center));
        area.draw_text(self.y.name, &upwards, (18, top + height / 2))?;
        for (number, curve) in self.all.iter().enumerate() {
            let paint = series_color(number);
            let points: Vec<(i32, i32)> = curve
                .points
                .iter()
                .filter(|point| x.part(point.0).is_finite() && y.part(point.1).is_finite())
                .map(|point| place(*point))
                .collect();
            if points.len() <= MARKED {
                points.iter().try_for_each(|at| area.draw(&Circle::new(*at, 4, paint.filled())))?;
            }
            area.draw(&PathElement::new(points, paint.stroke_width(2)))?;
            let at = (left + width + 16, top + 10 + 22 * number as i32);
            area.draw(&PathElement::new(vec![at, (at.0 + 18, at.1)], paint.stroke_width(3)))?;
            area.draw_text(
                &curve.name,
                &text(14).pos(Pos::new(HPos::Left, VPos::Center)),
                (at.0 + 24, at.1),
            )?;
        }
        Ok(())
    }
}

/// Formats a round number without its floating-point error.
fn plain(tick: f64) -> String {
    let near = (tick * 1e6).round() / 1e6;
    if near == 0.0 && tick.abs() > 1e-12 {
        return short(tick);
    }
    if near.abs() >= 1e6 { short(tick) } else { near.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_on_the_scale() {
        let linear = Axis { name: "", logarithmic: false };
        let scale = Scale::new(&linear, [0.0, 0.93].into_iter());
        assert_eq!(
            scale.ticks().iter().map(|x| plain(*x)).collect::<Vec<_>>(),
            ["0", "0.2", "0.4", "0.6", "0.8"]
        );
        let scale = Scale::new(&Axis { name: "", logarithmic: true }, [2.0, 100.0].into_iter());
        assert_eq!(scale.ticks(), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let tiny = Scale::new(&linear, [0.0, f64::from_bits(1)].into_iter());
        assert!(tiny.ticks().len() < 100);
        // A single value and no values at all still have a scale.
        for values in [vec![], vec![3.0], vec![f64::NAN]] {
            let scale = Scale::new(&linear, values.into_iter());
            assert!(scale.low < scale.high && !scale.ticks().is_empty());
        }
    }
}
