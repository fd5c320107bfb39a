//! $Z = X W + b$ of many rows, for validation and prediction.

use cudarc::driver::CudaSlice;
use ndarray::{Array2, ArrayView2};
use robust_ot::Result;
use robust_ot_learn::data::Features;

use crate::arguments::address;
use crate::blas::{Blas, Matrix, Precision};
use crate::device::Device;

/// Rows per product.
const ROWS: usize = 4096;
/// Rows that the error of rounded products is measured on.
const MEASURED_ROWS: usize = 1024;

/// Computes X W + b for all rows.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_cuda::{Device, logits};
///
/// if let Ok(device) = Device::open(0, None) {
///     let found = logits(&device, &Features::Dense(array![[1.0, 2.0]]), array![[1.0], [10.0]].view(), Some(&[0.5]))?;
///     assert_eq!(found, array![[21.5]]);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the device is out of memory or fails.
pub fn logits(
    device: &Device,
    features: &Features,
    weights: ArrayView2<f32>,
    bias: Option<&[f32]>,
) -> Result<Array2<f32>> {
    let _turn = device.turn();
    let device = &device.fork()?;
    let weights = weights.as_standard_layout();
    let numbers = weights.as_slice().unwrap_or_default();
    let cure = "fewer labels or features need less";
    let uploaded = device
        .stream()
        .clone_htod(numbers)
        .map_err(|error| device.out_of_memory("the weights", 4 * numbers.len(), cure, error))?;
    let mut found =
        logits_by(device, &Blas::new(device, Precision::F32)?, features, &uploaded, weights.ncols())?;
    if let Some(bias) = bias {
        found.outer_iter_mut().for_each(|mut row| row.iter_mut().zip(bias).for_each(|(z, b)| *z += b));
    }
    Ok(found)
}

/// The rounding error of [`Precision::Tf32`]: ‖Z' − Z‖ / ‖Z‖ for the logits Z = X W of some rows, where Z' has factors
/// rounded to 11 bits.
///
/// ```
/// use ndarray::array;
/// use robust_ot_learn::data::Features;
/// use robust_ot_cuda::{Device, product_rounding};
///
/// if let Ok(device) = Device::open(0, None) {
///     let rounding = product_rounding(&device, &Features::Dense(array![[1.1, 2.3]]), array![[1.3], [10.7]].view())?;
///     assert!(rounding < 1e-2);
/// }
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the device is out of memory or fails.
pub fn product_rounding(device: &Device, features: &Features, weights: ArrayView2<f32>) -> Result<f64> {
    let _turn = device.turn();
    let device = &device.fork()?;
    let some: Vec<usize> = (0..features.rows().min(MEASURED_ROWS)).collect();
    let features = features.select(&some);
    let weights = weights.as_standard_layout();
    let labels = weights.ncols();
    let weights = device
        .stream()
        .clone_htod(weights.as_slice().unwrap_or_default())
        .map_err(|error| device.failed("the weights", error))?;
    let by = |precision| logits_by(device, &Blas::new(device, precision)?, &features, &weights, labels);
    let (exact, rounded) = (by(Precision::F32)?, by(Precision::Tf32)?);
    let norm = |array: &Array2<f32>| array.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    Ok(norm(&(&rounded - &exact)) / norm(&exact).max(f64::MIN_POSITIVE))
}

/// Computes X W for all rows, with weights on the device.
pub(crate) fn logits_by(
    device: &Device,
    blas: &Blas,
    features: &Features,
    weights: &CudaSlice<f32>,
    labels: usize,
) -> Result<Array2<f32>> {
    let (count, columns) = (features.rows(), features.columns());
    let stream = device.stream();
    let rows = ROWS.min(count).max(1);
    let bytes = 4 * rows * (columns + labels);
    let failed =
        |error| device.out_of_memory("rows to predict", bytes, "fewer labels or features need less", error);
    let mut batch = stream.alloc_zeros::<f32>(rows * columns).map_err(failed)?;
    let out = stream.alloc_zeros::<f32>(rows * labels).map_err(failed)?;
    let mut found = Array2::zeros((count, labels));
    let mut host = vec![0.0_f32; rows * columns];
    for first in (0..count).step_by(rows) {
        let here = rows.min(count - first);
        let host = &mut host[..here * columns];
        match features {
            Features::Dense(all) => {
                host.iter_mut()
                    .zip(all.slice(ndarray::s![first..first + here, ..]))
                    .for_each(|(out, x)| *out = *x);
            }
            Features::Sparse(all) => {
                host.fill(0.0);
                for (row, out) in (first..).zip(host.chunks_exact_mut(columns)) {
                    let (indices, values) = all.row(row);
                    indices.iter().zip(values).for_each(|(&index, &value)| out[index as usize] = value);
                }
            }
        }
        stream.memcpy_htod(&*host, &mut batch.slice_mut(..here * columns)).map_err(failed)?;
        blas.product(
            Matrix::new(address(device, &out), here, labels),
            Matrix::new(address(device, &batch), here, columns),
            Matrix::new(address(device, weights), columns, labels),
        )?;
        let mut rows = found.slice_mut(ndarray::s![first..first + here, ..]);
        let rows = rows.as_slice_mut().expect("whole rows of a new array");
        stream.memcpy_dtoh(&out.slice(..here * labels), rows).map_err(failed)?;
        stream.synchronize().map_err(failed)?;
    }
    Ok(found)
}
