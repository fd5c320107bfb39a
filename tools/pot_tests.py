#!/usr/bin/env python3
"""Runs POT's own tests with the functions of ``robust_ot.pot`` in place of POT's.

    python tools/pot_tests.py POT/test [--backend torch] [--files test_ot.py …] [--functions emd emd2 …]

POT/test is the folder ``test`` of a copy of POT's repository (not part of this one), of the version that is installed. Every
reference to a function in POT's modules is replaced, so that POT's other functions call ours, too. Compared are the tests that
pass with POT's functions. Those that fail, or are skipped, with ours must be in ``pot_exceptions.txt`` with a reason; otherwise
the exit code is 1.
"""

import argparse
import fnmatch
import functools
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

GROUPS = {
    "solvers": ["test_ot.py", "test_bregman.py", "test_optim.py", "test_da.py", "test_solvers.py"],
    "callers": ["test_partial.py", "test_weak.py", "test_factored.py", "test_gmm.py", "test_mapping.py", "test_coot.py",
                "test_smooth.py", "gromov/test_gw.py"],
    "others": ["test_1d_solver.py", "test_utils.py", "gromov/test_bregman.py", "gromov/test_partial.py",
               "gromov/test_semirelaxed.py", "gromov/test_quantized.py", "gromov/test_estimators.py",
               "sliced/test_sliced_distances.py", "test_gaussian.py", "test_lowrank.py"],
}  # fmt: skip
FUNCTIONS = ["emd", "emd2", "sinkhorn", "sinkhorn2", "solve", "solve_sample", "dist", "emd_1d", "wasserstein_1d"]
EXCEPTIONS = Path(__file__).with_name("pot_exceptions.txt")
#: Names of POT's settings that turn a backend off.
BACKENDS = {"jax": "JAX", "cupy": "CUPY", "tf": "TENSORFLOW", "torch": "PYTORCH"}


class Plugin:
    """Replaces functions if asked to, selects the tests of a backend, and records outcomes."""

    def __init__(self, functions, backend):
        self.backend, self.outcomes, self.calls = backend, {}, 0
        if functions:
            self.replace(functions)

    def replace(self, functions):
        import ot
        from robust_ot import pot

        # POT's tests read this attribute of its own results.
        pot.OTResult._backend = None
        replacements = {getattr(ot, name): self.counted(getattr(pot, name)) for name in functions}
        for module in pkgutil.walk_packages(ot.__path__, "ot."):
            try:
                importlib.import_module(module.name)
            except ImportError:  # modules of optional packages
                continue
        for name, module in list(sys.modules.items()):
            if name == "ot" or name.startswith("ot."):
                for attribute, value in list(vars(module).items()):
                    if callable(value) and any(value is function for function in replacements):
                        setattr(module, attribute, replacements[value])

    def counted(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            self.calls += 1
            return function(*args, **kwargs)

        return wrapper

    def pytest_collection_modifyitems(self, items):
        def wanted(item):
            nx = getattr(item, "callspec", None) and item.callspec.params.get("nx")
            return nx is None or nx.__name__ == self.backend

        items[:] = [item for item in items if wanted(item)]

    def pytest_runtest_setup(self):
        self.calls = 0

    def pytest_runtest_logreport(self, report):
        known = self.outcomes.get(report.nodeid, {"outcome": "passed"})
        if report.outcome != "passed":
            known = {"outcome": report.outcome, "message": message_of(report)}
        if report.when == "call":
            known["calls"] = self.calls
        self.outcomes[report.nodeid] = known


def message_of(report):
    """The last line of a failure, or the reason of a skip."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(str(crash.message if crash else report.longrepr).split())[:160]


def run_tests(folder, files, backend, functions):
    """Run POT's tests in their own process with these functions replaced, and return the outcome of each."""
    disabled = {f"POT_BACKEND_DISABLE_{name}": "1" for kind, name in BACKENDS.items() if kind != backend}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "outcomes.json"
        command = [sys.executable, __file__, str(folder), "--backend", backend, "--files", *files, "--out", str(out)]
        command += ["--functions", *functions]
        done = subprocess.run(command, env={**os.environ, **disabled}, capture_output=True, text=True)
        if not out.exists():
            sys.exit(f"pytest ended with code {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return json.loads(out.read_text())


def run_here(arguments):
    """Run the tests in this process; used by `run_tests`."""
    import pytest

    plugin = Plugin(arguments.functions, arguments.backend)
    os.chdir(arguments.folder.parent)
    tests = [str(Path(arguments.folder.name) / name) for name in arguments.files]
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:warnings", *tests], plugins=[plugin])
    arguments.out.write_text(json.dumps(plugin.outcomes))


def read_exceptions():
    """Pairs of a pattern for tests and a reason; lines look like ``file::pattern: reason``."""
    lines = [line for line in EXCEPTIONS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(part.strip() for part in line.split(": ", 1)) for line in lines]


def name_of(test):
    """A test's name without its folder, and with spaces and brackets that patterns need not escape."""
    return test.split("test/", 1)[-1].replace("[", "(").replace("]", ")")


def compare(folder, files, backend, functions):
    """Print how a group of files fares; return its unexplained failures and the patterns that were used."""
    theirs, ours = run_tests(folder, files, backend, []), run_tests(folder, files, backend, functions)
    passed = [test for test, result in theirs.items() if result["outcome"] == "passed"]
    reached = [test for test in passed if ours.get(test, {}).get("calls")]
    lost = [test for test in passed if ours.get(test, {}).get("outcome") != "passed"]
    reached_lost = [test for test in lost if test in reached]
    print(f"{len(passed) - len(lost)} of {len(passed)} tests that pass with POT's functions pass with ours;")
    print(f"{len(reached) - len(reached_lost)} of the {len(reached)} that call one of them")
    unexplained, used = [], set()
    exceptions = read_exceptions()
    for test in lost:
        result = ours.get(test, {"outcome": "missing"})
        match = next(((pattern, reason) for pattern, reason in exceptions if fnmatch.fnmatchcase(name_of(test), pattern)), None)
        used.add(match and match[0])
        if match is None:
            unexplained.append(test)
        reason = match[1] if match else f"NOT EXPLAINED: {result.get('message', '')}"
        print(f"  {result['outcome']:7} {name_of(test)}: {reason}")
    return unexplained, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder test of POT's repository")
    parser.add_argument("--backend", choices=["numpy", "torch"], default="numpy")
    parser.add_argument("--files", nargs="+", help="files in the folder instead of the groups")
    parser.add_argument("--functions", nargs="*", choices=FUNCTIONS, default=FUNCTIONS, help="replace these alone")
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    if arguments.out:
        return run_here(arguments)
    unexplained, used = [], set()
    for title, files in {"files": arguments.files}.items() if arguments.files else GROUPS.items():
        print(f"{title}: {', '.join(files)}")
        more, patterns = compare(arguments.folder, files, arguments.backend, arguments.functions)
        unexplained += more
        used |= patterns
    if not arguments.files and arguments.backend == "numpy":
        for pattern, _ in read_exceptions():
            if pattern not in used:
                print(f"not needed with this backend: {pattern}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
