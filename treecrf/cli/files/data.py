"""What a file of labeled sequences holds, and how it is to be read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.inputs.sequences import CATEGORY, InputSchema, Sequences


@dataclass(frozen=True)
class Reading:
    """How to read a file.

    Attributes
    ----------
    format : str, optional
        One of `treecrf.cli.files.FORMATS`; the name of the file tells if not given.
    label, group : str, optional
        Columns of a table: the labels, and what tells the sequences apart. The rows of a group
        follow each other; without groups all rows are one sequence.
    drop : tuple of str
        Columns of a table that are left out.
    category : tuple of str
        Columns of a table whose whole numbers are names, not quantities.
    missing : tuple of str
        What stands for a missing value in a CSV file, beside the usual.
    separator : str, optional
        What stands between the columns of a line.
    encoding : str
        Of text.
    """

    format: str | None = None
    label: str | None = None
    group: str | None = None
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    separator: str | None = None
    encoding: str = "utf-8"


def array_of_words(words: list[str]) -> np.ndarray:
    """Strings as an array.

    Raises
    ------
    ValueError
        If one ends with NUL, which arrays cut off.
    """
    for word in words:
        if word.endswith("\0"):
            raise ValueError(
                f"{word!r} ends with a NUL character, which arrays of strings cannot hold"
            )
    return np.array(words, dtype=np.str_)


@dataclass(frozen=True)
class ModelInput:
    """What a trained model expects of a file.

    Attributes
    ----------
    trained : InputSchema
    classes : array (n_classes,)
    """

    trained: InputSchema
    classes: np.ndarray


@dataclass(frozen=True)
class FileData:
    """Sequences of a file.

    Attributes
    ----------
    sequences : Sequences
    labels : list of arrays (n_positions,), optional
        Of each sequence.
    groups : list of str, optional
        What a table calls each sequence.
    is_table : bool
        Whether the file is a table with named columns.
    """

    sequences: Sequences
    labels: list[np.ndarray] | None
    groups: list[str] | None = None
    is_table: bool = False

    def as_symbols(self) -> FileData:
        """The same with the values of the only column as symbols.

        Raises
        ------
        ValueError
            If there are more columns, or it is not one of categories.
        """
        sequences = self.sequences
        if sequences.n_features != 1 or sequences.column_kinds[0] != CATEGORY:
            raise ValueError(
                f"the file has {sequences.n_features} features; symbols are one column of words, "
                "or of whole numbers that --category names"
            )
        return replace(self, sequences=replace(sequences, names=None, of_symbols=True))
