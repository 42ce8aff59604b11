"""Objects with large arrays: their pickles, and copies with the arrays in other memory."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

# Smaller arrays stay in memory, with the object that holds them.
MIN_BYTES = 1 << 12

# Makes an array of zeros of a shape and a type, like `numpy.zeros`, perhaps in a file.
Allocate = Callable[..., np.ndarray]


def moved(array: np.ndarray, allocate: Allocate) -> np.ndarray:
    """Copy an array to one that ``allocate`` makes."""
    copied = allocate(array.shape, array.dtype)
    copied[...] = array
    return copied


def relocated(item: Any, allocate: Allocate) -> Any:
    """Return a copy of an object whose large arrays come from a function such as `np.zeros`."""
    header, buffers = pickled(item)
    return pickle.loads(header, buffers=[moved(np.asarray(buffer), allocate) for buffer in buffers])


def pickled(item: Any) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of an object, and its large arrays, which are not part of the pickle."""
    buffers: list[memoryview] = []

    def is_part_of_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < MIN_BYTES:
            return True
        buffers.append(raw)
        return False

    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=is_part_of_pickle).dump(item)
    return file.getvalue(), buffers


class _Pickler(pickle.Pickler):
    """Pickler that stores an array of one repeated value as this value."""

    def reducer_override(self, item: Any) -> Any:
        if type(item) is np.ndarray and item.size > 1 and not any(item.strides):
            return np.broadcast_to, (item.flat[0], item.shape)
        return NotImplemented
