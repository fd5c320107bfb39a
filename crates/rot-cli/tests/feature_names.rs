//! Features of training, test and later rows are matched by their names, which models keep.

mod common;

use common::Scratch;

/// Rows that feature a decides, with their columns in two orders, without a header, and with another name.
fn rows() -> Scratch {
    let scratch = Scratch::new();
    let row = |i: i32| (if i % 2 == 0 { -2 - i % 3 } else { 2 + i % 5 }, i % 7, i % 4);
    let table = |header: &str, line: &dyn Fn((i32, i32, i32)) -> String| {
        (0..24).fold(format!("{header}\n"), |text, i| text + &line(row(i)) + "\n")
    };
    let labels = (0..24).fold("class\n".to_owned(), |text, i| text + ["no", "yes"][i % 2] + "\n");
    scratch.write("y.csv", labels);
    let abc = |(a, b, c)| format!("{a},{b},{c}");
    scratch.write("x.csv", table("a,b,c", &abc));
    scratch.write("z.csv", table("a,b,z", &abc));
    scratch.write("other.csv", table("c,a,b", &|(a, b, c)| format!("{c},{a},{b}")));
    scratch.write("plain.csv", table("", &abc));
    scratch
}

fn notes(output: &std::process::Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.contains("columns are matched")).map(str::to_owned).collect()
}

#[test]
fn later_rows_are_matched_by_name() {
    let scratch = rows();
    assert!(notes(&scratch.run("train --train-x x.csv --train-y y.csv --out m.safetensors")).is_empty());
    let wanted = scratch.run("predict m.safetensors --x x.csv");
    assert!(wanted.stderr.is_empty());
    let found = scratch.run("predict m.safetensors --x other.csv");
    assert_eq!(found.stdout, wanted.stdout);
    assert_eq!(notes(&found), ["rot: note: columns are matched by name; their order differs in other.csv"]);
    let scores = |x: &str| scratch.json(&format!("evaluate m.safetensors --x {x} --y y.csv"));
    assert_eq!(scores("x.csv"), scores("other.csv"));
    let plain = scratch.run("predict m.safetensors --x plain.csv");
    assert_eq!(plain.stdout, wanted.stdout);
    assert_eq!(
        notes(&plain),
        ["rot: note: columns are matched by position, since plain.csv has no feature names"]
    );
}

#[test]
fn names_that_differ_are_refused_and_listed() {
    let scratch = rows();
    scratch.out("train --train-x x.csv --train-y y.csv --out m.safetensors");
    let differ = "columns must have the same names, but only";
    for line in ["predict m.safetensors --x z.csv", "evaluate m.safetensors --x z.csv --y y.csv"] {
        let message = scratch.refusal(line);
        let expected = format!("rot: the model and z.csv: {differ} the model has 'c' and only z.csv has 'z'");
        assert_eq!(message, expected);
    }
    let message = scratch.refusal("train --train-x x.csv --train-y y.csv --test-x z.csv --test-y y.csv");
    assert_eq!(message, format!("rot: x.csv and z.csv: {differ} x.csv has 'c' and only z.csv has 'z'"));
}

#[test]
fn test_rows_are_matched_by_name() {
    let scratch = rows();
    let scores = |x: &str| {
        let line = format!("train --train-x x.csv --train-y y.csv --test-x {x} --test-y y.csv --json");
        let output = scratch.run(&line);
        let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        let all: serde_json::Value = serde_json::from_str(&last).unwrap();
        (all["test"].clone(), notes(&output))
    };
    let ((wanted, none), (found, one)) = (scores("x.csv"), scores("other.csv"));
    assert!(wanted.is_object());
    assert_eq!((wanted, none.len(), one.len()), (found, 0, 1));
}

#[test]
fn models_without_names_match_by_position() {
    let scratch = rows();
    scratch.out("train --train-x plain.csv --train-y y.csv --out m.safetensors");
    let output = scratch.run("predict m.safetensors --x x.csv");
    let expected = "rot: note: columns are matched by position, since m.safetensors has no feature names";
    assert_eq!(notes(&output), [expected]);
    assert!(!scratch.out("inspect m.safetensors").contains("features:"));
}

#[test]
fn models_show_the_names_of_their_features() {
    let scratch = rows();
    scratch.out("train --train-x x.csv --train-y y.csv --out m.safetensors");
    assert!(scratch.out("inspect m.safetensors").contains("\nfeatures: a, b, c\nlabels: "));
    let all = scratch.json("inspect m.safetensors");
    assert_eq!(all["feature_names"], serde_json::json!(["a", "b", "c"]));
    assert!(scratch.out("verify m.safetensors").contains("m.safetensors"));
}

#[test]
fn extended_models_keep_the_names() {
    let scratch = rows();
    scratch.write("v.vec", "no 1 0\nyes 0.6 0.8\n");
    scratch.write("new.vec", "perhaps 0.9 0.44\n");
    let data = "--train-x x.csv --train-y y.csv --label-vectors v.vec";
    scratch.out(&format!("train {data} --out m.safetensors"));
    scratch.out("extend m.safetensors --label-vectors new.vec --out more.safetensors");
    assert!(scratch.out("inspect more.safetensors").contains("\nfeatures: a, b, c\n"));
}
