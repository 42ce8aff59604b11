"""The tables of a labeler: constants and arrays of C code, by their names there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Tables:
    """Constants and arrays of C code."""

    # Integers and floats, which become macros.
    constants: Mapping[str, int | float] = field(default_factory=dict)
    # Arrays of integers or floats, of one or two dimensions.
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __or__(self, others: Tables) -> Tables:
        return Tables({**self.constants, **others.constants}, {**self.arrays, **others.arrays})
