"""Short trainings on the published data sets reach the accuracy that they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from treecrf import TreeCRF

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


def read_windows(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Indices of the features that are set, and labels, of each row of each sequence."""
    table = np.loadtxt(path, dtype=np.int32, skiprows=1)
    starts = np.flatnonzero(np.diff(table[:, 0])) + 1
    return np.split(table[:, 3:-1], starts), np.split(table[:, -1], starts)


def read_proteins(path: Path) -> tuple[list[str], list[np.ndarray]]:
    """Residues, which stand in the middle of their window of 11, and structures."""
    windows, labels = read_windows(path)
    letters = np.array(list(AMINO_ACIDS))
    return ["".join(letters[rows[:, 5] % 21]) for rows in windows], labels


def read_stresses(path: Path) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    return [word for word, _ in rows], [stresses for _, stresses in rows]


def read_hyphens(path: Path) -> tuple[list[sparse.csr_array], list[np.ndarray]]:
    windows, labels = read_windows(path)
    return [_indicators(rows, 162) for rows in windows], labels


def _indicators(columns: np.ndarray, n_columns: int) -> sparse.csr_array:
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    values = np.ones(columns.size, dtype=bool)
    return sparse.csr_array((values, columns.ravel(), starts), shape=(len(columns), n_columns))


def test_protein_structure(data_folder):
    X, y = read_proteins(data_folder / "protein" / "sparse.protein.11.train")
    X_test, y_test = read_proteins(data_folder / "protein" / "sparse.protein.11.test")
    assert (sum(map(len, X)), sum(map(len, X_test))) == (18105, 3520)
    crf = TreeCRF(window=5, max_iter=60, l2_regularization=80.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.62
    assert crf.predict_log_likelihood(X_test, y_test).sum() / 3520 > -0.40


def test_stress_of_words(data_folder):
    X, y = read_stresses(data_folder / "nettalk" / "stress.train.txt")
    X_test, y_test = read_stresses(data_folder / "nettalk" / "stress.test.txt")
    crf = TreeCRF(
        window=6, max_iter=60, max_leaf_nodes=64, second_order=True, l2_regularization=5.0,
        learning_rate=0.5,
    ).fit(X, y)  # fmt: skip
    assert crf.score(X_test, y_test) > 0.855


def test_hyphenation(data_folder):
    X, y = read_hyphens(data_folder / "hyphen" / "sparse.hyphen.6.train")
    X_test, y_test = read_hyphens(data_folder / "hyphen" / "sparse.hyphen.6.test")
    assert (len(X), len(X_test)) == (1951, 908)
    crf = TreeCRF(max_iter=100, l2_regularization=40.0).fit(X, y)
    assert crf.score(X_test, y_test) > 0.918
