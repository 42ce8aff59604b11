"""The panel of datasets on which default settings are chosen and shown.

Published data, most of them also in small samples, and simulated data with known properties. Each
task is drawn several times: a part of the published training data at random, or new simulated data.
``held_out`` draws test sequences from the published training data as well, and simulated data from
other seeds, to choose settings without the test data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from papers_data import NAMES, SETTINGS, load

from treecrf.datasets import (
    fetch_conll2000,
    fetch_conll2002,
    fetch_occupancy,
    make_block_hmm,
    make_ring_hmm,
)

Sequences = tuple[list, list]


@dataclass(frozen=True)
class Draw:
    """One draw of a task: sequences for training and for testing."""

    X: list
    y: list
    X_test: list
    y_test: list


@dataclass(frozen=True)
class Task:
    """A labeling problem.

    Attributes
    ----------
    window : int or (int, int)
        Number of positions to the left and to the right whose features models may use.
    n_draws : int
    draw : callable
        Called with a random generator and ``held_out``; returns a `Draw`.
    """

    window: int | tuple[int, int]
    n_draws: int
    draw: Callable[[np.random.RandomState, bool], Draw]

    def draws(self, held_out: bool = False) -> list[Draw]:
        """Return all draws; those with ``held_out`` have other seeds."""
        return [self.draw(np.random.RandomState(100 * held_out + i), held_out)
                for i in range(self.n_draws)]  # fmt: skip


# Published data


def published(
    read: Callable[[str], Sequences], n_train: int | None, n_test: int
) -> Callable[[np.random.RandomState, bool], Draw]:
    """Draw ``n_train`` sequences of published training data, and at most ``n_test`` to test on."""

    def draw(rng: np.random.RandomState, held_out: bool) -> Draw:
        X, y = read("train")
        order = rng.permutation(len(X))
        n = n_train or (len(X) * 2 // 3 if held_out else len(X))
        X_test, y_test = (X, y) if held_out else read("test")
        rest = order[n:] if held_out else rng.permutation(len(X_test))
        chosen = order[:n], rest[:n_test]
        return Draw(*_take(X, y, chosen[0]), *_take(X_test, y_test, chosen[1]))

    return draw


def _take(X: list, y: list, chosen: np.ndarray) -> Sequences:
    return [X[i] for i in chosen], [y[i] for i in chosen]


def letters(name: str) -> Callable[[str], Sequences]:
    """Read one of the papers' datasets; their symbols are letters."""

    def read(part: str) -> Sequences:
        task = load(name)
        split = task.train if part == "train" else task.test
        return split.inputs(), [list(labels) for labels in split.targets()]

    return read


def chunks(part: str) -> Sequences:
    """Read the CoNLL-2000 chunks."""
    return _with_shapes(*fetch_conll2000(subset=part, return_X_y=True))


def entities(part: str) -> Sequences:
    """Read the Spanish named entities of CoNLL-2002."""
    return _with_shapes(*fetch_conll2002(subset=part, return_X_y=True))


def _with_shapes(X: list, y: list) -> Sequences:
    """Add the lower-cased ending and the case of each word."""

    def described(row: dict[str, str]) -> dict[str, Any]:
        word = row["word"]
        return {**row, "ending": word[-3:].lower(), "title": word.istitle(),
                "upper": word.isupper(), "digit": any(map(str.isdigit, word))}  # fmt: skip

    return [list(map(described, sentence)) for sentence in X], [list(map(str, t)) for t in y]


def occupancy(part: str) -> Sequences:
    """Read the sensors of a room; the long sequences are cut into pieces of four hours."""
    X, y = fetch_occupancy(subset=part, return_X_y=True)
    size = 240
    cuts = [(a, i, i + size) for a in range(len(X)) for i in range(0, len(X[a]) - size, size)]
    return [X[a][i:j] for a, i, j in cuts], [y[a][i:j] for a, i, j in cuts]


# Simulated data


def simulated(
    make: Callable[[np.random.RandomState, int], Sequences], n_train: int, n_test: int
) -> Callable[[np.random.RandomState, bool], Draw]:
    """Draw sequences from a generator."""

    def draw(rng: np.random.RandomState, held_out: bool) -> Draw:
        X, y = make(rng, n_train + n_test)
        return Draw(X[:n_train], y[:n_train], X[n_train:], y[n_train:])

    return draw


def _chain(rng: np.random.RandomState, matrix: np.ndarray, length: int) -> np.ndarray:
    """Sample a Markov chain with these transition probabilities."""
    totals = np.cumsum(matrix, axis=1)
    labels = [rng.randint(len(matrix))]
    for u in rng.rand(length - 1):
        labels.append(min(int(np.searchsorted(totals[labels[-1]], u)), len(matrix) - 1))
    return np.array(labels)


def gaussian(
    n_labels: int,
    length: int,
    p_stay: float,
    n_sensors: int,
    distance: float,
    missing: float = 0.0,
    n_useless: int = 0,
) -> Callable[[np.random.RandomState, int], Sequences]:
    """Sensors with Gaussian noise of unit variance around a mean for each label, or around 0."""

    def make(rng: np.random.RandomState, n: int) -> Sequences:
        means = distance * rng.normal(size=(n_labels, n_sensors))
        means = np.pad(means, [(0, 0), (0, n_useless)])
        matrix = rng.dirichlet(np.ones(n_labels), size=n_labels) * (1 - p_stay)
        matrix += p_stay * np.eye(n_labels)
        y = [_chain(rng, matrix, length) for _ in range(n)]
        X = [means[labels] + rng.normal(size=(length, means.shape[1])) for labels in y]
        for table in X:
            table[rng.rand(*table.shape) < missing] = np.nan
        return X, y

    return make


def products(rng: np.random.RandomState, n: int) -> Sequences:
    """Two labels that depend on the sign of the product of two of six sensors, and persist."""
    y, X = [], []
    for _ in range(n):
        labels = _chain(rng, np.array([[0.9, 0.1], [0.1, 0.9]]), 60)
        table = rng.normal(size=(60, 6))
        disagree = (table[:, 0] * table[:, 1] > 0) != (labels == 1)
        table[disagree & (rng.rand(60) < 0.8), 0] *= -1
        X.append(table)
        y.append(labels)
    return X, y


def handwriting(rng: np.random.RandomState, n: int) -> Sequences:
    """Words of 26 letters as noisy bitmaps of 8 x 16 pixels, shifted by up to a pixel."""
    shapes = _smooth(rng.normal(size=(26, 16, 8))) > 0
    matrix = rng.dirichlet(np.full(26, 0.2), size=26)
    X, y = [], []
    for _ in range(n):
        labels = _chain(rng, matrix, rng.randint(4, 11))
        images = [np.roll(shapes[v], rng.randint(-1, 2, size=2), axis=(0, 1)) for v in labels]
        flips = rng.rand(len(labels), 16, 8) < 0.2
        X.append((np.array(images) ^ flips).reshape(len(labels), -1).astype(float))
        y.append(labels)
    return X, y


def _smooth(images: np.ndarray) -> np.ndarray:
    around = [np.roll(images, (i, j), axis=(1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.mean(around, axis=0)


def ring(rng: np.random.RandomState, n: int) -> Sequences:
    """Symbols of a hidden Markov model whose states form a ring."""
    return make_ring_hmm(n_sequences=n, random_state=rng)


def blocks(rng: np.random.RandomState, n: int) -> Sequences:
    """Symbols of a hidden Markov model whose states prefer blocks of symbols."""
    return make_block_hmm(n_sequences=n, random_state=rng)


TASKS = {
    **{f"{name} {n or 'all'}":
       Task(SETTINGS[name]["window"], 3 if n else 1, published(letters(name), n, 2000))
       for name in NAMES for n in (50, 200, None)
       if not (name == "protein" and n == 200)},
    "occupancy": Task(2, 1, published(occupancy, None, 2000)),
    "chunks 50": Task(2, 3, published(chunks, 50, 500)),
    "chunks 200": Task(2, 2, published(chunks, 200, 500)),
    "entities 200": Task(2, 2, published(entities, 200, 500)),
    "sensors": Task(1, 5, simulated(gaussian(3, 60, 0.8, 2, 0.7), 10, 50)),
    "sensors, many labels": Task(1, 3, simulated(gaussian(12, 40, 0.5, 6, 0.8), 60, 60)),
    "sensors, missing values": Task(1, 3, simulated(gaussian(4, 60, 0.8, 4, 0.9, 0.4), 40, 50)),
    "sensors, long": Task(1, 2, simulated(gaussian(3, 3000, 0.95, 3, 0.5), 3, 3)),
    "sensors, few examples": Task(0, 3, simulated(gaussian(20, 10, 0.2, 8, 1.0), 60, 100)),
    "sensors, most useless":
        Task(1, 3, simulated(gaussian(3, 40, 0.8, 2, 1.0, n_useless=100), 60, 60)),
    "products of sensors": Task(1, 3, simulated(products, 60, 60)),
    "handwriting": Task(0, 1, simulated(handwriting, 300, 200)),
    "ring": Task(1, 2, simulated(ring, 300, 300)),
    "blocks": Task(1, 2, simulated(blocks, 60, 60)),
}  # fmt: skip
