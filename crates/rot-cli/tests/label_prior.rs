//! Fits over all rows at once with the real binary: what is chosen, what is added, what is refused.

mod common;

use std::fmt::Write as _;

use common::Scratch;
use serde_json::Value;

const DATA: &str =
    "--train-x train.csv --train-y train.txt --test-x test.csv --test-y test.txt --label-names names.txt";

/// Four classes of points in the plane, two of them near each other; a fifth label has no row.
fn scratch() -> Scratch {
    let s = Scratch::new();
    let centers = [(0.0, 0.0), (1.0, 0.2), (6.0, 6.0), (6.5, 7.0)];
    let names = ["cat", "dog", "truck", "lorry"];
    for (name, rows, shift) in [("train", 80_u32, 0.0), ("test", 40, 0.37)] {
        let (mut x, mut y) = (String::from("width,height\n"), String::new());
        for row in 0..rows {
            let class = row as usize % 4;
            let (dx, dy) = ((f64::from(row) * 0.7 + shift).sin(), (f64::from(row) * 1.3 + shift).cos());
            writeln!(x, "{},{}", centers[class].0 + dx, centers[class].1 + dy).unwrap();
            let second = if row % 10 == 9 { format!(",{}", names[class ^ 1]) } else { String::new() };
            writeln!(y, "{}{second}", names[class]).unwrap();
        }
        s.write(&format!("{name}.csv"), x);
        s.write(&format!("{name}.txt"), y);
    }
    s.write("names.txt", "cat\ndog\ntruck\nlorry\nkitten\n");
    s.write("few.txt", "cat\ndog\ntruck\nlorry\n");
    let words =
        "6 3\ncat 1 0 0.1\ndog 0.9 0.1 0\ntruck -1 0 0.2\nlorry -1 0.2 0\nkitten 1 0.1 0.1\nvan -1 0.1 0.1\n";
    s.write("words.vec", words);
    s
}

fn trained(s: &Scratch, options: &str) -> Value {
    let out = s.out(&format!("train {DATA} --json {options}"));
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn the_prior_is_the_one_that_is_asked_for() {
    let s = scratch();
    for prior in ["none", "names", "rows", "both"] {
        let about = &trained(&s, &format!("--label-vectors words.vec --label-prior {prior}"))["about"];
        assert_eq!(about["prior"]["geometry"], prior);
        assert!(about["tried"].as_array().unwrap().iter().any(|one| one["loss"] == "bce"));
    }
    let stated = "--label-vectors words.vec --label-prior names --prior-temperature 0.7 --prior-free 0.2 --l2 0.5 --loss bce";
    let about = &trained(&s, stated)["about"];
    assert_eq!(
        (&about["prior"]["temperature"], &about["prior"]["free"]),
        (&Value::from(0.7), &Value::from(0.2))
    );
    assert_eq!((&about["l2"], &about["loss"]), (&Value::from(0.5), &Value::from("bce")));
    // Without label vectors, the rows say which labels are near.
    let geometries = trained(&s, "")["about"]["tried"].clone();
    assert!(geometries.as_array().unwrap().iter().all(|one| one["prior"]["geometry"] != "names"));
}

#[test]
fn labels_without_rows_are_learned_from_their_names_and_more_are_added() {
    let s = scratch();
    let out =
        s.out(&format!("train {DATA} --label-vectors words.vec --label-prior names --out all.safetensors"));
    assert!(out.contains("prior by names") && out.contains("relative gap"), "{out}");
    assert!(out.contains("1 of 5 labels have no training row"), "{out}");
    let shown = s.out("inspect all.safetensors");
    assert!(shown.contains("prior by names") && shown.contains("the best of"), "{shown}");
    // Rows of cats look most like kittens among the two labels without rows.
    let out = s.out("extend all.safetensors --label-vectors words.vec --out more.safetensors --json");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["added"][0], &found["labels"]), (&Value::from("van"), &Value::from(6)));
    s.out("predict more.safetensors --x test.csv --out p.csv --top 6");
    let table = std::fs::read_to_string(s.path("p.csv")).unwrap();
    let rank = |row: usize, label: &str| {
        let lines = table.lines().skip(1 + 6 * row).take(6);
        lines.into_iter().position(|line| line.split(',').nth(2) == Some(label)).unwrap()
    };
    // Row 1 is a cat, row 3 a truck.
    assert!(rank(0, "kitten") < rank(0, "van") && rank(2, "van") < rank(2, "kitten"), "{table}");
    let out = s.out("evaluate more.safetensors --x test.csv --y test.txt");
    assert!(out.contains("training rows") && out.contains("expected calibration error"), "{out}");
    let json: Value =
        serde_json::from_str(&s.out("evaluate more.safetensors --x test.csv --y test.txt --json")).unwrap();
    let count: u64 =
        json["reliability"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 40 * 6);
    assert_eq!(
        (&json["by_training_rows"][0]["rows"], &json["by_training_rows"][0]["labels"]),
        (&Value::from("0"), &Value::from(2))
    );
}

#[test]
fn options_of_the_other_method_are_refused() {
    let s = scratch();
    let line = format!("train {DATA} --label-vectors words.vec");
    for (options, words) in [
        ("--l2 0", "must be positive and finite, or auto"),
        ("--l2 -1", "must be positive and finite, or auto"),
        ("--prior-free -1", "--prior-free must be finite and not negative, but is -1"),
        ("--prior-temperature 0", "--prior-temperature must be positive and finite, but is 0"),
        ("--label-prior rows --epochs 3", "--label-prior must go with the optimizer lbfgs"),
        (
            "--optimizer lbfgs --epochs 3",
            "--epochs must go with the optimizer adam, adamw or sgd, but it is lbfgs",
        ),
        ("--optimizer adam --loss square", "--loss must be another than square with stochastic steps"),
        ("--optimizer lbfgs --checkpoint kept", "--checkpoint must go with --optimizer adam, adamw or sgd"),
        ("--optimizer newton", "must be lbfgs, adam, adamw or sgd"),
    ] {
        let message = s.refusal(&format!("{line} {options}"));
        assert!(message.contains(words), "{options}: {message}");
    }
    let message = s.refusal(&format!("train {DATA} --label-prior names"));
    assert!(message.contains("--label-prior must be none or rows without label vectors"), "{message}");
    // A model without vectors cannot be extended, nor one of stochastic steps.
    s.out(&format!("train {DATA} --out bare.safetensors"));
    let extend = "extend bare.safetensors --label-vectors words.vec --out x.safetensors";
    assert!(s.refusal(extend).contains("must have vectors of its label names"));
    s.out(&format!("{line} --epochs 2 --loss ce --out steps.safetensors"));
    let message = s.refusal(&extend.replace("bare", "steps"));
    assert!(message.contains("must be trained by lbfgs with label vectors"), "{message}");
    let message = s.refusal("extend steps.safetensors --label-vectors words.vec --out steps.safetensors");
    assert!(message.contains("--out"), "{message}");
}
