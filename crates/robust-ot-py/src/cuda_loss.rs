//! The robust loss of predictions that torch keeps on a GPU.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use robust_ot_cuda::{BatchAddresses, BatchLoss, BatchShape, Device, TargetKind};

use crate::device::kernel_cache;
use crate::error::from_library;
use crate::loss::RobustLoss;
use crate::threads::run;

/// One loss on one GPU, in one precision.
#[pyclass(frozen, module = "robust_ot._core")]
pub struct CudaLoss {
    loss: BatchLoss,
}

#[pymethods]
impl CudaLoss {
    /// Takes the loss, the weights of cross-entropy and of transport, the index of the GPU, and whether to compute in double
    /// precision.
    #[new]
    fn new(
        py: Python<'_>,
        loss: &Bound<'_, RobustLoss>,
        mix: (f64, f64),
        index: usize,
        double: bool,
    ) -> PyResult<Self> {
        let (loss, mix) = (loss.get(), mix.into());
        let open = || Device::open(index, kernel_cache().as_deref());
        let made = if double {
            let loss = run(py, |_| loss.double())??;
            py.detach(|| BatchLoss::new(&open()?, loss, mix))
        } else {
            let loss = run(py, |_| loss.single())??;
            py.detach(|| BatchLoss::new(&open()?, loss, mix))
        };
        Ok(Self { loss: made.map_err(|error| from_library("", error))? })
    }

    /// The bytes of workspace for a batch of so many rows with at most `most` labels each.
    fn workspace(&self, rows: usize, most: usize) -> PyResult<usize> {
        self.loss.workspace(BatchShape { rows, most }).map_err(|error| from_library("", error))
    }

    /// Enqueues losses and gradients on a stream. `kind` names the type of the targets: classes, bytes, whole, single or
    /// double. `addresses` are those of the logits, the targets, the losses, the gradients in the logits and the workspace, all
    /// contiguous on this GPU.
    fn enqueue(
        &self,
        py: Python<'_>,
        stream: u64,
        shape: (usize, usize),
        kind: &str,
        addresses: (u64, u64, u64, u64, u64),
    ) -> PyResult<()> {
        let kind = match kind {
            "classes" => TargetKind::Classes,
            "bytes" => TargetKind::Bytes,
            "whole" => TargetKind::Whole,
            "single" => TargetKind::Single,
            "double" => TargetKind::Double,
            other => {
                let rule = "kind must be classes, bytes, whole, single or double";
                return Err(PyValueError::new_err(format!("{rule}, but is {other:?}")));
            }
        };
        let (input, target, losses, slopes, workspace) = addresses;
        let at = BatchAddresses { input, target, kind, losses, slopes, workspace };
        let shape = BatchShape { rows: shape.0, most: shape.1 };
        py.detach(|| {
            // SAFETY: robust_ot.torch, the only caller, passes the addresses of contiguous tensors of these shapes, a workspace of
            // the bytes that `workspace` returned, and torch's current stream of the same GPU.
            #[allow(unsafe_code)]
            let done = unsafe { self.loss.enqueue(stream, shape, at) };
            done.map_err(|error| from_library("input", error))
        })
    }
}
