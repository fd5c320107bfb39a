//! Experiments from user-written files, on small data.

mod common;

use common::Scratch;
use serde_json::Value;

fn scratch() -> Scratch {
    let s = Scratch::new();
    s.write("x.csv", "0,0\n1,0.5\n0.2,0.1\n0.9,1\n0,0.3\n1,0.8\n".repeat(4));
    s.write("y.txt", "cat\ntruck\ncat\ntruck\ncat\ntruck\n".repeat(4));
    s.write("names.txt", "cat\ntruck\n");
    s.write("words.vec", "cat 1 0\ndog 0.9 0.1\ntruck 0 1\nsea 0.5 0.5\n");
    s
}

const TABLE: &str = r#"
title = "A small table"
band = 0.05
seeds = { paper = [0, 1], tuned = [0] }
quick = { epochs = 1, seeds = [0] }

[protocols]
paper = "--protocol paper"
tuned = ""

[[data]]
name = "points"
row-length = { paper = 2 }
options = "--train-x {data}/x.csv --train-y {data}/y.txt --test-x {data}/x.csv --test-y {data}/y.txt --label-names {data}/names.txt --label-vectors {data}/words.vec"
differs = "Nothing is as in the paper."

[[row]]
name = "W2²"
options = "--loss w2"
protocols = ["paper"]
published = { points = { auc = 0.5 } }
epochs = { points = 30 }

[[row]]
name = "mix"
options = "--loss mix --groups 2 --validation 0.5 --lr 0.1"
protocols = ["tuned"]
grid = ["--mix-ot 1 --epochs 1", "--mix-ot 2 --epochs 30"]
"#;

#[test]
fn a_table_is_run_once_and_shown_with_its_figures() {
    let s = scratch();
    s.write("small.toml", TABLE);
    let line = "reproduce small.toml --data . --out runs";
    let printed = s.out(line);
    assert!(
        printed.contains("points, protocol paper") && printed.contains("Rows are scaled to length 2."),
        "{printed}"
    );
    assert!(printed.contains("within 0.05"), "{printed}");
    let lines = s.read("runs/small.jsonl");
    let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), 4);
    let command = found[0]["command"].as_str().unwrap();
    assert!(command.starts_with("rot train") && command.contains("--row-length 2"), "{command}");
    assert!(found.iter().all(|run| run["test"]["auc"].as_f64().is_some()));
    // The published AUC, 0.5, is far from that of a model that fits these rows.
    let tables = s.read("runs/small.md");
    let row = tables.lines().find(|row| row.starts_with("| W2² |")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert!(cells[2].split(' ').next().unwrap().parse::<f64>().unwrap() > 0.6, "{row}");
    assert_eq!((cells[3], cells[5]), ("0.500", "no"), "{row}");
    // The same command again runs nothing and prints the same.
    assert_eq!(s.out(line), printed);
    assert_eq!(s.read("runs/small.jsonl"), lines);
    s.out("reproduce small.toml --data . --out runs --quick --protocols paper");
    assert_eq!(s.read("runs/small-quick.jsonl").lines().count(), 1);
}

#[test]
fn texts_and_contours_are_drawn() {
    let s = scratch();
    for (name, text) in
        [("one", "cat\t2\nsea\t1\n"), ("two", "dog\t3\nsea\t1\n"), ("three", "truck\t1\nsea\t2\n")]
    {
        s.write(&format!("{name}.tsv"), text);
    }
    s.write(
        "texts.toml",
        "title = \"Texts\"\nvectors = \"{data}/words.vec\"\ndiffers = \"All.\"\nfilms = [\n{ name = \"One\", file = \"{data}/one.tsv\" },\n\
         { name = \"Two\", file = \"{data}/two.tsv\" },\n{ name = \"Three\", file = \"{data}/three.tsv\" }]\n[[method]]\nname = \"W2\"\n\
         options = \"--metric w2\"\npublished = [[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]]\n",
    );
    s.write(
        "lines.toml",
        "title = \"Lines\"\nvectors = \"{data}/words.vec\"\nlabels = [\"dog\", \"truck\", \"cat\"]\ndiffers = \"All.\"\n\
         [[panel]]\nname = \"W2\"\noptions = \"--metric w2\"\n[[panel]]\nname = \"P\"\noptions = \"--metric p\"\n",
    );
    let printed = s.out("reproduce texts.toml lines.toml --data . --out runs");
    assert!(printed.contains("One – Two") && printed.contains("of 3 columns"), "{printed}");
    assert!(
        printed.contains("W2: predicting dog for cat") && printed.contains("+0.000 off a straight line"),
        "{printed}"
    );
    for file in
        ["texts-W2.svg", "texts-W2.png", "lines.svg", "lines.png", "texts.md", "texts.jsonl", "lines.jsonl"]
    {
        assert!(s.path(&format!("runs/{file}")).metadata().unwrap().len() > 100, "{file}");
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let s = scratch();
    s.write("small.toml", TABLE);
    s.write("bad.toml", TABLE.replace("band = 0.05", "band = wide"));
    s.write("odd.toml", TABLE.replace("--loss w2", "--loss w3"));
    let refused = |line: &str, parts: &[&str]| {
        let message = s.refusal(line);
        parts.iter().for_each(|part| assert!(message.contains(part), "{message} does not contain {part}"));
    };
    refused("reproduce table9 --data . --out runs", &["table1", "movies", "table9"]);
    refused("reproduce bad.toml --data . --out runs", &["bad.toml:3"]);
    refused("reproduce odd.toml --data . --out runs", &["w3"]);
    refused("reproduce small.toml --data nowhere --out runs", &["--data", "nowhere"]);
    refused("reproduce small.toml --data . --out runs --sets mars", &["--sets", "points"]);
    refused("reproduce table1 --data . --out runs --sets mnist --quick", &["mnist", "No such file"]);
}
