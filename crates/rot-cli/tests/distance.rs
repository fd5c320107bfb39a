//! `rot distance` as a user runs it.

mod common;

use common::Scratch;
use serde_json::Value;

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key} in {object}"))
}

#[test]
fn json_has_every_promised_key_and_a_true_bracket() {
    let scratch = Scratch::new();
    for metric in ["w2", "p", "p-power", "kl", "ds", "features", "srw", "rkp"] {
        let json = scratch.json(&format!("distance a.csv b.csv --metric {metric} --lambda 5"));
        for key in ["value", "lower_bound", "gap", "relative_gap", "transport_cost", "seconds", "entropy"] {
            number(&json, key);
        }
        assert_eq!(json["metric"], metric);
        assert_eq!(json["status"], "converged");
        for (key, expected) in [("n_source", 3), ("n_target", 4), ("dim", 2), ("groups", 2)] {
            assert_eq!(json[key], expected);
        }
        assert!(number(&json, "iterations") >= 1.0 && number(&json, "oracle_calls") >= 1.0);
        assert!(number(&json, "lower_bound") <= number(&json, "value"));
        let gap = number(&json, "value") - number(&json, "lower_bound");
        assert!((number(&json, "gap") - gap).abs() <= 1e-12);
    }
}

#[test]
fn projections_converge_on_every_day_of_the_demo() {
    let scratch = Scratch::new();
    let days = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo");
    for day in ["2-tuesday", "3-wednesday", "4-thursday", "5-friday"] {
        for tolerance in ["1e-4", "1e-6"] {
            let json = scratch.json(&format!(
                "distance {days}/1-monday.csv {days}/{day}.csv --metric srw --k 1 --tol {tolerance}"
            ));
            assert_eq!(json["status"], "converged", "{day} to {tolerance}: {json}");
        }
    }
}

#[test]
fn values_are_those_of_the_closed_forms() {
    let scratch = Scratch::new();
    scratch.write("s.csv", "1,2\n");
    scratch.write("t.csv", "4,6\n");
    // One point each: V = (3,4)(3,4)ᵀ.
    for (options, expected) in [
        ("--metric w2", 25.0),
        ("", 25.0),
        ("--k 2", (81.0_f64.powi(2) + 2.0 * 144.0_f64.powi(2) + 256.0_f64.powi(2)).sqrt().sqrt()),
        ("--metric p-power", 625.0),
        ("--metric srw", 25.0),
        ("--metric rkp --rho inf", 25.0),
        ("--metric kl --lambda 10", 10.0 * (0.9_f64.exp_m1() + 1.6_f64.exp_m1())),
        ("--metric features --lambda 10", 10.0 * (0.9_f64.exp() + 1.6_f64.exp()).ln() - 10.0),
        ("--metric p --groups 1", 25.0),
    ] {
        let value = number(&scratch.json(&format!("distance s.csv t.csv {options}")), "value");
        assert!((value - expected).abs() <= 1e-9 * expected, "{options}: {value} is not {expected}");
    }
}

#[test]
fn entropy_is_in_the_value_and_the_plain_cost_beside_it() {
    let scratch = Scratch::new();
    let json = scratch.json("distance a.csv b.csv --entropy 0.1 --metric w2 --tol 1e-6");
    let exact = scratch.json("distance a.csv b.csv --metric w2");
    assert_eq!(json["entropy"], 0.1);
    // Σ γ ln γ < 0 lowers the value, and the plan costs at least as much as the exact one.
    assert!(number(&json, "value") < number(&exact, "value"));
    assert!(number(&json, "unregularized_value") >= number(&exact, "value") - 1e-12);
    assert!((number(&json, "transport_cost") - number(&json, "unregularized_value")).abs() < 1e-9);
}

#[test]
fn entropy_too_small_to_be_seen_costs_no_time_and_keeps_its_bracket() {
    let scratch = Scratch::new();
    let exact = scratch.json("distance a.csv b.csv --tol 1e-9");
    for entropy in ["1e-7", "1e-12", "1e-20"] {
        let json = scratch.json(&format!("distance a.csv b.csv --entropy {entropy}"));
        assert_eq!(json["status"], "converged");
        assert!(number(&json, "lower_bound") <= number(&exact, "value"));
        assert!(number(&json, "unregularized_value") >= number(&exact, "lower_bound"));
    }
}

#[test]
fn every_solver_agrees_and_says_how_it_ended() {
    let scratch = Scratch::new();
    let best = number(&scratch.json("distance a.csv b.csv --tol 1e-8"), "value");
    for solver in ["auto", "classic", "line-search", "corrective"] {
        let json = scratch.json(&format!("distance a.csv b.csv --solver {solver} --tol 1e-3"));
        assert!(number(&json, "lower_bound") <= best + 1e-9 && number(&json, "value") >= best - 1e-6);
    }
    let output = scratch.run("distance a.csv b.csv --solver classic --tol 1e-15 --max-iter 2 --json");
    assert!(output.status.success());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["status"], "max-iterations");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--max-iter 2 reached at relative gap"));
}

#[test]
fn points_come_as_npy_csv_and_tsv_with_or_without_header() {
    let scratch = Scratch::new();
    scratch.write("a.tsv", "x\ty\n0\t0\n1\t0\n0\t1\n");
    let mut npy = b"\x93NUMPY\x01\x00\x3a\x00".to_vec();
    npy.extend(format!("{:<57}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}").bytes());
    npy.extend([0.0_f32, 0.0, 1.0, 0.0, 0.0, 1.0].iter().flat_map(|x| x.to_le_bytes()));
    scratch.write("a.npy", npy);
    let values: Vec<_> = ["a.csv", "a.tsv", "a.npy"]
        .map(|file| number(&scratch.json(&format!("distance {file} b.csv")), "value"))
        .to_vec();
    assert!(values.iter().all(|v| v.to_bits() == values[0].to_bits()), "{values:?}");
}

#[test]
fn weights_are_normalized_and_that_is_said() {
    let scratch = Scratch::new();
    scratch.write("w.txt", "2\n1\n1\n");
    let output = scratch.run("distance a.csv b.csv --source-weights w.txt --json");
    assert!(output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("w.txt: weights sum to 4; they were scaled to sum to 1")
    );
    // Doubling a weight is the same as doubling the point.
    scratch.write("a2.csv", "0,0\n0,0\n1,0\n0,1\n");
    let weighted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let doubled = scratch.json("distance a2.csv b.csv");
    assert!((number(&weighted, "value") - number(&doubled, "value")).abs() < 1e-3);
}

#[test]
fn texts_are_compared_by_their_words() {
    let scratch = Scratch::new();
    scratch.write("one.tsv", "ship\t3\nsea\t1\nxyzzy\t2\n");
    scratch.write("two.tsv", "boat\t2\nsea\t2\n");
    scratch.write("words.vec", "4 2\nship 1 0\nboat 0.9 0.1\nsea 0 1\nland -1 0\n");
    let output = scratch.run("distance one.tsv two.tsv --embeddings words.vec --metric w2 --json --explain");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("one.tsv: 1 of 3 words have no vector and are left out: xyzzy"), "{error}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    // ¾ ship, ¼ sea against ½ boat, ½ sea: mass ½ moves from ship to boat and ¼ from ship to sea.
    assert!((number(&json, "value") - (0.5 * 0.02 + 0.25 * 2.0)).abs() < 1e-12);
    assert_eq!(json["explain"]["flows"][0]["from"], "ship");
    assert_eq!(json["explain"]["flows"][0]["to"], "sea");
}

#[test]
fn plan_and_metric_are_written_in_every_format() {
    let scratch = Scratch::new();
    scratch.out("distance a.csv b.csv --plan-out plan.csv --metric-out metric.csv");
    let plan = scratch.read("plan.csv");
    let masses: Vec<f64> =
        plan.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(plan.lines().next(), Some("source,target,mass"));
    assert!((masses.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!(scratch.read("metric.csv").lines().count(), 2);
    scratch.out("distance a.csv b.csv --plan-out plan.npy --metric-out metric.npy");
    let plan = robust_ot_learn::data::read_npy(&scratch.path("plan.npy")).unwrap();
    assert_eq!(plan.dim(), (3, 4));
    assert!((plan.sum() - 1.0).abs() < 1e-12);
    let metric = robust_ot_learn::data::read_npy(&scratch.path("metric.npy")).unwrap();
    assert!(
        ((&metric * &metric).sum() - 1.0).abs() < 1e-12,
        "the worst metric of p with k = 1 has unit norm"
    );
}

#[test]
fn explain_names_features_groups_and_flows() {
    let scratch = Scratch::new();
    scratch.write("x.csv", "height,width,depth\n0,0,0\n1,0,1\n");
    scratch.write("y.csv", "height,width,depth\n0,4,0\n1,4,1\n");
    let text = scratch.out("distance x.csv y.csv --explain");
    assert!(text.contains("1.0000  width  (100.0 % of the cost)"), "{text}");
    assert!(text.contains("11.1 % of its entries are above 1 % of the largest"), "{text}");
    assert!(text.contains("row 1 → row 1"), "{text}");
    let grouped = scratch.out("distance x.csv y.csv --explain --groups 2");
    assert!(grouped.contains("group 1 (height to width)"), "{grouped}");
}

#[test]
fn groupings_are_what_they_say() {
    let scratch = Scratch::new();
    scratch.write("x.csv", "0,0,0,0\n1,0,1,2\n");
    scratch.write("y.csv", "0,4,0,1\n1,4,1,1\n");
    scratch.write("groups.txt", "0\n1\n0\n1\n");
    let value = |options: &str| number(&scratch.json(&format!("distance x.csv y.csv {options}")), "value");
    let explicit = value("--grouping groups.txt");
    assert!((explicit - value("--groups 2 --grouping interleaved")).abs() < 1e-12);
    let random: Vec<u64> =
        (0..8).map(|seed| value(&format!("--groups 2 --grouping random --seed {seed}")).to_bits()).collect();
    assert!(random.iter().any(|bits| *bits != random[0]), "seeds must assign features differently");
    assert_eq!(random[3], value("--groups 2 --grouping random --seed 3").to_bits());
    assert_eq!(scratch.json("distance x.csv y.csv --groups 3")["groups"], 3);
}

#[test]
fn a_prior_from_a_file_is_used() {
    let scratch = Scratch::new();
    scratch.write("eye.csv", "1,0\n0,1\n");
    let value = |prior: &str| {
        number(
            &scratch.json(&format!("distance a.csv b.csv --metric kl --lambda 9 --prior {prior}")),
            "value",
        )
    };
    assert!((value("eye.csv") - value("eye")).abs() < 1e-12);
    assert!(value("ones") > value("eye"));
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let scratch = Scratch::new();
    let rows = |n: u32, f: f64| {
        let row = |x: f64| format!("{},{},{}", (x * f).sin(), x.cos(), (x * f * f).sin());
        (0..n).map(|i| row(f64::from(i))).collect::<Vec<_>>().join("\n")
    };
    scratch.write("x.csv", rows(150, 1.3));
    scratch.write("y.csv", rows(170, 0.7));
    for options in ["", "--entropy 0.05", "--metric srw --tol 1e-3"] {
        let value = |threads: usize| {
            let json = scratch.json(&format!("distance x.csv y.csv {options} --threads {threads}"));
            (number(&json, "value").to_bits(), number(&json, "lower_bound").to_bits())
        };
        assert_eq!(value(1), value(2), "{options}");
    }
}

#[test]
fn help_and_version_are_there() {
    let scratch = Scratch::new();
    assert!(scratch.out("--version").starts_with("rot "));
    let help = scratch.out("distance --help");
    for option in
        ["--metric", "--rho", "--prior", "--grouping", "--entropy", "--solver", "--plan-out", "--explain"]
    {
        assert!(help.contains(option), "{option}");
    }
}

#[test]
fn the_readme_shows_what_the_command_prints() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let shown = readme.split("$ rot ").nth(1).and_then(|rest| rest.split("…").next()).unwrap();
    let (line, shown) = shown.split_once('\n').unwrap();
    let output = assert_cmd::Command::cargo_bin("rot")
        .unwrap()
        .current_dir(root)
        .args(line.split(' '))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    for (shown, printed) in
        shown.lines().zip(printed.lines()).filter(|(shown, _)| !shown.starts_with("status"))
    {
        assert_eq!(shown, printed);
    }
    assert!(shown.lines().count() > 8);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_a_long_solve_with_its_bracket() {
    use std::process::{Command, Stdio};

    let scratch = Scratch::new();
    let cloud = |f: f64| {
        let row = |x: f64| format!("{},{},{}", (x * f).sin(), (x * 0.3).cos(), (x * f * 0.7).sin());
        (0..2500).map(|i| row(f64::from(i))).collect::<Vec<_>>().join("\n")
    };
    scratch.write("x.csv", cloud(1.3));
    scratch.write("y.csv", cloud(0.7));
    // This solve takes far longer than the wait below.
    let child = Command::new(assert_cmd::cargo::cargo_bin("rot"))
        .args(["distance", "x.csv", "y.csv", "--entropy", "1e-7", "--tol", "0", "--json"])
        .current_dir(scratch.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["status"], "interrupted");
    assert!(number(&json, "lower_bound") <= number(&json, "value"));
}

#[test]
fn a_memory_budget_decides_what_is_stored_and_says_so() {
    let scratch = Scratch::new();
    for entropy in ["0", "0.1"] {
        let stored = scratch.json(&format!("distance a.csv b.csv --entropy {entropy} --memory 1MB"));
        let streamed = scratch.json(&format!("distance a.csv b.csv --entropy {entropy} --memory 10B"));
        assert_eq!((&stored["storage"], &streamed["storage"]), (&"stored".into(), &"streamed".into()));
        assert_eq!((&stored["memory"], &streamed["memory"]), (&1_000_000.into(), &10.into()));
        assert!(number(&streamed, "lower_bound") <= number(&stored, "value"));
        assert!(number(&stored, "lower_bound") <= number(&streamed, "value"));
    }
    let said = scratch.out("distance a.csv b.csv --memory 10B");
    assert!(said.contains("streamed: 3 × 4 costs do not fit into 10 bytes"), "{said}");
}

#[test]
fn every_input_is_safe_from_outputs() {
    let scratch = Scratch::new();
    scratch.out("distance a.csv b.csv --metric-out m.npy --plan-out P.NPY");
    let weights = std::fs::read(scratch.path("m.npy")).unwrap();
    for line in ["--source-weights m.npy --metric-out m.npy", "--metric kl --prior m.npy --plan-out m.npy"] {
        let message = scratch.refusal(&format!("distance a.csv b.csv {line}"));
        assert!(message.contains("m.npy is also an input"), "{message}");
    }
    assert_eq!(std::fs::read(scratch.path("m.npy")).unwrap(), weights);
    // Extensions in upper case are the same formats.
    assert!(std::fs::read(scratch.path("P.NPY")).unwrap().starts_with(b"\x93NUMPY"));
}

#[cfg(unix)]
#[test]
fn names_that_are_not_unicode_are_reported() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let odd = std::ffi::OsStr::from_bytes(b"b\xff.csv");
    std::fs::copy(scratch.path("b.csv"), scratch.path("").join(odd)).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_rot"))
        .current_dir(scratch.path(""))
        .args(["distance", "a.csv", "--run", "folder"])
        .arg(odd)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(scratch.read("folder/run.json").contains("rot distance a.csv --run folder"));
}
