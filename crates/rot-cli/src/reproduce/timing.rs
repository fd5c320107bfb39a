//! Seconds per epoch as a parameter grows.

use std::io::{self, Write};
use std::path::Path;

use robust_ot::solve::Interrupt;
use robust_ot_cuda::DeviceChoice;
use serde::Deserialize;
use serde_json::json;

use super::Progress;
use super::lines::{Lines, Results};
use super::training::train;
use crate::failure::Failure;
use crate::machine::machine;
use crate::picture::{Axis, Curve, Curves, save_both};
use crate::train::median_seconds;

/// The contents of an experiment file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub title: String,
    pub differs: String,
    /// The number of epochs per measurement, whose median is reported.
    pub epochs: usize,
    /// Options of `rot train`, with `{data}` for the data folder.
    pub data: String,
    pub chart: Vec<Chart>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub name: String,
    /// The name of the parameter that grows.
    pub x: String,
    values: Vec<u32>,
    series: Vec<Series>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    /// Options of `rot train`, with `{x}` for the value.
    options: String,
}

impl Timing {
    /// The same experiment with only the ends of every curve and one epoch each.
    pub fn quick(mut self) -> Self {
        self.epochs = 1;
        for chart in &mut self.chart {
            chart.values.dedup();
            let last = chart.values.len().saturating_sub(1);
            let mut at = 0;
            chart.values.retain(|_| {
                at += 1;
                at == 1 || at > last
            });
        }
        self
    }

    /// Measures the missing points, then prints and draws the curves.
    pub fn run(
        &self,
        name: &str,
        (data, out): (&Path, &Path),
        device: DeviceChoice,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let mut lines = Lines::open(&out.join(format!("{name}.jsonl")))?;
        let count = self.chart.iter().map(|chart| chart.values.len() * chart.series.len()).sum();
        let progress = Progress::new(name, count);
        for chart in &self.chart {
            for series in &chart.series {
                for &x in &chart.values {
                    let options = self.options(series, x);
                    progress.say(&format!("{}, {} {x}", series.name, chart.x));
                    if lines.results.get(&options).is_none() {
                        let outcome = train(&options, name, (data, out), device, interrupt)?;
                        let line = json!({
                            "experiment": name, "chart": chart.name, "series": series.name, "x": x,
                            "seconds_per_epoch": median_seconds(&outcome.history), "epochs": self.epochs,
                            "labels": outcome.model.label_names().len(), "rows": outcome.model.about.rows,
                            "command": format!("rot train {options}"), "version": env!("CARGO_PKG_VERSION"),
                            "machine": machine(), "device": outcome.model.about.device, "threads": rayon::current_num_threads(),
                        });
                        lines.put(&options, line)?;
                    }
                    progress.step();
                }
            }
        }
        progress.end();
        let mut printed = io::stdout().lock();
        writeln!(printed, "{}\n{}", self.title, self.differs)?;
        for chart in &self.chart {
            let curves = self.curves(chart, &lines.results);
            for curve in &curves {
                writeln!(printed, "{}: {}", curve.name, growth(curve, &chart.x))?;
            }
            let picture = format!("{name}-{}", chart.name);
            save_both(&chart.drawing(&curves), out, &picture)?;
            writeln!(printed, "picture: {} and .png", out.join(format!("{picture}.svg")).display())?;
        }
        Ok(())
    }

    fn options(&self, series: &Series, x: u32) -> String {
        let own = series.options.replace("{x}", &x.to_string());
        format!("{} {own} --epochs {}", self.data, self.epochs)
    }

    /// The measurements of a chart, one curve per series.
    pub fn curves(&self, chart: &Chart, results: &Results) -> Vec<Curve> {
        let curve = |series: &Series| {
            let point = |&x: &u32| {
                let found = results.get(&self.options(series, x))?;
                Some((f64::from(x), found["seconds_per_epoch"].as_f64()?))
            };
            Curve { name: series.name.clone(), points: chart.values.iter().filter_map(point).collect() }
        };
        chart.series.iter().map(curve).collect()
    }
}

impl Chart {
    /// The chart on logarithmic scales, where powers are straight lines.
    pub fn drawing<'a>(&'a self, curves: &'a [Curve]) -> Curves<'a> {
        Curves {
            title: "Seconds per epoch",
            x: Axis { name: &self.x, logarithmic: true },
            y: Axis { name: "seconds", logarithmic: true },
            all: curves,
        }
    }
}

/// The measured seconds, and the exponent of their growth over the upper part of the curve.
pub fn growth(curve: &Curve, x: &str) -> String {
    let seconds: Vec<String> = curve.points.iter().map(|(x, y)| format!("{y:.4} s at {x}")).collect();
    let half = &curve.points[(curve.points.len() / 2).saturating_sub(1)..];
    let power = match half {
        [first, .., last] => {
            format!("; grows as {x} to the power {:.2} at the upper end", slope(*first, *last))
        }
        _ => String::new(),
    };
    seconds.join(", ") + &power
}

fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.1 / from.1).ln() / (to.0 / from.0).ln()
}
