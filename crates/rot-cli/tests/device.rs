//! `--device` on machines with and without a GPU.

mod common;

use common::Scratch;
use robust_ot_cuda::Device;

#[test]
fn the_processor_is_named() {
    let s = Scratch::new();
    assert_eq!(s.json("distance a.csv b.csv")["device"], "cpu");
    assert_eq!(s.json("distance a.csv b.csv --entropy 1 --device cpu")["device"], "cpu");
    assert_eq!(s.json("pairwise a.csv b.csv --entropy 1 --device auto")["device"], "cpu");
}

#[test]
fn invalid_devices_and_work_that_no_gpu_does_are_refused() {
    let s = Scratch::new();
    for (line, part) in [
        ("distance a.csv b.csv --device gpu", "auto, cpu, cuda or cuda:N"),
        ("distance a.csv b.csv --device cuda", "--entropy must be above 0 with the device cuda:0, but is 0"),
        (
            "pairwise a.csv b.csv --device cuda:1",
            "--entropy must be above 0 with the device cuda:1, but is 0",
        ),
        ("train --train-x a.csv --train-y b.csv --device cuda:x", "auto, cpu, cuda or cuda:N"),
        ("train --train-x a.csv --train-y b.csv --precision half", "tf32"),
    ] {
        let message = s.refusal(line);
        assert!(message.contains(part) && message.contains("--"), "rot {line}: {message}");
    }
}

#[test]
fn a_missing_gpu_is_a_failure() {
    let s = Scratch::new();
    s.write("y.txt", "0\n1\n0\n");
    let none = Device::count() + 5;
    for line in [
        format!("distance a.csv b.csv --entropy 1 --device cuda:{none}"),
        format!("pairwise a.csv b.csv --entropy 1 --device cuda:{none}"),
        format!("train --train-x a.csv --train-y y.txt --loss ce --device cuda:{none} --out m.safetensors"),
    ] {
        let output = s.run(&line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "rot {line}: {error}");
        assert!(error.contains(&format!("cuda:{none}: ")) && output.stdout.is_empty(), "rot {line}: {error}");
    }
    assert!(!s.path("m.safetensors").exists());
}
