"""The command ``rot`` that the wheel installs."""

from __future__ import annotations

import os
import signal
import sys

from robust_ot import _core


def main() -> int:
    """Run ``rot`` with the arguments of this process and return its exit code."""
    # The command handles Ctrl-C itself, without the interpreter.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The interpreter with which `rot pairwise --ray` finds this package.
    os.environ["ROBUST_OT_PYTHON"] = sys.executable
    return _core.main(["rot", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
