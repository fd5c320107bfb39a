//! Parquet files as inputs of the commands.

mod common;

use common::Scratch;

/// Copies files of the reader's tests.
fn with_files(names: &[&str]) -> Scratch {
    let scratch = Scratch::new();
    for name in names {
        let from = format!("{}/../robust-ot-learn/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        scratch.write(name, std::fs::read(from).unwrap());
    }
    scratch
}

#[test]
fn clouds_are_columns_of_numbers() {
    let scratch = with_files(&["polars.parquet", "duckdb.parquet", "arrow-lz4.parquet"]);
    let message = scratch.refusal("distance polars.parquet duckdb.parquet");
    let expected =
        "leave out columns that are not numbers, but in polars.parquet column 7, 'name', holds text";
    assert_eq!(message, format!("rot: --drop must {expected}"));
    let message = scratch.refusal("distance polars.parquet duckdb.parquet --drop name,day");
    let expected =
        "be drop-rows where values are missing, but in polars.parquet row 4 of column 'x' is missing";
    assert_eq!(message, format!("rot: --missing must {expected}"));
    let options = "--drop name,day --missing drop-rows --scale std";
    let found = scratch.json(&format!("distance polars.parquet duckdb.parquet {options}"));
    assert!(found["value"].as_f64().unwrap().abs() < 1e-12, "{found}");
    assert_eq!((&found["columns_matched_by"], &found["missing_rows"]["source"]), (&"name".into(), &6.into()));
    let table = "x,single,count\n1,2,3\n4,5,6\n";
    scratch.write("t.csv", table);
    let line = "pairwise duckdb.parquet t.csv --columns x,single,count --missing drop-rows --scale std";
    assert_eq!(scratch.json(line)["matrix"].as_array().unwrap().len(), 2);
    let message = scratch.refusal("distance arrow-lz4.parquet arrow-lz4.parquet --columns x");
    assert!(message.contains("column 'x': compression must be none, Snappy, gzip or Zstandard, but is LZ4"));
    let message = scratch.refusal("distance polars.parquet duckdb.parquet --header yes");
    assert!(
        message.ends_with("must be absent where every input is .npy or .parquet, but is given"),
        "{message}"
    );
}

#[test]
fn models_are_trained_with_names() {
    let scratch = with_files(&["numbers.parquet", "classes.parquet"]);
    scratch.out("train --train-x numbers.parquet --train-y classes.parquet --out m.safetensors");
    let shown = scratch.out("inspect m.safetensors");
    assert!(shown.contains("\nfeatures: x, count\nlabels: sea, ship, größe\n"), "{shown}");
    scratch.json("evaluate m.safetensors --x numbers.parquet --y classes.parquet");
}
