//! Compares values with an independent convex solver (`tools/make_references.py`): every metric set, exact and entropic.

use ndarray::{Array1, Array2};
use robust_ot::sets::Prior;
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    name: String,
    metric: String,
    k: Option<u32>,
    rho: Value,
    lambda: Option<f64>,
    prior: Value,
    groups: Option<usize>,
    entropy: f64,
    source: Vec<Vec<f64>>,
    target: Vec<Vec<f64>>,
    source_weights: Vec<f64>,
    target_weights: Vec<f64>,
    value: f64,
}

fn matrix(rows: &[Vec<f64>]) -> Array2<f64> {
    Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).unwrap()
}

impl Case {
    fn prior(&self) -> Prior {
        match &self.prior {
            Value::String(name) if name == "eye" => Prior::Eye,
            Value::String(name) if name == "ones" => Prior::Ones,
            rows => Prior::Matrix(matrix(&serde_json::from_value::<Vec<Vec<f64>>>(rows.clone()).unwrap())),
        }
    }

    fn set(&self) -> MetricSet {
        match self.metric.as_str() {
            "w2" => MetricSet::W2,
            "p" => MetricSet::P { k: self.k.unwrap() },
            "p-power" => MetricSet::PPower { k: self.k.unwrap() },
            "kl" => MetricSet::Kl { lambda: self.lambda.unwrap(), prior: self.prior() },
            "ds" => MetricSet::Ds { lambda: self.lambda.unwrap(), prior: self.prior() },
            "features" => MetricSet::Features { lambda: self.lambda.unwrap() },
            "srw" => MetricSet::Srw { k: self.k.unwrap() as usize },
            "rkp" => MetricSet::Rkp { rho: self.rho.as_f64().unwrap_or(f64::INFINITY) },
            other => panic!("unknown metric {other}"),
        }
    }

    fn problem(&self) -> Problem {
        let measure = |points: &[Vec<f64>], weights: &[f64]| {
            Measure::new(matrix(points), Array1::from(weights.to_vec())).unwrap()
        };
        let source = measure(&self.source, &self.source_weights);
        let target = measure(&self.target, &self.target_weights);
        let dim = source.dim();
        let grouping = self.groups.map_or(Grouping::none(dim), |r| Grouping::contiguous(dim, r).unwrap());
        Problem::grouped(&source, &target, self.set(), &grouping).unwrap().with_entropy(self.entropy).unwrap()
    }
}

#[test]
fn every_metric_set_agrees_with_an_independent_convex_solver() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("data/references.json")).unwrap();
    assert!(cases.len() >= 24);
    let settings = Settings::default().with_tolerance(1e-8).with_max_iterations(5000);
    for case in cases {
        let solution = case.problem().solve(&settings).unwrap();
        let Case { name, value, .. } = &case;
        println!(
            "{name}: {value:.9} in [{:.9}, {:.9}] after {} calls, {}",
            solution.lower_bound, solution.value, solution.oracle_calls, solution.status
        );
        assert!((solution.value - value).abs() <= 1e-6, "{name}: {} is not {value}", solution.value);
        assert!(
            solution.lower_bound <= value + 2e-9,
            "{name}: lower bound {} above {value}",
            solution.lower_bound
        );
        assert!(solution.value >= value - 2e-9, "{name}: value {} below {value}", solution.value);
    }
}
