"""Matrices on disk, filled block by block, with a manifest and a journal of the finished blocks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Not on Windows, where two runs in one folder go undetected.
    fcntl = None  # type: ignore[assignment, unused-ignore]

_VERSION = 2
_MANIFEST = "manifest.json"
#: One line per block finished since the manifest was written; a block costs one line however long the run is.
_JOURNAL = "journal.jsonl"
#: Locked while a run uses the folder.
_LOCK = "lock"


class Store:
    """Arrays that outlive the process that fills them; without a folder, arrays in memory.

    A block counts once its numbers and its line in the journal are on disk; a run that dies in between repeats the block.
    When the store is closed, the journal is merged into the manifest, which is replaced atomically.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, key: str, arrays: dict[str, tuple[tuple[int, int], Any]]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.key = key
        self.done: set[str] = set()
        self.notes: dict[str, Any] = {}
        self._shapes = arrays
        self._memory: dict[str, NDArray[Any]] = {}
        self._files: dict[str, tuple[int, int]] = {}
        self._outdated: list[Path] = []
        if self.folder is None:
            self._memory = {name: np.empty(shape, dtype) for name, (shape, dtype) in arrays.items()}
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / _LOCK, os.O_WRONLY | os.O_CREAT)
        try:
            self._open(arrays)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, arrays: dict[str, tuple[tuple[int, int], Any]]) -> None:
        """Lock the folder, and continue with its contents."""
        assert self.folder is not None
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"out must be the folder of one run, but another run is using {self.folder}") from None
        path = self.folder / _MANIFEST
        if path.exists():
            found, self.done, self.notes = recorded(self.folder)
            if found != (_VERSION, self.key):
                raise ValueError(f"out must be new or a folder of the same data and options, but {path} is from another run")
        else:
            for name, (shape, dtype) in arrays.items():
                self._create(name, shape, dtype)
        # This also discards a line that a crash cut off.
        self._write_manifest()
        self._journal = os.open(self.folder / _JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._noted = self.notes
        for name in arrays:
            path = self._path(name)
            offset = np.load(path, mmap_mode="r").offset
            self._files[name] = (os.open(path, os.O_RDWR), offset)

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npy"

    def _create(self, name: str, shape: tuple[int, int], dtype: Any) -> None:
        """Create a file at its full size, so that a full disk is reported before any work."""
        path = self._path(name)
        try:
            np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape).flush()
            if hasattr(os, "posix_fallocate"):
                with open(path, "r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
        except OSError as error:
            path.unlink(missing_ok=True)
            what = f"{error.strerror}: cannot create a file of {shape[0]} × {shape[1]} numbers"
            raise OSError(error.errno, what, str(path)) from None

    def _write_manifest(self) -> None:
        """Write all records to the manifest, and start a new journal."""
        assert self.folder is not None
        text = json.dumps({"version": _VERSION, "key": self.key, "done": sorted(self.done), "notes": self.notes})
        self._write(_MANIFEST, text.encode())
        (self.folder / _JOURNAL).unlink(missing_ok=True)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        if self.folder is None:
            return
        unfinished = self.folder / f"{name}.{os.getpid()}"
        try:
            with open(unfinished, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.folder / name)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    def keep(self, note: str, name: str, data: bytes) -> None:
        """Write a file that the next commit names in a note; the commit then removes the one named before."""
        self._write(name, data)
        if self.folder is not None and note in self.notes:
            self._outdated.append(self.folder / self.notes[note])
        self.notes = {**self.notes, note: name}

    def read(self, name: str) -> bytes:
        """Return the contents of a kept file."""
        assert self.folder is not None
        return (self.folder / name).read_bytes()

    def put(self, name: str, row: int, column: int, values: NDArray[Any]) -> None:
        """Write some numbers of one row."""
        shape, dtype = self._shapes[name]
        values = np.ascontiguousarray(values, dtype=dtype)
        if self.folder is None:
            self._memory[name][row, column : column + len(values)] = values
            return
        file, offset = self._files[name]
        place = offset + (row * shape[1] + column) * values.itemsize
        left = memoryview(values.tobytes())
        while len(left):
            written = os.pwrite(file, left, place)
            left, place = left[written:], place + written

    def commit(self, block: str) -> None:
        """Record a block whose numbers have been written."""
        self.done.add(block)
        if self.folder is None:
            return
        for file, _ in self._files.values():
            os.fsync(file)
        line: dict[str, Any] = {"done": block}
        if self.notes != self._noted:
            line["notes"] = self._noted = self.notes
        left = memoryview((json.dumps(line) + "\n").encode())
        while len(left):
            left = left[os.write(self._journal, left) :]
        os.fsync(self._journal)
        for path in self._outdated:
            path.unlink(missing_ok=True)
        self._outdated = []

    def array(self, name: str) -> NDArray[Any]:
        """Return an array; one on disk is memory-mapped, not read."""
        if self.folder is None:
            return self._memory[name]
        mapped: NDArray[Any] = np.load(self._path(name), mmap_mode="r")
        return mapped

    def close(self) -> None:
        """Close the files and merge the journal into the manifest."""
        for file, _ in self._files.values():
            os.close(file)
        self._files = {}
        if self.folder is not None:
            os.close(self._journal)
            try:
                _, self.done, self.notes = recorded(self.folder)
                self._write_manifest()
            finally:
                os.close(self._lock)


def fingerprint(*parts: Any) -> str:
    """Return a digest that differs whenever numbers, contents of files or the structure of the parts differ."""
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"array {value.dtype} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, dict):
        _feed(digest, sorted(value.items()))
    elif isinstance(value, (list, tuple, np.ndarray)):
        digest.update(f"{len(value)} of ".encode())
        for part in value:
            _feed(digest, part)
    else:
        digest.update(f"{type(value).__name__} {value!r} ".encode())
        if isinstance(value, (str, os.PathLike)):
            # A prior or a grouping may be a file.
            with contextlib.suppress(OSError, ValueError):
                digest.update(Path(value).read_bytes())


def recorded(folder: Path) -> tuple[tuple[int, str], set[str], dict[str, Any]]:
    """Return version and key of a run, its finished blocks and its notes, from manifest and journal."""
    found = json.loads((folder / _MANIFEST).read_text())
    done, notes = set(found["done"]), found["notes"]
    journal = folder / _JOURNAL
    for line in journal.read_text().split("\n")[:-1] if journal.exists() else []:
        entry = json.loads(line)
        done.add(entry["done"])
        notes = entry.get("notes", notes)
    return (found.get("version"), found.get("key")), done, notes
