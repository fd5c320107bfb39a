//! Tuning with the real binary: its answer, the command that repeats it, and a run that is killed.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use common::Scratch;
use serde_json::Value;

/// Points in the quadrants of a plane: diagonal ones have the same tag, which no line separates.
fn scratch() -> Scratch {
    let s = Scratch::new();
    for (name, rows, shift) in [("train", 240_u32, 0.0), ("test", 80, 0.37)] {
        let (mut x, mut y) = (String::from("east,north\n"), String::new());
        for row in 0..rows {
            let (east, north) = ((f64::from(row) * 0.7 + shift).sin(), (f64::from(row) * 1.3 + shift).cos());
            writeln!(x, "{east},{north}").unwrap();
            let tag = if east * north > 0.0 { "same" } else { "other" };
            writeln!(y, "{tag}{}", if row % 9 == 0 { ",often" } else { "" }).unwrap();
        }
        s.write(&format!("{name}.csv"), x);
        s.write(&format!("{name}.txt"), y);
    }
    s.write("names.txt", "same\nother\noften\n");
    s.write("words.vec", "same 1 0\nother 0.8 0.6\noften -1 0\n");
    s
}

const DATA: &str =
    "--train-x train.csv --train-y train.txt --label-names names.txt --label-vectors words.vec";
const TEST: &str = "--test-x test.csv --test-y test.txt";

#[test]
fn the_printed_command_writes_the_same_model() {
    let s = scratch();
    for select in ["auc", "semantic"] {
        let line = format!(
            "tune {DATA} {TEST} --select {select} --budget 3s --seed 2 --picture tried.svg --json --out best.safetensors"
        );
        let told = s.out(&line);
        let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = lines.last().unwrap();
        assert!(lines.len() > last["trials"].as_array().unwrap().len());
        assert_eq!(last["select"], select);
        assert_eq!(last["test"]["rows"], 80);
        assert!(last["fitting_seconds"].as_f64().unwrap() <= last["seconds"].as_f64().unwrap());
        assert!(fs::read_to_string(s.path("tried.svg")).unwrap().starts_with("<svg"));
        let best = fs::read(s.path("best.safetensors")).unwrap();
        s.out(last["command"].as_str().unwrap().strip_prefix("rot ").unwrap());
        assert!(fs::read(s.path("best.safetensors")).unwrap() == best, "{}", last["command"]);
    }
    s.out("verify best.safetensors");
}

#[test]
fn the_table_names_the_winner() {
    let s = scratch();
    let told = s.out(&format!("tune {DATA} {TEST} --budget 2 --run run"));
    for part in
        ["AUC", "candidate", "winner, fitted to all rows:", "in fits", "80 test rows", "rot train --train-x"]
    {
        assert!(told.contains(part), "'{part}' is not in\n{told}");
    }
    s.out("report run");
}

#[test]
fn a_killed_run_goes_on() {
    let s = scratch();
    let line = format!("tune {DATA} --budget 4s --checkpoint kept --out best.safetensors");
    let mut child = s.spawn(&line);
    let journal = s.path("kept/tune.jsonl");
    let start = Instant::now();
    // Some candidates are scored by then.
    while fs::read_to_string(&journal).map_or(0, |text| text.lines().count()) < 7 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing was scored");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!s.path("best.safetensors").exists());
    let before = fs::read_to_string(&journal).unwrap();
    let whole: String = before.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    s.out(&format!("{line} --resume"));
    assert!(fs::read_to_string(&journal).unwrap().starts_with(&whole));
    s.out("verify best.safetensors");
    let refused = s.refusal(&format!("{line} --resume --select auc"));
    assert!(refused.contains("tune.jsonl, line 1") && refused.contains("criterion"), "{refused}");
}

#[test]
fn bad_options() {
    let s = scratch();
    for (line, parts) in [
        (format!("tune {DATA} --budget 0"), ["--budget", "90s, 5m or 1h"]),
        (format!("tune {DATA} --budget 1us"), ["--budget", "above 0"]),
        (
            format!("tune {DATA} --budget 0.000001"),
            ["--budget must be long enough for one model", "0.000001 s"],
        ),
        (format!("tune {DATA} --select acc"), ["acc", "p@1"]),
        (format!("tune {DATA} --validation 1"), ["--validation", "from 0 to less than 1"]),
        (format!("tune {DATA} --validation 0"), ["--validation must be above 0", "0"]),
        (format!("tune {DATA} --resume"), ["--checkpoint", "required"]),
        (format!("tune {DATA} --out best.txt"), ["--out", ".safetensors"]),
        (format!("tune {DATA} --picture best.gif"), ["--picture", ".svg or .png"]),
        (
            "tune --train-x train.csv --train-y train.txt --label-names names.txt --select semantic".into(),
            ["--select must be auc, map, p@1 or rank without label vectors", "semantic"],
        ),
        (format!("train {DATA} --select acc"), ["acc", "p@1"]),
    ] {
        let message = s.refusal(&line);
        for part in parts {
            assert!(message.contains(part), "rot {line}: '{message}' does not contain '{part}'");
        }
    }
}
