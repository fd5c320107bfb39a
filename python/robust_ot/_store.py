"""Matrices on disk, filled block by block, with a manifest that says which blocks are there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VERSION = 1
_MANIFEST = "manifest.json"


class Store:
    """Arrays that outlive the process that fills them; without a folder, arrays in memory.

    A block counts once its numbers are on disk and the manifest, replaced in one piece, names it: whoever dies in between
    does that block again.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, key: str, arrays: dict[str, tuple[tuple[int, int], Any]]) -> None:
        self.folder = None if folder is None else Path(folder)
        self.key = key
        self.done: set[str] = set()
        self.notes: dict[str, Any] = {}
        self._shapes = arrays
        self._memory: dict[str, NDArray[Any]] = {}
        self._files: dict[str, tuple[int, int]] = {}
        if self.folder is None:
            self._memory = {name: np.empty(shape, dtype) for name, (shape, dtype) in arrays.items()}
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / _MANIFEST).exists():
            self._resume()
        else:
            for name, (shape, dtype) in arrays.items():
                self._create(name, shape, dtype)
            self._write_manifest()
        for name in arrays:
            path = self._path(name)
            offset = np.load(path, mmap_mode="r").offset
            self._files[name] = (os.open(path, os.O_RDWR), offset)

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npy"

    def _create(self, name: str, shape: tuple[int, int], dtype: Any) -> None:
        """Make a file of its full size, so that a disk that is too small says so before any work."""
        path = self._path(name)
        np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape).flush()
        if hasattr(os, "posix_fallocate"):
            file = os.open(path, os.O_RDWR)
            try:
                os.posix_fallocate(file, 0, os.path.getsize(path))
            except OSError as error:
                raise OSError(error.errno, f"there is no room for {os.path.getsize(path)} bytes", str(path)) from None
            finally:
                os.close(file)

    def _resume(self) -> None:
        assert self.folder is not None
        path = self.folder / _MANIFEST
        found = json.loads(path.read_text())
        if found.get("version") != _VERSION or found.get("key") != self.key:
            raise ValueError(f"out must be a new folder or one of the same measures and options, but {path} is of another run")
        self.done, self.notes = set(found["done"]), found["notes"]

    def _write_manifest(self) -> None:
        if self.folder is None:
            return
        text = json.dumps({"version": _VERSION, "key": self.key, "done": sorted(self.done), "notes": self.notes})
        unfinished = self.folder / f"{_MANIFEST}.{os.getpid()}"
        with open(unfinished, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.folder / _MANIFEST)

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
        """Count a block whose numbers have been written."""
        for file, _ in self._files.values():
            os.fsync(file)
        self.done.add(block)
        self._write_manifest()

    def array(self, name: str) -> NDArray[Any]:
        """Return an array; one on disk is mapped, not read."""
        if self.folder is None:
            return self._memory[name]
        mapped: NDArray[Any] = np.load(self._path(name), mmap_mode="r")
        return mapped

    def close(self) -> None:
        """Let go of the files."""
        for file, _ in self._files.values():
            os.close(file)
        self._files = {}
