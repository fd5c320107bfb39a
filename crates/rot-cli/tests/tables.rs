//! Tables as they are found: text columns, other separators, gaps, an index, weights, standard input.

mod common;

use std::process::Output;

use assert_cmd::Command;
use common::Scratch;
use serde_json::Value;

/// The value of a distance that is 4: every point moves by (0, 2).
fn is_four(scratch: &Scratch, line: &str) {
    let value = scratch.json(&format!("distance {line}"))["value"].as_f64().unwrap();
    assert!((value - 4.0).abs() < 1e-9, "{line}: {value}");
}

fn notes(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn tables() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("x.csv", "x,y\n0,0\n1,0\n");
    scratch.write("text.csv", "id,name,x,y\n1,ship,0,2\n2,boat,1,2\n");
    scratch.write("semicolon.csv", "x;y\n0;2\n1;2\n");
    scratch.write("tab.csv", "x\ty\n0\t2\n1\t2\n");
    scratch.write("index.csv", ",x,y\n0,0,2\n1,1,2\n");
    scratch.write("gaps.csv", "x,y\n0,2\n5,NA\n1,2\n,3\n");
    scratch.write("weighted.csv", "x,n,y\n0,3,2\n1,3,2\n9,0,9\n");
    scratch
}

#[test]
fn text_and_identifier_columns_are_chosen_or_left_out() {
    let scratch = tables();
    for options in ["--drop id,name", "--drop id --drop n*", "--columns x,y", "--columns ?"] {
        is_four(&scratch, &format!("x.csv text.csv {options}"));
    }
    let message = scratch.refusal("distance text.csv text.csv");
    assert!(
        message.contains("--drop must leave out columns that are not numbers, but in text.csv:2 column 2, 'name', is 'ship'"),
        "{message}"
    );
    let message = scratch.refusal("distance text.csv text.csv --columns z*");
    assert!(message.contains("--columns") && message.contains("'id', 'name', 'x', 'y'"), "{message}");
    let message = scratch.refusal("distance x.csv text.csv --drop id,name,extra");
    assert!(message.contains("--drop must match a column of some file, but 'extra'"), "{message}");
}

#[test]
fn semicolons_and_tabs_separate_and_foreign_numbers_are_refused() {
    let scratch = tables();
    is_four(&scratch, "x.csv semicolon.csv");
    is_four(&scratch, "x.csv tab.csv");
    scratch.write("decimal.csv", "x;y\n0,5;2\n1;2\n");
    scratch.write("thousand.csv", "x,y\n\"1,234\",2\n1;2\n");
    for (file, field) in [("decimal.csv", "'0,5'"), ("thousand.csv", "'1,234'")] {
        let message = scratch.refusal(&format!("distance x.csv {file}"));
        assert!(message.contains("must have a decimal point and no separators of thousands"), "{message}");
        assert!(message.contains(field) && message.contains(":2: "), "{message}");
    }
}

#[test]
fn an_index_of_pandas_is_left_out_and_said() {
    let scratch = tables();
    is_four(&scratch, "x.csv index.csv");
    let said = notes(&scratch.run("distance x.csv index.csv"));
    assert_eq!(said, "rot: note: the first column of index.csv is taken for an index and left out\n");
    let said = notes(&scratch.run("pairwise index.csv x.csv index.csv"));
    assert!(said.contains("index.csv and 1 more"), "{said}");
}

#[test]
fn a_first_line_of_numbers_is_data_and_a_mixed_one_is_asked_about() {
    let scratch = tables();
    scratch.write("years.csv", "x,2020\n0,2\n1,2\n");
    scratch.write("plain.csv", "0,2\n1,2\n");
    let message = scratch.refusal("distance plain.csv years.csv");
    assert!(message.contains("--header must be yes or no"), "{message}");
    assert!(message.contains("column 1 is 'x' while column 2 is '2020'"), "{message}");
    assert_eq!(scratch.json("distance years.csv years.csv --header yes --drop x")["dim"], 1);
    assert_eq!(scratch.json("distance plain.csv plain.csv --header yes")["n_source"], 1);
    assert_eq!(scratch.json("distance plain.csv plain.csv")["n_source"], 2);
    scratch.out("distance plain.csv plain.csv --plan-out plan.npy");
    let message = scratch.refusal("distance plan.npy plan.npy --header no");
    assert!(message.contains("--header must be absent"), "{message}");
}

#[test]
fn rows_with_gaps_are_refused_or_left_out_and_counted() {
    let scratch = tables();
    let message = scratch.refusal("distance x.csv gaps.csv");
    assert!(message.contains("--missing must be drop-rows where values are missing"), "{message}");
    assert!(message.contains("gaps.csv:3 column 2, 'y', is 'NA'"), "{message}");
    is_four(&scratch, "x.csv gaps.csv --missing drop-rows");
    let output = scratch.run("distance x.csv gaps.csv --missing drop-rows --explain --plan-out plan.csv");
    assert_eq!(notes(&output), "rot: note: gaps.csv: 2 of 4 rows have missing values and are left out\n");
    // Rows keep their numbers in the file, from 1, in the explanation and in the plan.
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("row 2 → row 3"), "{text}");
    assert!(scratch.read("plan.csv").contains("\n2,3,0.5\n"), "{}", scratch.read("plan.csv"));
    let json = scratch.json("distance x.csv gaps.csv --missing drop-rows");
    assert_eq!(json["missing_rows"], serde_json::json!({"source": 0, "target": 2}));
    // A file of weights has one for every row.
    scratch.write("w.txt", "1\n7\n1\n7\n");
    is_four(&scratch, "x.csv gaps.csv --missing drop-rows --target-weights w.txt");
}

#[test]
fn a_column_may_hold_the_weights() {
    let scratch = tables();
    let output = scratch.run("distance weighted.csv weighted.csv --weight-column n --explain --json");
    assert!(notes(&output).contains("weights sum to 6"), "{}", notes(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["dim"], &json["explain"]["metric"][0]["features"][0]), (&2.into(), &"x".into()));
    scratch.write("xn.csv", "n,x,y\n1,0,0\n1,1,0\n");
    is_four(&scratch, "xn.csv weighted.csv --weight-column n");
    let message = scratch.refusal("distance x.csv weighted.csv --weight-column n");
    assert!(
        message.contains("--weight-column must be a column of x.csv, but 'n' is not among 'x', 'y'"),
        "{message}"
    );
    scratch.write("w.txt", "1\n1\n1\n");
    scratch.refusal("distance weighted.csv weighted.csv --weight-column n --source-weights w.txt");
}

#[test]
fn a_table_may_come_from_standard_input() {
    let scratch = tables();
    let rot = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("rot").unwrap();
        command.current_dir(scratch.path("")).args(arguments).write_stdin("x;y\n0;2\n1;2\n").output().unwrap()
    };
    let output = rot(&["distance", "x.csv", "-", "--json"]);
    assert!(notes(&output).is_empty());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!((json["value"].as_f64().unwrap() - 4.0).abs() < 1e-9, "{json}");
    let all = rot(&["pairwise", "-", "x.csv", "--json"]);
    assert!(String::from_utf8(all.stdout).unwrap().contains(r#""labels":["stdin","x"]"#));
    assert_eq!(rot(&["distance", "-", "-"]).status.code(), Some(2));
    scratch.write("words.vec", "ship 1 0\n");
    assert_eq!(rot(&["distance", "-", "x.csv", "--embeddings", "words.vec"]).status.code(), Some(2));
}
