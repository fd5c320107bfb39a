"""The progress of long calls, for people: tqdm's bar if it is installed, else lines on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

#: Seconds between two lines, on a terminal and elsewhere.
_SOON, _LATER = 0.5, 10.0


class Progress:
    """The number of steps done, their rate and the remaining time.

    Parameters
    ----------
    what : str
        What is being done.
    all_there_is : int, optional
        Number of steps; without it, only the time is shown.
    wanted : bool
        Whether to show anything.
    """

    def __init__(self, what: str, all_there_is: int | None, wanted: bool) -> None:
        self.what, self.all, self.wanted = what, all_there_is, wanted
        self.done = self.begun = 0
        self.started = self.told = time.monotonic()
        self.bar = _bar(what, all_there_is) if wanted else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *failure: object) -> None:
        self.end()

    def start(self, done: int) -> None:
        """Begin after the steps of an earlier run."""
        self.done = self.begun = done
        if done and self.wanted:
            print(f"{self.what}: resuming after {done} of {self.all}", file=sys.stderr)
        self._draw()

    def step(self, count: int) -> None:
        """Count steps."""
        self.back(self.done + count)
        now = time.monotonic()
        if self.wanted and self.bar is None and now - self.told >= (_SOON if sys.stderr.isatty() else _LATER):
            self.told = now
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{self.what}: {self._state(now)} ", end=end, file=sys.stderr)

    def reach(self, done: int) -> None:
        """Say how many steps are done."""
        self.step(done - self.done)

    def back(self, done: int) -> None:
        """Set the number of steps done, which may be fewer than before."""
        self.done = done
        self._draw()

    def end(self) -> None:
        """End the line."""
        if self.bar is not None:
            self.bar.close()
        elif self.wanted and sys.stderr.isatty():
            print(file=sys.stderr)

    def _state(self, now: float) -> str:
        seconds = now - self.started
        if self.all is None:
            return f"{seconds:.0f} s"
        rate = (self.done - self.begun) / max(seconds, 1e-9)
        left = (self.all - self.done) / rate if rate > 0 else float("inf")
        return f"{self.done} of {self.all}, {rate:.2g}/s, {left:.0f} s left"

    def _draw(self) -> None:
        if self.bar is not None:
            self.bar.update(self.done - self.bar.n)
            self.bar.refresh()


def _bar(what: str, all_there_is: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    if all_there_is is None:
        return tqdm(desc=what, total=None, bar_format="{desc}: {elapsed}", leave=False)
    return tqdm(desc=what, total=all_there_is)
