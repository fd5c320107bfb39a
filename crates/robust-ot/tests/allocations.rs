//! Nothing is allocated from the second batch on.

mod common;

use common::{normal, sets};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, LossWorkspace, RobustLoss, Targets};

#[test]
fn a_batch_needs_no_heap_once_its_room_is_there() {
    // The counter sees the current thread only, so all work is kept on it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (labels, dim, rows) = (40, 12, 35);
    let vectors = normal(labels, dim, &mut rng) / 4.0;
    let logs = normal(rows, labels, &mut rng).mapv(|x| x as f32 - 5.0);
    let one = Targets::new(labels, (0..rows).map(|row| [row])).unwrap();
    let many = Targets::new(
        labels,
        (0..rows).map(|row| [row % labels, (row * 7 + 1) % labels, (row + 20) % labels]),
    )
    .unwrap();
    for set in sets(4) {
        // Solving rows of several labels to a tolerance allocates matrices of size r × r.
        let cases = [(&one, LossSettings::default()), (&many, LossSettings::truncated())];
        for (targets, settings) in cases {
            let settings = LossSettings { set: set.clone(), ..settings };
            let grouping = Grouping::contiguous(dim, 4).unwrap();
            let loss = RobustLoss::<f32>::new(&vectors, &grouping, settings).unwrap();
            let mut workspace = LossWorkspace::default();
            let mut batch = || loss.loss_gradient_in(logs.view(), targets, &mut workspace).unwrap();
            pool.install(&mut batch);
            let counted = allocation_counter::measure(|| pool.install(&mut batch));
            assert_eq!(counted.count_total, 0, "{set}");
        }
    }
}
