//! Whether two tables differ, and where.

mod common;

use std::fmt::Write as _;

use common::Scratch;

/// Rows of x, y, z, text and an identifier; `shift` is added to x.
fn table(rows: usize, seed: u64, shift: f64, kinds: &[&str]) -> String {
    let mut text = "id,x,y,z,kind\n".to_owned();
    let mut state = seed;
    let mut next = || {
        // Numbers of a linear congruential generator are random enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    for row in 0..rows {
        let (x, y, z) = (next() + shift, 100.0 * next(), 1.0);
        writeln!(text, "r{seed}-{row},{x},{y},{z},{}", kinds[row % kinds.len()]).unwrap();
    }
    text
}

fn scratch() -> Scratch {
    let s = Scratch::new();
    s.write("before.csv", table(80, 1, 0.0, &["a", "b"]));
    s.write("same.csv", table(70, 1234, 0.0, &["a", "b"]));
    s.write("later.csv", table(60, 777, 0.4, &["a", "c"]));
    s
}

#[test]
fn a_shifted_column_is_found_and_named() {
    let s = scratch();
    let found = s.json("compare before.csv later.csv");
    assert_eq!(found["p_value"], 0.001);
    assert_eq!((&found["differs"], &found["permutations"]), (&true.into(), &999.into()));
    let first = &found["features"][0];
    assert_eq!((first["name"].as_str(), first["change"]["kind"].as_str()), (Some("x"), Some("mean")));
    assert!(found["features"][1]["p_value"].as_f64().unwrap() > 0.05);
    assert_eq!(found["pairs"][0]["names"], serde_json::json!(["x", "y"]));
    assert_eq!(found["constant_columns"], serde_json::json!(["z"]));
    assert_eq!(found["left_out_columns"][0]["name"], "id");
    let kind = &found["categories"][0];
    assert!(kind["name"] == "kind" && kind["p_value"].as_f64().unwrap() <= 0.001, "{kind}");
    let text = s.out("compare before.csv later.csv");
    for part in
        ["The tables differ, p = 0.001", "columns (1 of 2 at level 0.05)", "only before: b; only after: c"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The same seed gives the same answer on any number of threads.
    assert_eq!(text, s.out("compare before.csv later.csv --threads 1"));
}

#[test]
fn equal_distributions_do_not_differ_and_pipelines_stop_at_drift() {
    let s = scratch();
    let same = s.run("compare before.csv same.csv --fail-on drift");
    assert!(same.status.success());
    assert!(String::from_utf8(same.stdout).unwrap().starts_with("No difference found, p = "));
    let drift = s.run("compare before.csv later.csv --fail-on drift --json");
    assert_eq!(drift.status.code(), Some(3));
    assert!(serde_json::from_slice::<serde_json::Value>(&drift.stdout).unwrap()["differs"] == true);
    let message = String::from_utf8(drift.stderr).unwrap();
    assert_eq!(message, "rot: later.csv differs from before.csv at level 0.05\n");
}

#[test]
fn several_tables_give_one_row_each_with_adjusted_p_values() {
    let s = scratch();
    let text = s.out("compare before.csv same.csv later.csv --heatmap drift.svg");
    assert!(text.contains("later.csv") && text.contains("adjusted"), "{text}");
    assert!(s.read("drift.svg").contains("later"));
    let found = s.json("compare before.csv same.csv later.csv");
    let all = found["comparisons"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    assert!((all[1]["adjusted_p_value"].as_f64().unwrap() - 0.002).abs() < 1e-12);
}

#[test]
fn columns_form_groups_by_prefix_pattern_or_file() {
    let s = scratch();
    s.write("groups.csv", "x,place\ny,place\n");
    for (rule, name, columns) in
        [("groups.csv", "place", &["x", "y"][..]), ("^(.)$", "x", &["x"]), ("[xy]", "x", &["x"])]
    {
        let line = format!("compare before.csv later.csv --permutations 99 --group-by {rule}");
        let group = &s.json(&line)["groups"][0];
        assert_eq!(
            (&group["name"], &group["columns"]),
            (&name.into(), &serde_json::json!(columns)),
            "{rule}"
        );
        assert_eq!(group["p_value"], 0.01);
        assert!(s.out(&line).contains("groups ("), "{rule}");
    }
    let several = s.out("compare before.csv same.csv later.csv --permutations 99 --group-by groups.csv");
    assert!(several.contains("groups changed most") && several.contains("only before: b"), "{several}");
}

#[test]
fn rows_are_compared_within_the_values_of_a_column() {
    let s = scratch();
    let found = s.json("compare before.csv later.csv --by kind --permutations 199");
    let within = found["within"].as_array().unwrap();
    let values: Vec<&str> = within.iter().map(|one| one["value"].as_str().unwrap()).collect();
    assert_eq!(values, ["a", "b", "c"]);
    assert!(within[0]["adjusted_p_value"].as_f64().unwrap() <= 0.005);
    assert!(within[1].get("p_value").is_none());
    assert_eq!(within[2]["rows_given"], serde_json::json!([0, 30]));
    let text = s.out("compare before.csv later.csv --by kind --permutations 199");
    assert!(text.contains("not compared"), "{text}");
}

#[test]
fn one_distance_can_be_the_statistic() {
    let s = scratch();
    let found = s.json("compare before.csv later.csv --metric srw:k=1 --permutations 99");
    assert_eq!(found["p_value"], 0.01);
    assert!(found["decided_by_bounds"].as_u64().unwrap() > 0);
    let [value, lower] = [0, 1].map(|at| found["distance"][at].as_f64().unwrap());
    assert!(lower <= value && lower > 0.0);
}

#[test]
fn a_page_shows_the_verdict_chance_columns_and_pairs() {
    let s = scratch();
    s.out("compare before.csv later.csv --run drift");
    s.out("report drift");
    let page = s.read("drift/report.html");
    for part in [
        "The tables differ, p = 0.001",
        "What chance gives",
        "mean +",
        "Values of kind",
        "rot compare before.csv",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<figure>").count(), 4);
    s.out("compare before.csv same.csv later.csv --group-by ^[xy] --run both");
    s.out("report both");
    assert_eq!(s.read("both/report.html").matches("<figure>").count(), 10);
    assert!(s.out("verify both").contains("both"));
}

#[test]
fn bad_tables_get_one_line_each() {
    let s = scratch();
    s.write("short.csv", "x,y\n1,2\n");
    s.write("other.csv", "x,w\n1,2\n2,3\n");
    s.write("word.csv", "x,y\n1,2\nno,3\n");
    s.write("gap.csv", "x,y\n1,2\n,3\n4,5\n");
    s.write("flat.csv", "x,y\n1,2\n1,2\n");
    s.write("xy.csv", "x,y\n1,2\n2,3\n3,5\n");
    for (line, parts) in [
        (
            "compare xy.csv short.csv",
            &["xy.csv and short.csv: after must have at least two rows, but has 1"][..],
        ),
        ("compare xy.csv other.csv", &["--drop must leave out columns", "only xy.csv has 'y'"]),
        ("compare xy.csv word.csv", &["word.csv:3", "column 1, 'x', is 'no'"]),
        ("compare xy.csv gap.csv", &["--missing must be drop-rows or drop-columns", "row 2 of gap.csv"]),
        ("compare flat.csv flat.csv", &["columns must vary"]),
        ("compare xy.csv xy.csv --permutations 5", &["--permutations must be at least 19"]),
        ("compare xy.csv xy.csv --alpha 2", &["--alpha must be above 0"]),
        ("compare xy.csv xy.csv --by none", &["--by must be a column of xy.csv"]),
        ("compare xy.csv xy.csv --columns q*", &["--columns must match a column", "'q*'"]),
        ("compare xy.csv xy.csv --metric nothing", &["--metric", "w2, p"]),
        ("compare xy.csv xy.csv --group-by missing.csv", &["missing.csv"]),
        (
            "compare xy.csv xy.csv --group-by (",
            &["--group-by must be prefix or a regular expression", "unclosed group"],
        ),
        ("compare xy.csv xy.csv --group-by ^z", &["--group-by must put a column into a group"]),
        ("compare xy.csv missing.csv", &["missing.csv"]),
        ("compare - -", &["standard input is given twice"]),
        ("compare xy.csv xy.csv --heatmap a.txt", &["--heatmap"]),
    ] {
        let message = s.refusal(line);
        for part in parts {
            assert!(message.contains(part), "rot {line}: '{message}' does not contain '{part}'");
        }
    }
    let dropped = s.run("compare xy.csv gap.csv --missing drop-rows --permutations 19");
    assert!(dropped.status.success());
    assert!(String::from_utf8(dropped.stderr).unwrap().contains("gap.csv: 1 of 3 rows have missing values"));
}
