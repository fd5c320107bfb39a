//! `rot pairwise` and `rot demo` as a user runs them.

mod common;

use common::Scratch;

fn clouds() -> Scratch {
    let scratch = Scratch::new();
    for (name, shift) in [("one", 0.0), ("two", 0.1), ("far", 5.0)] {
        let angles = (0..12).map(f64::from);
        let rows: Vec<_> = angles.map(|x| format!("{},{}", x.sin() + shift, x.cos())).collect();
        scratch.write(&format!("{name}.csv"), rows.join("\n"));
    }
    scratch
}

#[test]
fn the_matrix_is_that_of_single_distances() {
    let scratch = clouds();
    let json = scratch.json("pairwise one.csv two.csv far.csv --tol 1e-6");
    assert_eq!(json["labels"], serde_json::json!(["one", "two", "far"]));
    for (i, source) in ["one", "two", "far"].iter().enumerate() {
        for (j, target) in ["one", "two", "far"].iter().enumerate() {
            let (first, second) = if i <= j { (source, target) } else { (target, source) };
            let single = scratch.json(&format!("distance {first}.csv {second}.csv --tol 1e-6"));
            assert_eq!(json["matrix"][i][j], single["value"]);
            assert_eq!(json["lower_bounds"][i][j], single["lower_bound"]);
        }
    }
    assert_eq!(json["closest"], serde_json::json!(["two", "one", "two"]));
    assert_eq!(json["unfinished"], 0);
}

#[test]
fn the_matrix_is_the_same_whatever_the_number_of_threads() {
    let scratch = clouds();
    for entropy in ["0", "0.05"] {
        for threads in [1, 2, 3] {
            let out = format!("--out m{threads}.csv --threads {threads} --entropy {entropy}");
            scratch.out(&format!("pairwise one.csv two.csv far.csv a.csv b.csv {out}"));
        }
        assert_eq!(scratch.read("m1.csv"), scratch.read("m2.csv"));
        assert_eq!(scratch.read("m1.csv"), scratch.read("m3.csv"));
    }
}

#[test]
fn the_matrix_is_written_and_drawn() {
    let scratch = clouds();
    let text = scratch.out("pairwise one.csv two.csv far.csv --out m.csv --heatmap m.svg");
    assert!(text.contains("nearest neighbor") && text.contains("6 distances"), "{text}");
    let csv = scratch.read("m.csv");
    assert_eq!(csv.lines().next(), Some(",one,two,far"));
    assert_eq!(csv.lines().count(), 4);
    let svg = scratch.read("m.svg");
    assert!(svg.starts_with("<svg") && svg.matches("<rect").count() > 9 && svg.contains("far"));
    scratch.out("pairwise one.csv two.csv far.csv --out m.npy --heatmap m.png");
    let png = std::fs::read(scratch.path("m.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 2000);
    let matrix = robust_ot_learn::data::read_npy(&scratch.path("m.npy")).unwrap();
    assert_eq!(matrix.dim(), (3, 3));
    assert!(matrix.indexed_iter().all(|((i, j), x)| x.to_bits() == matrix[[j, i]].to_bits()));
}

#[test]
fn files_of_the_same_name_keep_their_folders() {
    let scratch = clouds();
    std::fs::create_dir(scratch.path("sub")).unwrap();
    std::fs::copy(scratch.path("one.csv"), scratch.path("sub/one.csv")).unwrap();
    let json = scratch.json("pairwise one.csv sub/one.csv far.csv");
    assert_eq!(json["labels"], serde_json::json!(["one.csv", "sub/one.csv", "far"]));
}

#[test]
fn a_pair_that_does_not_fit_is_named() {
    let scratch = clouds();
    scratch.write("deep.csv", "1,2,3\n");
    let message = scratch.refusal("pairwise one.csv two.csv deep.csv");
    assert!(message.contains("one.csv and deep.csv") && message.contains("2 and 3"), "{message}");
}

#[test]
fn the_demo_shows_what_it_says() {
    let text = Scratch::new().out("demo");
    let ratio = |before: &str| -> f64 {
        let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("{before} in {text}"));
        rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next().unwrap().parse().unwrap()
    };
    // The days are equally far under plain transport and not under robust transport, and the right sensors are named.
    assert!((ratio("(ratio ") - 1.0).abs() < 0.05, "{text}");
    assert!(ratio("Wednesday is ") > 2.0, "{text}");
    assert!(text.contains("vibration 50 %, current 43 %"), "{text}");
}

#[test]
fn a_cluster_needs_the_python_package() {
    let s = Scratch::new();
    let run = |python: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_rot"))
            .current_dir(s.path(""))
            .env("ROBUST_OT_PYTHON", python)
            .args(["pairwise", "a.csv", "b.csv", "--ray", "local"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    // A missing Python, and one that cannot load the package.
    for python in ["no-such-python", "false"] {
        let error = run(python);
        assert!(error.contains("pip install 'robust-ot[ray]'") && error.contains(python), "{error}");
    }
    s.refusal("pairwise a.csv b.csv --ray local --device cpu");
}
