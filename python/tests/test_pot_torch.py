"""POT's calls with torch tensors: gradients against finite differences."""

import numpy as np
import pytest
import robust_ot.pot as ot

torch = pytest.importorskip("torch")

SOLVED = {"stopThr": 1e-14, "numItermax": 10_000}


def tensor(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def inputs(rng):
    """Logits of weights, whose sums then agree whatever changes, and costs."""
    return tensor(rng.normal(size=5)), tensor(rng.normal(size=4)), tensor(rng.random((5, 4)))


def weights(x, y):
    return torch.softmax(x, 0), torch.softmax(y, 0)


def check(function, arguments):
    assert torch.autograd.gradcheck(function, arguments, eps=1e-6, atol=1e-6, rtol=1e-4)


def test_exact_cost(inputs):
    check(lambda x, y, M: ot.emd2(*weights(x, y), M), inputs)
    check(lambda x, y, M: 3 * ot.solve(M, *weights(x, y)).value, inputs)
    check(lambda x, y, M: sum(ot.emd2(weights(x, y)[0], torch.stack([weights(x, y)[1], torch.full((4,), 0.25)], 1), M)), inputs)


def test_exact_gradients_are_the_plan_and_centered_potentials(inputs):
    a, b = (weight.detach().requires_grad_() for weight in weights(*inputs[:2]))
    cost, log = ot.emd2(a, b, inputs[2], log=True, return_matrix=True)
    cost.backward()
    torch.testing.assert_close(inputs[2].grad, log["G"])
    torch.testing.assert_close(a.grad, log["u"] - log["u"].mean())
    torch.testing.assert_close(b.grad, log["v"] - log["v"].mean())
    assert not ot.emd(a, b, inputs[2]).requires_grad


def test_sparse_costs_have_sparse_gradients(rng):
    M = tensor(rng.random((3, 3)) + 0.1)
    sparse = M.detach().to_sparse_coo().requires_grad_()
    ot.emd2([], [], M).backward()
    plan = ot.emd(torch.ones(3, dtype=torch.float64) / 3, [], sparse)
    ot.emd2([], [], sparse).backward()
    assert plan.layout == sparse.grad.layout == torch.sparse_coo
    torch.testing.assert_close(sparse.grad.to_dense(), M.grad)
    torch.testing.assert_close(plan.to_dense(), M.grad)


@pytest.mark.parametrize("transposed", [False, True])
def test_entropic_cost_and_plan(inputs, rng, transposed):
    G = torch.tensor(rng.normal(size=(4, 5) if transposed else (5, 4)))

    def plan(x, y, M):
        a, b = weights(x, y)
        return ot.sinkhorn(b, a, M.T, 0.3, **SOLVED) if transposed else ot.sinkhorn(a, b, M, 0.3, **SOLVED)

    check(lambda *arguments: (G * plan(*arguments)).sum(), inputs)
    check(lambda *arguments: (G * plan(*arguments) ** 2).sum(), inputs)
    check(lambda x, y, M: ot.sinkhorn2(*weights(x, y), M, 0.3, **SOLVED), inputs)


def test_costs_of_several_targets(inputs, rng):
    def losses(x, y, M):
        a, b = weights(x, y)
        return ot.sinkhorn(a, torch.stack([b, b.flip(0)], 1), M, 0.3, **SOLVED)

    assert losses(*inputs).shape == (2,)
    check(losses, inputs)


@pytest.mark.parametrize("form", ["KL", "entropy", "c"])
def test_regularized_values(inputs, rng, form):
    options = {"reg_type": "entropy"} if form == "entropy" else {"c": rng.random((5, 4)) + 0.1} if form == "c" else {}

    def solved(x, y, M, grad="autodiff"):
        return ot.solve(M, *weights(x, y), 0.3, tol=1e-14, max_iter=10_000, grad=grad, **options)

    check(lambda *arguments: solved(*arguments).value, inputs)
    check(lambda *arguments: solved(*arguments, "envelope").value, inputs)
    check(lambda *arguments: solved(*arguments).value_linear, inputs)
    check(lambda *arguments: solved(*arguments, "last_step").plan[1, 2], inputs)
    assert not solved(*inputs, "envelope").plan.requires_grad
    assert not solved(*inputs, "detach").value.requires_grad


def test_the_mass_itself_can_change(inputs):
    """The value along a and b growing together, which softmax leaves out."""
    a, b = (weight.detach() for weight in weights(*inputs[:2]))
    for options in ({"reg": 0.3}, {"reg": 0.3, "reg_type": "entropy"}):
        check(lambda t, options=options: ot.solve(inputs[2].detach(), t * a, t * b, tol=1e-14, **options).value, [tensor(1.3)])


def test_mass_on_a_point_without_weight(inputs, rng):
    """One-sided differences at a weight of zero."""
    G, M = rng.normal(size=(5, 4)), inputs[2].detach()
    b = torch.full((4,), 0.25, dtype=torch.float64)
    start, direction = np.array([0.0, 0.3, 0.2, 0.5, 0.0]), np.array([1.0, -1.0, 0.0, 0.0, 0.0])

    def loss(t):
        a = torch.tensor(start) + t * torch.tensor(direction)
        return (torch.tensor(G) * ot.sinkhorn(a, b, M, 0.3, **SOLVED)).sum()

    t = tensor(0.0)
    loss(t).backward()
    step = 1e-6
    difference = (loss(torch.tensor(step)) - loss(torch.tensor(0.0))) / step
    assert t.grad.item() == pytest.approx(difference.item(), rel=1e-3, abs=1e-5)


def test_a_plan_that_splits(rng):
    """Two pairs of points far from each other: the entries between them are zero, and the pairs do not know of each other."""
    near = rng.random((2, 2, 2))
    M = np.full((4, 4), 1e3)
    M[:2, :2], M[2:, 2:] = near
    check(lambda M: ot.sinkhorn2([], [], M, 0.3, **SOLVED), [tensor(M)])
    (gradient,) = torch.autograd.grad(ot.sinkhorn2([], [], (whole := tensor(M)), 0.3, **SOLVED), whole)
    for part, block in zip(near, (gradient[:2, :2], gradient[2:, 2:]), strict=True):
        (alone,) = torch.autograd.grad(ot.sinkhorn2([], [], (pair := tensor(part)), 0.3, **SOLVED), pair)
        torch.testing.assert_close(block, alone / 2)
    # At a small entropy, the plan is one entry per row, and the gradient is that plan.
    (gradient,) = torch.autograd.grad(ot.sinkhorn2([], [], (costs := tensor(near[0])), 1e-3, **SOLVED), costs)
    torch.testing.assert_close(gradient, ot.emd([], [], costs.detach()))


def test_points(rng):
    X, Y = tensor(rng.normal(size=(4, 3))), tensor(rng.normal(size=(5, 3)))
    for metric in ("sqeuclidean", "euclidean", "cityblock", "minkowski", "cosine", "correlation"):
        check(lambda X, Y, metric=metric: ot.dist(X, Y, metric, p=3), (X, Y))
        expected = ot.dist(X.detach().numpy(), Y.detach().numpy(), metric, p=3)
        np.testing.assert_allclose(ot.dist(X, Y, metric, p=3).detach().numpy(), expected, rtol=1e-12)
    for options in ({}, {"reg": 0.5}, {"reg": 0.5, "debias": True}):
        check(lambda X, Y, options=options: ot.solve_sample(X, Y, tol=1e-14, **options).value, (X, Y))
    same = ot.dist(X, X).sum()
    same.backward()
    assert torch.isfinite(X.grad).all()


def test_the_line(rng):
    u, v, x, y = (tensor(rng.normal(size=shape)) for shape in ((5, 2), (4, 2), 5, 4))
    for p in (1, 2):
        check(lambda u, v, x, y, p=p: ot.wasserstein_1d(u, v, *weights(x, y), p), (u, v, x, y))
    plan = ot.emd_1d(u[:, 0], v[:, 0])
    assert (plan.dtype, plan.shape) == (torch.float64, (5, 4))


def test_second_derivatives_are_refused(inputs):
    for value in (
        ot.emd2([], [], inputs[2]),
        ot.sinkhorn2([], [], inputs[2], 0.3),
        ot.solve(inputs[2], reg=0.3).value,
    ):
        (gradient,) = torch.autograd.grad(value, inputs[2], create_graph=True)
        with pytest.raises(NotImplementedError, match="transport has no second derivative"):
            gradient.sum().backward()


def test_results_have_the_type_of_the_tensors(rng):
    M = torch.tensor(rng.random((3, 4)), dtype=torch.float32)
    a = torch.full((3,), 1 / 3)
    answers = [ot.emd(a, [], M), ot.emd2(a, [], M), ot.sinkhorn(a, [], M, 1.0), ot.sinkhorn2([], [], M, 1.0), ot.dist(M)]
    answers += [ot.solve(M).value, ot.solve(M, reg=1.0).plan, ot.emd(a, [], M, log=True)[1]["u"], ot.wasserstein_1d(M, M)]
    assert {answer.dtype for answer in answers} == {torch.float32}
    assert ot.emd([], [], M.double()).dtype == ot.emd([], [], M.long()).dtype == torch.float64
    assert ot.emd([], [], M.half()).dtype == torch.float64
    with pytest.raises(ValueError, match="metric must be one of .* for tensors, but is 'chebyshev'"):
        ot.dist(M, M, "chebyshev")
