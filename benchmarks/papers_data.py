"""The three datasets of the TREECRF papers, as symbol sequences and as windowed indicators.

The environment variable ``TREECRF_DATA`` gives the folder that contains them. Running this file
verifies that the recovered letters reproduce the windows of the published files exactly.

The published files number each indicator ``offset * n_symbols + symbol``; the last symbol of
each block means "beyond the end". Hyphenation is special: its rows are the gaps between two
letters, so the last letter of a word appears in windows but has no row of its own. A model
that reads whole words is trained with the label that no hyphen follows the last letter, and is
evaluated on the rows only. ``hyphen-rows`` is the same data as rows of indicators, without a window
and without that letter, in sparse matrices, and ``hyphen-dense`` in arrays; likewise for the other
datasets.
"""

from __future__ import annotations

import os
import string
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import sparse

from treecrf import papers
from treecrf.datasets import fetch_nettalk
from treecrf.datasets.published import AMINO_ACIDS
from treecrf.datasets.sparse import read_windows

SETTINGS = {"protein": papers.PROTEIN, "nettalk": papers.NETTALK, "hyphen": papers.HYPHENATION}
NAMES = tuple(SETTINGS)
FORMS = ("rows", "dense")
CHOICES = (*NAMES, *(f"{name}-{form}" for name in NAMES for form in FORMS))


@dataclass
class Split:
    """The sequences of one file; ``labels`` are those of the rows, ``letters`` may be longer."""

    letters: list[str]
    labels: list[str]
    window: tuple[int, int]
    alphabet: str
    form: str = ""

    @cached_property
    def windowed(self) -> sparse.csr_matrix:
        """Indicators of every row's window, shape (n_rows, width * n_symbols)."""
        blocks = map(self._window_codes, self.letters, self.labels)
        return indicators(np.concatenate(list(blocks)), len(self.alphabet) + 1)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of rows of each sequence."""
        return np.array([len(labels) for labels in self.labels])

    def inputs(self) -> list:
        """Return the input of a sequence model: strings, or rows of indicators."""
        if not self.form:
            return self.letters
        rows = self.windowed.astype(bool)
        if self.form == "dense":
            rows = rows.toarray()
        return [rows[rows_of_one] for rows_of_one in row_slices(self.lengths)]

    def targets(self) -> list[str]:
        """Return the targets of a sequence model; a letter without a row is labeled 0."""
        if self.form:
            return self.labels
        pairs = zip(self.letters, self.labels, strict=True)
        return [labels.ljust(len(letters), "0") for letters, labels in pairs]

    def rows_of(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Concatenate the outputs of a sequence model, leaving out letters without a row."""
        pairs = zip(outputs, self.lengths, strict=True)
        return np.concatenate([output[:length] for output, length in pairs])

    def take(self, indices: np.ndarray) -> Split:
        """Select sequences."""
        letters, labels = ([items[i] for i in indices] for items in (self.letters, self.labels))
        return replace(self, letters=letters, labels=labels)

    def _window_codes(self, letters: str, labels: str) -> np.ndarray:
        left, right = self.window
        beyond = len(self.alphabet)
        codes = [self.alphabet.index(letter) for letter in letters]
        padded = np.array([beyond] * left + codes + [beyond] * right)
        return np.lib.stride_tricks.sliding_window_view(padded, left + right + 1)[: len(labels)]


@dataclass
class Task:
    """A dataset with its split into training and test sequences."""

    name: str
    train: Split
    test: Split

    @property
    def classes(self) -> list[str]:
        """All labels, in order."""
        return sorted(set("".join(self.train.labels)))

    @property
    def window(self) -> tuple[int, int]:
        """The window that a sequence model uses over its input."""
        return (0, 0) if self.train.form else self.train.window

    def arrays(self) -> tuple[list, list, list, list]:
        """``X_train, y_train, X_test, y_test`` for a sequence model."""
        return self.train.inputs(), self.train.targets(), self.test.inputs(), self.test.targets()

    def codes(self, split: Split) -> np.ndarray:
        """Labels of all rows as numbers, in the order of ``classes``."""
        return np.searchsorted(self.classes, list("".join(split.labels)))


def load(name: str) -> Task:
    """Read one of ``CHOICES``."""
    letters, _, form = name.partition("-")
    read = {"protein": _protein, "nettalk": _nettalk, "hyphen": _hyphen}[letters]
    return Task(name, *(replace(read(part), form=form) for part in ("train", "test")))


def indicators(codes: np.ndarray, n_values: int) -> sparse.csr_matrix:
    """One-hot rows of a table of codes: column j with value c sets j * n_values + c."""
    n_rows, n_columns = codes.shape
    columns = (codes + n_values * np.arange(n_columns)).astype(np.int32).ravel()
    starts = np.arange(0, columns.size + 1, n_columns, dtype=np.int32)
    values = np.ones(columns.size, dtype=np.float32)
    return sparse.csr_matrix((values, columns, starts), shape=(n_rows, n_columns * n_values))


def row_slices(lengths: np.ndarray) -> list[slice]:
    ends = np.cumsum(lengths)
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def folder() -> Path:
    """Return the data folder, or exit with an explanation."""
    path = os.environ.get("TREECRF_DATA")
    if not path:
        sys.exit("TREECRF_DATA is not set; expected the folder of protein/, nettalk/ and hyphen/")
    return Path(path)


def _protein(part: str) -> Split:
    return _from_windows("protein", f"sparse.protein.11.{part}", AMINO_ACIDS)


def _hyphen(part: str) -> Split:
    return _from_windows("hyphen", f"sparse.hyphen.6.{part}", string.ascii_lowercase)


def _nettalk(part: str) -> Split:
    words, stresses = fetch_nettalk(subset=part, data_home=folder(), return_X_y=True)
    return Split(words, stresses, papers.NETTALK["window"], string.ascii_lowercase)


def _from_windows(name: str, file: str, alphabet: str) -> Split:
    window = SETTINGS[name]["window"]
    return Split(*read_windows(folder() / name / file, alphabet, window[0]), window, alphabet)


def check_against_files() -> None:
    """Compare the windows built from the recovered letters with the published ones."""
    files = {"protein": "protein/sparse.protein.11", "hyphen": "hyphen/sparse.hyphen.6"}
    for name, stem in files.items():
        task = load(name)
        for part, split in (("train", task.train), ("test", task.test)):
            table = np.loadtxt(folder() / f"{stem}.{part}", dtype=np.int32, skiprows=1)
            same_windows = np.array_equal(split.windowed.indices, table[:, 3:-1].ravel())
            same_labels = "".join(split.labels) == "".join(map(str, table[:, -1]))
            print(f"{name} {part}: {'same' if same_windows and same_labels else 'DIFFERENT'}")


if __name__ == "__main__":
    check_against_files()
