//! Comparisons as a whole.

use ndarray::{Array1, Array2, Axis, s};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use robust_ot::MetricSet;
use robust_ot::solve::Interrupt;

use super::*;
use crate::scale::Scale;
use crate::testing::rng;

fn normal(rng: &mut ChaCha8Rng, shape: (usize, usize)) -> Array2<f64> {
    Array2::from_shape_simple_fn(shape, || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0)
}

fn samples(before: Array2<f64>, after: Array2<f64>) -> Samples {
    let names = (0..before.ncols()).map(|column| format!("c{column}")).collect();
    Samples { before, after, names, ..Samples::default() }
}

fn run(samples: &Samples, settings: &CompareSettings) -> Comparison {
    compare(samples, settings, &Interrupt::default(), &|_| ()).unwrap().unwrap()
}

fn quick() -> CompareSettings {
    CompareSettings { permutations: 99, ..CompareSettings::default() }
}

#[test]
fn each_kind_of_change_is_found_where_it_is() {
    let mut rng = rng(21);
    let (before, after) = (normal(&mut rng, (150, 8)), normal(&mut rng, (120, 8)));
    let mut shifted = after.clone();
    shifted.column_mut(3).mapv_inplace(|x| x + 0.9);
    let found = run(&samples(before.clone(), shifted), &quick());
    assert!(found.p_value == 0.01 && found.differs);
    assert!(found.features[0].name == "c3" && found.features[0].p_value <= 0.02);
    assert_eq!(found.features[0].change.kind, Kind::Mean);
    assert!(found.features[1].p_value > 0.05, "{:?}", found.features[1]);
    assert!(found.features[0].weight.unwrap() > 2.0 * found.features[1].weight.unwrap());

    let mut wide = after.clone();
    wide.column_mut(5).mapv_inplace(|x| 1.9 * x);
    let found = run(&samples(before.clone(), wide), &quick());
    assert!(found.features[0].name == "c5" && found.features[0].change.kind == Kind::Spread);

    let mut joint = after.clone();
    let mixed = 0.8 * &joint.column(2) + 0.6 * &joint.column(6);
    joint.column_mut(6).assign(&mixed);
    let found = run(&samples(before, joint), &quick());
    assert!(found.p_value <= 0.02, "{}", found.p_value);
    assert_eq!(found.pairs[0].names, ["c2", "c6"]);
    assert!(found.pairs[0].p_value <= 0.02 && found.pairs[1].p_value > 0.05);
    assert!(found.features.iter().all(|feature| feature.p_value > 0.05));
}

/// p ≤ α in at most a share α of null draws: 200 draws, with ties and unequal sides.
#[test]
fn false_alarms_are_as_rare_as_promised() {
    let mut rng = rng(2);
    let mut alarms = [0_u32; 4];
    let draws = 200;
    for _ in 0..draws {
        let table = |rng: &mut ChaCha8Rng, rows| normal(rng, (rows, 3)).mapv(|x| (2.0 * x).round());
        let samples = samples(table(&mut rng, 12), table(&mut rng, 20));
        let settings = CompareSettings { permutations: 39, seed: rng.random(), ..CompareSettings::default() };
        let found = run(&samples, &settings);
        alarms[0] += u32::from(found.p_value <= 0.1);
        alarms[1] += u32::from(found.features[0].p_value <= 0.1);
        alarms[2] += u32::from(found.pairs[0].p_value <= 0.1);
        alarms[3] += u32::from(found.parts.iter().any(|part| part.p_value <= 0.1));
    }
    // .1 + 3.5 standard errors.
    let limit = f64::from(draws) * (0.1 + 3.5 * (0.09 / f64::from(draws)).sqrt());
    assert!(alarms[..3].iter().all(|count| f64::from(*count) <= limit), "{alarms:?}");
    // Without the adjustment for five statistics there would be more.
    assert!(alarms[3] > alarms[0], "{alarms:?}");
}

#[test]
fn units_order_of_columns_and_signs_do_not_matter() {
    let mut rng = rng(3);
    let (before, after) = (normal(&mut rng, (40, 4)), normal(&mut rng, (30, 4)) + 0.2);
    let found = run(&samples(before.clone(), after.clone()), &quick());
    let units = Array1::from(vec![1e-3, -50.0, 7.0, 1e6]);
    let order = [2, 0, 3, 1];
    let change = |table: &Array2<f64>| ((table * &units) + 3.0).select(Axis(1), &order);
    let other = run(&samples(change(&before), change(&after)), &quick());
    assert_eq!(found.p_value, other.p_value);
    for feature in &found.features {
        let column: usize = feature.name[1..].parse().unwrap();
        let name = format!("c{}", order.iter().position(|at| *at == column).unwrap());
        let same = other.features.iter().find(|other| other.name == name).unwrap();
        assert_eq!(feature.p_value, same.p_value);
        assert!((feature.statistic - same.statistic).abs() < 1e-6);
    }
}

#[test]
fn threads_change_nothing() {
    let mut rng = rng(4);
    let samples = samples(normal(&mut rng, (50, 5)), normal(&mut rng, (60, 5)));
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| run(&samples, &quick()));
        serde_json::to_string(&found).unwrap()
    };
    assert_eq!(of(1), of(3));
}

#[test]
fn groups_are_judged_by_their_own_columns() {
    let mut rng = rng(5);
    let (before, mut after) = (normal(&mut rng, (80, 6)), normal(&mut rng, (80, 6)));
    let mixed = 0.9 * &after.column(2) + 0.43 * &after.column(3);
    after.column_mut(3).assign(&mixed);
    let groups =
        vec![("left".into(), vec![0, 1]), ("middle".into(), vec![2, 3]), ("right".into(), vec![4, 5])];
    let found = run(&Samples { groups, ..samples(before, after) }, &quick());
    assert_eq!((found.groups[0].name.as_str(), found.groups[0].columns.len()), ("middle", 2));
    assert!(found.groups[0].p_value <= 0.02 && found.groups[1].p_value > 0.05);
}

/// A column that differs only because the strata have other shares on each side has not changed.
#[test]
fn strata_explain_what_they_can() {
    let mut rng = rng(6);
    let strata: Vec<usize> =
        (0..120).map(|row| usize::from(if row < 60 { row % 4 == 0 } else { row % 4 != 0 })).collect();
    let mut values = normal(&mut rng, (120, 2));
    for (mut row, stratum) in values.rows_mut().into_iter().zip(&strata) {
        row[0] += 3.0 * *stratum as f64;
    }
    let mut samples = samples(values.slice(s![..60, ..]).to_owned(), values.slice(s![60.., ..]).to_owned());
    assert!(run(&samples, &quick()).p_value <= 0.02);
    samples.center_by = Some(strata.clone());
    let settings = CompareSettings { exchange: Exchange::Strata(strata), ..quick() };
    assert!(run(&samples, &settings).p_value > 0.05);
}

#[test]
fn one_distance_is_a_statistic_too() {
    let mut rng = rng(7);
    let (before, mut after) = (normal(&mut rng, (30, 4)), normal(&mut rng, (25, 4)));
    after.column_mut(1).mapv_inplace(|x| x + 1.5);
    for set in [MetricSet::W2, MetricSet::P { k: 1 }, MetricSet::Srw { k: 1 }] {
        let settings = CompareSettings { statistic: Statistic::Distance(set), ..quick() };
        let found = run(&samples(before.clone(), after.clone()), &settings);
        assert!(found.p_value <= 0.03, "{} {}", found.statistic, found.p_value);
        assert!(found.decided_by_bounds.unwrap() > 50 || found.statistic == "w2", "{found:?}");
        assert!(found.parts.is_empty());
    }
}

#[test]
fn constant_columns_are_named_and_bad_samples_refused() {
    let mut rng = rng(8);
    let (mut before, mut after) = (normal(&mut rng, (20, 3)), normal(&mut rng, (20, 3)));
    before.column_mut(1).fill(4.0);
    after.column_mut(1).fill(4.0);
    let found = run(&samples(before.clone(), after.clone()), &quick());
    assert_eq!((found.constant_columns, found.columns.len()), (vec!["c1".to_owned()], 2));
    let message = |samples: Samples, settings: CompareSettings| {
        compare(&samples, &settings, &Interrupt::default(), &|_| ()).unwrap_err().to_string()
    };
    let constant = samples(Array2::ones((3, 1)), Array2::ones((4, 1)));
    assert_eq!(message(constant, quick()), "columns must vary, but each of 1 is constant");
    let single = samples(before.slice(s![..1, ..]).to_owned(), after.clone());
    assert_eq!(message(single, quick()), "before must have at least two rows, but has 1");
    let few = CompareSettings { permutations: 18, ..quick() };
    let both = || samples(before.clone(), after.clone());
    assert!(
        message(both(), few).starts_with("permutations must be at least 19 for p-values as small as 0.05")
    );
    let alpha = CompareSettings { alpha: 1.0, ..quick() };
    assert!(message(both(), alpha).contains("alpha must be above 0 and below 1, but is 1"));
    let labels = CompareSettings { exchange: Exchange::Strata(vec![0; 39]), ..quick() };
    assert!(message(both(), labels).contains("one label for each of 40 rows"));
}

#[test]
fn more_rows_than_allowed_are_drawn_and_counted() {
    let mut rng = rng(9);
    let samples = samples(normal(&mut rng, (90, 2)), normal(&mut rng, (40, 2)));
    let found = run(&samples, &CompareSettings { max_rows: 50, scale: Scale::Robust, ..quick() });
    assert_eq!((found.rows, found.rows_given), ([50, 40], [90, 40]));
    assert!(found.moved.iter().all(|m| m.before < 90 && m.after < 40));
}

/// Each pair moves by the same small step, far below the spread of the rows: only pairs show it, also some of them.
#[test]
fn pairs_and_strata_are_drawn_as_they_are() {
    let mut rng = rng(13);
    let before = normal(&mut rng, (90, 2)) * 10.0;
    let after = &before + &(normal(&mut rng, (90, 2)) * 0.1 + 0.3);
    let samples = samples(before, after);
    let drawn = |exchange| CompareSettings { max_rows: 50, exchange, ..quick() };
    let found = run(&samples, &drawn(Exchange::Pairs));
    assert_eq!((found.rows, found.p_value), ([50, 50], 0.01));
    let halves = Exchange::Strata((0..180).map(|row| row % 2).collect());
    assert!(run(&samples, &drawn(halves)).p_value > 0.05);
}

#[test]
fn an_interrupt_ends_the_comparison() {
    let mut rng = rng(10);
    let samples = samples(normal(&mut rng, (20, 2)), normal(&mut rng, (20, 2)));
    let interrupt = Interrupt::default();
    interrupt.raise();
    assert!(compare(&samples, &quick(), &interrupt, &|_| ()).unwrap().is_none());
}
