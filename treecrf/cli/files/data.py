"""Contents of a file of labeled sequences, and the options for reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from treecrf.inputs.dataset import NO_NAMES, ColumnNames
from treecrf.inputs.reading import as_sequences
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences

NO_SEQUENCES = as_sequences([], segmentation=Segmentation(may_be_empty=True))


@dataclass(frozen=True)
class Reading:
    """Options for reading a file.

    Attributes
    ----------
    format : str, optional
        One of `treecrf.cli.files.FORMATS`. By default, the file extension determines it.
    label, group : str, optional
        Columns of a table that hold the labels and the groups, which define the sequences. The rows
        of a group are contiguous. Without groups, all rows are one sequence. By default, a model
        determines both.
    no_group : bool
        Whether all rows are one sequence, also if the model was trained with groups.
    with_labels : bool
        Whether to read the labels.
    may_be_empty : bool
        Whether a table without rows is allowed.
    drop : tuple of str
        Columns of a table to exclude.
    category : tuple of str
        Columns of a table whose whole numbers are categories.
    missing : tuple of str
        Additional texts that mark a missing value in a CSV file.
    separator : str, optional
        Separator between the columns of a line.
    encoding : str
        Encoding of text files.
    """

    format: str | None = None
    label: str | None = None
    group: str | None = None
    no_group: bool = False
    with_labels: bool = True
    may_be_empty: bool = False
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    separator: str | None = None
    encoding: str = "utf-8"


@dataclass(frozen=True)
class ModelInput:
    """Requirements of a trained model on a file.

    Attributes
    ----------
    schema : InputSchema
    classes : array (n_classes,)
    columns : ColumnNames
        Columns of the labels and the groups in training.
    """

    schema: InputSchema
    classes: np.ndarray
    columns: ColumnNames = NO_NAMES


@dataclass(frozen=True)
class FileText:
    """The columns of a file as text, which are read again.

    Attributes
    ----------
    names : list of str
    rows : callable
        Given names, returns an iterator over a list of texts for each position.
    """

    names: list[str]
    rows: Callable[[Sequence[str]], Iterator[Sequence[str]]]


@dataclass(frozen=True)
class FileData:
    """Sequences of a file.

    Attributes
    ----------
    sequences : Sequences
    labels : list of arrays (n_positions,), optional
        The labels of each sequence; None if missing.
    groups : list of str, optional
        The group of each sequence in a table.
    is_table : bool
        Whether the file is a table with named columns.
    columns : ColumnNames
        The columns of a table that hold the labels and the groups.
    missing_label : str, optional
        Where the first missing label is.
    text : FileText
        The columns that can be copied to an output.
    """

    sequences: Sequences
    labels: list[np.ndarray] | None
    groups: list[str] | None = None
    is_table: bool = False
    columns: ColumnNames = NO_NAMES
    missing_label: str | None = None
    text: FileText = field(default_factory=lambda: FileText([], lambda _: iter(())))

    def as_symbols(self) -> FileData:
        """Return the same data with the values of the only column as symbols.

        Raises
        ------
        ValueError
            If there are more columns, or the column is not a category.
        """
        sequences = self.sequences
        if sequences.n_features != 1 or sequences.column_kinds[0] != CATEGORY:
            raise ValueError(
                f"the file has {sequences.n_features} features; expected symbols: a single column "
                "of words, or of whole numbers if --category names it"
            )
        return replace(self, sequences=replace(sequences, names=None, of_symbols=True))
