//! Training, predicting and scoring with the real binary.

mod common;

use std::fmt::Write as _;
use std::time::Duration;

use common::{Scratch, first_version};
use serde_json::Value;

/// Four classes of points in the plane; two are near each other, and so are their vectors.
fn scratch() -> Scratch {
    let s = Scratch::new();
    let centers = [(0.0, 0.0), (1.0, 0.2), (6.0, 6.0), (6.5, 7.0)];
    for (name, rows, shift) in [("train", 80_u32, 0.0), ("test", 40, 0.37)] {
        let (mut x, mut y) = (String::from("width,height\n"), String::new());
        for row in 0..rows {
            let class = row as usize % 4;
            let (dx, dy) = ((f64::from(row) * 0.7 + shift).sin(), (f64::from(row) * 1.3 + shift).cos());
            writeln!(x, "{},{}", centers[class].0 + dx, centers[class].1 + dy).unwrap();
            let names = ["cat", "dog", "truck", "lorry"];
            // Some rows have two labels.
            if row % 10 == 9 {
                writeln!(y, "{},{}", names[class], names[class ^ 1])
            } else {
                writeln!(y, "{}", names[class])
            }
            .unwrap();
        }
        s.write(&format!("{name}.csv"), x);
        s.write(&format!("{name}.txt"), y);
    }
    s.write("names.txt", "cat\ndog\ntruck\nlorry\n");
    s.write("words.vec", "4 3\ncat 1 0 0.1\ndog 0.9 0.1 0\ntruck -1 0 0.2\nlorry -1 0.2 0\n");
    s
}

const DATA: &str = "--train-x train.csv --train-y train.txt --test-x test.csv --test-y test.txt --label-names names.txt \
                    --label-vectors words.vec";

/// The last line of `rot train --json`.
fn trained(s: &Scratch, options: &str) -> Value {
    let out = s.out(&format!("train {DATA} --json {options}"));
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn rows_say_which_labels_are_near() {
    let s = scratch();
    // Without and with label vectors: the loss uses the rows, the scores use the label vectors.
    let bare = DATA.replace("--label-vectors words.vec", "");
    let options = "--geometry rows --groups 2 --epochs 60 --lr 0.05";
    let out = s.out(&format!("train {bare} --json {options} --loss p"));
    let found: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!(found["test"]["auc"].as_f64().unwrap() > 0.8 && found["test"]["semantic_cost"].is_null());
    assert_eq!(found["about"]["geometry"], "rows");
    let named = trained(&s, &format!("{options} --loss p"));
    assert_eq!(named["test"]["auc"], found["test"]["auc"], "label vectors must not enter the loss");
    assert!(named["test"]["semantic_cost"].as_f64().is_some());
    assert_ne!(trained(&s, "--groups 2 --epochs 60 --lr 0.05 --loss p")["test"]["auc"], named["test"]["auc"]);
    // A loss without transport needs no geometry.
    assert_eq!(trained(&s, "--loss ce --geometry rows --epochs 2")["about"]["geometry"], "");
}

#[test]
fn the_most_frequent_labels_are_kept_and_test_rows_are_read_alike() {
    let s = scratch();
    s.write("train.txt", s.read("train.txt").replacen("lorry", "dog", 5).replacen("truck", "cat", 3));
    let found = trained(&s, "--top-labels 3 --empty skip --epochs 60 --lr 0.05 --out m.safetensors");
    assert_eq!(found["labels"], 3);
    assert_eq!(found["about"]["dropped_labels"][0][1], "lorry");
    let scores = s.json("evaluate m.safetensors --x test.csv --y test.txt --empty skip");
    assert_eq!(scores["auc"], found["test"]["auc"]);
}

#[test]
fn every_loss_learns() {
    let s = scratch();
    for loss in ["mix", "ce", "bce", "p", "p-power", "kl", "ds", "w2", "features", "srw", "rkp"] {
        let found = trained(&s, &format!("--loss {loss} --epochs 60 --lr 0.05 --groups 3 --k 1"));
        let (auc, epochs) = (found["test"]["auc"].as_f64().unwrap(), found["epochs"].as_array().unwrap());
        assert!(auc > 0.8, "{loss}: AUC {auc}");
        assert_eq!(epochs.len(), 60);
        assert!(epochs[59]["loss"].as_f64() < epochs[0]["loss"].as_f64(), "{loss}");
        assert!(found["seconds_per_epoch"].as_f64().unwrap() > 0.0);
        assert!(found["peak_rss_bytes"].as_u64().is_none_or(|bytes| bytes > 1_000_000));
    }
}

#[test]
fn a_model_is_described_scored_and_predicts() {
    let s = scratch();
    let found = trained(&s, "--epochs 80 --lr 0.05 --out model.safetensors --standardize");
    let text = s.out("inspect model.safetensors");
    for part in [
        "2 features to 4 labels, with bias, softmax",
        "cat, dog, truck, lorry",
        "3 numbers each",
        "centered and scaled",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(s.json("inspect model.safetensors")["labels"][3], "lorry");
    // `rot evaluate` gives the scores that training reported for its test rows.
    let scores = s.json("evaluate model.safetensors --x test.csv --y test.txt");
    assert_eq!(scores["device"], "cpu");
    for (name, wanted) in found["test"].as_object().unwrap() {
        assert_eq!(&scores[name], wanted, "{name}");
    }
    let lines = s.out("predict model.safetensors --x test.csv --top 2");
    assert_eq!(lines.lines().count(), 1 + 2 * 40);
    assert_eq!(lines.lines().next(), Some("row,rank,label,probability"));
    s.out("predict model.safetensors --x test.csv --top 2 --out best.csv");
    assert_eq!(s.read("best.csv"), lines);
    s.out("predict model.safetensors --x test.csv --out best.json --explain --top 2");
    let rows: Value = serde_json::from_str(&s.read("best.json")).unwrap();
    let labels = &rows[0]["labels"];
    assert_eq!(rows.as_array().unwrap().len(), 40);
    assert!(labels[0]["probability"].as_f64() >= labels[1]["probability"].as_f64());
    s.out("predict model.safetensors --x test.csv --out all.npy");
    assert!(s.path("all.npy").metadata().unwrap().len() > 40 * 4 * 8);
    let printed = s.out("predict model.safetensors --x test.csv --json");
    let first: Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
    assert_eq!(first["row"], 1);
}

#[test]
fn rows_of_one_length_are_a_part_of_the_model() {
    let s = scratch();
    let found = trained(&s, "--epochs 40 --row-length 2 --out model.safetensors");
    assert!(s.out("inspect model.safetensors").contains("rows scaled to length 2"));
    assert_eq!(s.json("inspect model.safetensors")["row_length"], 2.0);
    // `rot evaluate` applies the row length and gives the scores that training reported.
    let scores = s.json("evaluate model.safetensors --x test.csv --y test.txt");
    assert_eq!(scores["auc"], found["test"]["auc"]);
    // The model sees directions only: rows scaled by 1000 get the same labels and, up to rounding, the same probabilities.
    s.write("short.csv", "1,2\n3,-1\n0,0\n");
    s.write("long.csv", "1000,2000\n3000,-1000\n0,0\n");
    let short = s.out("predict model.safetensors --x short.csv");
    let run = s.run("predict model.safetensors --x long.csv");
    let long = String::from_utf8(run.stdout).unwrap();
    for (short, long) in short.lines().skip(1).zip(long.lines().skip(1)) {
        let ((short, p), (long, q)) = (short.rsplit_once(',').unwrap(), long.rsplit_once(',').unwrap());
        assert_eq!(short, long);
        assert!((p.parse::<f64>().unwrap() - q.parse::<f64>().unwrap()).abs() < 1e-5);
    }
    let note = String::from_utf8(run.stderr).unwrap();
    assert!(note.contains("1 of 3 rows are zero and cannot be scaled to a length; they stay zero"), "{note}");
    for bad in ["0", "-1", "nan", "inf", "long"] {
        let message = s.refusal(&format!("train {DATA} --row-length {bad}"));
        assert!(message.contains("positive and finite, none or auto") && message.contains(bad), "{message}");
    }
}

#[test]
fn the_same_seed_gives_the_same_model_on_any_number_of_threads() {
    let s = scratch();
    let model = |name: &str, options: &str| {
        s.out(&format!("train {DATA} --epochs 5 --batch 7 --out {name} {options}"));
        std::fs::read(s.path(name)).unwrap()
    };
    let one = model("one.safetensors", "--threads 1");
    assert!(one == model("two.safetensors", "--threads 2"));
    assert!(one != model("other.safetensors", "--threads 2 --seed 1"));
}

#[test]
fn a_run_killed_at_any_moment_ends_where_the_other_ends() {
    let s = scratch();
    let options = "--epochs 400 --batch 10 --validation 0.2 --schedule cosine";
    s.out(&format!("train {DATA} {options} --out whole.safetensors"));
    let line = format!("train {DATA} {options} --checkpoint run --resume --out parts.safetensors");
    for milliseconds in [5, 20, 40, 60, 90, 120] {
        let mut child = s.spawn(&line);
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    s.out(&line);
    assert!(
        std::fs::read(s.path("whole.safetensors")).unwrap()
            == std::fs::read(s.path("parts.safetensors")).unwrap()
    );
    // A complete checkpoint remains, perhaps next to files that a kill left behind.
    let names: Vec<String> = std::fs::read_dir(s.path("run"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.contains(&"checkpoint.safetensors".to_owned()), "{names:?}");
}

#[test]
fn a_checkpoint_of_another_run_or_cut_short_is_refused() {
    let s = scratch();
    s.out(&format!("train {DATA} --epochs 2 --checkpoint run"));
    let refused = |options: &str, why: &str| {
        let message = s.refusal(&format!("train {DATA} --epochs 3 --checkpoint run --resume {options}"));
        assert!(message.contains("checkpoint.safetensors") && message.contains(why), "{message}");
    };
    refused("--loss ce", "another loss");
    refused("--lr 0.5", "other settings");
    refused("--standardize", "other data");
    refused("--row-length 1", "other data");
    let path = s.path("run/checkpoint.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    refused("", "cut short");
    std::fs::write(&path, "something else").unwrap();
    refused("", "not a safetensors file");
}

#[test]
fn protocols_set_what_the_paper_says() {
    let s = scratch();
    for (protocol, set) in [("paper", "p"), ("authors-code", "p-power")] {
        let found = trained(&s, &format!("--loss p --groups 3 --protocol {protocol}"));
        let about = &found["about"];
        assert!(about["robust"]["set"][set]["k"] == 1, "{about}");
        assert_eq!(about["robust"]["entropy"], 0.02);
        assert_eq!(about["robust"]["oracle_entropy"], 0.2);
        let training = &about["training"];
        assert_eq!(training["epochs"], 200);
        assert_eq!(training["learning_rate"], 1.0);
        assert_eq!(training["reduction"], "sum");
        assert_eq!(training["start"], 1.0);
        assert_eq!(training["bias"], false);
        assert_eq!(training["weight_decay"], 0.0005);
        assert_eq!(training["batch"], 150);
    }
    // The rows of the metric sum to 1/r instead of 1, so costs are 1/r as large at the same entropies.
    let about = trained(&s, "--loss ds --groups 3 --protocol authors-code --epochs 1")["about"].clone();
    assert!((about["mix_ot"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-15);
    assert!((about["robust"]["entropy"].as_f64().unwrap() - 0.06).abs() < 1e-15);
    assert!((about["robust"]["oracle_entropy"].as_f64().unwrap() - 0.6).abs() < 1e-15);
}

#[test]
fn labels_without_vectors_and_rows_without_labels_are_dealt_with_as_asked() {
    let s = scratch();
    s.write("few.vec", "cat 1 0\ndog 0.5 0.5\ntruck 0 1\n");
    let line = "train --train-x train.csv --train-y train.txt --label-names names.txt --label-vectors few.vec --epochs 1";
    let message = s.refusal(line);
    assert!(
        message.contains("1 of 4 labels have no vector: lorry") && message.contains("--missing"),
        "{message}"
    );
    let last = |line: &str| -> Value { serde_json::from_str(s.out(line).lines().last().unwrap()).unwrap() };
    assert_eq!(last(&format!("{line} --json --missing zero"))["labels"], 4);
    let message = s.refusal(&format!("{line} --missing drop"));
    assert!(message.contains("16 of 80 rows have no label") && message.contains("--empty skip"), "{message}");
    let dropped = last(&format!("{line} --json --missing drop --empty skip"));
    assert_eq!((&dropped["labels"], &dropped["rows"]), (&Value::from(3), &Value::from(64)));
}

#[test]
fn sparse_text_and_its_test_rows_are_counted_alike() {
    let s = scratch();
    // Feature indices of the training file start at 0; the test file does not show it.
    let (mut train, mut test) = (String::new(), String::new());
    for row in 0..40 {
        writeln!(train, "{} {}:1", row % 2, row % 2).unwrap();
    }
    writeln!(test, "1 1:1\n1 1:1\n").unwrap();
    s.write("train.svm", train);
    s.write("test.svm", test);
    s.out("train --xmc train.svm test.svm --epochs 50 --lr 0.1 --out model.safetensors --loss ce");
    assert_eq!(s.json("evaluate model.safetensors --x test.svm")["accuracy"], 1.0);
}

#[test]
fn labels_that_were_left_out_in_training_are_left_out_of_scores() {
    let s = scratch();
    // The first label has no vector, so all others move down by one.
    s.write("names.txt", "lorry\ncat\ndog\ntruck\n");
    s.write("few.vec", "cat 1 0\ndog 0.5 0.5\ntruck 0 1\n");
    let data = "--train-x train.csv --train-y train.txt --label-names names.txt --label-vectors few.vec --missing drop";
    s.out(&format!("train {data} --empty skip --epochs 80 --lr 0.05 --out model.safetensors"));
    let scores = s.json("evaluate model.safetensors --x train.csv --y train.txt --empty skip");
    assert_eq!(scores["rows"], 64);
    assert!(scores["accuracy"].as_f64().unwrap() > 0.7, "{scores}");
}

#[test]
fn a_checkpoint_knows_its_groups_and_its_prior() {
    let s = scratch();
    let run = |options: &str| format!("train {DATA} --checkpoint run {options}");
    s.out(&run("--epochs 2 --groups 1"));
    assert!(s.refusal(&run("--epochs 3 --groups 3 --resume")).contains("another loss"));
    let prior = |value: u32| format!("{value},0,0\n0,1,0\n0,0,1\n");
    s.write("one.csv", prior(5));
    s.write("two.csv", prior(6));
    s.out(&run("--epochs 2 --loss kl --groups 3 --prior one.csv"));
    assert!(
        s.refusal(&run("--epochs 3 --loss kl --groups 3 --prior two.csv --resume")).contains("another loss")
    );
    assert!(
        s.refusal(&run("--epochs 1 --loss kl --groups 3 --prior one.csv --resume"))
            .contains("at most 1 epochs")
    );
}

#[test]
fn a_checkpoint_whose_story_does_not_hold_is_refused() {
    let s = scratch();
    let line = format!("train {DATA} --batch 150 --validation 0.2 --epochs 4 --checkpoint run --resume");
    s.out(&format!("train {DATA} --batch 150 --validation 0.2 --epochs 3 --checkpoint run"));
    let path = s.path("run/checkpoint.safetensors");
    // With a checksum, no edit would go further.
    let bytes = first_version(&std::fs::read(&path).unwrap());
    for (from, to) in [
        ("\\\"steps\\\":3", "\\\"steps\\\":7"),
        ("\\\"best\\\":[", "\\\"best\\\":["),
        ("\\\"epoch\\\":2", "\\\"epoch\\\":5"),
    ] {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        let mut edited = bytes.clone();
        edited[at..at + to.len()].copy_from_slice(to.as_bytes());
        if from == to {
            // The number of the best epoch.
            edited[at + from.len()] = b'9';
        }
        std::fs::write(&path, edited).unwrap();
        let message = s.refusal(&line);
        assert!(message.contains("checkpoint.safetensors") && message.contains("epochs"), "{message}");
    }
}

#[test]
fn whoever_reads_may_leave_and_the_model_is_saved() {
    let s = scratch();
    let mut child = s.spawn(&format!("train {DATA} --epochs 3000 --json --out model.safetensors"));
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(s.path("model.safetensors").exists());
}

#[cfg(unix)]
#[test]
fn labels_of_least_expected_cost_are_predicted() {
    let s = scratch();
    s.out(&format!("train {DATA} --epochs 5 --out model.safetensors"));
    let scores = s.json("evaluate model.safetensors --x test.csv --y test.txt");
    let cost = |name: &str| scores[name].as_f64().unwrap();
    assert!(cost("least_cost_1") <= cost("top_1_cost") + 0.05, "{scores}");
    assert!(cost("macro_f1") > 0.0 && cost("micro_f1") > 0.0, "{scores}");
    // All labels, in another order and with the same probabilities.
    let (probable, least) = (
        "predict model.safetensors --x test.csv --top 4",
        "predict model.safetensors --x test.csv --top 4 --decision least-cost",
    );
    let sorted = |command: &str| {
        let text = s.out(command);
        let mut lines: Vec<String> = text
            .lines()
            .skip(1)
            .map(|line| {
                let (row, rest) = line.split_once(',').unwrap();
                format!("{row},{}", rest.split_once(',').unwrap().1)
            })
            .collect();
        lines.sort();
        (lines, text)
    };
    let ((x, x_text), (y, y_text)) = (sorted(probable), sorted(least));
    assert_eq!(x, y);
    assert_ne!(x_text, y_text);
    let refusal = s.refusal("predict model.safetensors --x test.csv --decision least-cost --out p.npy");
    assert!(
        refusal.contains("--decision least-cost must be written to .csv, .tsv or .json, but --out is .npy")
    );
    s.out("train --train-x train.csv --train-y train.txt --label-names names.txt --loss ce --epochs 1 --out plain.safetensors");
    let refusal = s.refusal("predict plain.safetensors --x test.csv --decision least-cost");
    assert!(refusal.contains("--decision least-cost needs a model with label vectors"), "{refusal}");
}

#[test]
fn predictions_may_be_cut_off_by_their_reader() {
    let s = scratch();
    s.out(&format!("train {DATA} --epochs 1 --out model.safetensors"));
    s.write("many.csv", "1,2\n".repeat(20_000));
    let mut child = s.spawn("predict model.safetensors --x many.csv --top 4");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn vectors_of_any_length_are_directions() {
    let s = scratch();
    let loss = |factor: f64| {
        let line = |name: &str, x: f64, y: f64| format!("{name} {:e} {:e}\n", x * factor, y * factor);
        let text = line("cat", 1.0, 0.0)
            + &line("dog", 0.9, 0.1)
            + &line("truck", -1.0, 0.0)
            + &line("lorry", -1.0, 0.2);
        s.write("scaled.vec", text);
        let out = s.out("train --train-x train.csv --train-y train.txt --label-names names.txt --label-vectors scaled.vec --loss w2 --epochs 1 --json");
        let found: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        found["epochs"][0]["loss"].as_f64().unwrap()
    };
    let plain = loss(1.0);
    for factor in [1e200, 1e-200] {
        assert!((loss(factor) - plain).abs() < 1e-6 * plain.abs());
    }
}

#[test]
fn srw_with_all_dimensions_is_w2() {
    let s = scratch();
    let weights = |loss: &str| {
        s.out(&format!("train {DATA} --epochs 20 --out model.safetensors --loss {loss}"));
        let bytes = std::fs::read(s.path("model.safetensors")).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(weights("srw --k 3") == weights("w2"));
    assert!(weights("srw --k 1") != weights("w2"));
    let message = s.refusal(&format!("train {DATA} --loss srw --k 4"));
    assert!(message.contains("--k") && message.contains('3'), "{message}");
}

#[test]
fn a_run_that_fails_early_leaves_the_last_one_alone() {
    let s = scratch();
    trained(&s, "--epochs 2 --run folder");
    let before = s.read("folder/run.json");
    let typo = s.run(&format!("train {} --run folder", DATA.replace("train.csv", "typo.csv")));
    assert_eq!(typo.status.code(), Some(2));
    assert_eq!(s.read("folder/run.json"), before);
    assert!(s.path("folder/model.safetensors").exists());
}

#[test]
fn a_report_knows_its_command() {
    let s = scratch();
    trained(&s, "--epochs 2 --run folder");
    let run: Value = serde_json::from_str(&s.read("folder/run.json")).unwrap();
    assert!(
        run["command"].as_str().unwrap().starts_with("rot train --train-x train.csv"),
        "{}",
        run["command"]
    );
}

#[test]
fn a_prior_is_noted_where_nothing_uses_it() {
    let s = scratch();
    let note = |options: &str| {
        let output = s.run(&format!("train {DATA} --epochs 1 --prior ones {options}"));
        String::from_utf8(output.stderr).unwrap().contains("--prior has no effect")
    };
    assert!(note("--loss p") && note("--loss ce") && note("--loss p --target-metric kl"));
    assert!(!note("--loss kl") && !note("--loss p --target-metric kl --target-transport 0.3"));
}

#[test]
fn more_labels_than_a_table_of_targets_holds_are_no_obstacle_without_one() {
    let s = Scratch::new();
    let (mut names, mut vectors, mut labels) = (String::new(), String::from("30001 1\n"), String::new());
    for label in 0..30_001 {
        writeln!(names, "n{label}").unwrap();
        writeln!(vectors, "n{label} {}", 1 + label % 7).unwrap();
    }
    (0..3).for_each(|row| writeln!(labels, "n{row}").unwrap());
    s.write("names.txt", names);
    s.write("v.vec", vectors);
    s.write("y.txt", labels);
    let line =
        "train --train-x a.csv --train-y y.txt --label-names names.txt --label-vectors v.vec --epochs 1";
    s.out(line);
    let message = s.refusal(&format!("{line} --target-transport 0.5"));
    assert!(message.contains("--target-transport must be 0 with more than 30000 labels"), "{message}");
}

#[test]
fn values_out_of_range_are_refused_before_files_are_read() {
    let s = Scratch::new();
    for (options, part) in [
        ("--target-transport 2", "--target-transport must be from 0 to 1"),
        ("--validation 2", "--validation must be a fraction of the rows"),
        ("--mix-ce -1", "--mix-ce must be finite and not negative"),
        ("--label-smoothing 2", "--label-smoothing must be from 0 to 1"),
    ] {
        let message = s.refusal(&format!("train --train-x gone.csv --train-y gone.txt {options}"));
        assert!(message.contains(part), "{message}");
    }
}

/// Interrupts `rot train` once it has said a line that `begun` accepts; returns its exit code and its other lines.
#[cfg(unix)]
fn interrupted(s: &Scratch, options: &str, begun: impl Fn(&str) -> bool) -> (Option<i32>, String) {
    use std::io::{BufRead, BufReader, Read};
    let mut child = s.spawn(&format!("train {DATA} {options}"));
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while told.read_line(&mut line).unwrap() > 0 && !begun(&line) {
        line.clear();
    }
    assert!(!line.is_empty(), "train {options} ended on its own");
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_keeps_the_weights_reached_by_then() {
    let s = scratch();
    let steps = "--loss ce --optimizer adam --batch 1 --epochs 1000000";
    let begun = |line: &str| line.starts_with("epoch ");
    let (code, rest) = interrupted(&s, &format!("{steps} --out early.safetensors --run folder"), begun);
    assert_eq!(code, Some(130), "{rest}");
    let last = rest.lines().last().unwrap();
    assert!(
        last.contains("the weights so far are in early.safetensors and folder, marked as interrupted"),
        "{rest}"
    );
    assert!(s.out("inspect early.safetensors").contains("interrupted: training ended early"));
    let about = &s.json("inspect early.safetensors")["about"];
    assert_eq!(about["interrupted"], true);
    assert!(about["epochs"].as_u64().unwrap() >= 1);
    // It predicts, and it has learned something.
    let scores = s.json("evaluate early.safetensors --x train.csv --y train.txt");
    assert!(scores["auc"].as_f64().unwrap() > 0.8, "{scores}");
    assert!(s.read("folder/run.json").contains("\"interrupted\":true"));
    let (code, rest) = interrupted(&s, steps, begun);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("nothing was saved: --out MODEL keeps"), "{rest}");
    // With a checkpoint, the run can go on.
    let (code, rest) = interrupted(&s, &format!("{steps} --checkpoint kept --out none.safetensors"), begun);
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.contains("--resume continues") && !s.path("none.safetensors").exists(), "{rest}");
    let whole = s.out(&format!("train {DATA} --loss ce --epochs 2 --out whole.safetensors"));
    assert!(whole.contains("model: whole.safetensors"));
    assert!(!s.out("inspect whole.safetensors").contains("interrupted"));
}

#[test]
fn progress_is_told_without_a_terminal() {
    let s = scratch();
    let told = |options: &str| String::from_utf8(s.run(&format!("train {DATA} {options}")).stderr).unwrap();
    let steps = told("--loss ce --epochs 30");
    assert!(steps.contains("epoch 1 of 30: loss ") && steps.contains("epoch 30 of 30: loss "), "{steps}");
    assert!(told("--loss ce --epochs 1").contains("epoch 1 of 1: "));
    let at_once = told("");
    assert!(at_once.contains("candidate 1: ") && at_once.contains("iteration 1, loss "), "{at_once}");
}
