//! The nearest neighbors are those of the full matrix, and the certain ones are.

mod common;

use robust_ot::solve::{Interrupt, Nearest, NearestSettings, PairSettings, nearest, solve_pairs};
use robust_ot::{Grouping, Measure, MetricSet, Problem, Settings};

use common::measure;

/// Measures in a few clusters, some with many points.
fn documents(count: u64) -> Vec<Measure> {
    let shifted = |seed: u64| {
        let own = measure(4 + (seed as usize * 7) % 9, 4, seed);
        let shift = 3.0 * (seed % 3) as f64;
        Measure::new(own.points() + shift, own.weights().clone()).unwrap()
    };
    (1..=count).map(shifted).collect()
}

#[derive(Clone)]
struct Case {
    measures: Vec<Measure>,
    grouping: Grouping,
    set: MetricSet,
    entropy: f64,
    settings: Settings,
}

impl Case {
    fn find(&self, queries: &[(usize, f64)], documents: &[usize], top: usize) -> Vec<Nearest> {
        let measures: Vec<&Measure> = self.measures.iter().collect();
        let wanted = NearestSettings { queries, documents, top };
        let found = nearest(wanted, self.pairs(&measures), &Interrupt::default(), &|_| ()).unwrap();
        found.into_iter().map(Result::unwrap).collect()
    }

    fn pairs<'a>(&'a self, measures: &'a [&'a Measure]) -> PairSettings<'a> {
        let Self { grouping, set, entropy, settings, .. } = self;
        PairSettings { measures, grouping, set, entropy: *entropy, settings }
    }

    /// All distances from a query, by value, as (value, lower bound, document).
    fn sorted(&self, query: usize, documents: &[usize]) -> Vec<(f64, f64, usize)> {
        let measures: Vec<&Measure> = self.measures.iter().collect();
        let others: Vec<usize> = documents.iter().copied().filter(|&other| other != query).collect();
        let pairs: Vec<_> = others.iter().map(|&other| (query.min(other), query.max(other))).collect();
        let solved = solve_pairs(&pairs, self.pairs(&measures), &Interrupt::default(), &|_| ());
        let solved = solved.into_iter().zip(others).map(|(found, other)| (found.unwrap(), other));
        let mut all: Vec<_> = solved.map(|(found, other)| (found.value, found.lower_bound, other)).collect();
        all.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.2.cmp(&y.2)));
        all
    }
}

fn cases() -> Vec<Case> {
    let sets = [
        (MetricSet::W2, 0.0),
        (MetricSet::P { k: 1 }, 0.0),
        (MetricSet::P { k: 2 }, 0.2),
        (MetricSet::Features { lambda: 2.0 }, 0.0),
        (MetricSet::Srw { k: 2 }, 0.0),
    ];
    let case = |(set, entropy)| Case {
        measures: documents(30),
        grouping: Grouping::none(4),
        set,
        entropy,
        settings: Settings::default(),
    };
    let grouped =
        Case { grouping: Grouping::contiguous(4, 2).unwrap(), ..case((MetricSet::P { k: 1 }, 0.0)) };
    sets.map(case).into_iter().chain([grouped]).collect()
}

#[test]
fn neighbors_are_those_of_the_full_matrix() {
    for case in cases() {
        let precise = Case { settings: Settings::default().with_tolerance(1e-7), ..case.clone() };
        // Among themselves, and from some to others.
        let all: Vec<usize> = (0..30).collect();
        for (queries, documents) in [(&all[..8], &all[..]), (&all[..5], &all[5..])] {
            let asked: Vec<_> = queries.iter().map(|&query| (query, f64::INFINITY)).collect();
            let found = case.find(&asked, documents, 3);
            for (&query, found) in queries.iter().zip(&found) {
                let truth = case.sorted(query, documents);
                assert_eq!(found.neighbors.len(), 3);
                // What a solve to a smaller gap proves about the documents outside the list.
                let least =
                    |all: &[(f64, f64, usize)]| all.iter().fold(f64::INFINITY, |x, other| x.min(other.1));
                let inside: Vec<usize> = truth[..3].iter().map(|found| found.2).collect();
                let outside: Vec<usize> =
                    documents.iter().copied().filter(|at| !inside.contains(at)).collect();
                let sharp = least(&precise.sorted(query, &outside));
                for (neighbor, &(value, _, other)) in found.neighbors.iter().zip(&truth) {
                    assert_eq!(neighbor.measure, other, "{} {query}", case.set);
                    assert_eq!(neighbor.distance.value.to_bits(), value.to_bits());
                    if neighbor.certain {
                        assert!(neighbor.distance.lower_bound <= sharp, "{} {query}", case.set);
                    } else {
                        assert!(value > least(&truth[3..]), "{} {query}", case.set);
                    }
                }
            }
            let solved: usize = found.iter().map(|found| found.solved).sum();
            assert!(solved < queries.len() * (documents.len() - 1), "{}: {solved}", case.set);
        }
    }
}

#[test]
fn a_limit_leaves_out_what_is_further() {
    let case = &cases()[1];
    let documents: Vec<usize> = (0..30).collect();
    let truth = case.sorted(4, &documents);
    let limit = 0.5 * (truth[1].0 + truth[2].0);
    let found = &case.find(&[(4, limit)], &documents, 3)[0];
    let indices: Vec<_> = found.neighbors.iter().map(|neighbor| neighbor.measure).collect();
    assert_eq!(indices, [truth[0].2, truth[1].2]);
    assert!(found.next_lower_bound > truth[1].0);
}

#[test]
fn equal_documents_are_uncertain_only_where_the_list_ends_between_them() {
    let (near, twin) = (measure(5, 3, 1), measure(5, 3, 2));
    let case = Case {
        measures: vec![near.clone(), near, twin.clone(), twin.clone(), twin],
        grouping: Grouping::none(3),
        set: MetricSet::P { k: 1 },
        entropy: 0.0,
        // Coarse, so that equal distances have bounds that overlap.
        settings: Settings::default().with_tolerance(0.5).with_max_iterations(1),
    };
    let found = &case.find(&[(0, f64::INFINITY)], &[1, 2, 3, 4], 2)[0];
    let certain: Vec<_> = found.neighbors.iter().map(|found| (found.measure, found.certain)).collect();
    assert_eq!(certain, [(1, true), (2, false)]);
    let all = &case.find(&[(0, f64::INFINITY)], &[1, 2, 3, 4], 4)[0];
    assert!(all.neighbors.iter().all(|found| found.certain));
}

#[test]
fn what_does_not_fit_is_refused_and_an_interrupt_ends_the_search() {
    let case = &cases()[0];
    let measures: Vec<&Measure> = case.measures.iter().collect();
    let refused = |queries: &[(usize, f64)], documents: &[usize], top| {
        let wanted = NearestSettings { queries, documents, top };
        let found = nearest(wanted, case.pairs(&measures), &Interrupt::default(), &|_| ());
        found.unwrap_err().to_string()
    };
    let free = f64::INFINITY;
    assert!(refused(&[(0, free)], &[1, 2], 0).contains("top must be at least 1"));
    assert!(refused(&[(0, free)], &[1, 30], 1).contains("30"));
    assert!(refused(&[(0, f64::NAN)], &[1, 2], 1).contains("limit"));
    // Fewer documents than neighbors, or none besides the query itself.
    let few = case.find(&[(0, free), (1, free)], &[0, 2], 5);
    assert_eq!((few[0].neighbors.len(), few[1].neighbors.len()), (1, 2));
    assert!(case.find(&[(0, free)], &[0], 1)[0].neighbors.is_empty());
    let interrupt = Interrupt::default();
    interrupt.raise();
    let wanted = NearestSettings { queries: &[(0, free)], documents: &[1, 2], top: 1 };
    let found = nearest(wanted, case.pairs(&measures), &interrupt, &|_| ()).unwrap();
    assert!(found[0].as_ref().unwrap().neighbors.is_empty());
}

#[test]
fn the_trace_alone_decides_w2_in_any_groups() {
    let measures = documents(6);
    let measures: Vec<&Measure> = measures.iter().collect();
    let pairs: Vec<_> = (0..6).flat_map(|i| (i..6).map(move |j| (i, j))).collect();
    let (set, settings) = (MetricSet::W2, Settings::default());
    let groupings =
        [Grouping::none(4), Grouping::contiguous(4, 2).unwrap(), Grouping::random(4, 3, 1).unwrap()];
    for grouping in groupings {
        let wanted = PairSettings {
            measures: &measures,
            grouping: &grouping,
            set: &set,
            entropy: 0.0,
            settings: &settings,
        };
        let solved = solve_pairs(&pairs, wanted, &Interrupt::default(), &|_| ());
        for (&(i, j), found) in pairs.iter().zip(solved) {
            let problem = Problem::grouped(measures[i], measures[j], set.clone(), &grouping).unwrap();
            let single = problem.solve(&settings).unwrap();
            let found = found.unwrap();
            assert!((found.value - single.value).abs() <= 1e-12 * (1.0 + single.value), "{i} {j}");
            assert!(found.lower_bound <= single.value && single.lower_bound <= found.value);
        }
    }
}
