//! Runs work on a thread pool of this process, with the GIL released and Ctrl-C handled.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use robust_ot::solve::Interrupt;

use crate::metric::argument;

/// How often a waiting thread checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// How long a waiting thread spins before it sleeps.
const SOON: Duration = Duration::from_micros(50);
/// The maximum number of threads, more than any machine can use.
const MOST_THREADS: usize = 1024;

/// The pool and the process it belongs to: threads do not survive a fork.
struct Pool {
    process: u32,
    threads: Option<usize>,
    running: Option<Arc<ThreadPool>>,
}

// Only threads that hold the GIL lock this, and they keep the GIL meanwhile. A thread that forks holds the GIL too, so no
// child inherits a locked mutex.
static POOL: Mutex<Pool> = Mutex::new(Pool { process: 0, threads: None, running: None });

/// The pool of this process.
fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut found = locked(&POOL);
    let process = std::process::id();
    if found.process != process {
        // The parent's pool has no threads here; joining them would wait forever.
        std::mem::forget(found.running.take());
        found.process = process;
    }
    if let Some(pool) = &found.running {
        return Ok(Arc::clone(pool));
    }
    let pool = ThreadPoolBuilder::new().num_threads(found.threads.unwrap_or(0)).build();
    let pool = Arc::new(
        pool.map_err(|error| PyRuntimeError::new_err(format!("threads cannot be started: {error}")))?,
    );
    found.running = Some(Arc::clone(&pool));
    Ok(pool)
}

/// Set the number of threads that later calls use; None means all cores.
#[pyfunction]
#[pyo3(signature = (threads=None))]
pub fn set_threads(threads: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let rule = format!("at least 1 and at most {MOST_THREADS}");
    let threads: Option<usize> = threads.map(|threads| argument(threads, "threads", &rule)).transpose()?;
    if let Some(wrong) = threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
        return Err(PyValueError::new_err(format!("threads must be {rule}, but is {wrong}")));
    }
    let mut found = locked(&POOL);
    if found.threads == threads {
        return Ok(());
    }
    found.threads = threads;
    // Running calls keep the old pool alive.
    found.running = None;
    Ok(())
}

/// The number of threads that calls use.
#[pyfunction]
pub fn get_threads() -> PyResult<usize> {
    Ok(pool()?.current_num_threads())
}

/// The result that a worker hands to the waiting thread.
struct Answer<R> {
    ready: AtomicBool,
    value: Mutex<Option<thread::Result<R>>>,
    there: Condvar,
}

/// Runs work on the pool while other Python threads run. Ctrl-C raises the interrupt that the work receives, and then
/// `KeyboardInterrupt`.
pub fn run<R: Send>(py: Python<'_>, work: impl FnOnce(&Interrupt) -> R + Send) -> PyResult<R> {
    run_watched(py, &mut |_| Ok(()), work)
}

/// [`run`] that calls `watch` while the work goes on; its errors stop the work as Ctrl-C does.
pub fn run_watched<R: Send>(
    py: Python<'_>,
    watch: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce(&Interrupt) -> R + Send,
) -> PyResult<R> {
    let (pool, interrupt) = (pool()?, Interrupt::default());
    let answer = Answer { ready: AtomicBool::new(false), value: Mutex::new(None), there: Condvar::new() };
    let mut stopped = None;
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            let value = catch_unwind(AssertUnwindSafe(|| work(&interrupt)));
            *locked(&answer.value) = Some(value);
            answer.ready.store(true, Ordering::Release);
            answer.there.notify_one();
        });
        let there = py.detach(|| answer.comes_soon());
        while !there && !py.detach(|| answer.wait()) {
            if stopped.is_none()
                && let Err(error) = py.check_signals().and_then(|()| watch(py))
            {
                interrupt.raise();
                stopped = Some(error);
            }
        }
    });
    let value = locked(&answer.value).take().expect("the worker has stored its result");
    match (value, stopped) {
        (Err(panic), _) => resume_unwind(panic),
        (Ok(_), Some(error)) => Err(error),
        (Ok(value), None) => Ok(value),
    }
}

impl<R> Answer<R> {
    /// Spins briefly for the result: sleeping and waking up takes longer than a small problem.
    fn comes_soon(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < SOON {
            if self.ready.load(Ordering::Acquire) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Waits for the result, at most until the next check for signals; returns whether it is ready.
    fn wait(&self) -> bool {
        let value = locked(&self.value);
        if value.is_some() {
            return true;
        }
        let (value, _) = self.there.wait_timeout(value, LOOK).unwrap_or_else(PoisonError::into_inner);
        value.is_some()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
