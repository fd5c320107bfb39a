import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import robust_ot
from robust_ot.torch import RobustOTLoss

ACCURATE = {"fw_iterations": 200, "sinkhorn_iterations": 2000, "tolerance": 1e-13, "entropy": 0.3}


@pytest.fixture(autouse=True)
def same_numbers():
    """Draw the same predictions every time, since finite differences of the loss are inaccurate at tiny probabilities."""
    torch.manual_seed(0)


def vectors(rng, labels=5, dim=4):
    return rng.normal(size=(labels, dim))


@pytest.mark.parametrize(
    "metric", [{"metric": "p"}, {"metric": "kl", "lam": 2.0}, {"metric": "ds", "groups": 2}, {"metric": "w2"}]
)
@pytest.mark.parametrize("given", ["logits", "probabilities"])
def test_gradcheck_in_double(rng, metric, given):
    loss = RobustOTLoss(vectors(rng), mix_ce=0.5, mix_ot=2.0, input=given, reduction="none", **metric, **ACCURATE)
    z = torch.randn(3, 5, dtype=torch.float64)
    if given == "probabilities":
        z = z.softmax(-1)
    z.requires_grad_()
    classes = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda z: loss(z, classes), z)
    several = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 1]])
    assert torch.autograd.gradcheck(lambda z: loss(z, several), z, atol=1e-4, rtol=1e-3)


def test_it_is_the_function_and_cross_entropy(rng):
    V = vectors(rng)
    z, y = torch.randn(7, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0, 1])
    of_length_one = V / np.linalg.norm(V, axis=1, keepdims=True)
    expected, _ = robust_ot.loss_gradient(z.softmax(-1).numpy(), y.numpy(), of_length_one, groups=4)
    ours = RobustOTLoss(V, mix_ce=0.0, mix_ot=1.0, reduction="none")(z, y)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9)
    plain = RobustOTLoss(V, mix_ce=1.0, mix_ot=0.0)(z, y)
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(z, y))
    mixed = RobustOTLoss(V, mix_ce=2.0, mix_ot=3.0)(z, y)
    torch.testing.assert_close(mixed, 2 * plain + 3 * ours.mean())


def test_batches_of_any_shape_and_reductions(rng):
    V = vectors(rng)
    z = torch.randn(2, 3, 5)
    y = torch.randint(5, (2, 3))
    none = RobustOTLoss(V, reduction="none")(z, y)
    assert none.shape == (2, 3)
    torch.testing.assert_close(RobustOTLoss(V, reduction="sum")(z, y), none.sum())
    torch.testing.assert_close(RobustOTLoss(V)(z, y), none.mean())
    hot = torch.nn.functional.one_hot(y, 5)
    torch.testing.assert_close(RobustOTLoss(V, reduction="none")(z, hot), none)
    assert RobustOTLoss(V, reduction="none")(z[0, 0], y[0, 0]).shape == ()
    transposed = torch.randn(5, 3).T
    assert torch.isfinite(RobustOTLoss(V)(transposed, torch.tensor([0, 1, 2])))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(rng, dtype):
    V = vectors(rng)
    z = torch.randn(4, 5).to(dtype).requires_grad_()
    y = torch.tensor([0, 1, 2, 3])
    loss = RobustOTLoss(V)(z, y)
    loss.backward()
    same = z.detach().float().requires_grad_()
    expected = RobustOTLoss(V)(same, y)
    expected.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == expected.item()
    assert z.grad.dtype == dtype
    torch.testing.assert_close(z.grad, same.grad.to(dtype))


def test_a_network_learns_with_it(rng):
    torch.manual_seed(0)
    X = torch.randn(300, 6)
    y = (X[:, :3]).argmax(1)
    network = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    loss = RobustOTLoss(np.eye(3))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    first = loss(network(X), y).item()
    for _ in range(150):
        optimizer.zero_grad()
        value = loss(network(X), y)
        value.backward()
        optimizer.step()
    assert value.item() < 0.3 * first
    assert (network(X).argmax(1) == y).float().mean() > 0.95


def test_explanations_are_plans_of_the_last_batch(rng):
    V = vectors(rng)
    loss = RobustOTLoss(V, **ACCURATE)
    with pytest.raises(RuntimeError, match="call the loss first"):
        loss.explain()
    z = torch.randn(2, 5)
    loss(z, torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 1, 0]]))
    first, second = loss.explain()
    assert first.labels.tolist() == [0, 2]
    assert first.plan.shape == (5, 2)
    np.testing.assert_allclose(first.plan.sum(1), z[0].softmax(-1), rtol=1e-5)
    np.testing.assert_allclose(first.plan.sum(0), [0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(second.plan[:, 0], z[1].softmax(-1), rtol=1e-5)
    assert first.metric.shape == (4, 4)
    assert np.linalg.norm(first.metric) == pytest.approx(1)


def test_it_pickles_and_moves_with_its_network(rng):
    loss = RobustOTLoss(torch.from_numpy(vectors(rng)), metric="kl", lam=2.0)
    z, y = torch.randn(3, 5), torch.tensor([0, 1, 2])
    again = pickle.loads(pickle.dumps(loss))
    assert again(z, y).item() == loss(z, y).item()
    assert "metric='kl'" in repr(loss)
    assert list(loss.parameters()) == []


@pytest.mark.parametrize(
    ("z", "y", "message"),
    [
        (
            torch.zeros(2, 4),
            torch.tensor([0, 1]),
            r"one entry per label in its last dimension, 5, but has shape \(2, 4\)",
        ),
        (torch.zeros(2, 5), torch.tensor([0, 5]), "class indices below 5, but one is 5"),
        (torch.zeros(2, 5), torch.tensor([0, -1]), "class indices below 5, but one is -1"),
        (torch.zeros(2, 5), torch.tensor([0.0, 1.0]), "class indices .* but is torch.float32"),
        (
            torch.zeros(2, 5),
            torch.zeros(3, dtype=torch.long),
            r"target must have shape \(2,\) or \(2, 5\), but has \(3,\)",
        ),
        (torch.zeros(2, 5), torch.zeros(2, 5), "every row a label, but row 0 has none"),
        (torch.zeros(2, 5), torch.full((2, 5), 0.5), "0 or 1"),
        (torch.full((2, 5), float("nan")), torch.tensor([0, 1]), "must be finite"),
    ],
)
def test_bad_tensors_are_named(rng, z, y, message):
    with pytest.raises(ValueError, match=message):
        RobustOTLoss(vectors(rng))(z, y)


def test_bad_losses_are_named(rng):
    for keywords, message in (
        ({"mix_ot": -1.0}, "mix_ot must be finite and not negative"),
        ({"input": "scores"}, "input must be"),
        ({"reduction": "max"}, "reduction must be"),
        ({"metric": "euclid"}, "metric must be"),
        ({"groups": 9}, "groups must be between 1 and the number of features, 4, but is 9"),
    ):
        with pytest.raises(ValueError, match=message):
            RobustOTLoss(vectors(rng), **keywords)


def test_an_empty_batch_has_no_losses(rng):
    assert RobustOTLoss(vectors(rng), reduction="none")(torch.zeros(0, 5), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_labels_that_are_ruled_out(rng):
    loss = RobustOTLoss(vectors(rng))
    z = torch.tensor([[0.0, 1.0, -torch.inf, 2.0, 0.5]], requires_grad=True)
    value = loss(z, torch.tensor([1]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(z.grad).all()
    saturated = torch.softmax(torch.tensor([[200.0, 0.0, 0.0, -200.0, 1.0]]), -1)
    assert (saturated == 0).any()
    assert torch.isfinite(RobustOTLoss(vectors(rng), input="probabilities")(saturated, torch.tensor([0])))
    plain = RobustOTLoss(vectors(rng), mix_ot=0.0)(z, torch.tensor([1]))
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(z, torch.tensor([1])))


def test_a_second_derivative_is_refused_and_not_zero(rng):
    loss = RobustOTLoss(vectors(rng), mix_ce=0.0, mix_ot=1.0)
    z = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(z, torch.tensor([0, 1])), z, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        gradient.square().sum().backward()


def test_the_callers_vectors_are_copied(rng):
    V, z, y = vectors(rng), torch.randn(2, 5), torch.tensor([0, 1])
    loss = RobustOTLoss(V)
    before = loss(z, y).item()
    V *= 100
    assert pickle.loads(pickle.dumps(loss))(z, y).item() == before
    assert RobustOTLoss(torch.eye(5, dtype=torch.bfloat16))(z, y).isfinite()
    with pytest.raises(ValueError, match="target must be a tensor, but is a ndarray"):
        loss(z, y.numpy())


@pytest.mark.parametrize("given", ["logits", "probabilities"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_compile_makes_one_graph(rng, given, reduction):
    torch.compiler.reset()
    loss = RobustOTLoss(vectors(rng), input=given, reduction=reduction)
    z = torch.randn(2, 3, 5, dtype=torch.float64)
    z = (z.softmax(-1) if given == "probabilities" else z).requires_grad_()
    for target in (torch.randint(5, (2, 3)), (torch.rand(2, 3, 5) < 0.5).long().index_fill(-1, torch.tensor([1]), 1)):
        wanted = loss(z, target)
        (slopes,) = torch.autograd.grad(wanted.sum(), z)
        found = torch.compile(loss, fullgraph=True, backend="aot_eager")(z, target)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), z)[0], slopes)


def test_the_operator_is_what_torch_expects(rng):
    loss = RobustOTLoss(vectors(rng))
    for dtype in (torch.float32, torch.float64):
        z = torch.randn(3, 5, dtype=dtype, requires_grad=True)
        torch.library.opcheck(torch.ops.robust_ot.loss.default, (z, torch.tensor([0, 4, 2]), loss._key))


def test_copies_of_a_loss_are_losses_of_their_own(rng):
    loss = RobustOTLoss(vectors(rng))
    again = copy.deepcopy(loss)
    z, y = torch.randn(3, 5), torch.tensor([0, 1, 2])
    wanted = loss(z, y).item()
    del loss
    assert again(z, y).item() == wanted


def test_later_changes_of_the_batch_do_not_reach_explanations(rng):
    loss = RobustOTLoss(vectors(rng))
    z, y = torch.randn(1, 5), torch.tensor([2])
    loss(z, y)
    before = loss.explain()[0].loss
    z += torch.arange(5.0)
    y[0] = 0
    assert loss.explain()[0].loss == before


def test_max_labels_is_checked(rng):
    for wrong in (0, 2.5, True):
        with pytest.raises(ValueError, match="max_labels must be a whole number of at least 1"):
            RobustOTLoss(vectors(rng), max_labels=wrong)
