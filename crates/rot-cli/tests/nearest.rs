//! `rot nearest`, and `rot pairwise --against`, as a user runs them.

mod common;

use common::Scratch;
use serde_json::json;

/// Two groups of clouds that are far apart, each with members at growing distances.
fn clouds() -> Scratch {
    let scratch = Scratch::new();
    for group in 0..2 {
        for member in 0..6 {
            let shift = 9.0 * f64::from(group) + 0.1 * f64::from(member * member);
            let points = (0..9).map(f64::from);
            let rows: Vec<_> = points.map(|x| format!("{},{}", x.sin() + shift, x.cos())).collect();
            scratch.write(&format!("g{group}m{member}.csv"), format!("x,y\n{}\n", rows.join("\n")));
        }
    }
    scratch
}

const ALL: &str = "g0m0.csv g0m1.csv g0m2.csv g0m3.csv g0m4.csv g0m5.csv \
                   g1m0.csv g1m1.csv g1m2.csv g1m3.csv g1m4.csv g1m5.csv";

#[test]
fn the_rectangle_is_a_part_of_the_square() {
    let scratch = clouds();
    let square = scratch.json("pairwise g0m0.csv g0m1.csv g1m0.csv g1m3.csv g0m5.csv");
    let part = scratch.json("pairwise g0m0.csv g0m1.csv --against g1m0.csv g1m3.csv g0m5.csv");
    assert_eq!(part["labels"], json!(["g0m0", "g0m1"]));
    assert_eq!(part["against"], json!(["g1m0", "g1m3", "g0m5"]));
    for i in 0..2 {
        for j in 0..3 {
            for key in ["matrix", "lower_bounds"] {
                assert_eq!(part[key][i][j], square[key][i][j + 2], "{key}");
            }
        }
    }
    assert_eq!(part["closest"], json!(["g0m5", "g0m5"]));
    // One file against many, as text, table and picture.
    let text = scratch.out("pairwise g0m0.csv --against g1m0.csv g0m3.csv --out m.csv --heatmap m.svg");
    assert!(text.contains("2 distances") && text.contains("g0m0  g0m3"), "{text}");
    assert_eq!(scratch.read("m.csv").lines().next(), Some(",g1m0,g0m3"));
    assert_eq!(scratch.read("m.csv").lines().count(), 2);
    assert!(scratch.read("m.svg").contains("g1m0"));
    scratch.refusal("pairwise g0m0.csv");
    scratch.refusal("pairwise g0m0.csv --against g1m0.csv --ray local");
}

#[test]
fn neighbors_are_those_of_the_matrix() {
    let scratch = clouds();
    let square = scratch.json(&format!("pairwise {ALL}"));
    let found = scratch.json(&format!("nearest {ALL} --top 3"));
    let labels: Vec<&str> =
        square["labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    let value = |i: usize, j: usize| square["matrix"][i][j].as_f64().unwrap();
    for (i, query) in found["queries"].as_array().unwrap().iter().enumerate() {
        assert_eq!(query["label"], labels[i]);
        let mut order: Vec<usize> = (0..labels.len()).filter(|&j| j != i).collect();
        order.sort_by(|&x, &y| value(i, x).total_cmp(&value(i, y)));
        let neighbors = query["neighbors"].as_array().unwrap();
        assert_eq!(neighbors.len(), 3);
        for (neighbor, &j) in neighbors.iter().zip(&order) {
            assert_eq!(neighbor["label"], labels[j]);
            assert_eq!(neighbor["value"], square["matrix"][i][j]);
            assert_eq!(neighbor["lower_bound"], square["lower_bounds"][i][j]);
            assert_eq!(neighbor["certain"], true);
        }
    }
    // The other group is excluded by its bounds.
    assert!(found["solved"].as_u64().unwrap() < 12 * 6, "{}", found["solved"]);
}

#[test]
fn queries_look_among_other_files() {
    let scratch = clouds();
    let text =
        scratch.out("nearest g0m0.csv g1m1.csv --against g0m1.csv g0m3.csv g1m5.csv --top 2 --out n.csv");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("g0m0  g0m1  ") && lines[1].starts_with("      g0m3  "), "{text}");
    assert!(lines[2].starts_with("g1m1  g1m5  "), "{text}");
    let table = scratch.read("n.csv");
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0], "query,rank,neighbor,value,lower_bound,certain");
    assert!(
        lines.len() == 5 && lines[1].starts_with("g0m0,1,g0m1,") && lines[1].ends_with(",true"),
        "{table}"
    );
    // More than there are is all of them.
    let all = scratch.json("nearest g0m0.csv --against g0m1.csv g0m3.csv --top 9");
    assert_eq!(all["queries"][0]["neighbors"].as_array().unwrap().len(), 2);
    assert_eq!(all["pairs"], 2);
    for threads in [1, 3] {
        let again = scratch.json(&format!("nearest {ALL} --top 2 --threads {threads}"));
        assert_eq!(again["queries"], scratch.json(&format!("nearest {ALL} --top 2"))["queries"]);
    }
    assert!(scratch.refusal("nearest g0m0.csv").contains("at least 2 without --against"));
    assert!(scratch.refusal("nearest g0m0.csv g0m1.csv --top 0").contains("--top must be at least 1"));
    scratch.write("deep.csv", "1,2,3\n");
    let message = scratch.refusal("nearest g0m0.csv --against deep.csv");
    assert!(message.contains("g0m0.csv and deep.csv"), "{message}");
}

#[test]
fn what_the_bounds_leave_open_is_marked() {
    let scratch = clouds();
    // Two documents at the same distance, and room for one.
    std::fs::copy(scratch.path("g0m2.csv"), scratch.path("twin.csv")).unwrap();
    let line =
        "nearest g0m0.csv --against g0m2.csv twin.csv g1m0.csv --metric srw --max-iter 1 --solver classic";
    let one = scratch.json(&format!("{line} --top 1"));
    let neighbor = &one["queries"][0]["neighbors"][0];
    assert!(neighbor["lower_bound"].as_f64() < neighbor["value"].as_f64(), "the gap is open: {neighbor}");
    assert_eq!(neighbor["certain"], false);
    assert!(scratch.out(&format!("{line} --top 1")).contains("? may not be among the nearest"));
    let both = scratch.json(&format!("{line} --top 2"));
    assert!(both["queries"][0]["neighbors"].as_array().unwrap().iter().all(|near| near["certain"] == true));
}
