"""Fit, predict, save and load; prints hashes of the results. Needs the package alone.

An argument names a use that is left out.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone

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


def models() -> dict[str, treecrf.TreeCRF | treecrf.LinearCRF]:
    """Return a model for each use."""
    # Constant transitions, which are among the models that the default compares, are a variant.
    plain = treecrf.TreeCRF(init="zero", constant_transitions=False, random_state=0, **SETTINGS)
    return {
        "plain": plain,
        "sampled": clone(plain).set_params(sampling=0.5),
        "second-order": clone(plain).set_params(init="auto", order=2),
        "linear-start": clone(plain).set_params(init=treecrf.LinearCRF(window=1, max_iter=20)),
        # Cross-validation chooses a linear start, and when to stop.
        "default": clone(plain).set_params(init="auto", early_stopping="auto"),
        "linear": treecrf.LinearCRF(window=1),
    }


def main() -> None:
    """Print a hash for each use and kind of data."""
    for use, model in models().items():
        if use in sys.argv[1:]:
            continue
        for kind in ("letters", "dicts", "numbers", "missing"):
            arrays = results(kind, model)
            bits = b"".join(array.tobytes() for array in arrays)
            print(use, kind, len(arrays), hashlib.sha256(bits).hexdigest())


if __name__ == "__main__":
    main()
