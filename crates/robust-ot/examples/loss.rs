//! The loss between predictions and true labels: taking a cat for a dog costs less than taking it for a truck.
//!
//! Run: `cargo run --release -p robust-ot --example loss`

use ndarray::array;
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};

fn main() -> robust_ot::Result<()> {
    let names = ["cat", "dog", "truck"];
    let vectors = array![[1.0, 0.1, 0.0], [0.9, 0.3, 0.1], [-0.2, 0.1, 1.0]];
    let loss = RobustLoss::<f64>::new(&vectors, &Grouping::none(3), LossSettings::default())?;

    // Two predictions for a row whose true label is cat, and one for a row with two labels.
    let predictions = array![[0.2, 0.7, 0.1], [0.2, 0.1, 0.7], [0.4, 0.2, 0.4]];
    let truth = Targets::new(3, [vec![0], vec![0], vec![0, 2]])?;
    let found = loss.loss_gradient(predictions.mapv(f64::ln).view(), &truth)?;
    for (row, value) in found.losses.iter().enumerate() {
        let labels: Vec<&str> = truth.row(row).iter().map(|&label| names[label]).collect();
        println!(
            "{} for {}: loss {value:.4}, gradient {:.4}",
            predictions.row(row),
            labels.join(" and "),
            found.gradients.row(row)
        );
    }
    Ok(())
}
