"""The connection to a Ray cluster, and the progress of work on it."""

from __future__ import annotations

import sys
import time

import ray


def connect(address: str | None) -> None:
    """Use the connected cluster, or connect to the one at this address, or to one on this machine."""
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    elif address is not None and ":" in address and "://" not in address:
        there = ray.get_runtime_context().gcs_address
        if there != address:
            raise ValueError(f"ray_address must be that of the cluster this process is connected to, {there}, but is {address}")


class Progress:
    """Progress, rate and remaining time on standard error."""

    def __init__(self, what: str, all_there_is: int, wanted: bool) -> None:
        self.what, self.all, self.wanted = what, all_there_is, wanted
        self.done = self.begun = 0
        self.started = self.told = time.monotonic()

    def start(self, done: int) -> None:
        self.done = self.begun = done
        if done and self.wanted:
            print(f"{self.what}: resuming after {done} of {self.all}", file=sys.stderr)

    def step(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.wanted and now - self.told >= (0.5 if sys.stderr.isatty() else 10.0):
            self.told = now
            rate = (self.done - self.begun) / max(now - self.started, 1e-9)
            left = (self.all - self.done) / rate if rate > 0 else float("inf")
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{self.what}: {self.done} of {self.all}, {rate:.1f}/s, {left:.0f} s left ", end=end, file=sys.stderr)

    def back(self, done: int) -> None:
        self.done = done

    def end(self) -> None:
        if self.wanted and sys.stderr.isatty():
            print(file=sys.stderr)
