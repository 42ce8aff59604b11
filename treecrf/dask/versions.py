"""Comparison of the software and the arithmetic of workers and the client."""

from __future__ import annotations

import hashlib
import math
import platform
from functools import lru_cache

import numpy as np

from treecrf._version import __version__


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Return the versions of treecrf and NumPy, and a hash of results of numeric functions.

    The C library and NumPy choose code by the processor, so the last bit of a logarithm may differ
    between machines with equal software.
    """
    x = np.linspace(-30, 30, 1001)
    scalars = [math.exp(value) for value in x] + [math.log1p(math.exp(value)) for value in x]
    arrays = [np.exp(x), np.log(np.abs(x) + 0.1), np.log1p(np.exp(x)), np.array(scalars)]
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:8]
    return f"treecrf {__version__}, numpy {np.__version__}, arithmetic {digest}"


def check_versions(expected: str | None) -> None:
    """Raise RuntimeError if this process does not have the client's fingerprint, if given."""
    if expected is None or expected == fingerprint():
        return
    raise RuntimeError(
        f"worker on {platform.node()} has {fingerprint()}; the client has {expected}. Results are "
        "equal to the bit only if these agree: install the same versions, or turn off this check "
        "with dask.config.set({'treecrf.check-versions': False})"
    )
