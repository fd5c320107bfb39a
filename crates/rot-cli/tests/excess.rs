//! The excess over equal clouds, for sets whose penalty has an offset.

mod common;

use common::Scratch;

#[test]
fn equal_clouds_have_no_excess() {
    let scratch = Scratch::new();
    for (set, negative) in [("ds", true), ("features", true), ("kl", false), ("p", false), ("srw", false)] {
        let same = scratch.json(&format!("distance a.csv a.csv --metric {set}"));
        let number = |key: &str| same[key].as_f64().unwrap();
        assert_eq!(number("value") < -0.1, negative, "{same}");
        assert!(number("excess").abs() < 1e-9 && number("excess_lower_bound") <= number("excess"), "{same}");
        // The bracket of the value is as wide as the rounding of h(0); the excess has none.
        let width = number("value") - number("lower_bound");
        assert!(
            (number("value") - number("offset") - number("excess")).abs() <= width && width < 1e-10,
            "{same}"
        );
        let other = scratch.json(&format!("distance a.csv b.csv --metric {set}"));
        assert!(other["excess"].as_f64().unwrap() > 0.5 && other["offset"] == same["offset"], "{other}");
        let all = scratch.json(&format!("pairwise a.csv b.csv --metric {set}"));
        assert_eq!((&all["offset"], &all["matrix"][0][1]), (&same["offset"], &other["value"]));
    }
}

#[test]
fn the_excess_comes_first_where_it_is_not_the_value() {
    let scratch = Scratch::new();
    let text = scratch.out("distance a.csv a.csv --metric features --run folder");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("excess     0.000000"), "{text}");
    assert!(lines[1].starts_with("certified  ") && lines[1].contains(" ≤ W − h(0) ≤ 0.000000"), "{text}");
    // ln 2 − 1
    assert!(lines[2].ends_with("W ≤ -0.306853, with h(0) = -0.306853"), "{text}");
    scratch.out("report folder");
    assert!(scratch.read("folder/report.html").contains("with h(0) = -0.306853"));
    assert!(scratch.out("pairwise a.csv a.csv --metric features").contains("h(0) = -0.306853"));
    assert!(scratch.out("distance a.csv b.csv").starts_with("distance "));
}
