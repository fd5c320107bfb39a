"""Training of networks with the robust loss on a Ray cluster, by torch's DistributedDataParallel under Ray Train.

Needs ``pip install robust-ot[ray,torch]``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

try:
    import ray.train
    import ray.train.torch
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ImportError(f"robust_ot.ray_train needs Ray Train and torch: pip install robust-ot[ray,torch] ({error})") from error

__all__ = ["load_checkpoint", "torch_trainer"]

#: Name of the file in a checkpoint.
_FILE = "state.pt"


def torch_trainer(
    model: nn.Module | Callable[[], nn.Module],
    loss: nn.Module | Callable[[Tensor, Tensor], Tensor],
    data: Any,
    *,
    features: str = "features",
    label: str = "label",
    batch: int = 150,
    epochs: int = 10,
    optimizer: Callable[[Any], torch.optim.Optimizer] = torch.optim.Adam,
    shuffle: int = 10_000,
    seed: int = 0,
    workers: int = 2,
    use_gpu: bool = False,
    run_config: Any = None,
) -> ray.train.torch.TorchTrainer:
    """Prepare the training of a network on a Ray dataset; ``.fit()`` runs it.

    Every worker has a share of the rows and a replica of the network; gradients are averaged by gloo, or by nccl on GPUs.
    With a loss that is a mean over rows, as :class:`robust_ot.torch.RobustOTLoss` is by default, a step equals that of one
    process with the whole batch. Shares have equal length: remaining rows, fewer than there are workers, are left out. After
    every epoch, network and optimizer are saved through Ray, with the loss as a metric; a failed run, or another run of the
    same name, continues from the last checkpoint.

    Parameters
    ----------
    model : Module, or callable that makes one
        The network, from rows of features to what the loss takes.
    loss : Module or callable
        The loss of the network's output and the labels, averaged over rows.
    data : ray.data.Dataset
        The rows.
    features, label : str
        The columns of feature vectors, and of classes or 0/1 vectors.
    batch : int
        Rows per step of all workers together; a multiple of ``workers``.
    epochs : int
        Passes over the data.
    optimizer : callable
        Makes the optimizer from the parameters, such as ``functools.partial(torch.optim.SGD, lr=0.1)``.
    shuffle : int
        Number of rows that are shuffled together on a worker, anew in every epoch; 0 keeps their order.
    seed : int
        Seed of the shuffling, and of torch on every worker.
    workers : int
        Number of workers.
    use_gpu : bool
        Whether each worker has a GPU.
    run_config : ray.train.RunConfig, optional
        Where checkpoints are kept, how many failures are tolerated, and so on.

    Returns
    -------
    ray.train.torch.TorchTrainer
        The trainer; ``.fit()`` returns a result with ``metrics`` and ``checkpoint``.

    Examples
    --------
    >>> from robust_ot.torch import RobustOTLoss
    >>> trainer = torch_trainer(nn.Linear(5, 3), RobustOTLoss(vectors), data, workers=8, use_gpu=True)  # doctest: +SKIP
    >>> network = load_checkpoint(trainer.fit().checkpoint, nn.Linear(5, 3))  # doctest: +SKIP
    """
    for name, value, least in (("workers", workers, 1), ("batch", batch, 1), ("epochs", epochs, 1), ("shuffle", shuffle, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, but is {value}")
    if batch % workers:
        raise ValueError(f"batch must be a multiple of the {workers} workers, but is {batch}")
    known = list(data.columns() or [])
    for name, column in (("features", features), ("label", label)):
        if column not in known:
            raise ValueError(f"{name} must be a column of the data, {known}, but is {column!r}")
    config = {
        "model": model,
        "loss": loss,
        "optimizer": optimizer,
        "columns": (features, label),
        "batch": batch // workers,
        "epochs": epochs,
        "shuffle": shuffle,
        "seed": seed,
    }
    return ray.train.torch.TorchTrainer(
        _train,
        train_loop_config=config,
        torch_config=ray.train.torch.TorchConfig(backend="nccl" if use_gpu else "gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=use_gpu),
        run_config=run_config,
        datasets={"train": data},
    )


def load_checkpoint(checkpoint: Any, model: nn.Module) -> nn.Module:
    """Load the weights of a checkpoint into a network.

    Parameters
    ----------
    checkpoint : ray.train.Checkpoint
        The checkpoint of a trainer's result.
    model : Module
        A network of the same shape.

    Returns
    -------
    Module
        The network.
    """
    model.load_state_dict(_read(checkpoint)["model"])
    return model


def _read(checkpoint: Any) -> dict[str, Any]:
    with checkpoint.as_directory() as folder:
        found: dict[str, Any] = torch.load(os.path.join(folder, _FILE), map_location="cpu", weights_only=True)
    return found


def _train(config: dict[str, Any]) -> None:
    """Train on one worker; runs on every worker."""
    context, device = ray.train.get_context(), ray.train.torch.get_device()
    torch.manual_seed(config["seed"])
    given = config["model"]
    model = given if isinstance(given, nn.Module) else given()
    checkpoint = ray.train.get_checkpoint()
    saved = None if checkpoint is None else _read(checkpoint)
    if saved is not None:
        model.load_state_dict(saved["model"])
    model = ray.train.torch.prepare_model(model, parallel_strategy="ddp")
    optimizer = config["optimizer"](model.parameters())
    if saved is not None:
        optimizer.load_state_dict(saved["optimizer"])
    loss = config["loss"].to(device) if isinstance(config["loss"], nn.Module) else config["loss"]
    features, label = config["columns"]
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(0 if saved is None else saved["epoch"], config["epochs"]):
        shuffle: dict[str, Any] = {}
        if config["shuffle"]:
            shuffle = {"local_shuffle_buffer_size": max(config["shuffle"], config["batch"])}
            shuffle["local_shuffle_seed"] = (config["seed"] + 1_000_003 * epoch) % 2**31
        # Sums of losses and of rows, for the mean over all workers.
        total = torch.zeros(2, dtype=torch.float64, device=device)
        for rows in shard.iter_torch_batches(batch_size=config["batch"], device=device, **shuffle):
            optimizer.zero_grad()
            found = loss(model(rows[features].to(torch.get_default_dtype())), rows[label])
            found.backward()
            optimizer.step()
            count = len(rows[label])
            total += torch.tensor([float(found.detach()) * count, count], dtype=torch.float64, device=device)
        torch.distributed.all_reduce(total)
        if total[1] == 0:
            raise ValueError("the data must have at least as many rows as there are workers, but has fewer")
        metrics = {"epoch": epoch + 1, "loss": float(total[0] / total[1]), "rows": int(total[1])}
        if context.get_world_rank() > 0:
            ray.train.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            bare = model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model
            state = {"model": bare.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            torch.save(state, os.path.join(folder, _FILE))
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
