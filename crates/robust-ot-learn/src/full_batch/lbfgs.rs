//! Limited-memory BFGS: $x \leftarrow x - \theta H \nabla f(x)$, where H is built from the last steps and their changes of
//! the gradient, and θ decreases f sufficiently.
//!
//! Points are in single precision, sums in double. The caller scales the variables so that H = I is a good start.

use std::collections::VecDeque;

use rayon::prelude::*;
use robust_ot::solve::Interrupt;
use robust_ot::{Kernels, Result};

/// The number of steps that H remembers.
const MEMORY: usize = 10;
/// The decrease of f that a step must reach, as a fraction of what the slope promises.
const SUFFICIENT: f64 = 1e-4;
/// The number of times a step is shortened before the search gives up: single precision shows no decrease.
const SHORTENED: usize = 12;
/// A pair enters H if its curvature sᵀy is at least this fraction of ‖s‖ ‖y‖.
const CURVATURE: f64 = 1e-8;
/// Numbers per task of a sum; fixed, so that sums do not depend on the number of threads.
const BLOCK: usize = 1 << 16;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// The most evaluations of f.
    pub(crate) evaluations: usize,
    /// Stop once ½‖∇f‖² ≤ tolerance · |f|. In scaled variables, ½‖∇f‖² estimates how far f is above its minimum.
    pub(crate) tolerance: f64,
}

/// The point that the iterations end at.
#[derive(Debug)]
pub(crate) struct Minimum {
    pub(crate) point: Vec<f32>,
    /// ½‖∇f‖² / |f| at the end.
    pub(crate) gap: f64,
    pub(crate) iterations: usize,
    pub(crate) converged: bool,
    pub(crate) interrupted: bool,
}

/// Minimizes `f`, which returns its value and writes its gradient. `progress` hears of every iteration: its number, the
/// value and the estimated gap. Once interrupted, it returns the point of the last iteration.
pub(crate) fn minimize(
    start: Vec<f32>,
    mut f: impl FnMut(&[f32], &mut [f32]) -> Result<f64>,
    stop: Stop,
    interrupt: &Interrupt,
    mut progress: impl FnMut(usize, f64, f64),
) -> Result<Minimum> {
    let size = start.len();
    let (mut point, mut gradient) = (start, vec![0.0; size]);
    let (mut next, mut next_gradient) = (vec![0.0; size], vec![0.0; size]);
    let mut direction = vec![0.0; size];
    let mut pairs: VecDeque<Pair> = VecDeque::with_capacity(MEMORY);
    let mut value = f(&point, &mut gradient)?;
    let (mut evaluations, mut iterations) = (1, 0);
    loop {
        let gap = 0.5 * dot(&gradient, &gradient) / value.abs().max(f64::MIN_POSITIVE);
        let minimum = |point, converged| Minimum { point, gap, iterations, converged, interrupted: false };
        if gap <= stop.tolerance {
            return Ok(minimum(point, true));
        }
        if evaluations >= stop.evaluations {
            return Ok(minimum(point, false));
        }
        descend(&pairs, &gradient, &mut direction);
        let mut slope = dot(&gradient, &direction);
        if slope >= 0.0 {
            // Rounding spoiled H; the gradient itself always descends.
            pairs.clear();
            descend(&pairs, &gradient, &mut direction);
            slope = dot(&gradient, &direction);
        }
        let (mut step, mut tries) = (1.0, 0);
        let found = loop {
            if interrupt.is_raised() {
                return Ok(Minimum { interrupted: true, ..minimum(point, false) });
            }
            move_along(&point, step, &direction, &mut next);
            let found = f(&next, &mut next_gradient)?;
            evaluations += 1;
            tries += 1;
            if found <= value + SUFFICIENT * step * slope {
                break Some(found);
            }
            if tries > SHORTENED {
                break None;
            }
            // The minimum of the parabola through the value, the slope and the value found.
            let bend = found - value - step * slope;
            let shorter = -0.5 * slope * step * step / bend;
            step = if shorter.is_finite() { shorter.clamp(0.1 * step, 0.5 * step) } else { 0.1 * step };
        };
        let Some(found) = found else {
            if pairs.is_empty() {
                return Ok(minimum(point, false));
            }
            pairs.clear();
            continue;
        };
        let mut pair = if pairs.len() == MEMORY { pairs.pop_front() } else { None }.unwrap_or_else(|| Pair {
            step: vec![0.0; size],
            change: vec![0.0; size],
            curvature: 0.0,
        });
        difference(&next, &point, &mut pair.step);
        difference(&next_gradient, &gradient, &mut pair.change);
        pair.curvature = dot(&pair.step, &pair.change);
        let norms = (dot(&pair.step, &pair.step) * dot(&pair.change, &pair.change)).sqrt();
        if pair.curvature > CURVATURE * norms {
            pairs.push_back(pair);
        }
        std::mem::swap(&mut point, &mut next);
        std::mem::swap(&mut gradient, &mut next_gradient);
        value = found;
        iterations += 1;
        progress(iterations, value, gap);
    }
}

/// A step and the change of the gradient along it.
struct Pair {
    step: Vec<f32>,
    change: Vec<f32>,
    /// Their inner product.
    curvature: f64,
}

/// −H ∇f by the two-loop recursion.
fn descend(pairs: &VecDeque<Pair>, gradient: &[f32], direction: &mut [f32]) {
    direction.iter_mut().zip(gradient).for_each(|(d, g)| *d = -g);
    let mut along = [0.0; MEMORY];
    for (pair, along) in pairs.iter().zip(&mut along).rev() {
        *along = dot(&pair.step, direction) / pair.curvature;
        add(direction, -*along, &pair.change);
    }
    if let Some(last) = pairs.back() {
        let scale = (last.curvature / dot(&last.change, &last.change)) as f32;
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for (pair, along) in pairs.iter().zip(&along) {
        let back = dot(&pair.change, direction) / pair.curvature;
        add(direction, along - back, &pair.step);
    }
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    let blocks = x.par_chunks(BLOCK).zip(y.par_chunks(BLOCK));
    let sums: Vec<f64> = blocks.map(|(x, y)| f32::dot(x, y)).collect();
    sums.iter().sum()
}

fn add(y: &mut [f32], a: f64, x: &[f32]) {
    y.par_chunks_mut(BLOCK).zip(x.par_chunks(BLOCK)).for_each(|(y, x)| f32::add_own(y, a as f32, x));
}

fn move_along(point: &[f32], step: f64, direction: &[f32], out: &mut [f32]) {
    out.copy_from_slice(point);
    add(out, step, direction);
}

fn difference(x: &[f32], y: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x.iter().zip(y)).for_each(|(d, (x, y))| *d = x - y);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rosenbrock_s_valley_is_followed_to_its_end() {
        let f = |x: &[f32], g: &mut [f32]| {
            let (a, b) = (f64::from(x[0]), f64::from(x[1]));
            g[0] = (-400.0 * a * (b - a * a) - 2.0 * (1.0 - a)) as f32;
            g[1] = (200.0 * (b - a * a)) as f32;
            Ok(100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2) + 1.0)
        };
        let stop = Stop { evaluations: 300, tolerance: 1e-9 };
        let found = minimize(vec![-1.2, 1.0], f, stop, &Interrupt::default(), |_, _, _| ()).unwrap();
        assert!(found.converged && found.gap <= 1e-9);
        assert!(
            (found.point[0] - 1.0).abs() < 1e-3 && (found.point[1] - 1.0).abs() < 1e-3,
            "{:?}",
            found.point
        );
    }

    #[test]
    fn a_quadratic_with_unit_curvature_takes_one_step() {
        let target = [3.0_f32, -2.0, 0.5];
        let f = |x: &[f32], g: &mut [f32]| {
            g.iter_mut().zip(x.iter().zip(&target)).for_each(|(g, (x, t))| *g = x - t);
            Ok(0.5 * f32::dot(g, g) + 1.0)
        };
        let stop = Stop { evaluations: 10, tolerance: 1e-12 };
        let found = minimize(vec![0.0; 3], f, stop, &Interrupt::default(), |_, _, _| ()).unwrap();
        assert_eq!((found.iterations, found.converged), (1, true));
        assert!(found.point.iter().zip(&target).all(|(x, t)| (x - t).abs() < 1e-6));
    }

    #[test]
    fn a_limit_of_evaluations_is_reported_with_its_gap() {
        let f = |x: &[f32], g: &mut [f32]| {
            g[0] = 4.0 * x[0].powi(3);
            Ok(f64::from(x[0]).powi(4) + 1.0)
        };
        let stop = Stop { evaluations: 3, tolerance: 1e-12 };
        let found = minimize(vec![3.0], f, stop, &Interrupt::default(), |_, _, _| ()).unwrap();
        assert!(!found.converged && found.gap > 1e-12);
        let interrupt = Interrupt::default();
        interrupt.raise();
        let found = minimize(vec![3.0], f, stop, &interrupt, |_, _, _| ()).unwrap();
        assert!(found.interrupted && (found.iterations, &found.point[..]) == (0, &[3.0][..]));
    }
}
