"""Runs on a real cluster of several Ray nodes on this machine, and their failures."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import robust_ot

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster
from robust_ot import _ray_neighbors, _store, distributed
from robust_ot._metric import metric_arguments


@pytest.fixture(scope="module")
def cluster(ray_system):
    """Two nodes with a core each; a third may come and go."""
    size = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    found = Cluster(initialize_head=True, head_node_args={**size, "_system_config": ray_system})
    found.add_node(**size)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def documents(count, points=12, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=(rng.integers(3, points), dim)) + rng.normal(size=dim) for _ in range(count)]
    return [(X, rng.random(len(X))) if at % 3 == 0 else X for at, X in enumerate(found)]


def same(found, expected):
    np.testing.assert_array_equal(found.matrix, expected.matrix)
    np.testing.assert_array_equal(found.lower_bounds, expected.lower_bounds)
    assert (found.relative_gap, found.unfinished, found.offset) == (expected.relative_gap, expected.unfinished, expected.offset)


def test_columns_of_data_frames_are_matched_by_name(cluster):
    pandas = pytest.importorskip("pandas")
    ab = pandas.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0]})
    ba = pandas.DataFrame({"b": [1.0, 3.0], "a": [2.0, 4.0]})
    with pytest.warns(UserWarning, match=r"matched by name; their order differs in measures\[1\]"):
        found = distributed.pairwise([ab, (ba, [1.0, 1.0])], metric="features")
    with pytest.warns(UserWarning, match="matched by name"):
        same(found, robust_ot.pairwise([ab, (ba, [1.0, 1.0])], metric="features"))


@pytest.mark.parametrize("keywords", [{}, {"groups": 3, "metric": "kl", "lam": 5.0}, {"entropy": 0.3, "tol": 1e-2}])
@pytest.mark.parametrize("tile", [7, 100])
def test_the_numbers_of_one_machine_to_the_last_bit(cluster, tmp_path, keywords, tile):
    measures = documents(20)
    expected = robust_ot.pairwise(measures, **keywords)
    same(distributed.pairwise(measures, tile=tile, **keywords), expected)
    same(distributed.pairwise(measures, tile=tile, out=tmp_path / "out", **keywords), expected)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "distances.npy"), expected.matrix)


@pytest.mark.parametrize("keywords", [{}, {"metric": "features", "lam": 2.0}, {"groups": 2, "entropy": 0.2, "tol": 1e-2}])
def test_neighbors_are_those_of_the_full_matrix(cluster, tmp_path, keywords):
    rng = np.random.default_rng(1)
    measures = [X + 4 * rng.normal(size=6) if not isinstance(X, tuple) else (X[0] + 4 * rng.normal(size=6), X[1])
                for X in documents(40)]  # fmt: skip
    matrix = robust_ot.pairwise(measures, **keywords).matrix.copy()
    np.fill_diagonal(matrix, np.inf)
    order = np.argsort(matrix, axis=1, kind="stable")[:, :3]
    for out in (None, tmp_path / "out"):
        found = distributed.nearest(measures, 3, block=9, out=out, **keywords)
        np.testing.assert_array_equal(found.indices, order)
        np.testing.assert_array_equal(found.distances, np.take_along_axis(matrix, order, 1))
        assert found.solved < found.pairs == 40 * 39 // 2
        here = robust_ot.nearest(measures, top_k=3, **keywords)
        for name in ("indices", "distances", "lower_bounds", "certain", "relative_gap", "unfinished", "offset"):
            np.testing.assert_array_equal(getattr(found, name), getattr(here, name))


def test_neighbors_where_a_task_cannot_keep_all_measures(cluster, monkeypatch):
    # In this process, since patched limits do not reach other processes.
    monkeypatch.setattr(_ray_neighbors, "_WHOLE", 0)
    monkeypatch.setattr(_ray_neighbors, "PART", 4)
    monkeypatch.setattr(_ray_neighbors, "_HELD", 2)
    measures = [None if at in (5, 9) else measure for at, measure in enumerate(distributed._check(documents(30))[0])]
    matrix = np.full((30, 30), np.inf)
    sound = [at for at, measure in enumerate(measures) if measure is not None]
    matrix[np.ix_(sound, sound)] = robust_ot.pairwise([measures[at] for at in sound], device="cpu").matrix
    np.fill_diagonal(matrix, np.inf)
    order = np.argsort(matrix, axis=1, kind="stable")[:, :3]
    parts = [ray.put(measures[at : at + 4]) for at in range(0, 30, 4)]
    asked = metric_arguments("p", 1, 2.0, 1.0, None, None, "contiguous", 0)
    how = (0.0, "auto", 1e-4, 1000, 1 << 28, "cpu")
    summary = _ray_neighbors.Summary.of(measures)
    found = _ray_neighbors.find_neighbors(parts, 1, summary, range(3, 14), 3, asked, how)
    robust_ot.set_threads(None)
    indices, distances, lower, _, certain, _, solved, bounds, wrong = found
    assert not wrong
    kept = indices[:, 0] >= 0
    assert certain[kept].any() and (lower <= distances)[kept].all()
    for at, row in enumerate(range(3, 14)):
        assert indices[at].tolist() == ([-1] * 3 if row in (5, 9) else order[row].tolist())
        if row not in (5, 9):
            np.testing.assert_array_equal(distances[at], matrix[row, order[row]])
    assert solved < 9 * 27
    assert bounds > 9 * 3


@pytest.fixture(scope="module")
def slow():
    """Measures whose tiles take a while, and their distances."""
    rng = np.random.default_rng(2)
    measures = [rng.normal(size=(90, 20)) for _ in range(10)]
    return measures, robust_ot.pairwise(measures, tol=1e-7)


def kill_workers(name, times):
    """SIGKILL workers in the middle of a task, one at a time."""
    killed = 0
    until = time.monotonic() + 60
    while killed < times and time.monotonic() < until:
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and (process / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed += 1
                    time.sleep(0.3)
                    break
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        time.sleep(0.01)
    return killed


def test_workers_that_are_killed_lose_nothing(cluster, slow):
    measures, expected = slow
    found = []
    killer = threading.Thread(target=lambda: found.append(kill_workers("solve_tile", 2)))
    killer.start()
    got = distributed.pairwise(measures, tol=1e-7, tile=2)
    killer.join()
    assert found == [2]
    same(got, expected)


def test_a_node_that_leaves_loses_nothing(cluster, slow):
    measures, expected = slow
    node = cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    cluster.wait_for_nodes()
    leaving = threading.Timer(0.7, lambda: cluster.remove_node(node, allow_graceful=False))
    leaving.start()
    got = distributed.pairwise(measures, tol=1e-7, tile=2)
    leaving.join()
    same(got, expected)


def test_a_driver_that_dies_goes_on_where_it_was(cluster, slow, tmp_path):
    script = textwrap.dedent("""
        import sys
        import numpy as np
        from robust_ot import distributed
        rng = np.random.default_rng(2)
        measures = [rng.normal(size=(90, 20)) for _ in range(10)]
        distributed.pairwise(measures, tol=1e-7, tile=2, out=sys.argv[1], ray_address=sys.argv[2])
    """)
    out = tmp_path / "out"
    command = [sys.executable, "-c", script, str(out), cluster.address]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    done = []
    while len(done) < 3 and time.monotonic() < until and driver.poll() is None:
        time.sleep(0.01)
        if (out / "manifest.json").exists():
            done = _store.recorded(out)[1]
    assert driver.poll() is None, driver.stderr.read()
    driver.kill()
    driver.wait()
    kept = _store.recorded(out)[1]
    assert 3 <= len(kept) < 15
    again = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    # Recorded tiles are not solved again.
    assert "resuming after" in again.stderr
    np.testing.assert_array_equal(np.load(out / "distances.npy"), slow[1].matrix)


def test_a_poisoned_measure_is_named_and_the_rest_is_finished(cluster):
    measures = documents(12)
    sound = robust_ot.pairwise([m for at, m in enumerate(measures) if at not in (4, 7)]).matrix
    measures[4], measures[7] = np.full((3, 6), np.nan), np.ones((2, 5))
    with pytest.warns(UserWarning, match=r"2 measures or pairs have no distance; the first: measures\[4\]"):
        found = distributed.pairwise(measures, tile=5)
    assert set(found.failed) == {(4,), (7,)}
    assert "must be finite, but row 1, column 1 is NaN" in found.failed[4,]
    assert "must have 6 features" in found.failed[7,]
    kept = [at for at in range(12) if at not in (4, 7)]
    np.testing.assert_array_equal(found.matrix[np.ix_(kept, kept)], sound)
    assert np.isnan(found.matrix[4]).all()
    assert np.isnan(found.matrix[:, 7]).all()
    with pytest.warns(UserWarning, match="2 measures"):
        nearest = distributed.nearest(measures, 2)
    assert (nearest.indices[4] == -1).all()
    assert not np.isin(nearest.indices[kept], [4, 7, -1]).any()


def test_a_pair_that_cannot_be_solved_is_named(cluster):
    measures = [np.zeros((2, 2)), np.ones((2, 2)), np.full((2, 2), 1e3)]
    with pytest.warns(UserWarning, match="have no distance"):
        found = distributed.pairwise(measures, metric="kl", lam=1.0)
    assert set(found.failed) == {(0, 2), (1, 2)}
    assert "overflows" in found.failed[0, 2]
    assert found.failed[1, 2].startswith("lam: ")
    assert np.isfinite(found.matrix[0, 1])
    # Two of them have a neighbor; all distances of the third overflow.
    with pytest.warns(UserWarning, match=r"1 measures or pairs have no distance; the first: measures\[2\]"):
        nearest = distributed.nearest(measures, 1, metric="kl", lam=1.0)
    assert nearest.indices.ravel().tolist() == [1, 0, -1]
    assert set(nearest.failed) == {(2,)}


def test_a_disk_that_is_full_says_so_and_the_run_goes_on_later(cluster, tmp_path, monkeypatch):
    measures, out = documents(20), tmp_path / "out"
    write, calls = os.pwrite, []

    def full(*arguments):
        calls.append(1)
        if len(calls) > 60:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*arguments)

    monkeypatch.setattr(_store.os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        distributed.pairwise(measures, tile=4, out=out)
    monkeypatch.undo()
    done = _store.recorded(out)[1]
    assert 0 < len(done) < 15
    same(distributed.pairwise(measures, tile=4, out=out), robust_ot.pairwise(measures))


def test_a_line_of_the_journal_that_was_cut_off_does_not_count(tmp_path):
    store = _store.Store(tmp_path, "key", {"distances": ((2, 2), np.float64)})
    store.notes = {"unfinished": 1}
    for block in ("a", "b"):
        store.commit(block)
    journal = tmp_path / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"done": "c')
    os.close(store._lock)  # As when its process ends.
    again = _store.Store(tmp_path, "key", {"distances": ((2, 2), np.float64)})
    assert (again.done, again.notes) == ({"a", "b"}, {"unfinished": 1})
    again.commit("d")
    again.close()
    assert _store.recorded(tmp_path)[1:] == ({"a", "b", "d"}, {"unfinished": 1})
    assert not journal.exists()


def test_a_disk_without_room_is_found_before_any_work(tmp_path):
    code = textwrap.dedent("""
        import resource, sys
        import numpy as np
        from robust_ot._store import Store
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            Store(sys.argv[1], "key", {"distances": ((1000, 1000), np.float64)})
        except OSError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True, check=True)
    assert "cannot create a file of 1000 × 1000 numbers" in done.stdout
    assert "distances.npy" in done.stdout
    assert not (tmp_path / "out" / "distances.npy").exists()


def test_a_disk_that_has_less_room_than_it_says(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_store.os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left on device: cannot create a file of 3 × 3 numbers.*distances.npy"):
        _store.Store(tmp_path, "key", {"distances": ((3, 3), np.float64)})
    assert not (tmp_path / "distances.npy").exists()
    monkeypatch.undo()
    _store.Store(tmp_path, "key", {"distances": ((3, 3), np.float64)}).close()


def test_two_runs_do_not_share_a_folder(tmp_path):
    arrays = {"distances": ((2, 2), np.float64)}
    first = _store.Store(tmp_path, "key", arrays)
    with pytest.raises(ValueError, match="another run is using"):
        _store.Store(tmp_path, "key", arrays)
    first.close()
    _store.Store(tmp_path, "key", arrays).close()


def test_notes_that_grow_in_place_are_written(tmp_path):
    store = _store.Store(tmp_path, "key", {})
    failed = {}
    for name in "ab":
        failed[name] = "why"
        store.notes = {"failed": dict(failed)}
        store.commit(name)
    store.close()
    assert _store.recorded(tmp_path)[2] == {"failed": {"a": "why", "b": "why"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([np.ones(2), None, np.zeros(2)], [np.ones(2), np.zeros(2), None]),
        (np.eye(40), np.eye(40) + np.pad([[1.0]], (10, 29))),
        (np.eye(3), np.eye(3) + 1e-10),
        (np.zeros(4), np.zeros((2, 2))),
        (1, "1"),
    ],
)
def test_what_differs_is_told_apart(one, other):
    assert _store.fingerprint(one) != _store.fingerprint(other)
    assert _store.fingerprint(one, 1) == _store.fingerprint(one, 1)


def test_files_are_told_apart_by_what_is_in_them(tmp_path):
    path = tmp_path / "prior.csv"
    path.write_text("1")
    before = _store.fingerprint(path)
    path.write_text("2")
    assert _store.fingerprint(path) != before


def test_more_data_than_the_object_store_holds(cluster):
    rng = np.random.default_rng(3)
    measures = [rng.normal(size=(2, 500_000)) for _ in range(20)]  # 160 MB, in stores of 100 MB
    expected = robust_ot.pairwise(measures, metric="w2", groups=1)
    same(distributed.pairwise(measures, metric="w2", groups=1, tile=4), expected)


def test_a_folder_of_another_run_is_refused(cluster, tmp_path):
    measures = documents(6)
    distributed.pairwise(measures, out=tmp_path / "out")
    for other in ({"tol": 1e-3}, {"tile": 2}, {"prior": np.eye(6), "metric": "kl"}):
        with pytest.raises(ValueError, match="is from another run"):
            distributed.pairwise(measures, out=tmp_path / "out", **other)
    with pytest.raises(ValueError, match="is from another run"):
        distributed.pairwise(measures[:5], out=tmp_path / "out")
    with pytest.raises(ValueError, match="top_k must be from 1 to one less than the 6 measures, but is 6"):
        distributed.nearest(measures, 6)
    with pytest.raises(ValueError, match="measures must be at least 2"):
        distributed.pairwise(measures[:1])


def test_numbers_out_of_range_are_refused(cluster):
    measures = documents(5)
    for keywords in ({"block": 0}, {"block": -1}, {"top_k": 0}, {"top_k": 5}):
        with pytest.raises(ValueError, match=r"(block|top_k) must be"):
            distributed.nearest(measures, **{"top_k": 2, **keywords})
    with pytest.raises(ValueError, match=r"2 measures must be valid, but 1 of 2 are; the first error: measures\[0\]"):
        distributed.nearest([np.full((2, 2), np.nan), np.ones((2, 2))], 1)
    with pytest.raises(ValueError, match=r"ray_address must be that of the cluster this process is connected to"):
        distributed.pairwise(measures, ray_address="127.0.0.1:1")


def test_the_command_hands_over_to_a_cluster(cluster, tmp_path):
    names = []
    for at, measure in enumerate(documents(6)):
        names.append(str(tmp_path / f"{at}.npy"))
        np.save(names[-1], measure[0] if isinstance(measure, tuple) else measure)
    rot = [
        sys.executable,
        "-m",
        "robust_ot._command",
        "pairwise",
        *names,
        "--json",
        "--groups",
        "2",
        "--metric",
        "kl",
        "--lambda",
        "9",
    ]

    def run(*more):
        return subprocess.run([*rot, *more], capture_output=True, text=True, check=False)

    here, there = (json.loads(found.stdout) for found in (run(), run("--ray", cluster.address)))
    assert there["device"] == f"ray {cluster.address}" and here["device"] == "cpu"
    for key in ("labels", "matrix", "lower_bounds", "closest", "relative_gap", "unfinished"):
        assert there[key] == here[key]

    # Words with counts: the cluster is given the normalized weights, which differ from the counts by rounding. Of the
    # plans within the tolerance another one may then be found, with a value inside the same bracket.
    rng = np.random.default_rng(4)
    vectors = tmp_path / "words.vec"
    vectors.write_text("".join(f"w{at} {' '.join(map(str, rng.normal(size=4)))}\n" for at in range(9)))
    texts = []
    for at in range(5):
        texts.append(str(tmp_path / f"{at}.tsv"))
        Path(texts[-1]).write_text("".join(f"w{word}\t{rng.integers(1, 9)}\n" for word in range(at, at + 4)))
    rot[4:] = [*texts, "--json", "--embeddings", str(vectors)]
    for metric in ((), ("--metric", "rkp", "--rho", "inf")):
        here, there = (json.loads(found.stdout) for found in (run(*metric), run("--ray", cluster.address, *metric)))
        np.testing.assert_allclose(there["matrix"], here["matrix"], rtol=1e-4)
        for found, other in ((here, there), (there, here)):
            assert (np.array(found["lower_bounds"]) <= np.array(other["matrix"]) * (1 + 1e-12)).all()
    refused = run("--ray", cluster.address, "--metric", "kl", "--lambda", "0.001")
    assert refused.returncode == 2
    assert re.search(r"\d\.tsv and \S+\d\.tsv: lam: e\^\(V/λ\) overflows", refused.stderr.splitlines()[-1])
    assert "Warning" not in refused.stderr
    assert "--threads" in run("--ray", cluster.address, "--threads", "1").stderr
