//! `rot barycenter`, and `rot distance --debias`, as a user runs them.

mod common;

use common::Scratch;

/// Three translates of one cloud, whose barycenter of w2 is the cloud around the mean shift.
fn translates() -> Scratch {
    let scratch = Scratch::new();
    for (name, shift) in [("l", 0.0), ("m", 1.0), ("n", 5.0)] {
        let rows = [(0.0, 0.0), (1.0, 0.0), (0.0, 3.0), (2.0, 4.0)];
        let rows = rows.map(|(x, y): (f64, f64)| format!("{},{y}", x + shift));
        scratch.write(&format!("{name}.csv"), format!("x,y\n{}\n", rows.join("\n")));
    }
    scratch
}

#[test]
fn translates_meet_at_their_mean() {
    let scratch = translates();
    let line = "barycenter l.csv m.csv n.csv --points 4 --metric w2";
    let found = scratch.json(&format!("{line} --out b.csv --picture b.svg"));
    // Shifts of 0, 1 and 5 have the mean 2 and the variance 14/3.
    let value = found["value"].as_f64().unwrap();
    assert!((value - 14.0 / 3.0).abs() < 1e-9, "{value}");
    assert!(found["lower_bound"].as_f64().unwrap() <= value);
    assert_eq!(found["status"], "converged");
    let distances: Vec<f64> =
        found["distances"].as_array().unwrap().iter().map(|d| d.as_f64().unwrap()).collect();
    for (distance, expected) in distances.iter().zip([4.0, 1.0, 9.0]) {
        assert!((distance - expected).abs() < 1e-9, "{distances:?}");
    }
    let table = scratch.read("b.csv");
    assert_eq!(table.lines().next(), Some("x,y"));
    let mut first: Vec<f64> =
        table.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    first.sort_by(f64::total_cmp);
    assert!(
        first.iter().zip([2.0, 2.0, 3.0, 4.0]).all(|(x, expected)| (x - expected).abs() < 1e-9),
        "{first:?}"
    );
    let picture = scratch.read("b.svg");
    let words: Vec<&str> = picture.lines().map(str::trim).collect();
    assert!(["barycenter", "l", "m", "n", "x", "y"].iter().all(|word| words.contains(word)), "{picture}");
    let text = scratch.out(line);
    assert!(
        text.contains("mean       4.666667")
            && text.contains("converged after")
            && text.contains("(at least "),
        "{text}"
    );
    // All the weight on one file: its points.
    let weighted = scratch.json("barycenter l.csv m.csv --weights 0,2 --points 4 --metric w2");
    assert!(weighted["value"].as_f64().unwrap().abs() < 1e-12);
}

#[test]
fn given_points_get_weights() {
    let scratch = translates();
    let found = scratch.json("barycenter l.csv m.csv --support n.csv --metric p --entropy 0.5 --out w.csv");
    let weights: Vec<f64> =
        found["weights"].as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).collect();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12 && weights.iter().all(|w| *w > 0.0));
    let (value, lower) = (found["value"].as_f64().unwrap(), found["lower_bound"].as_f64().unwrap());
    assert!(lower <= value && value - lower < 1e-3 * value, "{lower} {value}");
    let table = scratch.read("w.csv");
    assert_eq!(table.lines().next(), Some("x,y,weight"));
    assert_eq!(table.lines().count(), 5);
}

#[test]
fn bad_barycenters_are_refused() {
    let scratch = translates();
    scratch.write("wide.csv", "x,y,z\n0,0,0\n");
    for (line, part) in [
        ("barycenter l.csv m.csv", "--points"),
        ("barycenter l.csv m.csv --points 0", "at least 1"),
        (
            "barycenter l.csv m.csv --points 2 --weights 1",
            "--weights must have a number for each of the 2 FILES, but has 1",
        ),
        ("barycenter l.csv m.csv --points 2 --weights 1,-1", "-1"),
        ("barycenter l.csv m.csv --points 2 --scale std", "--scale must be none for a barycenter"),
        ("barycenter l.csv m.csv --support n.csv", "entropy"),
        ("barycenter l.csv m.csv --points 2 --out l.csv", "--out must be a separate file"),
        ("barycenter l.csv wide.csv --points 2", "wide.csv"),
    ] {
        let message = scratch.refusal(line);
        assert!(message.contains(part), "{line}: {message}");
    }
}

#[test]
fn a_debiased_distance_is_not_negative() {
    let scratch = Scratch::new();
    scratch.write("h.csv", "1,0\n-1,0\n");
    scratch.write("v.csv", "0,1\n0,-1\n");
    let value = |line: &str| scratch.json(line)["value"].as_f64().unwrap();
    let own = value("distance h.csv v.csv --entropy 10")
        - 0.5 * (value("distance h.csv h.csv --entropy 10") + value("distance v.csv v.csv --entropy 10"));
    assert!(own < -0.3, "{own}");
    let found = scratch.json("distance h.csv v.csv --entropy 10 --debias");
    assert_eq!(found["debiased"], true);
    // √2 + λ ln((1 + e^{−2√2/λ}) / 2).
    let expected = 2.0_f64.sqrt() + 10.0 * (0.5 * (1.0 + (-(8.0_f64.sqrt()) / 10.0).exp())).ln();
    assert!((found["value"].as_f64().unwrap() - expected).abs() < 1e-3 * expected);
    assert!(scratch.out("distance h.csv v.csv --entropy 10 --debias").starts_with("divergence 0.0"));
    assert!(scratch.refusal("distance h.csv v.csv --debias").contains("entropy"));
}
