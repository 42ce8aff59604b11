"""LabelerColumns of a labeler, and the places of their values in its tables.

A value that no tree tests and that has no weight is left out: no prediction depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from treecrf.export.tables import Tables
from treecrf.inputs.offsets import offsets_of
from treecrf.inputs.schema import CATEGORY, InputSchema

# Codes of values: of missing ones, of unknown categories, and of all numbers. The codes of known
# categories are counted from 1.
MISSING_CODE = -1
UNKNOWN_CODE = 0
NUMBER_CODE = 1


class Values(NamedTuple):
    """Values of the input, as the columns of the training data and codes."""

    columns: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class LabelerColumns:
    """The columns that a labeler has, and the places of their values.

    Each column has a place for missing values, which is followed by one for all numbers, or by one
    for unknown categories and those of the known ones. The places of numbers come first.
    """

    # Form and columns of the training data.
    schema: InputSchema
    # LabelerColumns of the training data that the labeler has, ascending.
    chosen: np.ndarray
    # Of each column of categories: the code in the labeler of each code, 0 for unused ones.
    new_codes: dict[int, np.ndarray]

    @classmethod
    def of(cls, schema: InputSchema, used: list[Values]) -> LabelerColumns:
        """Choose the columns and categories that predictions depend on."""
        is_used = np.zeros(schema.n_features, dtype=bool)
        for values in used:
            is_used[values.columns] = True
        chosen = np.arange(schema.n_features)
        if not keeps_all(schema):
            chosen = np.flatnonzero(is_used)
            if not len(chosen):
                chosen = np.zeros(1, dtype=np.int64)  # C has no empty arrays
        return cls(schema, chosen, _new_codes(schema, used))

    @property
    def is_category(self) -> np.ndarray:
        """Whether each column of the labeler holds categories."""
        return self.schema.kinds[self.chosen] == CATEGORY

    @cached_property
    def n_known(self) -> np.ndarray:
        """Number of known categories of each column of the labeler; 0 for numbers."""
        known = np.zeros(len(self.chosen), dtype=np.int64)
        for k in np.flatnonzero(self.is_category):
            known[k] = self.new_codes[self.chosen[k]].max()
        return known

    @cached_property
    def first_places(self) -> np.ndarray:
        """Place of missing values of each column of the labeler."""
        sizes = 2 + self.n_known
        order = np.argsort(self.is_category, kind="stable")
        places = np.zeros(len(sizes), dtype=np.int64)
        places[order] = offsets_of(sizes[order])[:-1]
        return places

    @property
    def end_places(self) -> np.ndarray:
        """Place after the last one of each column of the labeler."""
        return self.first_places + 2 + self.n_known

    @property
    def n_places(self) -> int:
        """Number of places of all columns."""
        return int(self.end_places.max())

    @property
    def n_number_places(self) -> int:
        """Number of places of numbers, which come first."""
        return 2 * int(np.count_nonzero(~self.is_category))

    def places_of(self, values: Values) -> np.ndarray:
        """Return the places of values that the labeler has."""
        own = np.searchsorted(self.chosen, values.columns)
        codes = values.codes.copy()
        is_category = self.is_category[own]
        codes[~is_category & (codes > UNKNOWN_CODE)] = UNKNOWN_CODE
        for j, new_codes in self.new_codes.items():
            here = np.flatnonzero((values.columns == j) & (values.codes > UNKNOWN_CODE))
            codes[here] = new_codes[values.codes[here]]
        return self.first_places[own] + codes + 1

    def fills_of(self, values: np.ndarray) -> np.ndarray:
        """Return what replaces missing values of the labeler's columns, with its codes."""
        fills = values.astype(np.float64)
        for j, new_codes in self.new_codes.items():
            fills[j] = new_codes[int(values[j])]
        return fills[self.chosen]

    def categories(self, k: int) -> list[tuple[str, int]]:
        """Return the known categories of a column of the labeler as text, and their codes."""
        j = int(self.chosen[k])
        values = self.schema.categories[j].tolist()
        codes = self.new_codes[j][1:].tolist()
        return [(str(value), code) for value, code in zip(values, codes, strict=True) if code]

    def tables(self, visits_all: bool) -> Tables:
        """Return the tables of columns.

        With ``visits_all``, all columns of a position are read, also those without a value.
        """
        all_kept = keeps_all(self.schema)
        constants = {
            "N_PLACES": self.n_places,
            "IGNORES_UNKNOWN": int(not all_kept),
            "VISITS_ALL": int(all_kept or visits_all),
            "ABSENT": np.nan if all_kept else 0.0,
        }
        arrays = {
            "column_kinds": self.schema.kinds[self.chosen],
            "column_places": self.first_places,
            "column_ends": self.end_places,
        }
        return Tables(constants, arrays)


def keeps_all(schema: InputSchema) -> bool:
    """Return whether a labeler has all columns of the input, and those without a value are missing.

    Otherwise, unknown names are ignored, as in dicts.
    """
    return schema.names is None or schema.absent_is_missing


def _new_codes(schema: InputSchema, used: list[Values]) -> dict[int, np.ndarray]:
    """Return the codes of used categories, numbered from 1 in their order."""
    is_used = {j: np.zeros(len(values) + 1, bool) for j, values in schema.categories.items()}
    for values in used:
        are_known = (schema.kinds[values.columns] == CATEGORY) & (values.codes > UNKNOWN_CODE)
        for j in np.unique(values.columns[are_known]).tolist():
            is_used[j][values.codes[are_known & (values.columns == j)]] = True
    return {j: np.cumsum(codes_used) * codes_used for j, codes_used in is_used.items()}
