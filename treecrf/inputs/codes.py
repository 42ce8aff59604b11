"""The values of a category as codes."""

from __future__ import annotations

from collections import defaultdict
from itertools import repeat
from typing import Any

import numpy as np


class Coder:
    """Counts the values of a category from 1; None, which stands for a missing one, is 0.

    Parameters
    ----------
    known : array, optional
        The sorted values of a trained model, whose codes are their places; others count as
        missing. Without it every value gets a code.
    """

    def __init__(self, known: np.ndarray | None = None):
        self.known = known
        self.index: dict[Any, int] = {None: 0}
        if known is None:
            self.index = defaultdict(None, self.index)
            self.index.default_factory = self.index.__len__
        else:
            self.index |= {value: code for code, value in enumerate(known.tolist(), 1)}

    def codes(self, values: list) -> np.ndarray:
        """Codes of values, in the order in which they come up if they are not known."""
        if self.known is None:
            found = map(self.index.__getitem__, values)
        else:
            found = map(self.index.get, values, repeat(0))
        return np.fromiter(found, np.int32, len(values))

    @property
    def values(self) -> list:
        """All values that have codes, in their order."""
        return list(self.index)[1:]

    def sort(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes by the order of the values, and these: strings or integers, sorted."""
        if self.known is not None:
            return codes, self.known
        values = self.values
        if values and not isinstance(values[0], str):
            array = np.array(list(map(int, values)), dtype=np.int64)
        else:
            array = np.array(values, dtype=np.str_)
        order = np.argsort(array)
        ranks = np.zeros(len(array) + 1, dtype=np.int32)
        ranks[order + 1] = np.arange(1, len(array) + 1)
        return ranks[codes], array[order]
