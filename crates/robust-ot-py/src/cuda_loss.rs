//! The robust loss of predictions that torch keeps on a GPU.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use robust_ot_cuda::{BatchAddresses, BatchLoss, Device};

use crate::device::kernel_cache;
use crate::error::from_library;
use crate::loss::RobustLoss;
use crate::targets::{Arrays, targets};
use crate::threads::run;

/// One loss on one GPU.
#[pyclass(frozen, module = "robust_ot._core")]
pub struct CudaLoss {
    labels: usize,
    loss: Mutex<BatchLoss>,
}

#[pymethods]
impl CudaLoss {
    /// Takes the loss and the index of the GPU.
    #[new]
    fn new(py: Python<'_>, loss: &Bound<'_, RobustLoss>, index: usize) -> PyResult<Self> {
        let loss = loss.get();
        let single = run(py, |_| loss.single())??;
        let labels = single.labels();
        let made = py.detach(|| BatchLoss::new(&Device::open(index, kernel_cache().as_deref())?, single));
        let loss = made.map_err(|error| from_library("", error))?;
        Ok(Self { labels, loss: Mutex::new(loss) })
    }

    /// Enqueues losses and gradients on a stream. `addresses` are those of ln h, h, the gradients (rows × L, float32) and
    /// the losses (float64), all contiguous on this GPU.
    fn loss_gradient(
        &self,
        py: Python<'_>,
        stream: u64,
        truth: Arrays<'_>,
        addresses: (u64, u64, u64, u64),
    ) -> PyResult<()> {
        let truth = targets(self.labels, &truth, "target")?;
        let (log_predictions, predictions, gradients, losses) = addresses;
        let batch = BatchAddresses { log_predictions, predictions, gradients, losses };
        py.detach(|| {
            let mut loss = self.loss.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: robust_ot.torch, the only caller, passes the addresses of contiguous tensors of these shapes and
            // torch's current stream of the same GPU, which lives as long as the process.
            #[allow(unsafe_code)]
            let done = unsafe { loss.enqueue(stream, &truth, batch) };
            done.map_err(|error| from_library("input", error))
        })
    }
}
