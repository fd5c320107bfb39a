//! `--scale`: units decide which features matter unless they are scaled.

mod common;

use common::Scratch;

/// Two samples in which `hue` shifts and `proline`, in a small unit, does not.
fn wines(unit: f64) -> Scratch {
    let scratch = Scratch::new();
    let sample = |shift: f64| {
        let row = |x: f64| format!("{},{}", (x * 1.3).sin() + shift, unit * (x * 2.7 + shift).cos());
        let rows: Vec<_> = (0..40).map(|i| row(f64::from(i))).collect();
        format!("hue,proline\n{}\n", rows.join("\n"))
    };
    scratch.write("one.csv", sample(0.0));
    scratch.write("two.csv", sample(3.0));
    scratch
}

#[test]
fn a_feature_with_a_small_unit_outweighs_all_others_unless_scaled() {
    let scratch = wines(1000.0);
    let heaviest = |options: &str| {
        let json = scratch.json(&format!("distance one.csv two.csv --explain {options}"));
        json["explain"]["metric"][0]["features"][0].clone()
    };
    assert_eq!(heaviest(""), "proline");
    for scale in ["std", "robust"] {
        assert_eq!(heaviest(&format!("--scale {scale}")), "hue");
    }
    for line in ["distance one.csv two.csv", "pairwise one.csv two.csv"] {
        let note = String::from_utf8(scratch.run(line).stderr).unwrap();
        assert!(note.starts_with("rot: note: proline varies ") && note.contains("--scale std"), "{note}");
        assert_eq!(note.lines().count(), 1);
        let scaled = scratch.run(&format!("{line} --scale std"));
        assert!(scaled.status.success() && scaled.stderr.is_empty());
    }
}

#[test]
fn scaled_distances_do_not_depend_on_units() {
    let (small, large) = (wines(1e-3), wines(1000.0));
    for line in ["distance one.csv two.csv --scale std", "distance one.csv two.csv --scale robust"] {
        let (x, y) = (small.json(line), large.json(line));
        let (x, y) = (x["value"].as_f64().unwrap(), y["value"].as_f64().unwrap());
        assert!((x - y).abs() <= 1e-9 * x, "{x} and {y}");
    }
    let both = small.json("pairwise one.csv two.csv --scale std");
    let single = small.json("distance one.csv two.csv --scale std");
    assert_eq!(both["matrix"][0][1], single["value"]);
    assert_eq!((&both["scale"], &single["scale"]), (&"std".into(), &"std".into()));
    let third = small.json("pairwise one.csv two.csv two.csv --scale std");
    assert_ne!(third["matrix"][0][1], single["value"], "all inputs are pooled");
}

#[test]
fn a_scale_is_for_points() {
    let scratch = wines(1.0);
    let message = scratch.refusal("distance one.csv two.csv --scale std --embeddings words.vec");
    assert!(message.contains("--scale") && message.contains("--embeddings"), "{message}");
    assert!(scratch.refusal("distance one.csv two.csv --scale max").contains("--scale"));
}
