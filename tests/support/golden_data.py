"""Small data in every form, for the recorded fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from support.dask_data import frame
from support.dask_data import sequences as tables_of

# Numbers of sequences for training, for validation, and to predict.
SIZES = (36, 8, 8)


class Data(NamedTuple):
    """Training sequences with labels, validation sequences, and new ones to predict."""

    X: Any
    y: Any
    X_val: Any
    y_val: Any
    new: Any


def data_of(kind: str) -> Data:
    """Labels depend on the values, their neighbors and the previous label; some are noise."""
    if kind == "table":
        training, validation, new = _frames()
        return Data(training, "tag", validation, "tag", new.drop(columns="tag"))
    if kind == "frames":
        training, validation, new = map(tables_of, _frames())
        return Data(*training, *validation, new[0])
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 16, sum(SIZES))
    numbers = [rng.normal(size=(length, 4)).round(2) for length in lengths]
    y = [_labels(table, rng) for table in numbers]
    X = [FORMS[kind](table, rng) for table in numbers]
    first, second = SIZES[0], sum(SIZES[:2])
    return Data(X[:first], y[:first], X[first:second], y[first:second], X[second:])


def _labels(table: np.ndarray, rng: np.random.Generator) -> list[str]:
    scores = table[:, 0] + np.append(0, table[:-1, 1]) + rng.normal(scale=0.3, size=len(table))
    labels: list[str] = []
    for score in scores:
        stays = labels and abs(score) < 0.3
        labels.append(labels[-1] if stays else "N" if score < -0.5 else "P" if score > 0.7 else "M")
    return labels


def _levels(values: np.ndarray, n: int) -> np.ndarray:
    return np.clip(((values + 2) * n / 4).astype(int), 0, n - 1)


def _letters(table, rng):
    return "".join("abcdefg"[i] for i in _levels(table[:, 0], 7))


def _gaps(table, rng):
    return np.where(rng.random(table.shape) < 0.25, np.nan, table)


def _sparse(table, rng):
    indicators = np.eye(12)[_levels(table[:, 0], 12)]
    return sparse.csr_array(np.hstack([indicators, table * (rng.random(table.shape) < 0.3)]))


def _dicts(table, rng):
    return [
        {"word": letter, "length": row[1]} | ({"rare": True, letter: 1.0} if row[2] > 1 else {})
        for letter, row in zip(_letters(table, rng), table, strict=True)
    ]


FORMS = {
    "letters": _letters,
    "words": lambda table, rng: [f"w{10 * i}" for i in _levels(table[:, 0], 400)],
    "numbers": lambda table, rng: table,
    "integers": lambda table, rng: _levels(table, 5),
    "booleans": lambda table, rng: table > 0.5,
    "gaps": _gaps,
    "sparse": _sparse,
    "dicts": _dicts,
    "2-D letters": lambda table, rng: np.array(list("abcde"), dtype=object)[_levels(table, 5)],
}


def _frames() -> list[pd.DataFrame]:
    """Long tables of numbers, words and labels: for training, for validation, and new ones."""
    return [frame(n, seed).drop(columns="weight") for seed, n in enumerate(SIZES)]


def write(table: pd.DataFrame, folder: Path, ending: str) -> Path:
    """Write a long table as three files; returns the pattern of their names."""
    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        part, path = table.iloc[rows].reset_index(drop=True), folder / f"{i}.{ending}"
        part.to_csv(path, index=False) if ending == "csv" else part.to_parquet(path)
    return folder / f"*.{ending}"
