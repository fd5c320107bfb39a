//! Three samples of eight sensors. Plain transport finds two changes equally large; the robust metric
//! distinguishes them and names the sensors.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table};
use ndarray::Array2;
use robust_ot::{Measure, MetricSet, Problem, Settings, Solution};

use crate::failure::Failure;
use crate::output::TABLE_STYLE;

/// The samples, written by tools/make_demo_data.py.
const SAMPLES: [(&str, &str); 3] = [
    ("monday", include_str!("../../assets/demo/1-monday.csv")),
    ("tuesday", include_str!("../../assets/demo/2-tuesday.csv")),
    ("wednesday", include_str!("../../assets/demo/3-wednesday.csv")),
];

/// Compares the samples and prints what each distance shows.
pub fn run() -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let samples = SAMPLES.map(|(name, text)| (name, parse(text)));
    let names = header(SAMPLES[0].1);
    writeln!(out, "Eight sensors of a machine, {} readings per day.\n", samples[0].1.nrows())?;
    let measures = samples.map(|(name, points)| Measure::uniform(points).map(|measure| (name, measure)));
    let [monday, tuesday, wednesday] = measures;
    let (monday, tuesday, wednesday) = (monday?, tuesday?, wednesday?);
    let mut table = Table::new();
    table.load_style(TABLE_STYLE);
    table.set_header(["", "plain W2²", "robust W_P", "certified", "sensors the worst metric weighs most"]);
    let mut robust = Vec::new();
    for (name, sample) in [&tuesday, &wednesday] {
        let plain = solve(&monday.1, sample, MetricSet::W2)?;
        let worst = solve(&monday.1, sample, MetricSet::P { k: 1 })?;
        table.add_row([
            format!("monday → {name}"),
            format!("{:.3}", plain.value),
            format!("{:.3}", worst.value),
            format!("[{:.4}, {:.4}]", worst.lower_bound, worst.value),
            focus(&worst.metric, &names),
        ]);
        robust.push((plain.value, worst.value));
    }
    (1..=2).for_each(|c| {
        if let Some(column) = table.column_mut(c) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    });
    writeln!(out, "{table}\n")?;
    let (even, uneven) = (robust[1].0 / robust[0].0, robust[1].1 / robust[0].1);
    writeln!(out, "Plain transport finds both days about equally far from Monday (ratio {even:.2}).")?;
    writeln!(
        out,
        "Under the worst metric of unit norm, Wednesday is {uneven:.1} times as far as Tuesday: its change"
    )?;
    writeln!(out, "lies in two sensors that moved together; Tuesday's is spread over all eight.\n")?;
    writeln!(out, "Try it on your own files:  rot distance before.csv after.csv --explain")?;
    Ok(())
}

fn solve(source: &Measure, target: &Measure, set: MetricSet) -> Result<Solution, Failure> {
    Ok(Problem::new(source, target, set)?.solve(&Settings::default())?)
}

/// The two sensors with the largest weights, and their shares of the total.
fn focus(metric: &Array2<f64>, names: &[&str]) -> String {
    let diagonal = metric.diag();
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&x, &y| diagonal[y].total_cmp(&diagonal[x]));
    let part = |f: usize| 100.0 * diagonal[f] / diagonal.sum();
    order[..2].iter().map(|&f| format!("{} {:.0} %", names[f], part(f))).collect::<Vec<_>>().join(", ")
}

fn header(text: &str) -> Vec<&str> {
    text.lines().next().unwrap_or_default().split(',').collect()
}

/// Parses the rows below the header. The files are built in, so parsing cannot fail.
fn parse(text: &str) -> Array2<f64> {
    let columns = header(text).len();
    let numbers: Vec<f64> =
        text.lines().skip(1).flat_map(|line| line.split(',')).filter_map(|x| x.parse().ok()).collect();
    Array2::from_shape_vec((numbers.len() / columns, columns), numbers).unwrap_or_default()
}
