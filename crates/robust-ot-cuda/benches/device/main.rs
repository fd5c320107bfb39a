//! Benchmarks of the GPU: `cargo bench --package robust-ot-cuda`.

mod floor;
mod pairs;
mod training;
mod transport;

use robust_ot_cuda::Device;

fn main() {
    let device = match Device::open(0, None) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    println!("{device}\n\n| problem | measured | floor | target |\n|---|---|---|---|");
    // Which parts: all, or those named.
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    if wanted("training") {
        training::run(&device);
    }
    if wanted("transport") {
        transport::run(&device);
    }
    if wanted("pairs") {
        pairs::run(&device);
    }
}
