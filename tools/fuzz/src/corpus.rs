//! Small files, whole and broken, that damage starts from.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::models::Models;
use crate::targets::Target;

type Corpus = Vec<(&'static str, Vec<u8>)>;

/// The files of a target with their names, whose ends say which format they have.
pub fn of(target: Target) -> Corpus {
    let text = |files: &[(&'static str, &str)]| -> Corpus {
        files.iter().map(|&(name, text)| (name, text.as_bytes().to_vec())).collect()
    };
    match target {
        Target::Npy => npy_files(),
        Target::Npz => npz_files(),
        Target::Mat => mat_files(),
        Target::Idx => vec![
            ("a.idx", [&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3][..], &[1, 2, 3, 4, 5, 6]].concat()),
            ("a-ubyte", vec![0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]),
            ("b.idx", [&[0, 0, 0x0d, 1, 0, 0, 0, 1][..], &1.5_f32.to_be_bytes()].concat()),
            ("c-ubyte.gz", gzip(&[0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 1, 9])),
        ],
        Target::Tables => {
            let mut files = text(&[
                ("a.csv", "height,width\n1,2\n3,4e-1\n"),
                ("b.csv", "\u{feff}\"1\", -2.5\r\n\r\n3,4\r\n"),
                ("c.tsv", "sea\tship\n0\t1\n1\t0\n"),
                ("d.csv", "class\nsea\nship\nsea\n"),
                ("e.csv", "0.5\n1.5\n"),
                ("f.csv", ";h1;x;w\n0;NA;2;0.5\n1;1;;1\n2;3;4.5;1\n"),
                ("g.csv", "h,\"x\ty\",w\nfirst,1,1\n\nsecond,-,2\n"),
            ]);
            files.push(("h.csv.gz", gzip(b"1,2\n3,4\n")));
            files
        }
        Target::Parquet => parquet_files(),
        Target::Svmlight => {
            let mut files = text(&[
                ("a.svm", "# two\n+1 1:0.5 3:1\n-1 2:2\n"),
                ("b.txt", "2 4 3\n0,2 1:0.5 3:1\n 0:2\n"),
                ("c.svm", "3 qid:1 1:1\n0 2:1e9 1:1\n"),
                ("d.txt", "1 4294967295 3\n0 4294967294:1\n"),
            ]);
            files.push(("e.svm.gz", gzip(b"1 1:1\n")));
            files
        }
        Target::Tags => text(&[
            ("a.txt", "sea,ship\n\nship\n"),
            ("b.txt", "3,1\n\n0\n"),
            ("c.txt", "a\nb\r\nsea\nship"),
            ("d.txt", "0\n1\n0\n"),
        ]),
        Target::Words => text(&[
            ("a.tsv", "ship\t12\nsea\t3\n\nship\t0.5\n"),
            ("b.tsv", "\u{feff}a b\t1e3\n"),
            ("c.txt", "0\n2\n1\n"),
        ]),
        Target::Vectors => {
            let mut files = text(&[
                ("a.vec", "2 3\nsea 1 0 0\nship 0 1 0.5\n"),
                ("b.vec", "sea 1 2\n. . . 3 4\nat x 5 6\n"),
                ("c.vec", "5 999999999999\nsea 1\n"),
            ]);
            files.push(("d.vec.gz", gzip(b"a 1 2\nb 3 4\n")));
            files
        }
        Target::Model => vec![("a.safetensors", Models::model_file())],
        Target::OldModel => vec![("a.safetensors", first_version(&Models::model_file()))],
        Target::Checkpoint => vec![("a.safetensors", Models::new().checkpoint_file())],
        Target::OldCheckpoint => vec![("a.safetensors", first_version(&Models::new().checkpoint_file()))],
        Target::Learner => vec![("a.safetensors", Models::new().learner_file())],
        Target::OldLearner => vec![("a.safetensors", first_version(&Models::new().learner_file()))],
    }
}

/// Small files of several writers, from the reader's tests.
fn parquet_files() -> Corpus {
    macro_rules! files {
        ($($name:literal),*) => {
            vec![$(($name, include_bytes!(concat!("../../../crates/robust-ot-learn/tests/data/", $name)).to_vec())),*]
        };
    }
    files![
        "arrow-snappy.parquet",
        "arrow-gzip-v2.parquet",
        "arrow-delta.parquet",
        "arrow-lengths.parquet",
        "polars.parquet",
        "duckdb.parquet",
        "numbers.parquet",
        "classes.parquet"
    ]
}

fn npy_files() -> Corpus {
    let doubles: Vec<u8> = [1.0_f64, 2.0, 3.0, 4.0, 0.0, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let singles: Vec<u8> = [1.5_f32, -2.0, 0.25, 8.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    vec![
        ("a.npy", npy("<f8", "False", "(3, 2)", &doubles)),
        ("b.npy", npy("<f8", "True", "(2, 3)", &doubles)),
        ("c.npy", npy("<f4", "False", "(4,)", &singles)),
        ("d.npy", npy("|b1", "False", "(2, 2)", &[1, 0, 0, 1])),
        ("e.npy", npy(">i2", "False", "(1, 2)", &[0, 1, 0, 3])),
        ("f.npy", npy("<i8", "False", "(2,)", &[3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0])),
        ("g.npy", npy("<f8", "False", "(1000000000000, 0)", &[])),
        ("h.npy.gz", gzip(&npy("|u1", "False", "(2, 2)", &[1, 2, 3, 4]))),
    ]
}

/// The bytes of a `.npy` file.
fn npy(kind: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

fn npz_files() -> Corpus {
    let bytes = |shape: &str, data: &[u8]| npy("|u1", "False", shape, data);
    let sparse = [
        ("format.npy", npy("|S3", "False", "()", b"csr")),
        ("shape.npy", bytes("(2,)", &[2, 3])),
        ("indptr.npy", bytes("(3,)", &[0, 1, 3])),
        ("indices.npy", bytes("(3,)", &[2, 0, 1])),
        ("data.npy", bytes("(3,)", &[1, 1, 1])),
    ];
    vec![
        (
            "a.npz",
            archive(&[("x.npy", bytes("(2, 2)", &[1, 0, 0, 1])), ("y.npy", bytes("(2,)", &[1, 0]))], false),
        ),
        ("b.npz", archive(&[("arr_0.npy", bytes("(2, 2)", &[1, 0, 0, 1]))], true)),
        ("c.npz", archive(&sparse, false)),
        ("d.npz", archive(&sparse, true)),
    ]
}

fn archive(members: &[(&str, Vec<u8>)], deflated: bool) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let method = if deflated { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("the archive is in memory");
        zip.write_all(bytes).expect("the archive is in memory");
    }
    zip.finish().expect("the archive is in memory").into_inner()
}

fn mat_files() -> Corpus {
    let element = |kind: u32, data: &[u8]| {
        let mut bytes = [&kind.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let variable = |name: &str, shape: [u32; 2], numbers: &[f64]| {
        let flags = [6_u32.to_le_bytes(), [0; 4]].concat();
        let shape = shape.map(u32::to_le_bytes).concat();
        let numbers: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let parts =
            [element(6, &flags), element(5, &shape), element(1, name.as_bytes()), element(9, &numbers)];
        element(14, &parts.concat())
    };
    let mut start = vec![b' '; 124];
    start.extend([0, 1, b'I', b'M']);
    let (x, y) = (variable("X", [2, 2], &[1.0, 0.0, 0.0, 1.0]), variable("y", [2, 1], &[1.0, 0.0]));
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&x).expect("the stream is in memory");
    let packed = packed.finish().expect("the stream is in memory");
    let packed = [&15_u32.to_le_bytes()[..], &(packed.len() as u32).to_le_bytes(), &packed].concat();
    vec![("a.mat", [start.clone(), x, y.clone()].concat()), ("b.mat", [start, packed, y].concat())]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("the stream is in memory");
    encoder.finish().expect("the stream is in memory")
}

/// A model, checkpoint or learner as format version 1 wrote it: without a checksum.
fn first_version(bytes: &[u8]) -> Vec<u8> {
    let (length, rest) = bytes.split_first_chunk::<8>().expect("every file begins with a length");
    let (header, tensors) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = String::from_utf8_lossy(header);
    let (start, rest) = header.split_once(r#"\"checksum"#).expect("every file has a checksum");
    let (_, rest) = rest.split_once(',').expect("the checksum is not last");
    let old = format!("{start}{}", rest.replacen(r#"\"version\":2"#, r#"\"version\":1"#, 1));
    // A header may end in spaces.
    let padded = format!("{old:width$}", width = header.len());
    [length, padded.as_bytes(), tensors].concat()
}
