"""Fit, predict, save and load; prints hashes of the results. Needs the package alone."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np

import treecrf

SETTINGS = {"window": 1, "max_iter": 40, "max_leaf_nodes": 8, "early_stopping": False}
LENGTHS = [1, 7, 40, 300]


def data_of(kind: str, rng: np.random.Generator, lengths: list[int]) -> tuple[list, list]:
    """Sequences of a kind, and labels."""
    y = [np.repeat(rng.integers(0, 3, length), 3)[:length] for length in lengths]
    if kind == "letters":
        return ["".join("abcdef"[(label + rng.integers(3)) % 6] for label in row) for row in y], y
    if kind == "dicts":
        X = [[{"word": f"w{label + rng.integers(5)}", "x": 0.5 * label} for label in row]
             for row in y]  # fmt: skip
        return X, y
    X = [row[:, np.newaxis] + rng.normal(size=(len(row), 3)) for row in y]
    if kind == "missing":
        X = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in X]
    return X, y


def results(kind: str, model: treecrf.TreeCRF | treecrf.LinearCRF) -> list[np.ndarray]:
    """Results of a model for long, short and single sequences, before and after it was saved."""
    rng = np.random.default_rng(0)
    model.fit(*data_of(kind, rng, 5 * LENGTHS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        loaded = treecrf.load(path)
    X, _ = data_of(kind, rng, 3 * LENGTHS)
    arrays = []
    for one in (model, loaded):
        for sequences in (X, X[:2], X[1:2]):
            arrays += [*one.predict_proba(sequences), *one.predict(sequences)]
        if isinstance(one, treecrf.TreeCRF):
            arrays += [array for stage in one.staged_predict_proba(X[:3]) for array in stage]
    return arrays


def main() -> None:
    """Print a hash for each kind of data and model."""
    for kind in ("letters", "dicts", "numbers", "missing"):
        for settings in ({"init": "zero"}, {"init": "zero", "sampling": 0.5}, {"order": 2}):
            model = treecrf.TreeCRF(random_state=0, **SETTINGS | settings)
            print_hash(kind, settings, results(kind, model))
        start = treecrf.LinearCRF(window=1, max_iter=20)
        print_hash(kind, "linear start", results(kind, treecrf.TreeCRF(init=start, **SETTINGS)))
        print_hash(kind, "linear", results(kind, treecrf.LinearCRF(window=1)))


def print_hash(kind: str, what: object, arrays: list[np.ndarray]) -> None:
    """Print a hash of results."""
    bits = b"".join(array.tobytes() for array in arrays)
    print(kind, what, len(arrays), hashlib.sha256(bits).hexdigest())


if __name__ == "__main__":
    main()
