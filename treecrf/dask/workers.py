"""What workers import with the first task: comparison with the client, and sizes of results."""

from __future__ import annotations

import hashlib
import math
import platform
import sys
from functools import lru_cache
from typing import Any

import numpy as np
from dask.sizeof import sizeof

from treecrf._version import __version__
from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.dataset import RawData
from treecrf.learners.boosted.encoded import EncodedPart
from treecrf.learners.boosted.shard import IterationResult, ShardAnswer
from treecrf.learners.training_data import LabeledSequences

TYPES = (
    RawData,
    LabeledSequences,
    EncodedPart,
    EncodedSequences,
    ShardAnswer,
    IterationResult,
)

# Longer lists are measured by a sample; measuring the tokens of all positions takes seconds.
MAX_ITEMS = 200


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


# Sizes in memory, by which Dask places tasks and moves results to the disk


@sizeof.register(TYPES)
def size_of_fields(value: Any) -> int:
    """Return the size of an object and of everything that its attributes hold."""
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = vars(value) if hasattr(value, "__dict__") else {n: getattr(value, n) for n in names}
    return sys.getsizeof(value) + sum(map(_size, fields.values()))


def _size(value: Any) -> int:
    if type(value).__module__.partition(".")[0] == "treecrf":
        return size_of_fields(value)
    if isinstance(value, (list, tuple)) and value:
        sample = value[:: -(-len(value) // MAX_ITEMS)]
        return sys.getsizeof(value) + sum(map(_size, sample)) * len(value) // len(sample)
    return sizeof(value)
