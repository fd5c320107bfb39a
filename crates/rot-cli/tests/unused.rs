//! An option without effect is said.

mod common;

use common::Scratch;

#[test]
fn a_parameter_of_another_set_is_said() {
    let scratch = Scratch::new();
    scratch.write("groups.txt", "0\n1\n");
    for (options, note) in [
        ("--lambda 2", "--lambda has no effect with p; it belongs to kl, ds and features"),
        ("--metric kl --lambda 9 --k 2", "--k has no effect with kl; it belongs to p, p-power and srw"),
        ("--metric w2 --rho 3", "--rho has no effect with w2; it belongs to rkp"),
        ("--prior eye", "--prior has no effect with p; it belongs to kl and ds"),
        ("--seed 3", "--seed has no effect with groups that are contiguous; it belongs to random"),
        ("--grouping contiguous", "--grouping contiguous has no effect without --groups"),
    ] {
        for command in ["distance", "pairwise"] {
            let output = scratch.run(&format!("{command} a.csv b.csv {options}"));
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success() && said.starts_with(&format!("rot: note: {note}")), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    for options in [
        "",
        "--k 2",
        "--metric srw --k 2",
        "--metric rkp --rho 3",
        "--metric kl --lambda 9 --prior ones",
        "--groups 1 --grouping contiguous",
        "--groups 2 --grouping random --seed 3",
        "--grouping groups.txt",
    ] {
        let said = scratch.run(&format!("distance a.csv b.csv {options}")).stderr;
        assert!(said.is_empty(), "{options}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn options_of_training_without_effect_are_said() {
    let scratch = Scratch::new();
    scratch.write("y.csv", "class\nno\nyes\nno\nyes\n");
    let of_loss = "has no effect with ce; it belongs to losses with transport";
    for (options, note) in [
        ("--loss ce --fw-iterations 3", format!("--fw-iterations {of_loss}")),
        ("--loss ce --entropy 0.5", format!("--entropy {of_loss}")),
        ("--loss ce --geometry rows", format!("--geometry {of_loss}")),
        ("--loss ce --groups 1", format!("--groups {of_loss}")),
        (
            "--loss p --target-temperature 0.2",
            "--target-temperature has no effect without --target-transport".into(),
        ),
        ("--loss p --target-metric kl", "--target-metric has no effect without --target-transport".into()),
        ("--loss p --missing drop", "--missing has no effect without --label-vectors".into()),
        ("--loss p --entropy 0.5 --fw-iterations 2", String::new()),
        ("--loss ce --target-transport 0.5 --target-temperature 0.2 --geometry rows", String::new()),
    ] {
        let line = format!("train --train-x b.csv --train-y y.csv --epochs 2 --validation 0 {options}");
        let output = scratch.run(&line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{options}: {said}");
        let found: Vec<&str> = said.lines().filter(|line| line.contains("no effect")).collect();
        let expected = format!("rot: note: {note}");
        assert_eq!(found, if note.is_empty() { vec![] } else { vec![expected.as_str()] }, "{options}");
    }
}

#[test]
fn defaults_in_the_help_are_those_of_the_library() {
    let help = Scratch::new().out("distance --help");
    let default = robust_ot::sets::SetParameters::default();
    for (option, value) in [
        ("--k", default.k.to_string()),
        ("--rho", default.rho.to_string()),
        ("--lambda", default.lambda.to_string()),
    ] {
        let about = help.split(&format!("{option} <")).nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(about.contains(&format!("[default: {value}]")), "{option}: {about}");
    }
}
