//! Files that promise or unpack to more than there is memory for, full disks, and processes that share their outputs.

mod common;

use std::io::Write;
#[cfg(target_os = "linux")]
use std::process::Output;

use common::Scratch;
use flate2::Compression;
use flate2::write::GzEncoder;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A gzip file of a start and of many copies of a piece; members of gzip may follow each other.
fn bomb(start: &[u8], piece: &[u8], copies: usize) -> Vec<u8> {
    [gzip(start), gzip(piece).repeat(copies)].concat()
}

/// The start of a `.npy` file.
fn npy(shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes
}

/// Runs `rot` in a shell, after commands that limit it.
#[cfg(target_os = "linux")]
fn limited(s: &Scratch, limits: &str, line: &str) -> Output {
    std::process::Command::new("sh")
        .current_dir(s.path("."))
        .args(["-c", &format!("{limits} && exec {} {line}", env!("CARGO_BIN_EXE_rot"))])
        .output()
        .unwrap()
}

#[test]
fn rows_without_numbers_are_refused_at_once() {
    let s = Scratch::new();
    for rows in ["1000000000000", "300000000", "1"] {
        s.write("h.npy", npy(&format!("({rows}, 0)")));
        let message = s.refusal("distance h.npy h.npy");
        assert!(
            message.contains(&format!("h.npy: must hold at least one number per row, but is {rows} × 0")),
            "{message}"
        );
        s.refusal("train --train-x a.csv --train-y h.npy");
        s.refusal("train --train-x h.npy --train-y h.npy");
    }
}

#[test]
fn what_unpacks_to_more_than_the_memory_is_refused() {
    let s = Scratch::new();
    s.write("bomb.npy.gz", bomb(&npy("(100000000, 1)"), &vec![0; 1_000_000], 800));
    s.write("line.csv.gz", bomb(b"0", ",0".repeat(1_000_000).as_bytes(), 40));
    s.write("quote.csv.gz", bomb(b"\"", "\n".repeat(1_000_000).as_bytes(), 200));
    s.write("rows.csv.gz", bomb(b"0\n", "0\n".repeat(1_000_000).as_bytes(), 60));
    for (file, why) in [
        ("bomb.npy.gz", "must be read within 100.0 MB of memory, but takes at least"),
        ("rows.csv.gz", "must be read within 100.0 MB of memory, but takes at least"),
        ("line.csv.gz", "a line must stay within 3.1 MB"),
        ("quote.csv.gz", "a line must stay within 3.1 MB"),
    ] {
        let message = s.refusal(&format!("distance {file} b.csv --memory 1MB"));
        assert!(message.contains(file) && message.contains(why), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_may_take_little_reports_what_does_not_fit() {
    let s = Scratch::new();
    s.write("line.csv.gz", bomb(b"0", ",0".repeat(1_000_000).as_bytes(), 40));
    s.write("gaps.csv", "NA\n".repeat(7_000_000));
    s.write("wide.csv", format!("0{}\n", ",1".repeat(29_999)));
    s.write("bomb.npy.gz", bomb(&npy("(1000000000, 1)"), &vec![0; 1_000_000], 1000));
    s.write("vectors.vec", "5 999999999999\n");
    // A file of holes, which takes no room on the disk.
    std::fs::File::create(s.path("holes.safetensors")).unwrap().set_len(1_000_000_000_000).unwrap();
    s.write("y.txt", "near\nfar\nfar\n");
    for line in [
        "distance line.csv.gz b.csv",
        "distance - b.csv --memory 100MB < /dev/zero",
        "distance - b.csv --memory 100MB --missing drop-rows < gaps.csv",
        "distance bomb.npy.gz b.csv",
        "distance wide.csv wide.csv --metric w2",
        "pairwise wide.csv wide.csv",
        "train --train-x line.csv.gz --train-y y.txt",
        "train --train-x a.csv --train-y y.txt --label-vectors vectors.vec",
        "train --train-x a.csv --train-y line.csv.gz",
        "inspect holes.safetensors",
    ] {
        let output = limited(&s, "ulimit -v 2000000", line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_picture_that_cannot_be_written_is_reported() {
    let s = Scratch::new();
    std::os::unix::fs::symlink("/dev/full", s.path("full.png")).unwrap();
    let output = s.run("pairwise a.csv b.csv --heatmap full.png");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("full.png: No space left on device") && !error.contains('{'), "{error}");
    // A limit on the size of files stands for a full disk.
    let output = limited(&s, "trap '' XFSZ && ulimit -f 1", "pairwise a.csv b.csv --heatmap map.png");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("map.png: File too large"), "{error}");
    let mut names: Vec<_> =
        std::fs::read_dir(s.path(".")).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.csv", "b.csv", "full.png"]);
}

#[test]
fn processes_with_one_output_do_not_meet() {
    let s = Scratch::new();
    for round in 0..10 {
        let all: Vec<_> =
            (0..3).map(|_| s.spawn("pairwise a.csv b.csv --out d.csv --heatmap d.png")).collect();
        for child in all {
            let output = child.wait_with_output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "round {round}: {error}");
        }
        assert_eq!(s.read("d.csv").lines().count(), 3);
        std::fs::remove_file(s.path("d.csv")).unwrap();
    }
    assert_eq!(std::fs::read_dir(s.path(".")).unwrap().count(), 3);
}

#[test]
fn a_checkpoint_folder_is_for_one_run() {
    let s = Scratch::new();
    s.write("y.txt", "near\nfar\nfar\n");
    let train = "train --train-x a.csv --train-y y.txt --loss ce --checkpoint kept";
    let mut first = s.spawn(&format!("{train} --epochs 100000000 --schedule constant"));
    while !s.path("kept/checkpoint.safetensors").exists() {
        assert!(first.try_wait().unwrap().is_none(), "the first run ended before its first checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let message = s.refusal(&format!("{train} --epochs 1"));
    assert!(
        message.contains("--checkpoint must be a folder that no other run uses, but kept is in use"),
        "{message}"
    );
    first.kill().unwrap();
    first.wait().unwrap();
    s.write("kept/.checkpoint.safetensors.1-1.tmp", "what a killed run left");
    s.out(&format!("{train} --epochs 1"));
    let mut names: Vec<_> =
        std::fs::read_dir(s.path("kept")).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", "checkpoint.safetensors"]);
}
