"""What runs on a GPU if one is available, and the errors if none is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import robust_ot
from robust_ot import _core


def _has_card() -> bool:
    try:
        robust_ot.distance([[0.0]], [[1.0]], entropy=1.0, device="cuda")
    except RuntimeError:
        return False
    return True


def classifier(*arguments: Any, **keywords: Any) -> Any:
    pytest.importorskip("sklearn")
    return robust_ot.RobustOTClassifier(*arguments, **keywords)


HAS_GPU = _has_card()
gpu = pytest.mark.skipif(not HAS_GPU, reason="no CUDA device")


def clouds(seed: int, count: int = 60, dim: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, dim)), rng.normal(size=(count + 7, dim)) + 0.3


def test_exact_plans_are_not_for_a_card() -> None:
    X, Y = clouds(0)
    with pytest.raises(ValueError, match="entropy must be above 0"):
        robust_ot.distance(X, Y, device="cuda")
    assert robust_ot.distance(X, Y).device == "cpu"


@pytest.mark.parametrize("device", ["gpu", "cuda:x", ""])
def test_devices_have_names(device: str) -> None:
    X, Y = clouds(0)
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:N"):
        robust_ot.distance(X, Y, device=device)
    with pytest.raises(ValueError, match="device"):
        classifier(device=device).fit(X, np.arange(len(X)) % 2)


@pytest.mark.skipif(HAS_GPU, reason="a CUDA device is available")
def test_a_card_that_is_not_there_is_an_error() -> None:
    X, Y = clouds(0)
    with pytest.raises(RuntimeError, match="cuda:0: "):
        robust_ot.distance(X, Y, entropy=0.1, device="cuda")
    with pytest.raises(RuntimeError, match="cuda:3: "):
        robust_ot.pairwise([X, Y], entropy=0.1, device="cuda:3")
    with pytest.raises(RuntimeError, match="cuda:0: "):
        classifier("ce", device="cuda").fit(X, np.arange(len(X)) % 2)
    assert robust_ot.distance(X, Y, entropy=0.1, device="auto").device == "cpu"


@gpu
def test_distances_agree() -> None:
    X, Y = clouds(1)
    here = robust_ot.distance(X, Y, entropy=0.2, device="cpu")
    there = robust_ot.distance(X, Y, entropy=0.2, device="cuda")
    assert there.device.startswith("cuda:0") and here.device == "cpu"
    assert there.lower_bound <= here.value and here.lower_bound <= there.value
    assert abs(there.value - here.value) <= 2e-4 * here.transport_cost
    np.testing.assert_allclose(there.plan().sum(axis=0), 1 / len(Y), rtol=1e-9)
    cloud = [clouds(seed)[0] for seed in range(5)]
    matrices = [robust_ot.pairwise(cloud, entropy=0.2, groups=3, device=device) for device in ("cpu", "cuda")]
    np.testing.assert_allclose(matrices[0].matrix, matrices[1].matrix, rtol=2e-3, atol=1e-3)


@gpu
def test_classifiers_agree() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(4, size=300)
    X = rng.normal(size=(300, 9)) + 2 * np.eye(4, 9)[y]
    vectors = rng.normal(size=(4, 5))
    here, there = (
        classifier(label_vectors=vectors, epochs=5, validation=0, device=device).fit(X, y) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="fw_iterations must be 1"):
        classifier(label_vectors=vectors, fw_iterations=3, device="cuda").fit(X, np.eye(4)[y] + np.eye(4)[(y + 1) % 4])
    with pytest.raises(ValueError, match="only the CPU computes"):
        classifier("srw", label_vectors=vectors, device="cuda").fit(X, y)


torch = pytest.importorskip("torch")
torch_gpu = pytest.mark.skipif(not (HAS_GPU and torch.cuda.is_available()), reason="no CUDA device for torch")


def batch(seed: int, several: bool, device: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(40, 12))
    logits = torch.tensor(rng.normal(size=(23, 40)), dtype=torch.float32, device=device, requires_grad=True)
    if not several:
        return vectors, logits, torch.tensor(rng.integers(40, size=23), device=device)
    truth = (rng.random((23, 40)) < 0.1).astype(int)
    truth[truth.sum(axis=1) == 0, 3] = 1
    return vectors, logits, torch.tensor(truth, device=device)


@torch_gpu
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("metric", ["p", "kl", "ds", "features", "w2", "p-power"])
def test_losses_of_torch_agree(metric: Any, several: bool) -> None:
    from robust_ot.torch import RobustOTLoss

    found = []
    for device in ("cpu", "cuda"):
        vectors, logits, target = batch(3, several, device)
        loss = RobustOTLoss(vectors, metric=metric, lam=30.0, mix_ot=3.0, groups=4, reduction="none")
        losses = loss(logits, target)
        losses.sum().backward()
        found.append((losses.detach().cpu().numpy(), logits.grad.cpu().numpy()))
        assert losses.device.type == device and len(loss.explain()) == 23
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4)
    scale = np.abs(found[0][1]).max()
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-3, atol=1e-4 * scale)


@torch_gpu
def test_losses_follow_the_stream_of_torch() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = batch(4, True, "cuda")
    loss = RobustOTLoss(vectors, groups=4)
    wanted = float(loss(logits, target).detach())
    for _ in range(20):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # Work queued before the loss on the same stream; the loss must run after it.
            late = logits.detach().clone().zero_()
            for _ in range(50):
                late = late + logits.detach() / 50
            found = loss(late, target)
        torch.cuda.current_stream().wait_stream(stream)
        assert abs(float(found) - wanted) < 1e-4


@torch_gpu
def test_a_network_learns_under_autocast() -> None:
    from robust_ot.torch import RobustOTLoss

    torch.manual_seed(0)
    rng = np.random.default_rng(5)
    y = rng.integers(6, size=400)
    X = torch.tensor(rng.normal(size=(400, 20)) + 2 * np.eye(6, 20)[y], dtype=torch.float32, device="cuda")
    target = torch.tensor(y, device="cuda")
    network = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 6)).cuda()
    loss = RobustOTLoss(rng.normal(size=(6, 5)))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            value = loss(network(X), target)
        value.backward()
        optimizer.step()
    assert (network(X).argmax(dim=1) == target).float().mean() > 0.9


@torch_gpu
def test_what_is_not_for_a_card_is_refused() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = batch(6, False, "cuda")
    with pytest.raises(ValueError, match="float64"):
        RobustOTLoss(vectors)(logits.double(), target)
    with pytest.raises(ValueError, match="on the device of input"):
        RobustOTLoss(vectors)(logits, target.cpu())
    with pytest.raises(ValueError, match="metric must be"):
        RobustOTLoss(vectors, metric="srw")(logits, target)
    with pytest.raises(RuntimeError, match="cuda:99"):
        _core.CudaLoss(RobustOTLoss(vectors)._core, 99)
