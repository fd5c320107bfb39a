"""Train a torch network with the robust loss on a Ray cluster, and find the nearest documents there.

Two workers train one network under torch's DistributedDataParallel. Network and optimizer are saved through Ray after every
epoch, and a second call continues from the last checkpoint. Then the nearest neighbors of some documents are found without
computing all distances. The cluster here is this machine; another one needs only its address. Needs torch and Ray.
"""

import functools
import logging
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np

try:
    import ray
    import torch
    from robust_ot import distributed
    from robust_ot.ray_train import load_checkpoint, torch_trainer
    from robust_ot.torch import RobustOTLoss
    from torch import nn
except ImportError as error:
    sys.exit(f"on_a_cluster.py needs Ray and torch: pip install 'robust-ot[ray,torch]' ({error})")


def samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of nine classes in three families."""
    fixed = np.random.default_rng(0)
    centers = fixed.normal(size=(9, 20)) + np.repeat(fixed.normal(size=(3, 20)), 3, axis=0)
    rng = np.random.default_rng(seed)
    y = rng.integers(9, size=count)
    return (centers[y] + 2.0 * rng.normal(size=(count, 20))).astype(np.float32), y


def documents(count: int) -> list[np.ndarray]:
    """Return bags of words of six topics."""
    rng = np.random.default_rng(2)
    topics = 1.5 * rng.normal(size=(6, 10))
    return [topics[at % 6] + rng.normal(size=(20, 10)) for at in range(count)]


def main(picture: str) -> None:
    """Train, continue, find neighbors, draw."""
    ray.init("local", num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    X, y = samples(2000, 3)
    rows = ray.data.from_items([{"features": point, "label": label} for point, label in zip(X, y, strict=True)])
    vectors = np.repeat(np.eye(3), 3, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(9, 3))

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 9))
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for epochs in (4, 8):
            trainer = torch_trainer(
                network,
                RobustOTLoss(vectors),
                rows,
                optimizer=functools.partial(torch.optim.Adam, lr=3e-3),
                batch=100,
                epochs=epochs,
                workers=2,
                run_config=ray.train.RunConfig(name="families", storage_path=folder),
            )
            result = trainer.fit()
            assert result.metrics is not None
            assert result.metrics["epoch"] == epochs
            losses.append(result.metrics["loss"])
            print(f"after {epochs} epochs: loss {losses[-1]:.3f}")
        load_checkpoint(result.checkpoint, network)
    X_test, y_test = samples(1000, 4)
    with torch.no_grad():
        best = network(torch.from_numpy(X_test)).argmax(-1).numpy()
    right, family = float((best == y_test).mean()), float((best // 3 == y_test // 3).mean())
    print(f"right class {right:.3f}, right family {family:.3f}")
    assert losses[1] < losses[0]

    near = distributed.nearest(documents(60), 5, progress=False)
    same = float((near.indices % 6 == np.arange(60)[:, None] % 6).mean())
    print(f"{same:.0%} of the nearest have the same topic; {near.solved} of {near.pairs} distances were solved")
    ray.shutdown()

    fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    confusion = np.zeros((9, 9))
    np.add.at(confusion, (y_test, best), 1)
    image = axes[0].imshow(confusion / confusion.sum(axis=1, keepdims=True), cmap="viridis", vmin=0)
    axes[0].set(xlabel="predicted class", ylabel="true class", title=f"trained by two workers: right family {family:.0%}")
    fig.colorbar(image, ax=axes[0], shrink=0.8, label="fraction of the class")
    axes[1].scatter(np.repeat(np.arange(60), 5), near.indices.ravel(), c=near.distances.ravel(), s=18, cmap="viridis_r")
    axes[1].set(xlabel="document", ylabel="its five nearest", title=f"{near.solved} of {near.pairs} distances solved")
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "on_a_cluster.png")
