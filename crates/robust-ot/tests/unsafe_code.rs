//! Every `unsafe` of the workspace, with the test that runs it. Only foreign functions and memory of GPUs need it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// File, number of lines with `unsafe`, what they do, and the tests that run them. Those of `robust-ot-cuda` need a GPU,
/// except `kernels.rs`, which needs NVRTC.
const KNOWN: [(&str, usize, &str, &str); 14] = [
    ("robust-ot-cuda/src/arguments.rs", 4, "plain structs as kernel arguments", "tests/training.rs"),
    (
        "robust-ot-cuda/src/batch_loss.rs",
        5,
        "tensors, a workspace and a stream of torch by address; plain structs as kernel arguments",
        "test_one_iteration_agrees_in_both_precisions, test_streams_at_the_same_time",
    ),
    ("robust-ot-cuda/src/blas.rs", 5, "cuBLAS", "tests/training.rs, tests/pairs.rs"),
    (
        "robust-ot-cuda/src/clouds.rs",
        4,
        "tensors, a workspace and a stream of torch by address; plain structs as kernel arguments",
        "test_clouds_on_a_card_are_solved_there",
    ),
    ("robust-ot-cuda/src/compile.rs", 4, "NVRTC", "tests/kernels.rs"),
    ("robust-ot-cuda/src/device.rs", 6, "the driver", "a_machine_without_cards_says_so, tests/training.rs"),
    (
        "robust-ot-cuda/src/launch.rs",
        1,
        "launches of kernels",
        "tests/training.rs, tests/pairs.rs, tests/streamed.rs",
    ),
    ("robust-ot-cuda/src/memory.rs", 3, "copies by address", "tests/streamed.rs"),
    ("robust-ot-cuda/src/pairs.rs", 3, "plain structs as kernel arguments", "tests/pairs.rs"),
    ("robust-ot-cuda/src/rows.rs", 1, "pinned memory", "sparse_rows_are_dense_rows"),
    ("robust-ot-cuda/src/sweeps.rs", 1, "plain structs as kernel arguments", "tests/streamed.rs"),
    ("robust-ot-cuda/src/training.rs", 1, "a graph on another thread", "threads_share_a_card"),
    ("robust-ot-py/src/cuda_loss.rs", 1, "tensors of torch by address", "test_losses_of_torch_agree"),
    (
        "robust-ot-py/src/gradient.rs",
        2,
        "tensors of torch by address",
        "test_clouds_on_a_card_are_solved_there",
    ),
];

fn visit(folder: &Path, found: &mut BTreeMap<String, usize>, crates: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, found, crates);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
            let count = code.filter(|line| {
                line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == "unsafe")
            });
            match count.count() {
                0 => {}
                count => {
                    found.insert(
                        path.strip_prefix(crates).unwrap().to_string_lossy().replace('\\', "/"),
                        count,
                    );
                }
            }
        }
    }
}

#[test]
fn every_unsafe_is_known_and_has_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            visit(&source, &mut found, crates);
        }
    }
    let known = KNOWN.map(|(file, count, ..)| (file.to_owned(), count)).into_iter().collect();
    assert_eq!(
        found, known,
        "the list of this test says which test runs each unsafe: change it with the code"
    );
}
