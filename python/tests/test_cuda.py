"""What runs on a GPU if one is available, and the errors if none is."""

from __future__ import annotations

import shutil
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


METRICS = ["w2", "p", "p-power", "kl", "ds", "features", "srw", "rkp"]
# Of double precision on both sides, with linear problems solved to rounding.
EXACT = {"fw_iterations": 1, "sinkhorn_iterations": 2000, "tolerance": 1e-11, "entropy": 0.1}


def of_loss(loss: Any, logits: Any, target: Any, device: str, dtype: Any) -> tuple[Any, Any]:
    """The losses and their gradient, in double precision on the CPU."""
    z = torch.tensor(logits, dtype=dtype, device=device, requires_grad=True)
    losses = loss(z, torch.as_tensor(target, device=device))
    losses.sum().backward()
    assert losses.device.type == device and losses.dtype == dtype
    return losses.detach().cpu().double(), z.grad.cpu().double()


def problem(seed: int, rows: int = 19, labels: int = 70, dim: int = 12, most: int = 9) -> tuple[Any, Any, Any]:
    """Label vectors, logits, and 0/1 targets with 1 to `most` labels a row; one row has 40."""
    rng = np.random.default_rng(seed)
    target = np.zeros((rows, labels), dtype=np.int64)
    for row in range(rows):
        count = min(40, labels) if row == 3 else 1 + (row + seed) % most
        target[row, rng.choice(labels, count, replace=False)] = 1
    return rng.normal(size=(labels, dim)), 2 * rng.normal(size=(rows, labels)), target


@torch_gpu
@pytest.mark.parametrize("wide", [False, True], ids=["table", "factors"])
@pytest.mark.parametrize("metric", METRICS)
def test_one_iteration_agrees_in_both_precisions(metric: Any, wide: bool) -> None:
    from robust_ot.torch import RobustOTLoss

    # Few labels for the size of the vectors have a table of first costs.
    vectors, logits, target = problem(7, labels=150, dim=6) if wide else problem(7)
    keywords: dict[str, Any] = {"metric": metric, "groups": 3, "reduction": "none", "max_labels": 40}
    if metric in ("kl", "ds", "features"):
        keywords["lam"] = 20.0
    if metric == "srw":
        keywords["k"] = 2
    loss = RobustOTLoss(vectors, **keywords, **EXACT)
    for of_target in (target, target.argmax(axis=1)):
        wanted, slopes = of_loss(loss, logits, of_target, "cpu", torch.float64)
        found, found_slopes = of_loss(loss, logits, of_target, "cuda", torch.float64)
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-8)
        torch.testing.assert_close(found_slopes, slopes, rtol=1e-6, atol=1e-7)
    rough = RobustOTLoss(vectors, **keywords, **{**EXACT, "tolerance": 1e-5})
    found, found_slopes = of_loss(rough, logits, target, "cuda", torch.float32)
    wanted, slopes = of_loss(loss, logits, target, "cpu", torch.float64)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found_slopes, slopes, rtol=1e-2, atol=1e-3 * float(slopes.abs().max()))


@torch_gpu
def test_truncated_iterations_agree() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(8)
    loss = RobustOTLoss(vectors, tolerance=0.0, reduction="none", groups=3, max_labels=70)
    wanted, found = (of_loss(loss, logits, target, device, torch.float64) for device in ("cpu", "cuda"))
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-9, atol=1e-10)


@torch_gpu
@pytest.mark.parametrize("labels", [31, 513, 5000])
@pytest.mark.parametrize("rows", [1, 300])
def test_batches_and_labels_of_any_size(rows: int, labels: int) -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(9, rows, labels, dim=20, most=5)
    loss = RobustOTLoss(vectors, groups=4, reduction="none", max_labels=40, fw_iterations=1, tolerance=1e-6, entropy=0.1)
    wanted, slopes = of_loss(loss, logits, target, "cpu", torch.float64)
    for dtype, rtol in ((torch.float64, 1e-4), (torch.float32, 1e-3)):
        found, found_slopes = of_loss(loss, logits, target, "cuda", dtype)
        torch.testing.assert_close(found, wanted, rtol=rtol, atol=1e-4)
        torch.testing.assert_close(found_slopes, slopes, rtol=1e-2, atol=1e-3 * float(slopes.abs().max()))


@torch_gpu
def test_soft_targets() -> None:
    from robust_ot.torch import RobustOTLoss

    rng = np.random.default_rng(10)
    vectors = np.repeat(rng.normal(size=(6, 4)), 2, axis=0)
    logits, weights = rng.normal(size=(5, 12)), rng.random((5, 12)) * (rng.random((5, 12)) < 0.4)
    weights[:, 0] = 0.5
    keywords: dict[str, Any] = {"reduction": "none", "groups": 2, **EXACT}
    # Scale does not matter, and 0/1 is a special case.
    loss = RobustOTLoss(vectors, **keywords)
    found, slopes = of_loss(loss, logits, weights, "cuda", torch.float64)
    again, same = of_loss(loss, logits, 3 * weights, "cuda", torch.float64)
    torch.testing.assert_close(again, found)
    torch.testing.assert_close(same, slopes)
    hard, _ = of_loss(loss, logits, 2.5 * (weights > 0), "cuda", torch.float64)
    torch.testing.assert_close(
        hard, of_loss(loss, logits, (weights > 0).astype(int), "cpu", torch.float64)[0], rtol=1e-7, atol=1e-8
    )
    # Mass that is split between equal labels moves as if it went to one, with the entropy of the split.
    split = np.zeros((5, 12))
    split[:, 4], split[:, 5] = 0.3, 0.7
    transport = RobustOTLoss(vectors, mix_ce=0.0, mix_ot=1.0, **keywords)
    whole, of_whole = of_loss(transport, logits, np.full(5, 4), "cuda", torch.float64)
    parts, of_parts = of_loss(transport, logits, split, "cuda", torch.float64)
    entropy = 0.1 * (0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    torch.testing.assert_close(parts, whole + entropy, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(of_parts, of_whole, rtol=1e-6, atol=1e-8)
    # W2 has one metric, so one iteration is the distance, whose slopes are those of finite differences.
    euclidean = RobustOTLoss(vectors, metric="w2", mix_ce=0.4, mix_ot=2.0, **{**EXACT, "tolerance": 1e-13})
    z = torch.tensor(logits, device="cuda", requires_grad=True)
    y = torch.tensor(weights, device="cuda")
    assert torch.autograd.gradcheck(lambda z: euclidean(z, y), z, atol=1e-5, rtol=1e-4)
    cross = RobustOTLoss(vectors, mix_ot=0.0, reduction="none")
    shares = y / y.sum(dim=1, keepdim=True)
    torch.testing.assert_close(cross(z, y), torch.nn.functional.cross_entropy(z, shares, reduction="none"))


@torch_gpu
def test_types_and_layouts_of_tensors() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(11, rows=24)
    loss = RobustOTLoss(vectors, fw_iterations=1, max_labels=40, reduction="none")
    z, y = torch.tensor(logits, dtype=torch.float32, device="cuda"), torch.tensor(target, device="cuda")
    wanted = loss(z, y)
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    ):
        assert torch.equal(loss(z, y.to(dtype)), wanted), dtype
    # Columns that are not next to each other, every other row, and more than two dimensions.
    assert torch.equal(loss(z.T.contiguous().T, y.T.contiguous().T), wanted)
    assert torch.equal(loss(z.repeat_interleave(2, 0)[::2], y.repeat_interleave(2, 0)[::2]), wanted)
    assert torch.equal(loss(z.reshape(4, 6, -1), y.reshape(4, 6, -1)), wanted.reshape(4, 6))
    classes = y.argmax(dim=1)
    assert torch.equal(loss(z, classes.int()), loss(z, classes))
    assert loss(z[:0], y[:0]).shape == (0,)


@torch_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bad_values_make_their_rows_nan(dtype: Any) -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(12, rows=9)
    keywords: dict[str, Any] = {"fw_iterations": 1, "max_labels": 12, "reduction": "none"}
    loss = RobustOTLoss(vectors, **keywords)
    strict = RobustOTLoss(vectors, validate=True, **keywords)
    z = torch.tensor(logits, dtype=dtype, device="cuda")
    y = torch.tensor(target, dtype=dtype, device="cuda")
    y[3] = 0  # no label
    z[0, 5] = float("nan")
    z[1, 2] = float("inf")
    z[2] = float("-inf")
    y[4, 1] = -1.0
    y[5, 0] = float("nan")
    y[6] = 1.0  # more than 12 labels
    z[7, 3] = float("-inf")  # ruled out, which is allowed
    y[7, 3] = 0.0
    z.requires_grad_()
    losses = loss(z, y)
    losses.sum().backward()
    assert losses.isnan().tolist() == [True] * 7 + [False] * 2
    assert z.grad.isnan().all(dim=1).tolist() == [True] * 7 + [False] * 2
    assert z.grad[7:].isfinite().all()
    alone = loss(z[7:].detach(), y[7:])
    torch.testing.assert_close(losses[7:].detach(), alone, rtol=1e-5, atol=1e-5)
    for row, message in (
        (0, "finite"),
        (1, "finite"),
        (3, "a label"),
        (4, "not negative"),
        (5, "finite"),
        (6, "max_labels=12"),
    ):
        with pytest.raises(ValueError, match=message):
            strict(z[row : row + 1].detach(), y[row : row + 1])
    torch.testing.assert_close(strict(z[7:].detach(), y[7:]), alone)
    classes = torch.tensor([0, 70, -1, 3], device="cuda")
    good = z[[7, 8, 7, 8]].detach()
    assert loss(good, classes).isnan().tolist() == [False, True, True, False]
    with pytest.raises(ValueError, match="below 70, but one is 70"):
        strict(good, classes)
    assert RobustOTLoss(vectors, mix_ot=0.0, reduction="none")(good, classes).isnan().tolist() == [False, True, True, False]
    # A metric out of range: one label is far from all others, and predicted for sure.
    apart = np.ones((70, 1))
    apart[0] = -1.0
    surely = torch.zeros(4, 70, dtype=dtype, device="cuda")
    surely[:, 0] = 50.0
    wrong = torch.arange(1, 5, device="cuda")
    assert RobustOTLoss(apart, metric="kl", lam=0.002, **keywords)(surely, wrong).isnan().all()
    with pytest.raises(ValueError, match="metric is out of range"):
        RobustOTLoss(apart, metric="kl", lam=0.002, validate=True, **keywords)(surely, wrong)


@torch_gpu
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("mix_ot", [0.0, 5.0])
def test_nothing_waits_for_the_device(dense: bool, mix_ot: float) -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(13)
    z = torch.tensor(logits, dtype=torch.float32, device="cuda", requires_grad=True)
    y = torch.tensor(target if dense else target.argmax(axis=1), device="cuda")
    loss = RobustOTLoss(vectors, fw_iterations=1, max_labels=40, mix_ot=mix_ot)
    loss(z, y).backward()
    z.grad = None
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            loss(z, y).backward()
    finally:
        torch.cuda.set_sync_debug_mode(before)
    assert z.grad.isfinite().all()


@torch_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wide", [False, True], ids=["table", "factors"])
def test_graphs_capture_it_and_replay_with_other_inputs(dtype: Any, wide: bool) -> None:
    from robust_ot.torch import RobustOTLoss

    shape = {"labels": 150, "dim": 6} if wide else {}
    vectors, logits, target = problem(14, **shape)
    loss = RobustOTLoss(vectors, groups=3, fw_iterations=1, max_labels=40)
    z = torch.tensor(logits, dtype=dtype, device="cuda", requires_grad=True)
    y = torch.tensor(target, device="cuda")
    with pytest.raises(RuntimeError, match="must not be captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        loss(z, y)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            z.grad = None
            loss(z, y).backward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    z.grad = None
    with torch.cuda.graph(graph):
        value = loss(z, y)
        value.backward()
    for seed in (15, 16, 17):
        # The numbers of labels differ, too.
        _, other, of_other = problem(seed, most=3 + seed % 5, **shape)
        with torch.no_grad():
            z.copy_(torch.tensor(other))
        y.copy_(torch.tensor(of_other))
        graph.replay()
        fresh = z.detach().clone().requires_grad_()
        wanted = loss(fresh, y)
        wanted.backward()
        assert torch.equal(value, wanted) and torch.equal(z.grad, fresh.grad)


@torch_gpu
def test_streams_at_the_same_time() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(18, rows=100)
    loss = RobustOTLoss(vectors, fw_iterations=1, max_labels=40, reduction="none")
    z, y = torch.tensor(logits, dtype=torch.float32, device="cuda"), torch.tensor(target, device="cuda")
    wanted = [loss(z * scale, y) for scale in (0.5, 1.0, 2.0)]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in wanted]
    for _ in range(20):
        found = []
        for stream, scale in zip(streams, (0.5, 1.0, 2.0), strict=True):
            with torch.cuda.stream(stream):
                found.append(loss(z * scale, y))
        torch.cuda.synchronize()
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@torch_gpu
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_makes_one_graph(backend: str) -> None:
    from robust_ot.torch import RobustOTLoss

    if backend == "inductor" and not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("inductor needs a C compiler")
    vectors, _, target = problem(19)
    network = torch.nn.Linear(30, 70, device="cuda")
    x, y = torch.randn(19, 30, device="cuda"), torch.tensor(target, device="cuda")
    loss = RobustOTLoss(vectors, fw_iterations=1, max_labels=40)

    def step(x: Any, y: Any) -> Any:
        return loss(network(x), y)

    wanted = step(x, y)
    wanted.backward()
    slopes = network.weight.grad.clone()
    network.zero_grad()
    value = torch.compile(step, fullgraph=True, backend=backend)(x, y)
    value.backward()
    torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(network.weight.grad, slopes, rtol=1e-2, atol=1e-4)


@torch_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_operator_is_what_torch_expects(dtype: Any) -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = problem(20)
    loss = RobustOTLoss(vectors, fw_iterations=1, max_labels=40)
    z = torch.tensor(logits, dtype=dtype, device="cuda", requires_grad=True)
    torch.library.opcheck(torch.ops.robust_ot.loss.default, (z, torch.tensor(target, device="cuda"), loss._key))
    (slope,) = torch.autograd.grad(loss(z, torch.tensor(target, device="cuda")), z, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        slope.square().sum().backward()


@torch_gpu
def test_what_a_gpu_does_not_compute_is_refused() -> None:
    from robust_ot.torch import RobustOTLoss

    vectors, logits, target = batch(6, False, "cuda")
    with pytest.raises(ValueError, match="on the device of input"):
        RobustOTLoss(vectors)(logits, target.cpu())
    with pytest.raises(RuntimeError, match="max_labels must be at most"):
        many = torch.zeros(1, 40000, device="cuda")
        RobustOTLoss(np.random.default_rng(0).normal(size=(40000, 2)), fw_iterations=1, max_labels=40000)(many, many)
    loss = RobustOTLoss(vectors)
    with pytest.raises(RuntimeError, match="cuda:99"):
        _core.CudaLoss(loss._core, (1.0, 5.0), 99, False)
    # Several Frank-Wolfe iterations run on the CPU, which a graph cannot capture.
    dense = torch.nn.functional.one_hot(target, 40)
    loss(logits, dense)
    with pytest.raises(RuntimeError, match="use fw_iterations=1"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        loss(logits, dense)
