"""Training on a real cluster of two Ray nodes, compared with one process on the same batches."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from robust_ot import RobustOTClassifier

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

from ray.cluster_utils import Cluster
from robust_ot import _ray_fit, distributed

VECTORS = np.random.default_rng(5).normal(size=(3, 4))
#: Rows of a torch worker are not fixed, so that single-precision sums differ; with unit vectors, by less than 5e-7.
UNIT_VECTORS = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def cluster(ray_system):
    """Two nodes; the cores that workers leave free read the data."""
    size = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
    found = Cluster(initialize_head=True, head_node_args={**size, "_system_config": ray_system})
    found.add_node(**size)
    ray.init(address=found.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield found
    ray.shutdown()
    found.shutdown()


def table(rows=103, several=False, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=rows)
    X = rng.normal(size=(rows, 5)) + 2 * np.eye(3, 5)[classes]
    matrix = (rng.random((rows, 3)) < 0.3) | np.eye(3, dtype=bool)[classes]
    return X, matrix.astype(np.int64) if several else classes


def on_ray(X, y):
    items = [{"features": row, "label": label} for row, label in zip(X, y, strict=True)]
    return ray.data.from_items(items, override_num_blocks=5)


def batches(rows, batch, workers):
    """The rows of every step: each worker has a contiguous share of the rows and takes its part of every batch in order."""
    cuts = [batch * w // workers for w in range(workers + 1)]
    bounds = [rows * cut // batch for cut in cuts]
    shares = [list(range(bounds[w], bounds[w + 1])) for w in range(workers)]
    while any(shares):
        step = []
        for w, share in enumerate(shares):
            step += [share.pop(0) for _ in range(min(cuts[w + 1] - cuts[w], len(share)))]
        yield step


@pytest.mark.parametrize(
    ("several", "options"),
    [
        (False, {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05}),
        (False, {"lr": 0.01, "weight_decay": 0.001}),
        (True, {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05}),
        (True, {"lr": 0.01, "weight_decay": 0.001}),
        (False, {"lr": 0.05, "row_length": 3.0}),
    ],
)
def test_the_model_of_one_process_with_the_same_batches(cluster, several, options):
    X, y = table(several=several)
    # Where a tolerance stops the loss of rows with several labels depends on the last digits, so that its iterations are fixed.
    fixed = {"loss_tolerance": 0.0} if several else {}
    options = {"label_vectors": VECTORS, "batch": 25, "epochs": 4, **fixed, **options}
    found = distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", workers=3, shuffle=0, progress=False)
    alone = RobustOTClassifier(**options)
    for _ in range(4):
        for step in batches(len(X), 25, 3):
            alone.partial_fit(X[step], y[step], classes=None if several else [0, 1, 2])
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.intercept_, alone.intercept_, rtol=0, atol=1e-6)
    assert np.abs(found.coef_).max() > 0.1
    assert found.n_iter_ == 4
    assert found.metric_.shape == (4, 4)
    assert (found.threshold_ is not None) == several
    assert found.score(X, y) > (0.2 if several else 0.6)


def test_rows_come_in_the_order_they_are_stored_in(cluster):
    X, y = table(rows=96)

    def late_first(rows):
        time.sleep(0.5 if rows["at"].min() < 24 else 0.0)
        return rows

    items = [{"features": X[at], "label": y[at], "at": at} for at in range(len(X))]
    data = ray.data.from_items(items, override_num_blocks=4).map_batches(late_first, batch_size=None)
    options = {"label_vectors": VECTORS, "batch": 32, "epochs": 2, "lr": 0.05}
    found = distributed.fit(
        RobustOTClassifier(**options), data, "label", features="features", workers=1, shuffle=0, progress=False
    )
    alone = RobustOTClassifier(**options)
    for _ in range(2):
        for step in batches(len(X), 32, 1):
            alone.partial_fit(X[step], y[step], classes=[0, 1, 2])
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=0, atol=1e-6)


def test_the_numbers_of_workers_differ_by_rounding_alone(cluster):
    X, y = table(rows=96)
    models = []
    for workers in (1, 4):
        model = RobustOTClassifier(label_vectors=VECTORS, batch=96, epochs=4, lr=0.05)
        models.append(distributed.fit(model, on_ray(X, y), "label", workers=workers, progress=False))
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=0, atol=1e-6)
    again = RobustOTClassifier(label_vectors=VECTORS, batch=96, epochs=4, lr=0.05)
    distributed.fit(again, on_ray(X, y), "label", workers=4, progress=False)
    np.testing.assert_array_equal(again.coef_, models[1].coef_)


def test_columns_of_numbers_and_the_method_itself(cluster):
    X, y = table(several=True)
    names = ["red", "green", "blue"]
    columns = {f"x{at}": X[:, at] for at in range(5)} | {name: y[:, at] for at, name in enumerate(names)}
    data = ray.data.from_items([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    model = RobustOTClassifier(epochs=3, random_state=1).fit(data, names)
    assert list(model.classes_) == names
    assert model.n_features_in_ == 5
    before = model.coef_.copy()
    model.partial_fit(X, y)
    assert model.n_iter_ == 4
    assert 0 < np.abs(model.coef_ - before).max() < 0.1


def test_a_killed_worker_changes_nothing(cluster):
    X, y = table(rows=400)
    options = {"label_vectors": VECTORS, "batch": 8, "epochs": 6}
    undisturbed = distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", workers=2, progress=False)
    killed = []

    def kill():
        while not killed:
            time.sleep(0.05)
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    name = (folder / "cmdline").read_bytes()
                    # Not during its construction.
                    if name.startswith((b"ray::_Worker.slopes", b"ray::_Worker.step", b"ray::_Worker.add")) and not killed:
                        os.kill(int(folder.name), signal.SIGKILL)
                        killed.append(int(folder.name))

    thread = threading.Thread(target=kill)
    thread.start()
    found = distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", workers=2, progress=False)
    killed.append(0)
    thread.join()
    assert len(killed) == 2, "no worker was killed"
    np.testing.assert_array_equal(found.coef_, undisturbed.coef_)


def test_a_run_that_died_goes_on(cluster, tmp_path, monkeypatch):
    X, y = table()
    options = {"label_vectors": VECTORS, "epochs": 5}
    expected = distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", workers=2, progress=False)
    whole_epoch, seen = _ray_fit._Team.epoch, []

    def dies(self, epoch, *rest):
        seen.append(epoch)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return whole_epoch(self, epoch, *rest)

    monkeypatch.setattr(_ray_fit._Team, "epoch", dies)
    arguments = {"workers": 2, "progress": False, "out": tmp_path / "out"}
    with pytest.raises(KeyboardInterrupt):
        distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", **arguments)
    found = distributed.fit(RobustOTClassifier(**options), on_ray(X, y), "label", **arguments)
    assert seen == [0, 1, 2, 2, 3, 4]
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.n_iter_ == 5
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["learner-5.safetensors", "lock", "manifest.json"]
    with pytest.raises(ValueError, match="is from another run"):
        distributed.fit(RobustOTClassifier(**options, lr=0.5), on_ray(X, y), "label", **arguments)


def test_rows_without_a_label_are_counted(cluster):
    X, y = table(several=True)
    y[[3, 50]] = 0
    with pytest.warns(UserWarning, match="2 of 103 rows have no label and are left out"):
        distributed.fit(RobustOTClassifier(epochs=2), on_ray(X, y), "label", workers=2, progress=False)


@pytest.mark.parametrize(
    ("change", "keywords", "told"),
    [
        ({}, {"label": "lable"}, "columns of the data.*'lable' is not one"),
        ({}, {"label": None}, "y must name the column of labels"),
        ({}, {"workers": 200}, "workers must be between 1 and the rows per batch, 16, but is 200"),
        ({}, {"threads": 0}, "threads must be at least 1, but is 0"),
        ({}, {"classes": [0, 1]}, "known classes, but one label is 2"),
        ({"standardize": True}, {}, "standardize must be off where rows arrive in parts"),
        ({"target_geometry": "rows"}, {}, "target_geometry must be names where rows arrive in parts"),
        ({"validation": 0.1}, {}, "validation must be None for data on Ray"),
        ({"device": "cuda"}, {}, "device must be 'auto' or 'cpu' for data on Ray"),
        ({"schedule": "linear"}, {}, "schedule must be constant"),
    ],
)
def test_what_is_refused(cluster, change, keywords, told):
    X, y = table(rows=30)
    keywords = {"label": "label", "workers": 2, "progress": False, **keywords}
    with pytest.raises(ValueError, match=told):
        distributed.fit(RobustOTClassifier(epochs=1, **change), on_ray(X, y), **keywords)


def test_a_row_that_is_not_finite_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(_ray_fit, "_SAMPLE", 10)
    X, y = table()
    X[60, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        distributed.fit(RobustOTClassifier(epochs=1), on_ray(X, y), "label", workers=2, progress=False)


class TestTorch:
    """Ray Train with DistributedDataParallel."""

    @pytest.fixture(autouse=True)
    def needs_torch(self):
        pytest.importorskip("torch")
        pytest.importorskip("ray.train")

    @staticmethod
    def trainer(data, tmp_path, **keywords):
        import functools

        import torch
        from robust_ot import ray_train
        from robust_ot.torch import RobustOTLoss

        torch.manual_seed(0)
        network = torch.nn.Linear(5, 3)
        optimizer = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
        run = ray.train.RunConfig(name="run", storage_path=str(tmp_path))
        keywords = {"batch": 96, "epochs": 5, "optimizer": optimizer, "shuffle": 0, "run_config": run, **keywords}
        return network, ray_train.torch_trainer(network, RobustOTLoss(UNIT_VECTORS), data, **keywords)

    def test_steps_are_those_of_one_process_and_a_second_run_goes_on(self, cluster, tmp_path):
        import torch
        from robust_ot.ray_train import load_checkpoint
        from robust_ot.torch import RobustOTLoss

        X, y = table(rows=96)
        data = on_ray(X, y)
        self.trainer(data, tmp_path, epochs=2)[1].fit()
        # Another run of the same name makes only epochs 3 to 5, with a checkpoint each.
        network, trainer = self.trainer(data, tmp_path)
        result = trainer.fit()
        assert len(list((tmp_path / "run").glob("checkpoint_*/"))) == 5
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        loss = RobustOTLoss(UNIT_VECTORS)
        for _ in range(5):
            optimizer.zero_grad()
            value = loss(network(torch.tensor(X, dtype=torch.float32)), torch.tensor(y))
            value.backward()
            optimizer.step()
        assert result.metrics["epoch"] == 5
        assert result.metrics["rows"] == 96
        assert result.metrics["loss"] == pytest.approx(float(value.detach()), abs=1e-6)
        found = load_checkpoint(result.checkpoint, torch.nn.Linear(5, 3))
        for mine, wanted in zip(found.parameters(), network.parameters(), strict=True):
            np.testing.assert_allclose(mine.detach().numpy(), wanted.detach().numpy(), rtol=0, atol=1e-6)

    def test_rows_that_do_not_divide_are_left_out(self, cluster, tmp_path):
        # Shares of 51 rows: two steps of 24 and one of 3.
        _, trainer = self.trainer(on_ray(*table(rows=103)), tmp_path, batch=48, epochs=1, shuffle=50)
        metrics = trainer.fit().metrics
        assert metrics["rows"] == 102
        assert np.isfinite(metrics["loss"])

    @pytest.mark.parametrize(
        ("keywords", "told"),
        [
            ({"batch": 95}, "batch must be a multiple of the 2 workers, but is 95"),
            ({"epochs": 0}, "epochs must be at least 1, but is 0"),
            ({"label": "lable"}, "label must be a column of the data.*'lable'"),
        ],
    )
    def test_what_is_refused(self, cluster, tmp_path, keywords, told):
        with pytest.raises(ValueError, match=told):
            self.trainer(on_ray(*table(rows=10)), tmp_path, **keywords)
