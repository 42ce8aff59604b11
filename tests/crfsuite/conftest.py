"""Data in CRFsuite's forms."""

from __future__ import annotations

import numpy as np
import pytest

Sequences = tuple[list[list[dict[str, float]]], list[list[str]]]


def make_data(n_sequences: int = 30, n_attributes: int = 40, seed: int = 0) -> Sequences:
    """Sequences with labels that depend on the attributes: some values are numbers or 0."""
    rng = np.random.default_rng(seed)
    X = []
    y = []
    for _ in range(n_sequences):
        items = []
        labels = ["start"]
        for _ in range(int(rng.integers(1, 9))):
            names = rng.choice(n_attributes, size=3, replace=False).tolist()
            values = np.where(rng.random(3) < 0.7, 1.0, rng.normal(size=3).round(1)).tolist()
            items.append({f"a{name}": value for name, value in zip(names, values, strict=True)})
            follows = rng.random() < 0.3
            labels.append(labels[-1] if follows else f"label{names[0] % 4}")
        X.append(items)
        y.append(labels[1:])
    return X, y


@pytest.fixture
def data() -> Sequences:
    return make_data()


@pytest.fixture
def words() -> Sequences:
    """A small problem that every algorithm solves."""
    X = [[{"word": "to"}, {"word": "Rome"}], [{"word": "Oslo"}], [{"word": "in"}, {"word": "Oslo"}]]
    return X, [["O", "PLACE"], ["PLACE"], ["O", "PLACE"]]
