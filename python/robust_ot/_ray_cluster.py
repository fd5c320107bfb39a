"""The connection to a Ray cluster."""

from __future__ import annotations

import ray


def connect(address: str | None) -> None:
    """Use the connected cluster, or connect to the one at this address, or to one on this machine."""
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    elif address is not None and ":" in address and "://" not in address:
        there = ray.get_runtime_context().gcs_address
        if there != address:
            raise ValueError(f"ray_address must be that of the cluster this process is connected to, {there}, but is {address}")
