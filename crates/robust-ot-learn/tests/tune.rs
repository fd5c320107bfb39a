//! Tuning: what wins, how a killed run goes on, and what is refused.

use std::time::Duration;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robust_ot::loss::Targets;
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::Features;
use robust_ot_learn::{Candidate, Criterion, Dataset, FitSettings, Samples, TuneEvent, Tuned, Tuning};

/// Points of the plane; the label is whether both coordinates have the same sign, which no linear model tells.
fn quadrants(rows: usize, seed: u64) -> (Array2<f32>, Targets) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let x = Array2::from_shape_fn((rows, 2), |_| rng.random_range(-1.0_f32..1.0));
    let labels: Vec<[usize; 1]> = x.outer_iter().map(|row| [usize::from(row[0] * row[1] > 0.0)]).collect();
    (x, Targets::new(2, labels).unwrap())
}

fn samples(rows: usize, seed: u64) -> Samples {
    let (x, truth) = quadrants(rows, seed);
    Samples::new(Dataset::new(Features::Dense(x), truth).unwrap(), vec!["apart".into(), "alike".into()])
}

fn tuning(seconds: f64) -> Tuning {
    Tuning::new(FitSettings::default(), Duration::from_secs_f64(seconds), Criterion::Auc)
}

fn run(tuning: &Tuning, samples: Samples, tell: &mut dyn FnMut(TuneEvent)) -> Tuned {
    tuning.run(samples, &Interrupt::default(), tell).unwrap().expect("nothing interrupts it")
}

#[test]
fn a_hidden_layer_wins_where_no_line_parts_the_labels() {
    let mut scored = 0;
    let tuned = run(&tuning(4.0), samples(400, 1), &mut |event| {
        scored += usize::from(matches!(event, TuneEvent::Scored(_)));
    });
    let Candidate::Steps(steps) = tuned.trials[0].candidate else { panic!("{:?}", tuned.trials) };
    assert!(steps.hidden.is_some());
    let linear = tuned.trials.iter().find(|trial| trial.candidate == Candidate::Linear).unwrap();
    assert!(linear.scores.auc < 0.7, "{linear:?}");
    assert!(scored >= tuned.trials.len());
    for pair in tuned.trials.windows(2) {
        assert!(pair[0].scores.auc >= pair[1].scores.auc);
    }
    // Rows that no candidate has seen.
    let (x, truth) = quadrants(500, 2);
    let probabilities = tuned.fitted.model.probabilities(Features::Dense(x)).unwrap();
    let right = (0..500).filter(|&row| (probabilities[[row, 1]] > 0.5) == (truth.row(row) == [1])).count();
    assert!(right > 400, "{right} of 500, {}", tuned.trials[0].candidate);
    assert_eq!(tuned.fitted.model.about.epochs, tuned.trials[0].best_epoch);
    assert!(tuned.fitting_seconds <= tuned.seconds);
}

#[test]
fn an_interrupted_run_goes_on_with_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Tuning { folder: Some(folder.path().to_owned()), ..tuning(4.0) };
    let interrupt = Interrupt::default();
    let mut scored = Vec::new();
    let outcome = first.run(samples(300, 3), &interrupt, &mut |event| {
        if let TuneEvent::Scored(trial) = event {
            scored.push(trial.clone());
            if scored.len() == 4 {
                interrupt.raise();
            }
        }
    });
    assert!(outcome.unwrap().is_none());
    assert_eq!(scored.len(), 4);
    first.resume = true;
    let mut again = Vec::new();
    let tuned = run(&first, samples(300, 3), &mut |event| {
        if let TuneEvent::Scored(trial) = event {
            again.push(trial.clone());
        }
    });
    // The linear model is not fitted again, and candidates go on from the epochs they had.
    assert!(again.iter().all(|trial| trial.candidate != Candidate::Linear));
    assert!(tuned.trials.iter().any(|trial| trial.candidate == Candidate::Linear));
    for trial in &tuned.trials {
        let before = scored.iter().rev().find(|before| before.candidate == trial.candidate);
        if let Some(before) = before {
            assert!(trial.epochs >= before.epochs && trial.path.starts_with(&before.path), "{trial:?}");
        }
    }
    // A finished run has nothing left to try, and ends with the same model.
    let last = run(&first, samples(300, 3), &mut |_| ());
    assert_eq!(last.fitted.model.to_bytes().unwrap(), tuned.fitted.model.to_bytes().unwrap());
    let other = first.run(samples(300, 4), &Interrupt::default(), &mut |_| ()).unwrap_err();
    assert!(other.to_string().contains("other data"), "{other}");
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let message = |tuning: Tuning, samples| {
        tuning.run(samples, &Interrupt::default(), &mut |_| ()).unwrap_err().to_string()
    };
    let wide = Dataset::new(
        Features::Dense(Array2::zeros((4000, 300))),
        Targets::new(2, (0..4000).map(|row| [row % 2])).unwrap(),
    );
    let wide = Samples::new(wide.unwrap(), vec!["a".into(), "b".into()]);
    assert!(message(tuning(1e-6), wide).contains("budget must be long enough for one model, about"));
    let semantic = Tuning { select: Criterion::Semantic, ..tuning(1.0) };
    assert!(
        message(semantic, samples(60, 0))
            .contains("select must be auc, map, p@1 or rank without label vectors")
    );
    let mut none = tuning(1.0);
    none.settings.validation = Some(0.0);
    assert!(message(none, samples(60, 0)).contains("validation must be above 0"));
    let x = Features::Dense(Array2::zeros((2, 1)));
    let single = Dataset::new(x, Targets::new(2, [[0], [1]]).unwrap()).unwrap();
    let single = Samples::new(single, vec!["a".into(), "b".into()]);
    assert!(message(tuning(1.0), single).contains("two of some label at least"));
}
