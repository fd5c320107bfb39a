//! Moments of plans in exact arithmetic, and comparisons of h(V) with a number.

use std::cmp::Ordering;

use ndarray::{Array1, Array2};
use num_bigint::{BigInt, Sign};
use robust_ot::MetricSet;
use robust_ot::sets::Prior;

/// Numbers are integers over 2^SHIFT: enough for all digits of a double above 1e-160.
const SHIFT: i32 = 600;
/// Bits after the point of the exponentials, which are off by less than 2^-(BITS - 40).
const BITS: usize = 700;

/// x · 2^SHIFT.
fn integer(x: f64) -> BigInt {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let shift = exponent + SHIFT;
    let size = BigInt::from(mantissa);
    let size = if shift >= 0 {
        size << shift as usize
    } else {
        let less = &size >> (-shift) as usize;
        assert_eq!(&less << (-shift) as usize, size, "{x:e} has digits below 2^-{SHIFT}");
        less
    };
    if x < 0.0 { -size } else { size }
}

/// A plan: rows, columns and masses over a common total.
pub struct Plan {
    entries: Vec<(usize, usize, BigInt)>,
    total: BigInt,
}

fn integers(weights: &Array1<f64>) -> (Vec<BigInt>, BigInt) {
    let whole: Vec<_> = weights.iter().map(|w| integer(*w)).collect();
    let total = whole.iter().sum();
    (whole, total)
}

/// The only plan if one side has one point.
pub fn independent(a: &Array1<f64>, b: &Array1<f64>) -> Plan {
    let ((a, of_a), (b, of_b)) = (integers(a), integers(b));
    let entries = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
    let entries = entries.map(|(i, j)| (i, j, &a[i] * &b[j])).collect();
    Plan { entries, total: of_a * of_b }
}

/// The plan from each point to the one with the same index.
pub fn translated(a: &Array1<f64>) -> Plan {
    let (a, total) = integers(a);
    Plan { entries: a.into_iter().enumerate().map(|(i, mass)| (i, i, mass)).collect(), total }
}

/// The optimal plan between points on a line: both sides in increasing order.
pub fn on_a_line(points: [&Array2<f64>; 2], weights: [&Array1<f64>; 2]) -> Plan {
    let [(a, of_a), (b, of_b)] = weights.map(integers);
    let [rows, columns] = points.map(|points| {
        let mut order: Vec<usize> = (0..points.nrows()).collect();
        order.sort_by(|i, j| points[[*i, 0]].total_cmp(&points[[*j, 0]]));
        order
    });
    let mut supply: Vec<_> = rows.iter().map(|&i| &a[i] * &of_b).collect();
    let mut demand: Vec<_> = columns.iter().map(|&j| &b[j] * &of_a).collect();
    let (mut i, mut j, mut entries) = (0, 0, Vec::new());
    while i < rows.len() && j < columns.len() {
        let mass = (&supply[i]).min(&demand[j]).clone();
        supply[i] -= &mass;
        demand[j] -= &mass;
        let (at, to) = (i, j);
        i += usize::from(supply[i].sign() == Sign::NoSign);
        j += usize::from(demand[j].sign() == Sign::NoSign);
        entries.push((rows[at], columns[to], mass));
    }
    Plan { entries, total: of_a * of_b }
}

/// V = moment / unit.
pub struct Truth {
    moment: Vec<Vec<BigInt>>,
    unit: BigInt,
}

impl Truth {
    pub fn of(points: [&Array2<f64>; 2], plan: &Plan) -> Self {
        let d = points[0].ncols();
        let mut moment = vec![vec![BigInt::ZERO; d]; d];
        for (i, j, mass) in &plan.entries {
            let apart: Vec<_> =
                (0..d).map(|f| integer(points[0][[*i, f]]) - integer(points[1][[*j, f]])).collect();
            for (a, b) in (0..d).flat_map(|a| (0..d).map(move |b| (a, b))) {
                moment[a][b] += mass * &apart[a] * &apart[b];
            }
        }
        Self { moment, unit: &plan.total << (2 * SHIFT) as usize }
    }

    fn entries(&self) -> impl Iterator<Item = &BigInt> {
        self.moment.iter().flatten()
    }

    fn diagonal(&self) -> impl Iterator<Item = &BigInt> {
        self.moment.iter().enumerate().map(|(a, row)| &row[a])
    }

    /// tr V, rounded.
    pub fn trace(&self) -> f64 {
        let trace: BigInt = self.diagonal().sum();
        let scaled = (trace << SHIFT as usize) / &self.unit;
        scaled.to_string().parse::<f64>().unwrap() / 2f64.powi(SHIFT)
    }

    /// e^{v/λ} in units of 2^-BITS.
    fn exponential(&self, v: &BigInt, lambda: f64) -> BigInt {
        exp(&((v << (BITS + SHIFT as usize)) / (&self.unit * integer(lambda))))
    }

    /// How h(V) compares with x.
    pub fn compare(&self, set: &MetricSet, x: f64) -> Ordering {
        let x_over = |power: u32| integer(x).pow(power) * self.unit.pow(power);
        let power_sum = |power: u32| self.entries().map(|v| v.pow(power)).sum::<BigInt>();
        // Σ V^2k against x^2k.
        let norm = |k: u32| {
            if x < 0.0 {
                return Ordering::Greater;
            }
            (power_sum(2 * k) << (2 * k as usize * SHIFT as usize)).cmp(&x_over(2 * k))
        };
        let trace = || (self.diagonal().sum::<BigInt>() << SHIFT as usize).cmp(&x_over(1));
        let fixed = |number: f64| integer(number) << (BITS - SHIFT as usize);
        let d = self.moment.len();
        match set {
            MetricSet::W2 => trace(),
            // On a line, M is 1.
            MetricSet::Rkp { .. } | MetricSet::Ds { .. } if d == 1 => trace(),
            MetricSet::Srw { k } if *k == d => trace(),
            MetricSet::Rkp { rho } if rho.to_bits() == 1f64.to_bits() => trace(),
            MetricSet::Rkp { rho } if rho.to_bits() == 2f64.to_bits() => norm(1),
            MetricSet::P { k } => norm(*k),
            MetricSet::PPower { k } => {
                (power_sum(2 * k) << SHIFT as usize).cmp(&(integer(x) * self.unit.pow(2 * k)))
            }
            // λ Σ (e^{V/λ} − 1) against x.
            MetricSet::Kl { lambda, prior } => {
                let exponents: Vec<&BigInt> = match prior {
                    Prior::Eye => self.diagonal().collect(),
                    _ => self.entries().collect(),
                };
                let sum: BigInt = exponents.iter().map(|v| self.exponential(v, *lambda)).sum();
                let terms = fixed(exponents.len() as f64);
                (integer(*lambda) * (sum - terms)).cmp(&(integer(x) << BITS))
            }
            // Σ e^{V_aa/λ} against e^{x/λ + d − 1}.
            MetricSet::Features { lambda } => {
                let sum: BigInt = self.diagonal().map(|v| self.exponential(v, *lambda)).sum();
                sum.cmp(&exp(&((integer(x) << BITS) / integer(*lambda) + fixed(d as f64 - 1.0))))
            }
            // 1 + e^{V_12/λ − (V_11 + V_22)/2λ} against e^{(x − tr V)/2λ + 1}.
            MetricSet::Ds { lambda, .. } if d == 2 => {
                let over = |v: BigInt| (v << (BITS + SHIFT as usize)) / (&self.unit * integer(*lambda) * 2);
                let sum: BigInt = self.diagonal().sum();
                let left = fixed(1.0) + exp(&over(2 * &self.moment[0][1] - &sum));
                let right: BigInt = (integer(x) << BITS) / (integer(*lambda) * 2) - over(sum) + fixed(1.0);
                left.cmp(&exp(&right))
            }
            other => panic!("{other} is not compared in exact arithmetic"),
        }
    }
}

/// e^x for x in units of 2^-BITS: the series of x/2^s, squared s times.
fn exp(x: &BigInt) -> BigInt {
    let s = x.bits().saturating_sub(BITS as u64) as usize + 8;
    let (one, small) = (BigInt::from(1) << BITS, x >> s);
    let (mut sum, mut term, mut n) = (one.clone(), one, 1);
    while term.sign() != Sign::NoSign && term != BigInt::from(-1) {
        term = ((term * &small) >> BITS) / n;
        sum += &term;
        n += 1;
    }
    for _ in 0..s {
        sum = (&sum * &sum) >> BITS;
    }
    sum
}
