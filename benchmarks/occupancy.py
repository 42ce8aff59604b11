"""Occupancy of a room, minute by minute: TreeCRF and LightGBM with a sliding window.

Both use the five measured columns of the training sequence. The window, tree size and number of
iterations are those with the highest accuracy when each of the seven days is held out in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from measure import markdown
from settings import papers_model

from treecrf import TreeCRF
from treecrf.datasets import fetch_occupancy

MAX_ITER = 100
SECOND_ORDER = {"second_order": True, "learning_rate": 0.1, "l2_regularization": 5.0}
HEADER = ("model", "window", "leaves", "iterations", "held-out days %", "first test sequence %",
          "second %", "both %")  # fmt: skip

Sequences = list[np.ndarray]


class CRF:
    """TreeCRF on sequences."""

    windows = (0, 2, 5)

    def __init__(self, window: int, leaves: int, **parameters: Any):
        self.model = papers_model(
            TreeCRF, window=window, max_leaf_nodes=leaves, max_iter=MAX_ITER, **parameters
        )

    def staged(self, X: Sequences, y: Sequences, X_test: Sequences) -> Iterator[np.ndarray]:
        """Labels of all test positions after each iteration."""
        for probabilities in self.model.fit(X, y).staged_predict_proba(X_test):
            yield np.concatenate(probabilities).argmax(axis=1)


class NewtonCRF(CRF):
    """The same with second-order boosting."""

    def __init__(self, window: int, leaves: int):
        super().__init__(window, leaves, **SECOND_ORDER)


class LightGBM:
    """LightGBM on the window of each minute; values beyond the ends are missing."""

    windows = (0, 2, 5, 10)

    def __init__(self, window: int, leaves: int):
        self.window = window
        self.model = LGBMClassifier(
            n_estimators=MAX_ITER, num_leaves=leaves, random_state=0, verbose=-1, n_jobs=1
        )

    def staged(self, X: Sequences, y: Sequences, X_test: Sequences) -> Iterator[np.ndarray]:
        """Labels of all test positions after each iteration."""
        booster = self.model.fit(self._rows(X), np.concatenate(y)).booster_
        rows = self._rows(X_test)
        for n in range(1, MAX_ITER + 1):
            yield booster.predict(rows, num_iteration=n) > 0.5

    def _rows(self, X: Sequences) -> np.ndarray:
        """The windows of all positions."""
        width = 2 * self.window + 1
        padded = [np.pad(x, ((self.window,) * 2, (0, 0)), constant_values=np.nan) for x in X]
        return np.concatenate([
            np.hstack([x[k : len(x) - width + 1 + k] for k in range(width)]) for x in padded
        ])  # fmt: skip


MODELS = {"TreeCRF": CRF, "TreeCRF, second order": NewtonCRF, "LightGBM": LightGBM}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--leaves", nargs="+", type=int, default=[4, 10, 31])
    arguments = parser.parse_args()
    train, test = fetch_occupancy(), fetch_occupancy(subset="test")
    rows = [row(name, arguments.leaves, train, test) for name in arguments.model]
    print(markdown(HEADER, rows))


def row(name: str, leaves: list[int], train: Any, test: Any) -> list[str]:
    """Choose the settings of a model and evaluate it on the test sequences."""
    make = MODELS[name]
    curves = {setting: right_on_held_out_days(make, setting, train)
              for setting in product(make.windows, leaves)}  # fmt: skip
    setting, curve = max(curves.items(), key=lambda item: item[1].max())
    stages = list(make(*setting).staged(train.data, train.target, test.data))
    right = stages[curve.argmax()] == np.concatenate(test.target)
    parts = (*np.split(right, [len(test.target[0])]), right)
    fractions = (curve.max(), *(part.mean() for part in parts))
    cells = (*setting, curve.argmax() + 1, *(f"{100 * fraction:.2f}" for fraction in fractions))
    return [name, *map(str, cells)]


def right_on_held_out_days(make: type, setting: tuple[int, int], train: Any) -> np.ndarray:
    """Accuracy after each iteration, with each day held out once."""
    (x,), (y,), (dates,) = train.data, train.target, train.dates
    days = dates.astype("datetime64[D]")
    right = np.zeros(MAX_ITER)
    for day in np.unique(days):
        parts = [np.flatnonzero(days < day), np.flatnonzero(days > day)]
        rest = [part for part in parts if len(part)]
        held_out = np.flatnonzero(days == day)
        stages = make(*setting).staged(
            [x[part] for part in rest], [y[part] for part in rest], [x[held_out]]
        )
        right += [np.sum(labels == y[held_out]) for labels in stages]
    return right / len(y)


if __name__ == "__main__":
    main()
