"""Fits the polynomials of crates/robust-ot/src/kernels by near-minimax interpolation at Chebyshev nodes, in 60 digits.

Needs mpmath. Prints the coefficients, lowest power first, and the largest relative error on a fine grid.
"""

from mpmath import atanh, chop, cos, exp, linspace, log, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 60


def fit(function, low, high, degree):
    nodes = [(low + high) / 2 + (high - low) / 2 * cos((2 * i + 1) * pi / (2 * degree + 2)) for i in range(degree + 1)]
    powers = matrix([[x**k for k in range(degree + 1)] for x in nodes])
    return list(lu_solve(powers, matrix([function(x) for x in nodes])))


def report(name, function, low, high, degree, digits):
    coefficients = fit(function, low, high, degree)
    error = max(
        abs(sum(c * x**k for k, c in enumerate(coefficients)) / function(x) - 1) for x in linspace(low, high, 2001)
    )
    print(f"{name}: relative error {mp.nstr(error, 3)}")
    for c in coefficients:
        print("   ", mp.nstr(chop(c), digits))


half = log(mpf(2)) / 2 * (1 + mpf(2) ** -20)
report("exp f64", exp, -half, half, 11, 20)
report("exp f32", exp, -half, half, 6, 12)

# ln m = 2 s q(s²) with s = (m − 1)/(m + 1) and m in [√½, √2], q(z) = atanh(√z)/√z.
largest = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * (1 + mpf(2) ** -20)
q = lambda z: atanh(sqrt(z)) / sqrt(z) if z else mpf(1)
report("ln f64", q, mpf(0), largest, 8, 20)
