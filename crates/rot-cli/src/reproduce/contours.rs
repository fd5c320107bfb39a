//! Contour plots of losses over the simplex of predictions for three labels.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Parser;
use ndarray::{Array2, Axis};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot_learn::data::{LabelVectors, to_length_one};
use serde::Deserialize;
use serde_json::json;

use super::lines::{Lines, Results};
use crate::failure::Failure;
use crate::machine::machine;
use crate::metric_options::MetricOptions;
use crate::picture::{Drawing, Drawn, color, save_both, text};

/// Steps along a side of the simplex.
const STEPS: usize = 100;
/// Intervals between the lines of equal loss from 0 to 1.
const LEVELS: usize = 10;
/// Width and height of a panel in pixels.
const PANEL: (i32, i32) = (360, 380);
/// Side of a panel's triangle in pixels.
const SIDE: f64 = 280.0;
/// Entropy of the losses, too small to change them.
const ENTROPY: f64 = 1e-30;

/// The contents of an experiment file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contours {
    pub title: String,
    vectors: String,
    /// The last label is the true one.
    labels: [String; 3],
    pub differs: String,
    panel: Vec<Panel>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    name: String,
    options: String,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct PanelLine {
    #[command(flatten)]
    metric: MetricOptions,
}

/// The loss at (x, y) = (i, j) / STEPS for i + j ≤ STEPS, divided by the largest.
type Grid = Array2<f64>;

impl Contours {
    /// Evaluates the panels that have no result yet and draws all of them as SVG and PNG.
    pub fn run(&self, name: &str, data: &Path, out: &Path) -> Result<(), Failure> {
        let path = PathBuf::from(self.vectors.replace("{data}", &data.display().to_string()));
        let LabelVectors { mut vectors, missing } = LabelVectors::read(&path, &self.labels)?;
        if let Some(&label) = missing.first() {
            return Err(Failure::Input(format!(
                "{}: must have a vector for '{}', but has none",
                path.display(),
                self.labels[label]
            )));
        }
        to_length_one(&mut vectors);
        let mut lines = Lines::open(&out.join(format!("{name}.jsonl")))?;
        for panel in &self.panel {
            if lines.results.get(&panel.options).is_none() {
                let grid = panel.grid(&vectors)?;
                let rows: Vec<Vec<f64>> = grid.axis_iter(Axis(0)).map(|row| row.to_vec()).collect();
                let found = json!({
                    "panel": panel.name, "labels": self.labels, "steps": STEPS, "loss": rows,
                    "version": env!("CARGO_PKG_VERSION"), "machine": machine(),
                });
                lines.put(&panel.options, found)?;
            }
        }
        let mut printed = io::stdout().lock();
        writeln!(printed, "{}", self.title)?;
        if let Some(panels) = self.panels(&lines.results) {
            panels.facts().iter().try_for_each(|fact| writeln!(printed, "{fact}"))?;
            save_both(&panels, out, name)?;
            let picture = out.join(format!("{name}.svg"));
            writeln!(printed, "picture: {} and .png", picture.display())?;
        }
        writeln!(printed, "{}", self.differs)?;
        Ok(())
    }

    /// All panels, or None if one has no result yet.
    pub fn panels(&self, results: &Results) -> Option<Panels<'_>> {
        let grid = |panel: &Panel| -> Option<Grid> {
            let rows = results.get(&panel.options)?["loss"].as_array()?;
            let mut grid = Array2::zeros((STEPS + 1, STEPS + 1));
            for (place, cell) in grid.indexed_iter_mut() {
                *cell = rows.get(place.0)?.get(place.1)?.as_f64()?;
            }
            Some(grid)
        };
        let grids = self.panel.iter().map(grid).collect::<Option<Vec<_>>>()?;
        Some(Panels { contours: self, grids })
    }
}

/// All panels, side by side.
pub struct Panels<'a> {
    contours: &'a Contours,
    grids: Vec<Grid>,
}

impl Panels<'_> {
    /// One sentence per panel.
    pub fn facts(&self) -> Vec<String> {
        let [near, far, truth] = &self.contours.labels;
        let fact = |(panel, grid): (&Panel, &Grid)| {
            let (first, second) = (grid[[STEPS, 0]], grid[[0, STEPS]]);
            let bend = grid[[STEPS / 2, STEPS / 2]] - 0.5 * (first + second);
            format!(
                "{}: predicting {near} for {truth} costs {:.3} times as much as {far}; halfway between, the loss is \
                 {bend:+.3} off a straight line",
                panel.name,
                first / second
            )
        };
        self.contours.panel.iter().zip(&self.grids).map(fact).collect()
    }
}

impl Drawing for Panels<'_> {
    fn size(&self) -> (u32, u32) {
        (PANEL.0 as u32 * self.grids.len() as u32, PANEL.1 as u32)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        let Contours { panel: panels, labels, .. } = self.contours;
        for (at, (panel, grid)) in panels.iter().zip(&self.grids).enumerate() {
            let corner = (PANEL.0 * at as i32, 0);
            let place = |x: f64, y: f64| {
                // The true label is on top, the others are left and right.
                let (right, up) = (0.5 * (1.0 - x - y) + y, (1.0 - x - y) * 0.75_f64.sqrt());
                let (left, bottom) = (0.5 * (f64::from(PANEL.0) - SIDE), f64::from(PANEL.1) - 60.0);
                (corner.0 + (left + SIDE * right) as i32, (bottom - SIDE * up) as i32)
            };
            for [p, q, r] in triangles() {
                let corners = [p, q, r].map(|(i, j)| place(part(i), part(j)));
                let mean = [p, q, r].map(|at| grid[[at.0, at.1]]).iter().sum::<f64>() / 3.0;
                area.draw(&Polygon::new(corners.to_vec(), color(mean).filled()))?;
            }
            for level in 1..LEVELS {
                let level = level as f64 / LEVELS as f64;
                for triangle in triangles() {
                    if let Some((from, to)) = crossing(grid, triangle, level) {
                        area.draw(&PathElement::new(
                            vec![place(from.0, from.1), place(to.0, to.1)],
                            WHITE.stroke_width(1),
                        ))?;
                    }
                }
            }
            let center = |size: i32| text(size).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw_text(&panel.name, &center(18), (corner.0 + PANEL.0 / 2, 20))?;
            let top = place(0.0, 0.0);
            area.draw_text(&format!("{} (true)", labels[2]), &center(13), (top.0, top.1 - 12))?;
            for (label, (x, y)) in labels.iter().zip([(1.0, 0.0), (0.0, 1.0)]) {
                let corner = place(x, y);
                area.draw_text(label, &center(13), (corner.0, corner.1 + 16))?;
            }
        }
        Ok(())
    }
}

impl Panel {
    fn grid(&self, vectors: &Array2<f64>) -> Result<Grid, Failure> {
        let metric = PanelLine::try_parse_from(self.options.split_whitespace())?.metric.read()?;
        let settings =
            LossSettings { set: metric.set().clone(), entropy: ENTROPY, ..LossSettings::truncated() };
        let loss = RobustLoss::<f64>::new(vectors, &metric.grouping(vectors.ncols())?, settings)?;
        let places: Vec<(usize, usize)> =
            (0..=STEPS).flat_map(|i| (0..=STEPS - i).map(move |j| (i, j))).collect();
        let predictions = Array2::from_shape_fn((places.len(), 3), |(row, label)| {
            let (i, j) = places[row];
            // ln 0 is not finite; the smallest positive number stands in for zero.
            part([i, j, STEPS - i - j][label]).max(f64::MIN_POSITIVE).ln()
        });
        let targets = Targets::new(3, places.iter().map(|_| [2]))?;
        let found = loss.loss_gradient(predictions.view(), &targets)?.losses;
        // The losses of ds and features contain a constant. It is subtracted, so that the true label costs nothing.
        let least = found[0];
        let largest = found.iter().fold(0.0_f64, |top, x| top.max(x - least));
        let mut grid = Array2::from_elem((STEPS + 1, STEPS + 1), 0.0);
        places.iter().zip(&found).for_each(|(&place, x)| grid[place] = (x - least) / largest);
        Ok(grid)
    }
}

fn part(steps: usize) -> f64 {
    steps as f64 / STEPS as f64
}

/// The small triangles of the grid.
fn triangles() -> impl Iterator<Item = [(usize, usize); 3]> {
    (0..STEPS).flat_map(|i| {
        (0..STEPS - i).flat_map(move |j| {
            let lower = [(i, j), (i + 1, j), (i, j + 1)];
            let upper = (i + j + 2 <= STEPS).then_some([(i + 1, j), (i, j + 1), (i + 1, j + 1)]);
            std::iter::once(lower).chain(upper)
        })
    })
}

/// The two points where a level crosses the sides of a triangle, if it does.
fn crossing(grid: &Grid, triangle: [(usize, usize); 3], level: f64) -> Option<((f64, f64), (f64, f64))> {
    let mut points = Vec::new();
    for (p, q) in [(0, 1), (1, 2), (2, 0)] {
        let (from, to) = (triangle[p], triangle[q]);
        let (low, high) = (grid[from], grid[to]);
        if (low < level) != (high < level) {
            let t = (level - low) / (high - low);
            let along = |x: usize, y: usize| part(x) + t * (part(y) - part(x));
            points.push((along(from.0, to.0), along(from.1, to.1)));
        }
    }
    match points[..] {
        [from, to] => Some((from, to)),
        _ => None,
    }
}
