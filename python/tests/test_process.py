"""Imports, threads, forks and signals: how the interpreter and the core interact."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import robust_ot
from robust_ot import _core
from robust_ot._metric import metric_arguments


def python(code, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, **options)


def test_importing_brings_nothing_but_numpy():
    done = python(
        """
        import sys, robust_ot
        robust_ot.distance([[0.0]], [[1.0]])
        heavy = {"torch", "sklearn", "scipy", "matplotlib", "pandas", "ray"} & {name.split(".")[0] for name in sys.modules}
        print(heavy or "none")
        """
    )
    assert done.stdout.strip() == "none", done.stderr


def test_what_is_not_installed_is_named():
    done = python(
        """
        import sys
        for name in ("sklearn", "torch", "scipy", "scipy.sparse", "matplotlib", "matplotlib.pyplot", "ray"):
            sys.modules[name] = None
        import robust_ot
        solution = robust_ot.distance([[0.0, 1.0]], [[1.0, 1.0]])
        def classifier(): robust_ot.RobustOTClassifier
        def loss(): import robust_ot.torch
        def cluster(): import robust_ot.distributed
        def picture():
            from robust_ot import plot
            plot.metric_heatmap(solution)
        for needs in (classifier, loss, cluster, picture, solution.sparse_plan):
            try:
                needs()
            except ImportError as error:
                print(error)
        """
    )
    told = done.stdout.splitlines()
    assert len(told) == 5, done.stderr
    for line, name in zip(told, ("scikit-learn", "torch", "Ray", "matplotlib", "scipy"), strict=True):
        assert f"needs {name}: pip install" in line


def test_everything_promised_is_there():
    for name in robust_ot.__all__:
        assert hasattr(robust_ot, name)
    assert "RobustOTClassifier" in dir(robust_ot)
    with pytest.raises(AttributeError, match="no attribute 'distanse'"):
        _ = robust_ot.distanse


def test_several_threads_at_once(rng):
    X, Y = rng.normal(size=(60, 5)), rng.normal(size=(50, 5))
    expected, found = robust_ot.distance(X, Y).value, []
    threads = [threading.Thread(target=lambda: found.append(robust_ot.distance(X, Y).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_the_interpreter_is_free_while_solving(rng):
    X = rng.normal(size=(2500, 5))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    robust_ot.distance(X, X[::-1] + 1.0, metric="w2")
    ended = time.perf_counter()
    done.set()
    thread.join()
    during = [t for t in ticks if started < t < ended]
    assert len(during) > 0.2 * (ended - started) / 0.005


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_works_after_a_fork(rng):
    X, Y = rng.normal(size=(100, 5)), rng.normal(size=(90, 5))
    expected = robust_ot.distance(X, Y, entropy=0.5, tol=1e-2).value  # starts the parent's thread pool
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(_value, [(X, Y)] * 4).get(timeout=60)
    assert found == [expected] * 4


def _losses(arguments):
    h, vectors = arguments
    return robust_ot.loss_gradient(h, [0] * len(h), vectors)[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_child_builds_losses_after_a_fork(rng, dtype):
    vectors, h = rng.normal(size=(600, 300)), np.full((2, 600), 1 / 600, dtype=dtype)
    here = _losses((h, vectors))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there = pool.map_async(_losses, [(h, vectors)]).get(timeout=60)[0]
    np.testing.assert_array_equal(here, there)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_lays_measures_out_after_a_fork(rng):
    points = rng.normal(size=(3, 20, 200))  # wide enough to be laid out in parallel
    expected = _bound(points)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map_async(_bound, [points]).get(timeout=60) == [expected]


def _value(pair):
    return robust_ot.distance(*pair, entropy=0.5, tol=1e-2).value


def _bound(points):
    asked = metric_arguments("p", 1, 2.0, 1.0, None, None, "contiguous", 0)
    laid = _core.Layout(list(points), [None] * 3, points[0, 0], asked, (0.0, "auto", 1e-4, 1000, None, "cpu"))
    return laid.bounds(laid.screen(0, [1]), [2], np.inf).tolist()


LONG = {
    "distance": """
        X, Y = rng.normal(size=(4000, 40)), rng.normal(size=(4000, 40))
        work = lambda: robust_ot.distance(X, Y, metric="srw", k=2, tol=1e-12)
    """,
    "pairwise": """
        measures = [rng.normal(size=(400, 30)) for _ in range(60)]
        work = lambda: robust_ot.pairwise(measures, tol=1e-10)
    """,
    "emd": """
        x, y = rng.normal(size=(7000, 1, 2)), rng.normal(size=(1, 7000, 2))
        M = ((x - y) ** 2).sum(axis=2)
        a, b = rng.dirichlet(np.ones(7000), 2)
        work = lambda: robust_ot.emd(a, b, M)
    """,
    "loss_gradient": """
        h, V = rng.dirichlet(np.ones(200), 3000), rng.normal(size=(200, 60))
        work = lambda: robust_ot.loss_gradient(h, [[0, 1, 2]] * 3000, V, fw_iterations=10000, sinkhorn_iterations=1000)
    """,
    "fit": """
        from robust_ot import RobustOTClassifier
        X, y = rng.normal(size=(4000, 500)).astype(np.float32), rng.integers(100, size=4000)
        work = lambda: RobustOTClassifier("srw", k=2, epochs=10000, validation=0).fit(X, y)
    """,
}


@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_interrupts_within_a_second(what):
    code = (
        textwrap.dedent("""
        import signal, sys, time
        import numpy as np, robust_ot
        rng = np.random.default_rng(0)
        # Background jobs of a shell start with Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    """)
        + textwrap.dedent(LONG[what])
        + textwrap.dedent("""
        print("ready", flush=True)
        try:
            work()
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
            sys.exit(3)
    """)
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(1.5)
        assert child.poll() is None, "the call ended before it could be interrupted"
        sent = time.time()
        child.send_signal(signal.SIGINT)
        told, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 3
    assert float(told.split()[1]) - sent < 1.0 + 1.0  # one second, and one more for a busy machine


def test_the_command_comes_with_the_wheel(tmp_path):
    command = [sys.executable, "-m", "robust_ot._command"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.split() == ["rot", robust_ot.__version__]
    wrong = subprocess.run(
        [*command, "distance", "none.csv", "none.csv"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("rot: none.csv")


def test_a_panic_would_be_an_exception_and_objects_cannot_be_made_of_nothing():
    from robust_ot import _core

    with pytest.raises((TypeError, ValueError, IndexError)):
        _core.Solution(())
    with pytest.raises(ValueError, match="must be a robust-ot model"):
        _core.Model(b"not a model")
    with pytest.raises(ValueError, match="threads must be at least 1"):
        robust_ot.set_threads(0)
    with pytest.raises(ValueError, match="threads must be at least 1 and at most 1024, but is -1"):
        robust_ot.set_threads(-1)
    parts = list(robust_ot.distance([[0.0]], [[1.0]])._core.parts())
    parts[8] = (np.array([5]), np.array([0]), np.array([1.0]))
    with pytest.raises(ValueError, match="the entries of the plan must be within its shape"):
        _core.Solution(tuple(parts))
    with pytest.raises(ValueError):
        _core.rank(np.zeros((2, 2)), (np.array([0, 5, 1]), np.array([0])))
