//! Parquet files of several writers (`tools/make_parquet.py`), whose table is known.

use std::path::PathBuf;

use proptest::prelude::*;
use robust_ot_learn::Memory;
use robust_ot_learn::data::{
    Cells, Features, Header, Missing, MixedTable, TableOptions, read_features, read_labels, read_points,
    within,
};

const ROWS: usize = 40;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// The value of a column of numbers.
fn number(name: &str, i: usize) -> f64 {
    let row = i as f64;
    match name {
        "x" => row / 4.0 - 3.0,
        "single" => row / 8.0,
        "half" => row / 2.0,
        "count" => row * 1_000_003.0 - 7.0,
        "small" => row - 20.0,
        "unsigned" => 4_294_967_295.0 - row,
        "money" => (row * 7.0 - 50.0) / 100.0,
        "yes" => f64::from(u8::from(i.is_multiple_of(3))),
        _ => unreachable!("{name} is no column of numbers"),
    }
}

fn text(name: &str, i: usize) -> String {
    match name {
        "name" => ["sea", "ship", "größe"][i % 3].into(),
        "day" if i < 27 => format!("2024-01-{:02}", 5 + i),
        "day" => format!("2024-02-{:02}", i - 26),
        "time" => format!("2024-01-05 12:30:{i:02}"),
        _ => unreachable!("{name} is no column of text"),
    }
}

/// Checks every column that is not a list.
fn check(file: &str, gaps: bool, columns: &[&str]) {
    let options = TableOptions {
        drop: ["name", "day", "time", "list", "nothing"].map(String::from).to_vec(),
        missing: if gaps { Missing::DropRows } else { Missing::Error },
        ..TableOptions::default()
    };
    let points = read_points(&path(file), &options).unwrap();
    let kept: Vec<usize> = (0..ROWS).filter(|i| !gaps || i % 7 != 3).collect();
    let numbers: Vec<&str> =
        columns.iter().copied().filter(|name| !["name", "day", "time"].contains(name)).collect();
    assert_eq!(points.table.names.as_deref().unwrap(), numbers, "{file}");
    assert_eq!(points.missing_rows.len(), ROWS - kept.len());
    for (row, &i) in kept.iter().enumerate() {
        for (column, name) in numbers.iter().enumerate() {
            let (found, expected) = (points.table.values[[row, column]], number(name, i));
            assert!((found - expected).abs() == 0.0, "{file}: {name}, row {i}: {found}, not {expected}");
        }
    }
}

const SHORT: [&str; 8] = ["x", "single", "count", "small", "unsigned", "yes", "name", "day"];
const LONG: [&str; 8] = ["x", "single", "half", "count", "small", "unsigned", "money", "yes"];

#[test]
fn every_writer_and_encoding_gives_the_same_numbers() {
    check("arrow-snappy.parquet", true, &LONG);
    check("arrow-gzip-v2.parquet", true, &LONG);
    check("arrow-plain.parquet", false, &LONG);
    check("arrow-delta.parquet", true, &SHORT);
    check("arrow-lengths.parquet", false, &SHORT);
    check("polars.parquet", true, &SHORT);
    check("duckdb.parquet", true, &SHORT);
}

#[test]
fn text_and_dates_are_columns_of_text() {
    for (file, gaps) in [
        ("arrow-delta.parquet", true),
        ("arrow-lengths.parquet", false),
        ("polars.parquet", true),
        ("duckdb.parquet", true),
    ] {
        let table = MixedTable::open(&path(file), Header::Auto).unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!((names.as_slice(), table.rows), (&SHORT[..], ROWS), "{file}");
        for column in &table.columns {
            let Cells::Text(texts) = &column.cells else { continue };
            assert!(["name", "day"].contains(&column.name.as_str()));
            for (i, found) in texts.iter().enumerate() {
                let expected = (!gaps || i % 7 != 3).then(|| text(&column.name, i));
                assert_eq!(*found, expected, "{file}, row {i}");
            }
        }
        assert!(matches!(table.columns[6].cells, Cells::Text(_)), "{file}");
    }
}

#[test]
fn an_index_of_pandas_is_no_feature() {
    let options =
        TableOptions { drop: vec!["name".into()], missing: Missing::DropRows, ..TableOptions::default() };
    let points = read_points(&path("pandas-index.parquet"), &options).unwrap();
    assert!(points.has_index);
    assert_eq!(points.table.names.unwrap(), ["x", "count"]);
    assert_eq!(points.dropped_columns, ["name"]);
}

#[test]
fn what_is_not_a_number_is_named() {
    let points =
        |file: &str, options: &TableOptions| read_points(&path(file), options).unwrap_err().to_string();
    let all = TableOptions::default();
    let message = points("arrow-plain.parquet", &all);
    assert!(message.starts_with("drop must leave out columns that are not numbers, but in "), "{message}");
    assert!(message.ends_with("arrow-plain.parquet column 9, 'name', holds text"), "{message}");
    let only = |name: &str| TableOptions { columns: vec![name.into()], ..TableOptions::default() };
    assert!(points("arrow-plain.parquet", &only("list")).ends_with("'list', holds lists or structures"));
    assert!(points("arrow-plain.parquet", &only("time")).ends_with("'time', holds dates"));
    let message = points("arrow-snappy.parquet", &only("x"));
    assert!(message.starts_with("missing must be drop-rows where values are missing, but in "), "{message}");
    assert!(message.ends_with("arrow-snappy.parquet row 4 of column 'x' is missing"), "{message}");
    assert!(
        points("arrow-plain.parquet", &only("nothing")).ends_with("row 1 of column 'nothing' is missing")
    );
    assert!(points("arrow-lz4.parquet", &only("x")).contains("column 'x': compression must be none, Snappy"));
    let features = read_features(&path("polars.parquet")).unwrap_err().to_string();
    assert!(features.ends_with("features must be numbers, but row 4 of column 'x' is missing"), "{features}");
    let list = MixedTable::open(&path("arrow-plain.parquet"), Header::Auto).unwrap_err().to_string();
    assert!(
        list.ends_with("column 'list': must hold numbers, text or dates, but holds lists or structures"),
        "{list}"
    );
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [("short.parquet", &b"PAR1"[..]), ("text.parquet", b"a,b\n1,2\n3,4\n5,6\n")] {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        let message = read_points(&dir.path().join(name), &all).unwrap_err().to_string();
        assert!(
            message.ends_with("must be a Parquet file, which begins and ends with PAR1, but does not"),
            "{message}"
        );
    }
}

#[test]
fn features_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    // A file of numbers alone, and one of names alone: the columns of a whole file cannot be chosen in training.
    std::fs::copy(path("numbers.parquet"), dir.path().join("x.parquet")).unwrap();
    let file = read_features(&dir.path().join("x.parquet")).unwrap();
    assert_eq!(file.names.unwrap(), ["x", "count"]);
    let Features::Dense(array) = file.features else { panic!("a table is dense") };
    assert!((0..ROWS).all(|i| (array[[i, 0]] - number("x", i) as f32).abs() == 0.0));
    let labels = read_labels(&path("classes.parquet"), None).unwrap();
    assert_eq!(labels.names.unwrap(), ["sea", "ship", "größe"]);
    assert!((0..ROWS).all(|i| labels.rows[i] == [i % 3]));
    let several = read_labels(&path("indicators.parquet"), None).unwrap();
    assert_eq!(several.names.unwrap(), ["even", "third"]);
    assert!((0..ROWS).all(|i| several.rows[i].contains(&0) == i.is_multiple_of(2)));
    let message = read_labels(&path("numbers.parquet"), None).unwrap_err().to_string();
    assert!(message.contains("row 1: columns of labels must be 0 or 1, but 'x' is '-3'"), "{message}");
}

#[test]
fn columns_take_their_memory() {
    let read = |bytes: usize| within(Memory(bytes), || read_features(&path("numbers.parquet")));
    assert!(read(1_000_000).is_ok());
    let message = read(3_000).unwrap_err().to_string();
    assert!(message.contains("must be read within 3 kB of memory, but takes at least"), "{message}");
}

proptest! {
    /// Any byte may be wrong: sizes, counts, encodings, levels, indices of dictionaries.
    #[test]
    fn no_damage_makes_the_reader_panic(
        file in prop::sample::select(vec!["arrow-snappy", "arrow-gzip-v2", "arrow-delta", "polars", "duckdb"]),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<bool>(),
    ) {
        let mut bytes = std::fs::read(path(&format!("{file}.parquet"))).unwrap();
        for (place, value) in flips {
            // Half of the time within the description, which is most of a small file's meaning.
            let at = if end { bytes.len() - 1 - place.index(bytes.len() / 2) } else { place.index(bytes.len()) };
            bytes[at] = value;
        }
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a.parquet");
        std::fs::write(&place, &bytes).unwrap();
        within(Memory(100_000_000), || {
            let _ = MixedTable::open(&place, Header::Auto);
            let _ = read_features(&place);
            for drop in ["name", "list"] {
                let options = TableOptions { drop: vec![drop.into()], missing: Missing::DropRows, ..TableOptions::default() };
                let _ = read_points(&place, &options);
            }
        });
    }
}
