//! Numbers from Python: arrays of any layout and number type, and values that numpy converts to arrays.

use ndarray::{Array1, Array2, ArrayView2};
use numpy::{
    PyArray1, PyArray2, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray2, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use robust_ot_learn::Memory;
use robust_ot_learn::data::{Features, Sparse};

use crate::error::from_library;

/// Copies a matrix in double precision.
pub fn matrix(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Array2<f64>> {
    let found = Matrix::new(value, name)?;
    check_fits::<f64>(found.len(), name)?;
    Ok(found.to_double())
}

/// Copies a vector in double precision.
pub fn vector(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Array1<f64>> {
    if let Ok(array) = value.cast::<PyArray1<f64>>()
        && is_plain(array.as_untyped(), size_of::<f64>())
    {
        check_fits::<f64>(array.len(), name)?;
        return Ok(array.readonly().as_array().to_owned());
    }
    let array = as_numbers(value, name)?;
    check_dimensions(&array, name, 1)?;
    check_fits::<f64>(array.len(), name)?;
    // A copy is contiguous.
    let array = array.call_method1("astype", ("float64",))?;
    Ok(array.cast::<PyArray1<f64>>()?.readonly().as_array().to_owned())
}

/// A numpy matrix: float32 and float64 keep their precision, other number types become double.
pub enum Matrix<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

impl<'py> Matrix<'py> {
    /// Takes any two-dimensional array of real numbers, or a value that numpy converts to one.
    pub fn new(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        if let Some(found) = Self::of_numpy(value) {
            return Ok(found);
        }
        let array = as_numbers(value, name)?;
        check_dimensions(&array, name, 2)?;
        if let Some(found) = Self::of_numpy(&array) {
            return Ok(found);
        }
        check_fits::<f64>(array.len(), name)?;
        let single = array.dtype().is_equiv_to(&numpy::dtype::<f32>(value.py()));
        let array = array.call_method1("astype", (if single { "float32" } else { "float64" },))?;
        Self::of_numpy(&array).ok_or_else(|| PyValueError::new_err(format!("{name} could not be copied")))
    }

    fn of_numpy(value: &Bound<'py, PyAny>) -> Option<Self> {
        // An array that is borrowed for writing has no read-only view; numpy copies it instead.
        if let Ok(array) = value.cast::<PyArray2<f64>>() {
            let plain = is_plain(array.as_untyped(), size_of::<f64>());
            return array.try_readonly().ok().filter(|_| plain).map(Self::Double);
        }
        let array = value.cast::<PyArray2<f32>>().ok()?;
        let plain = is_plain(array.as_untyped(), size_of::<f32>());
        array.try_readonly().ok().filter(|_| plain).map(Self::Single)
    }

    fn len(&self) -> usize {
        match self {
            Self::Single(array) => array.len(),
            Self::Double(array) => array.len(),
        }
    }

    /// A copy in double precision.
    pub fn to_double(&self) -> Array2<f64> {
        match self {
            Self::Single(array) => array.as_array().mapv(f64::from),
            Self::Double(array) => array.as_array().to_owned(),
        }
    }

    /// A row-major copy in single precision.
    pub fn to_single(&self) -> Array2<f32> {
        let standard = |array: ArrayView2<f32>| array.as_standard_layout().into_owned();
        match self {
            Self::Single(array) => standard(array.as_array()),
            Self::Double(array) => standard(array.as_array().mapv(|x| x as f32).view()),
        }
    }
}

/// Features of samples: a matrix, or (indptr, indices, data, columns) of a sparse one.
pub fn features(value: &Bound<'_, PyAny>) -> PyResult<Features> {
    let Ok((starts, indices, values, columns)) =
        value.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>, usize)>()
    else {
        let found = Matrix::new(value, "X")?;
        check_fits::<f32>(found.len(), "X")?;
        return Ok(Features::Dense(found.to_single()));
    };
    let whole = |value: &Bound<'_, PyAny>| -> PyResult<Vec<i64>> {
        let array = value.call_method1("astype", ("int64",))?;
        Ok(array.cast::<PyArray1<i64>>()?.readonly().as_array().to_vec())
    };
    let odd =
        |_| PyValueError::new_err("X: the indices of a sparse matrix must not be negative or above 2^32");
    let starts = whole(&starts)?.into_iter().map(usize::try_from).collect::<Result<_, _>>().map_err(odd)?;
    let indices = whole(&indices)?.into_iter().map(u32::try_from).collect::<Result<_, _>>().map_err(odd)?;
    let values = vector(&values, "X")?.iter().map(|x| *x as f32).collect();
    let sparse = Sparse::new(columns, starts, indices, values).map_err(|error| from_library("X", error))?;
    Ok(Features::Sparse(sparse))
}

/// Whether this is a plain array, not masked, whose elements lie at multiples of their size, as Rust views need. Fields of
/// packed records do not; numpy copies them.
fn is_plain(array: &Bound<'_, PyUntypedArray>, size: usize) -> bool {
    let exact = array.get_type().is(array.py().get_type::<PyUntypedArray>());
    exact && array.strides().iter().all(|stride| stride % size as isize == 0) && is_aligned(array)
}

fn is_aligned(array: &Bound<'_, PyUntypedArray>) -> bool {
    let flags = array.getattr("flags").and_then(|flags| flags.getattr("aligned"));
    flags.and_then(|aligned| aligned.extract()).unwrap_or(false)
}

/// Refuses an allocation that does not fit into memory, which would otherwise abort the process.
pub fn check_fits<T>(count: usize, name: &str) -> PyResult<()> {
    let mut reserved = Vec::<T>::new();
    reserved.try_reserve_exact(count).map_err(|_| {
        let bytes = Memory(count.saturating_mul(size_of::<T>()));
        PyMemoryError::new_err(format!("{name} needs {bytes} of memory, more than is available"))
    })
}

/// Converts a value to a numpy array of real numbers.
fn as_numbers<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = value.py();
    // What has DLPack alone, numpy would take for an object.
    let exchanged = value.hasattr("__dlpack__")? && !value.hasattr("__array__")?;
    let reader = if exchanged { "from_dlpack" } else { "asarray" };
    let array = py.import("numpy")?.call_method1(reader, (value,)).map_err(|error| {
        PyValueError::new_err(format!("{name} must be an array of numbers, but numpy says: {error}"))
    })?;
    if value.hasattr("mask")?
        && value.getattr("mask")?.call_method0("any").is_ok_and(|any| any.is_truthy().unwrap_or(true))
    {
        return Err(PyValueError::new_err(format!("{name} must not be masked, but some of its numbers are")));
    }
    let array = array.cast_into::<PyUntypedArray>()?;
    let kind: String = array.dtype().getattr("kind")?.extract()?;
    if "biuf".contains(kind.as_str()) {
        return Ok(array);
    }
    let (dtype, shape) = (array.dtype().str()?, array.shape());
    Err(PyValueError::new_err(format!(
        "{name} must be an array of real numbers, but has dtype {dtype} and shape {}",
        shape_text(shape)
    )))
}

fn check_dimensions(array: &Bound<'_, PyUntypedArray>, name: &str, wanted: usize) -> PyResult<()> {
    if array.ndim() == wanted {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} must have {wanted} dimension{}, but has shape {}",
        if wanted == 1 { "" } else { "s" },
        shape_text(array.shape())
    )))
}

/// A shape as Python writes it.
pub fn shape_text(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        several => format!("({})", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
