//! A hidden layer with the real binary: every command that takes a model takes it, or says why not.

mod common;

use std::fmt::Write as _;

use common::Scratch;

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
    s.write("new.vec", "rare 0 1\n");
    s
}

const DATA: &str = "--train-x train.csv --train-y train.txt --label-names names.txt --label-vectors words.vec --loss bce --lr 0.01";
const TEST: &str = "--test-x test.csv --test-y test.txt";

#[test]
fn commands_take_models_with_a_hidden_layer() {
    let s = scratch();
    let line = format!("train {DATA} {TEST} --hidden 64 --epochs 60 --run run --out deep.safetensors");
    let found = s.out(&format!("{line} --json"));
    let found: serde_json::Value = serde_json::from_str(found.lines().last().unwrap()).unwrap();
    assert_eq!((&found["hidden"], &found["features"]), (&64.into(), &2.into()));
    assert!(found["test"]["auc"].as_f64().unwrap() > 0.7, "{}", found["test"]["auc"]);
    let told = s.out("inspect deep.safetensors");
    assert!(told.contains("map: 2 features to 64 hidden units to 3 labels"), "{told}");
    let layer = "hidden layer: dropout 0.5 of units and 0.2 of features, prior by names (τ = 0.5, η = 1)";
    assert!(told.contains(layer) && told.contains("adamw"), "{told}");
    assert_eq!(s.json("inspect deep.safetensors")["hidden"], 64);
    let scores = s.json("evaluate deep.safetensors --x test.csv --y test.txt");
    assert_eq!(scores["auc"], found["test"]["auc"]);
    assert!(s.out("predict deep.safetensors --x test.csv --top 2 --explain").contains("mass_from"));
    assert!(s.out("predict deep.safetensors --x test.csv --decision least-cost").lines().count() > 80);
    s.out("verify deep.safetensors run");
    s.out("report run");
    let refused = s.refusal("extend deep.safetensors --label-vectors new.vec --out more.safetensors");
    assert!(refused.contains("trained by lbfgs"), "{refused}");
}

#[test]
fn a_resumed_run_writes_the_same_file_whatever_the_threads() {
    let s = scratch();
    let line = format!("train {DATA} --hidden 16 --label-prior rows");
    s.out(&format!("{line} --epochs 6 --threads 1 --out whole.safetensors"));
    s.out(&format!("{line} --epochs 3 --checkpoint saved"));
    s.out(&format!("{line} --epochs 6 --threads 2 --checkpoint saved --resume --out parts.safetensors"));
    s.out("verify saved");
    let weights = |file: &str| {
        let bytes = std::fs::read(s.path(file)).unwrap();
        let header = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        bytes[header..].to_vec()
    };
    assert!(weights("whole.safetensors") == weights("parts.safetensors"));
    let refused = s.refusal(&format!("{line} --epochs 6 --dropout 0.25 --checkpoint saved --resume"));
    assert!(refused.contains("other settings"), "{refused}");
    let linear = line.replace("--hidden 16 --label-prior rows", "--optimizer adamw");
    let refused = s.refusal(&format!("{linear} --epochs 6 --checkpoint saved --resume"));
    assert!(refused.contains("checkpoint"), "{refused}");
}

#[test]
fn rows_count_as_often_as_their_weights_say() {
    let s = scratch();
    let lines = |name: &str| s.read(name).lines().map(str::to_owned).collect::<Vec<_>>();
    let (x, y) = (lines("train.csv"), lines("train.txt"));
    let times = |row: usize| [2, 1, 3][row % 3];
    let twice = |lines: &[String]| -> String {
        let repeated = lines.iter().enumerate().flat_map(|(row, line)| vec![format!("{line}\n"); times(row)]);
        repeated.collect()
    };
    s.write("twice.csv", format!("{}\n{}", x[0], twice(&x[1..])));
    s.write("twice.txt", twice(&y));
    s.write("weights.txt", (0..y.len()).fold(String::new(), |text, row| format!("{text}{}\n", times(row))));
    let options = "--label-names names.txt --label-vectors words.vec --loss bce --l2 1 --label-prior none --row-length none \
                   --validation 0 --test-x test.csv --test-y test.txt --json";
    let auc = |line: &str| {
        let found = s.out(&format!("train {line} {options}"));
        let found: serde_json::Value = serde_json::from_str(found.lines().last().unwrap()).unwrap();
        found["test"]["auc"].as_f64().unwrap()
    };
    let weighted = auc("--train-x train.csv --train-y train.txt --sample-weights weights.txt");
    assert!((weighted - auc("--train-x twice.csv --train-y twice.txt")).abs() < 1e-3);
    s.write("few.txt", "1\n2\n");
    s.write("negative.txt", "-1\n".repeat(y.len()));
    for (file, told) in [
        ("few.txt", "one weight for each of the 240 training rows, but has 2"),
        ("negative.txt", "--sample-weights must be finite and not negative"),
    ] {
        let refused = s.refusal(&format!("train {DATA} --sample-weights {file}"));
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn files_of_earlier_versions_have_no_hidden_layer() {
    let s = scratch();
    s.out(&format!("train {DATA} --hidden 4 --epochs 1 --out deep.safetensors"));
    let bytes = std::fs::read(s.path("deep.safetensors")).unwrap();
    let told = br#"\"version\":"#;
    let at = bytes.windows(told.len()).position(|part| part == told).unwrap() + told.len();
    for version in [b'1', b'2'] {
        let mut older = bytes.clone();
        older[at] = version;
        s.write("older.safetensors", &older);
        let refused = s.refusal("inspect older.safetensors");
        let told =
            format!("is of format version {}, which has no hidden layer, and has one", version as char);
        assert!(refused.contains(&told), "{refused}");
        assert_eq!(s.run("verify older.safetensors").status.code(), Some(1));
    }
}
