//! Every kernel compiles for every kind of GPU. Needs NVRTC but no GPU.

use robust_ot_cuda::{Device, Source, compile};

/// The compute capabilities of Ampere, Ada, Hopper and Blackwell, for computing and for graphics.
const GPUS: [(i32, i32); 6] = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

#[test]
fn every_kernel_compiles() {
    for source in Source::ALL {
        for gpu in GPUS {
            match compile(&source.text(), gpu) {
                Ok(binary) => {
                    assert!(binary.starts_with(b"\x7fELF"), "{source:?} for {gpu:?} is not machine code");
                }
                // `make test` installs NVRTC and sets NEEDS_NVRTC.
                Err(missing)
                    if missing.contains("must be installed") && std::env::var_os("NEEDS_NVRTC").is_none() =>
                {
                    eprintln!("skipped: {missing}");
                    return;
                }
                Err(error) => panic!("{source:?} for {gpu:?}: {error}"),
            }
        }
    }
}

#[test]
fn mistakes_are_shown_as_the_compiler_says_them() {
    match compile("extern \"C\" __global__ void f() { nonsense; }", (9, 0)) {
        Err(error) => assert!(error.contains("nonsense") || error.contains("must be installed"), "{error}"),
        Ok(_) => panic!("nonsense compiles"),
    }
}

#[test]
fn a_machine_without_cards_says_so() {
    let count = Device::count();
    let error = Device::open(count + 3, None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cuda:{}: ", count + 3)), "{error}");
    if count == 0 {
        assert!(error.contains("driver") || error.contains("below 0"), "{error}");
    }
}
