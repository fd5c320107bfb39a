//! What is written is read, and nothing else is.

use std::fs;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn sample(path: &Path) -> Vec<u8> {
    let tensors =
        [Tensor::single("a", &[1, 2], &[1.5, -0.0]), Tensor::double("b", &[1], &[f64::MIN_POSITIVE])];
    write(path, Kind::Model, &vec![1, 2, 3], &tensors).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn what_is_written_is_read_and_the_same_bytes_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let bytes = sample(&path);
    assert_eq!(sample(&path), bytes);
    let (document, mut found) = read::<Vec<i32>>(&path, Kind::Model).unwrap();
    assert_eq!(document, [1, 2, 3]);
    assert!(found.finish().unwrap_err().to_string().contains("must have only the tensors of its kind"));
    assert_eq!(found.single("a", &[1, 2]).unwrap()[1].to_bits(), (-0.0_f32).to_bits());
    assert_eq!(found.double("b", &[1]).unwrap(), [f64::MIN_POSITIVE]);
    assert_eq!(found.finish().unwrap(), Integrity::Checked);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let (_, mut found) = read::<Vec<i32>>(&path, Kind::Model).unwrap();
    for (refused, why) in [
        (found.single("a", &[2, 1]).map(|_| ()), "must be [2, 1], but is [1, 2]"),
        (found.single("b", &[1]).map(|_| ()), "must be f32"),
        (found.single("c", &[1]).map(|_| ()), "must have a tensor 'c'"),
        (
            read::<Vec<i32>>(&path, Kind::Checkpoint).map(|_| ()),
            "must be a robust-ot checkpoint, but is a model",
        ),
        (read::<String>(&path, Kind::Model).map(|_| ()), "description"),
    ] {
        assert!(refused.unwrap_err().to_string().contains(why), "{why}");
    }
}

#[test]
fn other_files_are_refused_and_other_versions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    let bytes = sample(&path);
    let message = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read::<Vec<i32>>(&path, Kind::Model).unwrap_err().to_string()
    };
    assert!(message(b"PK\x03\x04 and so on").contains("not a safetensors file"));
    for cut in [0, 5, 40, bytes.len() - 1] {
        assert!(message(&bytes[..cut]).contains("cut short"), "{cut}");
    }
    let newer = with_header(&bytes, |header| header.replace("\"version\":2", "\"version\":4,\"future\":0"));
    assert!(message(&newer).contains("is of format version 4, and this program reads versions 1 to 3"));
    let others = serialize([("w", TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap())], None).unwrap();
    assert!(message(&others).contains("without robust-ot metadata"));
}

/// The file with another header, not sealed again.
fn with_header(bytes: &[u8], change: impl FnOnce(&str) -> String) -> Vec<u8> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).unwrap();
    let header = change(&metadata.metadata().as_ref().unwrap()[KEY]);
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    serialize(tensors.tensors(), Some(HashMap::from([(KEY.to_owned(), header)]))).unwrap()
}

/// The file as version 1 wrote it.
fn first_version(bytes: &[u8]) -> Vec<u8> {
    with_header(bytes, |header| {
        let (_, rest) = header.split_once("\",").unwrap();
        format!("{{{}", rest.replace("\"version\":2", "\"version\":1"))
    })
}

#[test]
fn version_1_is_read_and_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("x.safetensors");
    let bytes = sample(&place);
    let read = |bytes: &[u8]| from_bytes::<Vec<i32>>(&place, Kind::Model, bytes);
    let (document, mut found) = read(&first_version(&bytes)).unwrap();
    assert_eq!(document, [1, 2, 3]);
    found.single("a", &[1, 2]).unwrap();
    found.double("b", &[1]).unwrap();
    assert_eq!(found.finish().unwrap(), Integrity::NoChecksum);
    for (broken, why) in [
        (with_header(&bytes, |header| header.replace("\"version\":2", "\"version\":1")), "with a checksum"),
        (with_header(&bytes, |header| header.replace("checksum", "checksun")), "its header is invalid"),
        (with_header(&bytes, |header| header.replace("[1,2,3]", "[1,2,4]")), "is damaged: its checksum"),
        (
            with_header(&first_version(&bytes), |header| header.replace("\"version\":1", "\"version\":2")),
            "has no checksum, which format version 2 must have",
        ),
    ] {
        let message = read(&broken).unwrap_err().to_string();
        assert!(message.contains(why), "{why}: {message}");
    }
}

#[test]
fn a_hidden_layer_makes_a_file_of_version_3_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("x.safetensors");
    let read = |bytes: &[u8]| from_bytes::<Vec<i32>>(&place, Kind::Model, bytes);
    let plain = sample(&place);
    let deep = to_bytes(&place, Kind::Model, &vec![1], &[Tensor::single("hidden", &[1], &[2.0])]).unwrap();
    let (_, mut found) = read(&deep).unwrap();
    assert_eq!(found.single("hidden", &[1]).unwrap(), [2.0]);
    assert_eq!(found.finish().unwrap(), Integrity::Checked);
    let renamed = |bytes: &[u8], from: u32, to: u32| {
        let version = |number| format!("\"version\":{number}");
        with_header(bytes, |header| header.replace(&version(from), &version(to)))
    };
    for (broken, why) in [
        (renamed(&deep, 3, 2), "is of format version 2, which has no hidden layer, and has one"),
        (renamed(&deep, 3, 1), "is of format version 1, which has no hidden layer, and has one"),
        (renamed(&plain, 2, 3), "is of format version 3, which has a hidden layer, and has none"),
    ] {
        let message = read(&broken).unwrap_err().to_string();
        assert!(message.contains(why), "{why}: {message}");
    }
}

/// One to four flipped bits, overwritten or exchanged bytes, a cut, an insertion or a repetition.
fn damage(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut broken = bytes.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let (at, other) = (random.random_range(0..broken.len()), random.random_range(0..broken.len()));
        match random.random_range(0..6) {
            0 | 1 => broken[at] ^= 1 << random.random_range(0..8),
            2 => broken[at] = random.random(),
            3 => broken.swap(at, other),
            4 => broken.truncate(at.max(1)),
            _ => broken.insert(at, random.random()),
        }
    }
    broken
}

#[test]
fn damaged_bytes_are_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("x.safetensors");
    let bytes = sample(&place);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut changed = 0;
    for at in 0..8 * bytes.len() {
        let mut broken = bytes.clone();
        broken[at / 8] ^= 1 << (at % 8);
        assert!(from_bytes::<Vec<i32>>(&place, Kind::Model, &broken).is_err(), "bit {at}");
    }
    for round in 0..5000 {
        let broken = damage(&bytes, &mut random);
        changed += usize::from(broken != bytes);
        let read = from_bytes::<Vec<i32>>(&place, Kind::Model, &broken);
        assert_eq!(read.is_ok(), broken == bytes, "round {round}");
    }
    assert!(changed > 4900);
}

#[test]
fn a_flipped_bit_in_the_name_of_a_tensor_is_seen_without_a_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("x.safetensors");
    let mut bytes = first_version(&sample(&place));
    let name = bytes.windows(3).position(|window| window == b"\"b\"").unwrap() + 1;
    bytes[name] ^= 1;
    let (_, mut found) = from_bytes::<Vec<i32>>(&place, Kind::Model, &bytes).unwrap();
    found.single("a", &[1, 2]).unwrap();
    assert!(found.finish().unwrap_err().to_string().contains("but also has 'c'"));
}
