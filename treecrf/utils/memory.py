"""Checks that arrays fit in memory, before any work on them."""

from __future__ import annotations

import numpy as np


def check_memory(n_bytes: int, message: str) -> None:
    """Raise MemoryError with a message if the system refuses to allocate this number of bytes."""
    try:
        np.empty(n_bytes, dtype=np.uint8)
    except MemoryError:
        raise MemoryError(message) from None
