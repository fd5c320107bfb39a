//! Columns of two files are matched by their names.

mod common;

use common::Scratch;

fn two_orders() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("ab.csv", "a,b\n1,2\n3,4\n");
    scratch.write("ba.csv", "b,a\n1,2\n3,4\n");
    scratch.write("plain.csv", "1,2\n3,4\n");
    scratch.write("ac.csv", "a,c\n1,2\n3,4\n");
    scratch
}

#[test]
fn columns_in_another_order_are_matched_by_name() {
    let scratch = two_orders();
    let output = scratch.run("distance ab.csv ba.csv --json");
    let note = String::from_utf8(output.stderr).unwrap();
    assert_eq!(note, "rot: note: columns are matched by name; their order differs in ba.csv\n");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Every point moves by (1, −1): V has entries of size one, and its norm is 2.
    assert!((json["value"].as_f64().unwrap() - 2.0).abs() < 1e-12, "{json}");
    assert_eq!(json["columns_matched_by"], "name");
    let all = scratch.json("pairwise ab.csv ba.csv plain.csv");
    assert!((all["matrix"][0][1].as_f64().unwrap() - 2.0).abs() < 1e-12, "{all}");
    assert!(all["matrix"][0][2].as_f64().unwrap().abs() < 1e-12, "{all}");
    // Flows, plan and features are those of the first file.
    let explained = scratch.json("distance ba.csv ab.csv --explain");
    assert_eq!(explained["explain"]["metric"][0]["features"][0], "b");
}

#[test]
fn the_same_order_needs_no_words_and_a_missing_header_is_said() {
    let scratch = two_orders();
    assert!(scratch.run("distance ab.csv ab.csv").stderr.is_empty());
    assert!(scratch.run("distance a.csv b.csv").stderr.is_empty());
    let output = scratch.run("distance ba.csv plain.csv --json");
    let note = String::from_utf8(output.stderr).unwrap();
    assert_eq!(note, "rot: note: columns are matched by position in plain.csv, without a header\n");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["columns_matched_by"], "position");
}

#[test]
fn names_that_differ_are_refused_and_listed() {
    let scratch = two_orders();
    let expected = "ab.csv and ac.csv: columns must have the same names, \
        but only ab.csv has 'b' and only ac.csv has 'c'";
    for line in ["distance ab.csv ac.csv", "pairwise ab.csv ba.csv ac.csv"] {
        let message = scratch.refusal(line);
        assert!(message.ends_with(expected), "{message}");
    }
}
