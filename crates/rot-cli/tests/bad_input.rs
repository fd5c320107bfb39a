//! Invalid input: every problem gets one line that names it, and exit code 2.

mod common;

use common::Scratch;

/// Asserts that a command is rejected with a message that contains all of these parts.
fn refused(scratch: &Scratch, line: &str, parts: &[&str]) {
    let message = scratch.refusal(line);
    for part in parts {
        assert!(message.contains(part), "rot {line}: '{message}' does not contain '{part}'");
    }
}

#[test]
fn files_that_are_not_measures() {
    let s = Scratch::new();
    s.write("empty.csv", "");
    s.write("ragged.csv", "1,2\n3\n");
    s.write("nan.csv", "1,2\n3,nan\n");
    s.write("inf.csv", "1,inf\n");
    s.write("word.csv", "1,2\n3,four\n");
    s.write("deep.csv", "1,2,3\n");
    s.write("large.csv", "1e200,1\n");
    s.write("points.xyz", "1 2\n");
    refused(&s, "distance empty.csv b.csv", &["empty.csv", "at least one row", "is empty"]);
    refused(&s, "distance a.csv ragged.csv", &["ragged.csv:2", "2 fields", "has 1"]);
    refused(&s, "distance nan.csv b.csv", &["--missing must be drop-rows", "nan.csv:2", "column 2", "'nan'"]);
    refused(&s, "distance inf.csv b.csv", &["inf.csv:1", "column 2", "'inf'"]);
    refused(&s, "distance word.csv b.csv", &["--drop", "word.csv:2", "column 2", "'four'"]);
    refused(&s, "distance a.csv deep.csv", &["a.csv and deep.csv", "same number of features", "2 and 3"]);
    refused(&s, "distance large.csv b.csv", &["large.csv", "1e150", "1e200"]);
    refused(&s, "distance points.xyz b.csv", &["points.xyz", ".npy, .csv, .tsv or .parquet", ".xyz"]);
    refused(&s, "distance missing.csv b.csv", &["missing.csv", "No such file"]);
    refused(&s, "distance . b.csv", &["."]);
}

#[test]
fn memory_that_is_no_size() {
    let s = Scratch::new();
    for size in ["lots", "-1GB", "2potatoes", "nan"] {
        refused(&s, &format!("distance a.csv b.csv --memory {size}"), &["--memory", size, "2GB"]);
    }
}

#[test]
fn words_that_are_almost_right() {
    let s = Scratch::new();
    refused(
        &s,
        "distance a.csv b.csv --metrik p",
        &["'--metrik' found; a similar argument exists: '--metric' (see"],
    );
    refused(&s, "pairwis a.csv b.csv", &["'pairwis'; ", "'pairwise'"]);
}

#[test]
fn npy_files_that_lie() {
    let s = Scratch::new();
    let npy = |header: &str, data: &[u8]| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    };
    let header = |shape: &str| format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    s.write("tera.npy", npy(&header("(1000000000, 1000000)"), &[0; 32]));
    s.write("short.npy", npy(&header("(2, 2)"), &[0; 31]));
    s.write("cut.npy", b"\x93NUMPY\x01\x00\xff\x00{'descr'");
    s.write("magic.npy", b"PK\x03\x04 not numpy");
    s.write("int.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }", &[0; 8]));
    s.write("nan.npy", npy(&header("(1, 2)"), &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f]));
    s.write("none.npy", npy(&header("(0, 2)"), &[]));
    refused(&s, "distance tera.npy b.csv", &["tera.npy", "promises 1000000000 × 1000000", "32 bytes follow"]);
    refused(&s, "distance short.npy b.csv", &["short.npy", "promises 2 × 2", "31 bytes"]);
    refused(&s, "distance cut.npy b.csv", &["cut.npy", "cut short"]);
    refused(&s, "distance magic.npy b.csv", &["magic.npy", "does not begin like one"]);
    refused(&s, "distance int.npy b.csv", &["int.npy", "float32 or float64", "'<i8'"]);
    refused(&s, "distance nan.npy b.csv", &["nan.npy", "finite", "row 1, column 2", "NaN"]);
    refused(&s, "distance none.npy b.csv", &["none.npy", "at least one point", "0 × 2"]);
}

#[test]
fn weights_that_are_not_weights() {
    let s = Scratch::new();
    for (name, text) in [
        ("negative", "1\n-1\n1\n"),
        ("zero", "0\n0\n0\n"),
        ("few", "1\n1\n"),
        ("nan", "1\nnan\n1\n"),
        ("wide", "1,2\n3,4\n"),
    ] {
        s.write(&format!("{name}.txt"), text);
    }
    refused(
        &s,
        "distance a.csv b.csv --source-weights negative.txt",
        &["negative.txt", "not negative", "number 2 is -1"],
    );
    refused(
        &s,
        "distance a.csv b.csv --source-weights zero.txt",
        &["zero.txt", "positive finite sum", "is 0"],
    );
    refused(
        &s,
        "distance a.csv b.csv --source-weights few.txt",
        &["few.txt", "one weight per point", "2 weights for 3 points"],
    );
    refused(&s, "distance a.csv b.csv --target-weights nan.txt", &["nan.txt:2", "finite", "'nan'"]);
    refused(&s, "distance a.csv b.csv --source-weights wide.txt", &["wide.txt", "2 × 2"]);
    refused(&s, "distance a.csv b.csv --source-weights gone.txt", &["gone.txt", "No such file"]);
}

#[test]
fn parameters_out_of_range() {
    let s = Scratch::new();
    for (options, parts) in [
        ("--k 0", &["--k", "between 1", "is 0"][..]),
        ("--metric srw --k 0", &["--k", "is 0"]),
        ("--metric srw --k 3", &["--k", "size of the metric, 2", "is 3"]),
        ("--k -1", &["--k", "-1"]),
        ("--k x", &["--k", "'x'"]),
        ("--groups 0", &["--groups", "between 1 and the number of features, 2", "is 0"]),
        ("--groups 3", &["--groups", "2", "is 3"]),
        ("--metric kl --lambda 0", &["--lambda", "positive", "is 0"]),
        ("--metric ds --lambda -1", &["--lambda", "positive", "is -1"]),
        ("--metric features --lambda nan", &["--lambda", "NaN"]),
        ("--metric rkp --rho 0.5", &["--rho", "at least 1", "is 0.5"]),
        ("--metric rkp --rho nan", &["--rho", "NaN"]),
        ("--lambda 0", &["--lambda", "positive", "is 0"]),
        ("--metric w2 --rho 0.1", &["--rho", "at least 1"]),
        ("--plan-out same.csv --metric-out same.csv", &["--metric-out", "also --plan-out"]),
        ("--plan-out a.csv", &["--plan-out", "a.csv is also an input"]),
        ("--threads 100000", &["--threads", "at most 1024", "100000"]),
        ("--entropy 1e-20 --tol 0", &["--entropy", "at least", "0.00000000000000000001"]),
        ("--entropy 1e308", &["--entropy", "at most 1e200"]),
        ("--metric p-power --k 5000", &["p-power", "not representable"]),
        ("--metric nope", &["--metric", "nope"]),
        ("--solver fast", &["--solver", "corrective", "'fast'"]),
        ("--tol -1", &["--tol", "not negative", "-1"]),
        ("--max-iter 0", &["--max-iter", "at least 1", "is 0"]),
        ("--entropy -0.1", &["--entropy", "not negative", "-0.1"]),
        ("--threads 0", &["--threads", "at least 1", "is 0"]),
        ("--grouping random", &["--groups", "where the grouping is random", "absent"]),
        ("--grouping nowhere.txt", &["nowhere.txt", "No such file"]),
        ("--frobnicate", &["--frobnicate"]),
    ] {
        refused(&s, &format!("distance a.csv b.csv {options}"), parts);
    }
    refused(&s, "distance a.csv", &["TARGET"]);
    refused(&s, "pairwise a.csv", &["at least 2", "is 1"]);
}

#[test]
fn priors_and_groupings_that_do_not_fit() {
    let s = Scratch::new();
    s.write("skew.csv", "1,0.5\n0.2,1\n");
    s.write("indefinite.csv", "1,2\n2,1\n");
    s.write("negative.csv", "1,-0.5\n-0.5,1\n");
    s.write("large.csv", "1,0,0\n0,1,0\n0,0,1\n");
    s.write("zero.csv", "0,0\n0,1\n");
    s.write("gap.txt", "0\n2\n");
    s.write("long.txt", "0\n1\n0\n");
    s.write("letters.txt", "0\nx\n");
    let kl = "distance a.csv b.csv --metric kl --lambda 9 --prior";
    refused(&s, &format!("{kl} skew.csv"), &["--prior", "symmetric", "0.5", "0.2"]);
    refused(&s, &format!("{kl} indefinite.csv"), &["--prior", "positive semi-definite", "-1"]);
    refused(&s, &format!("{kl} negative.csv"), &["--prior", "no negative entry", "-0.5"]);
    refused(&s, &format!("{kl} large.csv"), &["--prior", "2 × 2", "3 × 3"]);
    refused(&s, &format!("{kl} gone.csv"), &["gone.csv", "No such file"]);
    refused(&s, "distance a.csv b.csv --metric ds --prior zero.csv", &["--prior", "zero row", "row 1"]);
    refused(&s, "distance a.csv b.csv --grouping gap.txt", &["--grouping", "group 1 has no feature"]);
    refused(
        &s,
        "distance a.csv b.csv --grouping long.txt",
        &["--grouping", "one group index per feature, 2", "3"],
    );
    refused(&s, "distance a.csv b.csv --grouping letters.txt", &["letters.txt:2", "whole number", "'x'"]);
}

#[test]
fn texts_without_known_words() {
    let s = Scratch::new();
    s.write("text.tsv", "ship\t1\nsea\t2\n");
    s.write("other.tsv", "stone\t1\n");
    s.write("broken.tsv", "ship 1\n");
    s.write("minus.tsv", "ship\t-1\n");
    s.write("nothing.tsv", "ship\t0\nsea\t0\n");
    s.write("words.vec", "ship 1 0\nsea 0 1\n");
    s.write("bad.vec", "ship 1 0\nsea 0\n");
    refused(
        &s,
        "distance text.tsv other.tsv --embeddings words.vec",
        &["other.tsv", "at least one word", "none of its 1"],
    );
    refused(&s, "distance text.tsv broken.tsv --embeddings words.vec", &["broken.tsv:1", "word<TAB>count"]);
    refused(&s, "distance text.tsv minus.tsv --embeddings words.vec", &["minus.tsv:1", "'ship'", "'-1'"]);
    refused(
        &s,
        "distance text.tsv nothing.tsv --embeddings words.vec",
        &["nothing.tsv", "positive finite sum"],
    );
    refused(
        &s,
        "distance text.tsv text.tsv --embeddings bad.vec",
        &["bad.vec:2", "'sea'", "must have 2 numbers, but has 1"],
    );
    refused(&s, "distance text.tsv text.tsv --embeddings gone.vec", &["gone.vec", "No such file"]);
    refused(
        &s,
        "distance text.tsv text.tsv --embeddings words.vec --source-weights text.tsv",
        &["--source-weights", "--embeddings"],
    );
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_work() {
    let s = Scratch::new();
    refused(
        &s,
        "distance a.csv b.csv --plan-out nowhere/plan.csv",
        &["--plan-out", "nowhere/plan.csv", "No such file"],
    );
    refused(
        &s,
        "distance a.csv b.csv --metric-out metric.txt",
        &["--metric-out", ".npy or .csv or .tsv", "metric.txt"],
    );
    refused(&s, "pairwise a.csv b.csv --out nowhere/m.csv", &["--out", "nowhere/m.csv"]);
    refused(&s, "pairwise a.csv b.csv --heatmap map.jpg", &["--heatmap", ".svg or .png", "map.jpg"]);
    // A rejected run leaves nothing behind.
    refused(&s, "distance a.csv gone.csv --plan-out plan.csv", &["gone.csv"]);
    assert!(!s.path("plan.csv").exists());
}

#[test]
fn overflow_says_which_lambda_is_safe() {
    let s = Scratch::new();
    s.write("far.csv", "500,0\n0,900\n");
    let line = "distance a.csv far.csv --metric kl --lambda";
    let message = s.refusal(&format!("{line} 1"));
    assert!(message.contains("--lambda") && message.contains("overflows with λ = 1"), "{message}");
    let safe = message.split("λ ≥ ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(s.json(&format!("{line} {safe}"))["status"], "converged");
}
