"""Sizes of results in memory, by which Dask places tasks and moves results to the disk."""

from __future__ import annotations

import sys
from typing import Any

from dask.sizeof import sizeof

from treecrf.encoding.encoded import EncodedSequences
from treecrf.inputs.dataset import RawData
from treecrf.learners.boosted.encoded import EncodedPart
from treecrf.learners.boosted.messages import IterationResult, ShardAnswer
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
