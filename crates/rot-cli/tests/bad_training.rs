//! Invalid training data and options: every problem gets one line that names it, and no file is left half-written.

mod common;

use common::Scratch;

fn scratch() -> Scratch {
    let s = Scratch::new();
    s.write("x.csv", "1,2\n3,4\n5,6\n7,8\n");
    s.write("y.txt", "cat\ndog\ncat\ndog\n");
    s.write("names.txt", "cat\ndog\n");
    s.write("words.vec", "cat 1 0\ndog 0 1\n");
    s
}

fn refused(s: &Scratch, line: &str, parts: &[&str]) {
    let message = s.refusal(line);
    for part in parts {
        assert!(message.contains(part), "rot {line}: '{message}' does not contain '{part}'");
    }
}

#[test]
fn labels_that_are_none() {
    let s = scratch();
    s.write("tags.txt", "cat\ndog\ncatt\ndog\n");
    s.write("twice.txt", "cat\ncat\ncat,dog,cat\ndog\n");
    s.write("numbers.txt", "0\n1\n2\n1\n");
    s.write("few.txt", "cat\ndog\n");
    s.write("empty.txt", "cat\n\ndog\ndog\n");
    s.write("double.txt", "cat\ndog\ncat\n");
    let with = |y: &str| format!("train --train-x x.csv --train-y {y} --label-names names.txt");
    refused(&s, &with("tags.txt"), &["tags.txt:3", "'catt'", "'cat'"]);
    refused(&s, &with("twice.txt"), &["twice.txt:3", "cat"]);
    refused(&s, &with("numbers.txt"), &["numbers.txt:3", "2"]);
    refused(&s, &with("few.txt"), &["one row of labels per row of features", "2 for 4"]);
    refused(&s, &with("empty.txt"), &["1 of 4 rows have no label", "row 2", "--empty skip"]);
    refused(
        &s,
        "train --train-x x.csv --train-y y.txt --label-names double.txt",
        &["double.txt", "cat", "1", "3"],
    );
    refused(&s, "train --train-x x.csv", &["--train-y"]);
    refused(&s, "train", &["--train-x, --mnist or --xmc"]);
    refused(&s, "train --train-x x.csv --train-y missing.txt", &["missing.txt", "No such file"]);
}

#[test]
fn features_that_are_none() {
    let s = scratch();
    s.write("nan.csv", "1,2\n3,4\n5,nan\n7,8\n");
    s.write("wide.csv", "1,2,3\n4,5,6\n");
    s.write("two.txt", "cat\ndog\n");
    refused(&s, "train --train-x nan.csv --train-y y.txt", &["nan.csv:3", "column 2", "'nan'"]);
    refused(
        &s,
        "train --train-x x.csv --train-y y.txt --test-x wide.csv --test-y two.txt",
        &["wide.csv", "2 features", "has 3"],
    );
    s.write("past.txt", "2 3 2\n0 0:1\n1 3:1\n");
    s.write("label.txt", "2 3 2\n0 0:1\n2 1:1\n");
    s.write("good.txt", "2 3 2\n0 0:1\n1 1:1\n");
    refused(&s, "train --xmc past.txt good.txt", &["past.txt:3", "below 3", "3"]);
    refused(&s, "train --xmc good.txt label.txt", &["label.txt:3", "below 2", "2"]);
    s.write("short.txt", "5 3 2\n0 0:1\n");
    refused(&s, "train --xmc short.txt good.txt", &["short.txt", "5 rows", "1"]);
}

#[test]
fn labels_of_train_and_test_that_are_not_alike() {
    let s = scratch();
    s.write("numbers.txt", "0\n1\n0\n1\n");
    let line = "train --train-x x.csv --test-x x.csv";
    refused(&s, &format!("{line} --train-y numbers.txt --test-y y.txt"), &["y.txt", "numbers", "names"]);
    s.write("two.csv", "a,b\n1,0\n0,1\n1,0\n0,1\n");
    s.write("three.csv", "a,b,c\n1,0,0\n0,1,0\n1,0,0\n0,1,1\n");
    refused(&s, &format!("{line} --train-y two.csv --test-y three.csv"), &["three.csv"]);
    s.write("one.svm", "1 1:1\n0 2:1\n");
    s.write("zero.svm", "1 0:1\n0 1:1\n");
    s.out("train --train-x one.svm --epochs 1 --loss ce --out model.safetensors");
    refused(&s, "predict model.safetensors --x zero.svm", &["zero.svm", "start at 1", "0"]);
    refused(&s, "train --train-x one.svm --test-x one.svm --test-y numbers.txt", &["--test-y", "--train-y"]);
    s.write("wide.csv", "1,2\n");
    refused(&s, "evaluate model.safetensors --x wide.csv", &["--y"]);
}

#[test]
fn claims_that_memory_cannot_meet() {
    let s = scratch();
    s.write("wide.svm", "0 4294967295:1\n1 1:1\n");
    s.write("many.svm", "4294967290 1:1\n1 1:1\n");
    s.write("head.txt", "1 3000000000 3000000000\n0 1:1\n");
    s.write("apart.svm", "0 1:1\n300000 2:1\n");
    refused(&s, "train --train-x wide.svm --loss ce", &["4294967295 features", "memory"]);
    refused(&s, "train --train-x many.svm --loss ce", &["labels must be below", "4294967290"]);
    refused(&s, "train --train-x head.txt --loss ce", &["labels must be below"]);
    refused(&s, "train --train-x apart.svm --loss mix", &["--label-vectors", "300001"]);
}

#[test]
fn features_that_leave_the_range() {
    let s = scratch();
    s.out("train --train-x x.csv --train-y y.txt --epochs 1 --out model.safetensors --loss ce --lr 1");
    s.write("huge.csv", "3e38,3e38\n");
    refused(&s, "predict model.safetensors --x huge.csv", &["logits must be finite", "row 1"]);
    // The model is saved, although its test rows cannot be scored.
    s.write("one.txt", "cat\n");
    let line = "train --train-x x.csv --train-y y.txt --test-x huge.csv --test-y one.txt --lr 1 --epochs 1 --loss ce";
    let output = s.run(&format!("{line} --out kept.safetensors"));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the test rows: logits must be finite"), "{error}");
    assert!(s.path("kept.safetensors").exists());
}

#[test]
fn vectors_that_do_not_fit() {
    let s = scratch();
    s.write("ragged.vec", "cat 1 0\ndog 0 1 2\n");
    s.write("none.vec", "bird 1 0\n");
    let with = |v: &str| {
        format!("train --train-x x.csv --train-y y.txt --label-names names.txt --label-vectors {v}")
    };
    refused(&s, &with("ragged.vec"), &["ragged.vec:2", "'dog'", "2 numbers", "has 3"]);
    refused(&s, &with("none.vec"), &["none.vec", "2 of 2 labels have no vector", "cat, dog"]);
}

#[test]
fn options_out_of_range() {
    let s = scratch();
    let base = "train --train-x x.csv --train-y y.txt --label-vectors words.vec";
    for (options, parts) in [
        ("--lr 0", vec!["--lr", "positive", "0"]),
        ("--lr nan", vec!["--lr", "NaN"]),
        ("--batch 0", vec!["--batch", "at least 1"]),
        ("--epochs 0", vec!["--epochs", "at least 1"]),
        ("--weight-decay -1", vec!["--weight-decay", "-1"]),
        ("--optimizer newton", vec!["--optimizer", "lbfgs, adam, adamw or sgd", "newton"]),
        ("--momentum 0.9", vec!["--momentum", "sgd"]),
        ("--optimizer sgd --momentum 1", vec!["--momentum", "less than 1"]),
        ("--schedule step", vec!["--schedule", "constant, linear or cosine", "step"]),
        ("--mix-ot -1", vec!["--mix-ot", "-1"]),
        ("--loss ce --mix-ot 2", vec!["--mix-ot", "transport", "ce"]),
        ("--loss p --mix-ot 0", vec!["--mix-ce", "positive"]),
        ("--hidden 0", vec!["--hidden", "at least 1", "0"]),
        ("--hidden 4 --dropout 1", vec!["--dropout", "from 0 to less than 1", "is 1"]),
        ("--hidden 4 --input-dropout -0.5", vec!["--input-dropout", "from 0 to less than 1", "-0.5"]),
        ("--input-dropout 0.5", vec!["--input-dropout", "hidden"]),
        ("--hidden 4 --optimizer lbfgs", vec!["--hidden", "adamw", "lbfgs"]),
        ("--hidden 4 --l2 1", vec!["--l2", "auto with a hidden layer"]),
        ("--hidden 4 --protocol paper", vec!["--hidden", "protocol"]),
        ("--hidden 4 --device cuda", vec!["--device", "cpu or auto", "hidden layer"]),
        ("--hidden 4 --loss square", vec!["--loss", "square"]),
        ("--loss asl --asl-margin 1", vec!["--asl-margin", "from 0 to less than 1", "is 1"]),
        ("--loss asl --asl-negative -1", vec!["--asl-negative", "not negative", "-1"]),
        ("--loss ce --asl-positive 1", vec!["--asl-positive", "asl", "ce"]),
        ("--loss bce --mix-base asl", vec!["--mix-base", "transport", "bce"]),
        ("--loss asl --optimizer lbfgs", vec!["--loss", "convex", "asl is not"]),
        ("--loss asl --l2 1", vec!["--loss", "convex", "asl is not"]),
        ("--loss asl --device cuda", vec!["--device", "cpu or auto", "asymmetric"]),
        ("--entropy 0", vec!["--entropy", "1e-30"]),
        ("--groups 3", vec!["--groups", "2", "3"]),
        ("--fw-iterations 0", vec!["--fw-iterations", "at least 1"]),
        ("--target-transport 2", vec!["--target-transport", "from 0 to 1", "2"]),
        ("--target-transport 0.5 --target-temperature 0", vec!["--target-temperature", "positive"]),
        ("--label-smoothing -0.1", vec!["--label-smoothing", "-0.1"]),
        ("--validation 1.5", vec!["--validation", "1.5"]),
        ("--patience 3", vec!["--patience", "no rows are held out"]),
        ("--per-class 3", vec!["--per-class", "2 rows of label 0", "3"]),
        ("--test-per-class 1", vec!["--test-per-class", "none"]),
        ("--threads 0", vec!["--threads", "at least 1"]),
        ("--out model.bin", vec!["--out", ".safetensors", "model.bin"]),
        ("--out missing/model.safetensors", vec!["--out", "missing"]),
        ("--checkpoint x.csv", vec!["--checkpoint", "x.csv"]),
        ("--resume", vec!["--checkpoint"]),
        ("--loss best", vec!["--loss", "best"]),
        ("--loss ce --mix-ce 3", vec!["--mix-ce", "transport", "ce"]),
        ("--loss ce --k 0", vec!["--k", "0"]),
        ("--loss ce --fw-iterations 0", vec!["--fw-iterations", "at least 1"]),
        ("--loss bce --groups 0", vec!["--groups", "at least 1"]),
        ("--checkpoint run --out run/checkpoint.safetensors", vec!["--out", "--checkpoint"]),
        ("--mnist .", vec!["--mnist", "--train-x"]),
    ] {
        refused(&s, &format!("{base} {options}"), &parts);
    }
}

#[test]
fn models_that_are_none() {
    let s = scratch();
    s.out("train --train-x x.csv --train-y y.txt --epochs 1 --out model.safetensors --loss ce");
    s.write("text.safetensors", "hello");
    s.write("deep.csv", "1,2,3\n");
    s.write("birds.txt", "cat\nbird\ncat\ndog\n");
    for command in [
        "inspect text.safetensors",
        "predict text.safetensors --x x.csv",
        "evaluate text.safetensors --x x.csv",
    ] {
        refused(&s, command, &["text.safetensors", "must be a robust-ot model"]);
    }
    refused(&s, "predict model.safetensors --x deep.csv", &["deep.csv", "2 features of the model", "has 3"]);
    refused(&s, "predict model.safetensors --x x.csv --top 3", &["--top", "2 labels", "3"]);
    refused(&s, "predict model.safetensors --x x.csv --explain", &["--explain", "label vectors"]);
    refused(&s, "predict model.safetensors --x x.csv --out best.xlsx", &["--out", ".csv", "best.xlsx"]);
    refused(&s, "evaluate model.safetensors --x x.csv --y birds.txt", &["birds.txt:2", "bird"]);
    assert!(!s.path("best.xlsx").exists());
}

#[test]
fn divergence_is_a_failure_with_a_name_and_leaves_no_model() {
    let s = scratch();
    let line =
        "train --train-x x.csv --train-y y.txt --optimizer sgd --lr 1e38 --loss ce --out model.safetensors";
    let output = s.run(line);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("training diverged") && error.contains("epoch"), "{error}");
    assert!(!s.path("model.safetensors").exists());
}
