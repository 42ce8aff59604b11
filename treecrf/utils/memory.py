"""Memory: a check before allocation, and what the C library does with freed memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np

# Numbers of two parameters of the GNU C library, and values with which it keeps freed memory.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGE_TRIM_THRESHOLD, LARGEST_MMAP_THRESHOLD = 1 << 30, 1 << 25
DEFAULT_MMAP_THRESHOLD = 1 << 17

# None unless this is the GNU C library.
_library = ctypes.CDLL(None) if sys.platform == "linux" else None
_mallopt = getattr(_library, "mallopt", None)
_malloc_trim = getattr(_library, "malloc_trim", None)

_lock = Lock()
_n_keeping = 0


def check_memory(n_bytes: int, message: str) -> None:
    """Raise MemoryError with a message if the system refuses to allocate this number of bytes."""
    try:
        np.empty(n_bytes, dtype=np.uint8)
    except MemoryError:
        raise MemoryError(message) from None


def return_freed_memory() -> None:
    """Return freed memory to the system.

    The GNU C library keeps it for the thread that allocated it; no other thread can use it.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Keep freed memory for the next arrays, even if the environment says otherwise.

    Dask starts workers with the environment variable ``MALLOC_TRIM_THRESHOLD_``. With it, the GNU C
    library returns the arrays of each node of a tree to the system as soon as they are freed, and
    growth takes half as long again because of page faults. Without the variable, the library adapts
    to the program, and this changes nothing.
    """
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    mmap = os.environ.get("MALLOC_MMAP_THRESHOLD_", str(DEFAULT_MMAP_THRESHOLD))
    if _mallopt is None or not (trim.isdigit() and mmap.isdigit()):
        yield
        return
    _change_keeping(1, LARGE_TRIM_THRESHOLD, LARGEST_MMAP_THRESHOLD)
    try:
        yield
    finally:
        _change_keeping(-1, int(trim), int(mmap))


def _change_keeping(change: int, trim: int, mmap: int) -> None:
    """Count the threads that keep memory; the first and the last one set the thresholds."""
    global _n_keeping
    with _lock:
        was_keeping = _n_keeping > 0
        _n_keeping += change
        if was_keeping != (_n_keeping > 0):
            _mallopt(TRIM_THRESHOLD, trim)
            _mallopt(MMAP_THRESHOLD, mmap)
