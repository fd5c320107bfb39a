//! Damaged files are found, and files of the first format version are read with a note.

mod common;

use common::{Scratch, first_version};

const TRAIN: &str = "train --train-x x.csv --train-y y.txt --epochs 2 --loss ce";

/// A folder with a model, a checkpoint, and the runs of a model and of a distance.
fn scratch() -> Scratch {
    let s = Scratch::new();
    s.write("x.csv", "0,0\n1,0\n0,1\n5,5\n6,5\n5,6\n");
    s.write("y.txt", "near\nnear\nnear\nfar\nfar\nfar\n");
    s.out(&format!("{TRAIN} --out model.safetensors --checkpoint kept --run run"));
    s.out("distance a.csv b.csv --run drift");
    s
}

/// The exit code, standard output and standard error.
fn verify(s: &Scratch, files: &str) -> (Option<i32>, String, String) {
    let output = s.run(&format!("verify {files}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn whole_files_and_folders_pass() {
    let s = scratch();
    let (code, out, error) = verify(&s, "model.safetensors kept run drift");
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "ok      model.safetensors: model",
            "ok      kept/checkpoint.safetensors: checkpoint",
            "ok      run/run.json: run",
            "ok      run/model.safetensors: model",
            "ok      drift/run.json: run",
        ]
    );
    let (_, out, _) = verify(&s, "kept --json");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&found["ok"], &found["kind"]), (&true.into(), &"checkpoint".into()));
    // A sealed run is still what the report reads.
    s.out("report run");
    assert_eq!(s.run("verify").status.code(), Some(2));
}

#[test]
fn every_damage_is_found() {
    let s = scratch();
    for file in ["model.safetensors", "kept/checkpoint.safetensors", "run/run.json", "drift/run.json"] {
        let bytes = std::fs::read(s.path(file)).unwrap();
        // Every place of a run counts; of the others, the library tests every bit.
        for at in (0..bytes.len()).step_by(bytes.len() / 20) {
            let mut broken = bytes.clone();
            broken[at] ^= 4;
            s.write(file, &broken);
            let (code, out, error) = verify(&s, file);
            assert_eq!(code, Some(1), "{file} {at}: {out}");
            assert!(out.starts_with("failed  ") && out.contains(file), "{out}");
            assert_eq!(error, "rot: 1 of 1 files failed\n");
        }
        s.write(file, &bytes[..bytes.len() - 1]);
        assert_eq!(verify(&s, file).0, Some(1));
        s.write(file, &bytes);
        assert_eq!(verify(&s, file).0, Some(0));
    }
}

#[test]
fn what_is_neither_fails_beside_what_is_whole() {
    let s = scratch();
    std::fs::create_dir(s.path("empty")).unwrap();
    let (code, out, error) = verify(&s, "model.safetensors missing.safetensors a.csv empty --json");
    assert_eq!((code, error.as_str()), (Some(1), "rot: 3 of 4 files failed\n"));
    let found: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        found.iter().map(|found| found["ok"].as_bool().unwrap()).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    let problem = |at: usize| found[at]["problem"].as_str().unwrap();
    assert!(problem(1).contains("missing.safetensors"), "{}", problem(1));
    assert!(problem(2).contains("a.csv: must be a robust-ot model, checkpoint or learner"), "{}", problem(2));
    assert!(
        problem(3).contains("empty: must hold a run or a checkpoint, but holds neither"),
        "{}",
        problem(3)
    );
}

#[test]
fn files_without_a_checksum_are_read_with_a_note() {
    let s = scratch();
    let commands = [
        ("model.safetensors", "inspect model.safetensors".to_owned()),
        ("model.safetensors", "predict model.safetensors --x x.csv".to_owned()),
        ("model.safetensors", "evaluate model.safetensors --x x.csv --y y.txt".to_owned()),
        ("kept/checkpoint.safetensors", format!("{TRAIN} --checkpoint kept --resume")),
    ];
    for (file, command) in commands {
        let before = s.run(&command);
        let bytes = std::fs::read(s.path(file)).unwrap();
        s.write(file, first_version(&bytes));
        let output = s.run(&command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{command}: {error}");
        let notes = error.lines().filter(|line| line.contains("has no checksum (format version 1)"));
        assert_eq!(notes.count(), 1, "{command}: {error}");
        if !command.starts_with("train") {
            assert_eq!(output.stdout, before.stdout);
        }
        let (code, out, _) = verify(&s, file);
        assert_eq!(code, Some(1));
        assert!(out.contains("has no checksum"), "{out}");
        s.write(file, bytes);
    }
}

#[test]
fn newer_files_are_refused_with_their_version() {
    let s = scratch();
    let mut bytes = std::fs::read(s.path("model.safetensors")).unwrap();
    let version = b"\\\"version\\\":";
    let at = bytes.windows(version.len()).position(|window| window == version).unwrap() + version.len();
    bytes[at] = b'4';
    s.write("model.safetensors", bytes);
    let message = s.refusal("inspect model.safetensors");
    assert!(message.contains("is of format version 4, and this program reads versions 1 to 3"), "{message}");
}
