"""Contents of a file of labeled sequences, and the options for reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treecrf.inputs.dataset import NO_NAMES, ColumnNames, as_sequences
from treecrf.inputs.offsets import Segmentation
from treecrf.inputs.sequences import CATEGORY, InputSchema, Sequences
from treecrf.inputs.tables import TableOptions

NO_SEQUENCES = as_sequences([], segmentation=Segmentation(may_be_empty=True))


@dataclass(frozen=True)
class Reading(TableOptions):
    """Options for reading a file."""

    format: str | None = None  # by default, the file determines it
    label: str | None = None  # by default, as in the model
    group: str | None = None  # by default, as in the model; without one, all rows are one sequence
    no_group: bool = False
    with_labels: bool = True
    may_be_empty: bool = False


@dataclass(frozen=True)
class ModelInput:
    """Requirements of a trained model on a file; ``columns`` are the columns in training."""

    schema: InputSchema
    classes: np.ndarray
    columns: ColumnNames = NO_NAMES


@dataclass(frozen=True)
class FileData:
    """Sequences of a file, their labels, and the groups and columns of a table."""

    sequences: Sequences
    labels: list[np.ndarray] | None  # None if missing
    groups: list[str] | None = None
    is_table: bool = False
    columns: ColumnNames = NO_NAMES
    missing_label: str | None = None  # the place of the first
    # Columns that can be copied to an output, and the texts of some of them, which are read again.
    text_names: Sequence[str] = ()
    text_rows: Callable[[Sequence[str]], Iterator[Sequence[str]]] = lambda _: iter(())

    def as_symbols(self) -> FileData:
        """Return the same data with the values of the only column, a category, as symbols."""
        sequences = self.sequences
        if sequences.n_features != 1 or sequences.column_kinds[0] != CATEGORY:
            raise ValueError(
                f"the file has {sequences.n_features} features; expected symbols: a single column "
                "of words, or of whole numbers if --category names it"
            )
        return replace(self, sequences=replace(sequences, names=None, of_symbols=True))
