"""Form and columns of the training data of a model, which other data must match."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from typing import Any

import numpy as np

from treecrf.inputs._dicts import StringCodes
from treecrf.utils.model_file import check_categories, check_counts, check_names, require

# Kinds of columns.
KINDS = ("boolean", "category", "number")
BOOLEAN, CATEGORY, NUMBER = range(3)

TYPES = {"U": "strings", "i": "integers"}


@dataclass(frozen=True)
class InputSchema:
    """Form and columns of the training data of a model, required of all other input."""

    form: str  # "symbols" or "table"
    n_features: int  # number of columns
    names: tuple[str, ...] | None  # of the columns; None if they have no names
    kinds: np.ndarray  # indices into `KINDS`
    categories: dict[int, np.ndarray]  # the sorted integers or strings; symbols are one column
    # Whether a key that a dict lacks is a missing value, because the training data were data
    # frames. After training on dicts it is 0, as in training.
    absent_is_missing: bool = False

    @cached_property
    def known_strings(self) -> list[StringCodes | None]:
        """Codes of the categories of each column of strings; kept, because it takes long."""
        known: list[StringCodes | None] = [None] * self.n_features
        for j, values in self.categories.items():
            if values.dtype.kind == "U":
                known[j] = StringCodes(values.tolist())
        return known

    @cached_property
    def index(self) -> dict[str, int]:
        """The column of each name; kept, because it takes long."""
        # Names may be of a class of the user, with methods of its own.
        return {str.__str__(name): j for j, name in enumerate(self.names or ())}

    @cached_property
    def known_values(self) -> dict[str, frozenset[str]]:
        """The categories of each named column of strings."""
        return {
            self.names[j]: frozenset(values.tolist())
            for j, values in self.categories.items()
            if self.names is not None and values.dtype.kind == "U"
        }

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """The keys of which some strings are columns of their own: ``w`` if ``w:a`` is one."""
        prefixes: set[str] = set()
        names = self.names or ()
        for name in [name for name in names if ":" in name and name not in self.known_values]:
            end = name.find(":")
            while end >= 0:
                prefixes.add(name[:end])
                end = name.find(":", end + 1)
        return frozenset(prefixes)

    @cached_property
    def takes_attributes(self) -> bool:
        """Whether positions are sets of attributes, of which those that are absent are 0."""
        return self.names is not None and not self.absent_is_missing

    @cached_property
    def vectors(self) -> dict[str, np.ndarray]:
        """The keys of dicts that may hold vectors, and the columns of their values.

        The values of a vector with the key ``key`` have the names ``key[0]``, ``key[1]``, ...
        """
        if self.names is None:
            return {}
        numbers = {self.names[j]: j for j in np.flatnonzero(self.kinds == NUMBER).tolist()}
        vectors = {}
        for key in [name.removesuffix("[0]") for name in numbers if name.endswith("[0]")]:
            parts = takewhile(numbers.__contains__, (f"{key}[{i}]" for i in count()))
            vectors[key] = np.array([numbers[part] for part in parts])
        return vectors

    @cached_property
    def known_symbols(self) -> frozenset:
        """The symbols of the training data; kept, because it takes long."""
        return frozenset(self.categories[0].tolist())

    @cached_property
    def is_categorical(self) -> bool:
        """Whether all columns are categories."""
        return bool((self.kinds == CATEGORY).all())

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without the codes."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def check_form(self, form: str) -> None:
        """Raise TypeError for symbols if the model was trained on tables, or the reverse."""
        form_of_x = "symbols" if form == "symbols" else "table"
        if form_of_x != self.form:
            plural = {"symbols": "symbols", "table": "tables"}
            raise TypeError(
                f"X holds {plural[form_of_x]}, but the model was trained on {plural[self.form]}"
            )

    def check_symbols(self, dtype: np.dtype) -> None:
        """Raise TypeError for strings if the model was trained on integers, or the reverse."""
        kind = self.categories[0].dtype.kind
        if dtype.kind != kind:
            raise TypeError(
                f"the symbols of X are {TYPES[dtype.kind]}, but the model was trained on "
                f"{TYPES[kind]}"
            )

    def check_width(self, n_features: int) -> None:
        """Raise ValueError for another number of columns."""
        if n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features, the model was trained with {self.n_features}"
            )

    def check(self) -> None:
        """Raise ValueError unless the parts fit together, such as those of a saved model."""
        n = self.n_features
        kinds = self.kinds
        require(self.form in ("symbols", "table"), "form")
        check_counts(n)
        require(n > 0 and (self.form == "table" or n == 1), "columns")
        check_names(self.names, n)
        require(kinds.shape == (n,) and kinds.dtype == np.uint8, "columns")
        require((kinds < len(KINDS)).all(), "columns")
        require(self.form == "table" or kinds[0] == CATEGORY, "columns")
        require(isinstance(self.absent_is_missing, bool), "columns")
        for values in self.categories.values():
            check_categories(values)

    def column(self, j: int) -> str:
        """Name of a column in error messages."""
        return column_name(self.names, j)


def column_name(names: tuple[str, ...] | None, j: int) -> str:
    """Name of a column in error messages."""
    if names is None:
        return f"feature {j}"
    return f"column {names[j]!r}"
