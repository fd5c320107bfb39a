"""Distances of torch tensors with gradients."""

import warnings

import numpy as np
import pytest
import robust_ot

torch = pytest.importorskip("torch")

from robust_ot.torch import Bounded, RobustDistance, distance

TIGHT = {"tol": 1e-12, "max_iter": 3000}


def tensor(array, dtype=torch.float64):
    return torch.tensor(array, dtype=dtype, requires_grad=True)


@pytest.fixture
def clouds(rng):
    return tensor(rng.normal(size=(5, 3))), tensor(rng.normal(size=(4, 3)) * 0.7 + 0.5)


@pytest.fixture
def weights(rng):
    return tensor(rng.random(5) + 0.3), tensor(rng.random(4) + 0.3)


@pytest.mark.parametrize("entropy", [0.0, 0.3])
@pytest.mark.parametrize(
    "settings", [{"metric": "p"}, {"metric": "w2"}, {"metric": "features", "lam": 0.7}, {"metric": "kl", "lam": 3.0}]
)
def test_gradcheck(clouds, weights, settings, entropy):
    def found(*arguments):
        return distance(*arguments, entropy=entropy, **settings, **TIGHT)

    assert torch.autograd.gradcheck(found, (*clouds, *weights), eps=1e-5, atol=1e-5, rtol=1e-4)


def test_gradcheck_of_a_debiased_plain_distance(clouds, weights):
    def found(*arguments):
        return distance(*arguments, metric="w2", entropy=0.4, debias=True, tol=1e-11, max_iter=3000)

    assert torch.autograd.gradcheck(found, (*clouds, *weights), eps=1e-5, atol=1e-5, rtol=1e-4)


def test_second_derivatives_are_refused(clouds):
    (gradient,) = torch.autograd.grad(distance(*clouds), clouds[0], create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        gradient.sum().backward()


def test_values_are_those_of_numpy(clouds, weights):
    arrays = [one.detach().numpy() for one in (*clouds, *weights)]
    expected = robust_ot.distance(*arrays, metric="srw", k=2, tol=1e-6)
    value, lower = distance(*clouds, *weights, metric="srw", k=2, return_bounds=True)
    assert (value.item(), lower.item()) == (expected.value, expected.lower_bound)
    assert value.requires_grad and not lower.requires_grad
    assert isinstance(distance(*clouds, return_bounds=True), Bounded)
    with torch.no_grad():
        assert not distance(*clouds).requires_grad


@pytest.mark.parametrize("entropy", [0.0, 0.3])
def test_batches_are_their_clouds(rng, entropy):
    X, Y = tensor(rng.normal(size=(3, 6, 2))), tensor(rng.normal(size=(3, 5, 2)))
    a = tensor(rng.random((3, 6)) + 0.1)
    found = distance(X, Y, a, entropy=entropy)
    assert found.shape == (3,)
    scales = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
    (found * scales).sum().backward()
    for at in range(3):
        x, y, w = (one[at].detach().clone().requires_grad_() for one in (X, Y, a))
        single = distance(x, y, w, entropy=entropy)
        assert single.item() == found[at].item()
        (single * scales[at]).backward()
        for of_batch, alone in ((X, x), (Y, y), (a, w)):
            torch.testing.assert_close(of_batch.grad[at], alone.grad, rtol=0, atol=0)


def test_lists_of_different_sizes_and_one_cloud_beside_them(rng):
    clouds = [tensor(rng.normal(size=(n, 2))) for n in (3, 7, 5)]
    target = tensor(rng.normal(size=(4, 2)))
    found = distance(clouds, target)
    found.sum().backward()
    each = [distance(cloud, target.detach()).item() for cloud in clouds]
    assert found.tolist() == each
    parts = [robust_ot.distance(c.detach().numpy(), target.detach().numpy(), tol=1e-6).gradient() for c in clouds]
    np.testing.assert_allclose(target.grad.numpy(), sum(part.Y for part in parts), atol=1e-12)
    for cloud, part in zip(clouds, parts, strict=True):
        np.testing.assert_allclose(cloud.grad.numpy(), part.X, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_precision_is_kept(rng, dtype):
    X, Y = (torch.tensor(rng.normal(size=(6, 3))).to(dtype).requires_grad_() for _ in range(2))
    found = distance(X, Y)
    assert found.dtype == (torch.float32 if dtype == torch.float16 else dtype)
    found.backward()
    assert X.grad.dtype == dtype
    exact = robust_ot.distance(X.detach().double().numpy(), Y.detach().double().numpy(), tol=1e-6)
    np.testing.assert_allclose(
        X.grad.double().numpy(), exact.gradient().X, rtol=2e-3 if dtype == torch.float16 else 1e-6, atol=1e-3
    )


def test_a_module_flows_one_cloud_into_another(rng):
    X, Y = tensor(rng.normal(size=(20, 2))), torch.tensor(rng.normal(size=(20, 2)) + 2)
    criterion = RobustDistance(metric="w2")
    start = criterion(X, Y).item()
    optimizer = torch.optim.SGD([X], lr=5.0)
    for _ in range(12):
        optimizer.zero_grad()
        criterion(X, Y).backward()
        optimizer.step()
    assert criterion(X, Y).item() < 1e-6 * start
    assert repr(criterion) == "RobustDistance(metric='w2')"
    with pytest.raises(TypeError, match="metrics is not a setting of distance; those are metric, k"):
        RobustDistance(metrics="w2")


def test_a_debiased_flow_ends_at_the_target(rng):
    """The gradient for a fixed metric is a descent direction, and it vanishes between equal clouds."""
    X, Y = tensor(rng.normal(size=(8, 2)) * 0.5), torch.tensor(rng.normal(size=(8, 2)) + [2, 0])
    values = []
    for _ in range(60):
        value = distance(X, Y, entropy=0.2, debias=True)
        (gradient,) = torch.autograd.grad(value, X)
        values.append(value.item())
        with torch.no_grad():
            X -= 2.0 * gradient
    assert min(values) >= 0 and values[-1] < 0.02 * values[0]
    same = Y.clone().requires_grad_()
    distance(same, Y, entropy=0.2, debias=True, tol=1e-10).backward()
    assert same.grad.abs().max() < 1e-6


def test_an_open_gap_is_a_warning(rng):
    X, Y = (torch.tensor(rng.normal(size=(30, 10))) for _ in range(2))
    with pytest.warns(robust_ot.ConvergenceWarning, match="distance did not converge; the relative gap is"):
        distance(X, Y, max_iter=1)
    with pytest.warns(robust_ot.ConvergenceWarning, match="2 of 2 distances did not converge"):
        distance([X, X], Y, max_iter=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2)), torch.zeros(2, 2)), "X must be a tensor or a list of tensors that is not empty, but is a ndarray"),
        (([], torch.zeros(2, 2)), "X must be a tensor or a list of tensors that is not empty"),
        (
            (torch.zeros(2), torch.zeros(2, 2)),
            r"X must have 2 dimensions, or 3 for a batch that is not empty, but has shape \(2,\)",
        ),
        (([torch.zeros(2)], torch.zeros(2, 2)), r"X\[0\] must be a tensor with 2 dimensions, but is \(2,\)"),
        ((torch.zeros(2, 2, 2), torch.zeros(3, 2, 2)), "batches of the same size, but X has 2 clouds of 3"),
        (
            (torch.zeros(2, 2, dtype=torch.int64), torch.zeros(2, 2)),
            "X must be a tensor of floating-point numbers, but is torch.int64",
        ),
        ((torch.zeros(2, 2), torch.zeros(2, 3)), "X, Y: "),
        ((torch.full((2, 2), float("nan")), torch.zeros(2, 2)), "X: "),
        (([torch.zeros(2, 2), torch.full((2, 2), float("inf"))], torch.zeros(2, 2)), r"X\[1\]: "),
        ((torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([1.0, -1.0])), "a: "),
        (
            (torch.zeros(2, 2), torch.zeros(2, 2), [torch.ones(2)] * 2),
            "a must have weights for each of the 1 clouds of X, but has 2",
        ),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        distance(*arguments)


def test_sweeps_can_be_counted(rng):
    X, Y = tensor(rng.normal(size=(40, 3))), tensor(rng.normal(size=(50, 3)) + 1.0)
    best = distance(X, Y, metric="w2", entropy=0.1, tol=1e-9, return_bounds=True)
    gaps = []
    for sweeps in (1, 3, 30):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", robust_ot.ConvergenceWarning)
            found = distance(X, Y, metric="w2", entropy=0.1, max_iter=1, max_sweeps=sweeps, tol=1e-9, return_bounds=True)
        assert found.lower_bound <= best.value
        assert best.lower_bound <= found.value
        gaps.append((found.value - found.lower_bound).item())
    assert gaps[0] > gaps[1] > gaps[2]


gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@gpu
@pytest.mark.parametrize(
    "settings",
    [{"metric": "w2"}, {"metric": "p"}, {"metric": "p", "k": 2, "groups": 3}, {"metric": "kl", "lam": 30.0}, {"metric": "rkp"}],
)
@pytest.mark.parametrize("shape", [(1, 7, 4), (60, 50, 5), (130, 257, 70)])
def test_clouds_on_a_card_are_solved_there(rng, settings, shape):
    m, n, d = shape
    arrays = [rng.normal(size=(m, d)), rng.normal(size=(n, d)) + 0.3, rng.random(m) + 0.1, rng.random(n) + 0.1]
    found = []
    for device in ("cpu", "cuda"):
        arguments = [torch.tensor(array, device=device, requires_grad=True) for array in arrays]
        bounds = distance(*arguments, entropy=0.3, tol=1e-9, return_bounds=True, device=device, **settings)
        bounds.value.backward()
        assert bounds.value.device.type == device
        found.append((bounds.lower_bound.item(), bounds.value.item(), [argument.grad.cpu() for argument in arguments]))
    (low, high, here), (lower, upper, there) = found
    assert low <= upper
    assert lower <= high
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(one.abs().max()))


@gpu
def test_a_bad_point_on_a_card_is_named():
    X = torch.zeros(20, 3, device="cuda")
    X[4, 1] = torch.nan
    with pytest.raises(ValueError, match="row 5, column 2"):
        distance(X, torch.ones(9, 3, device="cuda"), entropy=0.1)
