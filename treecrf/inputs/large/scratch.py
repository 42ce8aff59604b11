"""Arrays and objects in temporary files, which are mapped into memory.

The operating system reads their pages when they are used, and removes them from memory when it is
needed for something else.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import IO, Any

import numpy as np

from treecrf.utils.allocation import pickled

# Arrays in a file start at multiples of this number of bytes.
ALIGNMENT = 64
# Sizes of files: a new file is as large as all earlier ones together, within these bounds.
MIN_FILE_BYTES = 1 << 22
MAX_FILE_BYTES = 1 << 30
# Errors of the system that mean that there is no space left.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors of file systems that cannot reserve space in one call.
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
ZEROS = bytes(1 << 20)


class Scratch:
    """A folder for temporary files.

    The files have no names, so nothing is left of them however the process ends, and other files in
    the folder are not touched. They are large and hold many arrays each, because every mapped file
    takes a descriptor. Their space is free again when their arrays are no longer used. A full disk
    raises OSError.
    """

    def __init__(self, folder: str | PathLike):
        self.folder = os.fspath(folder)
        check_folder(self.folder)
        self._rest = memoryview(b"")
        self._n_bytes = 0

    def allocate(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
        """Return an array of zeros in a file, in C order, like `numpy.zeros`."""
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if not n_bytes:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._take(n_bytes), dtype).reshape(shape)

    def store(self, items: Iterable[Any]) -> list[Stored]:
        """Write objects to new files one by one, with all large arrays that they hold."""
        files = Scratch(self.folder)
        stored = []
        for item in items:
            header, buffers = pickled(item)
            ends = np.cumsum([0, *(_aligned(buffer.nbytes) for buffer in buffers)]).tolist()
            space = files._take(ends[-1])
            views = []
            for buffer, start in zip(buffers, ends, strict=False):
                view = space[start : start + buffer.nbytes]
                view[:] = buffer
                views.append(view.toreadonly())
            stored.append(Stored(header, views))
        return stored

    def _take(self, n_bytes: int) -> memoryview:
        size = _aligned(n_bytes)
        if size > len(self._rest):
            self._rest = self._file(size)
        taken = self._rest[:n_bytes]
        self._rest = self._rest[size:]
        return taken

    def _file(self, needed: int) -> memoryview:
        """Map a new file with at least this number of bytes."""
        size = max(needed, min(max(self._n_bytes, MIN_FILE_BYTES), MAX_FILE_BYTES))
        with tempfile.TemporaryFile(dir=self.folder) as file:
            try:
                size = _reserve(file, needed, size)
                mapped = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_WRITE))
            except OSError as error:
                raise described(error, self.folder, needed) from None
        self._n_bytes += size
        return mapped


@dataclass(frozen=True, eq=False)
class Stored:
    """An object whose large arrays are in a file; the header is the pickle without them."""

    header: bytes
    buffers: list[memoryview]

    def __call__(self) -> Any:
        """Return the object. Its large arrays cannot be written to."""
        return pickle.loads(self.header, buffers=self.buffers)


def check_folder(folder: str) -> None:
    """Raise OSError if there is no such folder for temporary files, or it is not writable.

    Without this check, `fit` would fail only after it has read all data.
    """
    if os.path.isdir(folder):
        if not os.access(folder, os.W_OK | os.X_OK):
            text = "the folder for temporary files is not writable"
            raise PermissionError(errno.EACCES, text, folder)
        return
    if os.path.exists(folder):
        text = "expected a folder for temporary files, not a file"
        raise NotADirectoryError(errno.ENOTDIR, text, folder)
    raise FileNotFoundError(errno.ENOENT, "there is no such folder for temporary files", folder)


def described(error: OSError, folder: str, n_bytes: int) -> OSError:
    """Return an error of the system, with numbers in the message if there is no space left."""
    if error.errno not in NO_SPACE:
        return error
    if error.errno == errno.EFBIG:
        text = (
            f"{n_bytes:,} more bytes exceed the maximum size of a temporary file; raise the limit "
            "on the size of files (ulimit -f), or use another file system"
        )
        return OSError(error.errno, text, folder)
    free = shutil.disk_usage(folder).free
    text = f"temporary files need {n_bytes:,} more bytes, but {free:,} are free"
    return OSError(error.errno, text, folder)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def _reserve(file: IO[bytes], needed: int, wanted: int) -> int:
    """Reserve the number of bytes that is wanted, or if there is less space, the number needed.

    Writing to a mapped file without space would end the process.
    """
    try:
        _fill(file, wanted)
    except OSError as error:
        if error.errno not in NO_SPACE or needed == wanted:
            raise
        file.truncate(0)
        _fill(file, needed)
        return needed
    return wanted


def _fill(file: IO[bytes], n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
        else:
            return
    file.seek(0)
    for start in range(0, n_bytes, len(ZEROS)):
        file.write(ZEROS[: n_bytes - start])
    file.flush()
