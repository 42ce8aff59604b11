"""Trees on data with missing values are, to the last bit, those of a table of weighted examples."""

from __future__ import annotations

import numpy as np
import pytest
from cases import GAPPED_STORAGES, gapped_sequences
from test_evaluate import Trained
from test_tree import LENGTHS, WINDOWS, Planes, Positions, Setting

import treecrf.encoding

METHODS = ["weighting", "surrogate"]
# Sums of targets times parts of rows must stay exact.
UNIT = 2.0**-20


@pytest.fixture(autouse=True)
def few_codes(monkeypatch):
    """Categories of a few values are stored in lists already."""
    monkeypatch.setattr(treecrf.encoding, "MOST_CODES", 4)


def gapped_positions(kind, rng, *, lengths=(9, 1, 14, 3), rate=0.2, **settings):
    sequences = gapped_sequences(kind, rng, lengths, rate)
    return Positions(sequences, rng, Setting(unit=UNIT, **settings))


def random_settings(rng, seed):
    return {
        "n_labels": int(rng.integers(2, 5)),
        "order": int(rng.integers(3)),
        "window": WINDOWS[seed % 4],
        "max_leaf_nodes": int(rng.choice([2, 3, 8, 20])),
        "l2": float(rng.choice([0.0, 1.0, 40.0])),
        "min_gain": float(rng.choice([0.0, 0.0, 0.3])),
        "min_samples_leaf": int(rng.choice([1, 3, 10])),
        "learning_rate": float(rng.choice([1.0, 0.1])),
        "second_order": bool(rng.random() < 0.4),
        "max_leaf_value": float(rng.choice([np.inf, 0.05])),
        "weighted": bool(rng.random() < 0.4),
        "max_features": float(rng.choice([1.0, 0.3])),
        "coarse": bool(rng.random() < 0.5),
        "lengths": LENGTHS[seed % 6],
        "rate": float(rng.choice([0.05, 0.2, 0.5])),
    }


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", GAPPED_STORAGES)
@pytest.mark.parametrize("method", METHODS)
def test_random_cases(method, kind, seed):
    rng = np.random.default_rng(seed)
    positions = gapped_positions(kind, rng, missing=method, **random_settings(rng, seed))
    grower = positions.grower()
    for _ in range(2):
        positions.check(grower, rng)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", GAPPED_STORAGES)
@pytest.mark.parametrize("method", METHODS)
def test_examples_in_planes(method, kind, seed):
    rng = np.random.default_rng(seed)
    settings = random_settings(rng, seed) | {"min_gain": 0.0, "max_features": 1.0}
    positions = gapped_positions(kind, rng, missing=method, **settings)
    planes = Planes(positions, 1 + seed % 3, rng)
    for _ in range(2):
        planes.check(rng)


class TrainedOnGaps(Trained):
    """A forest grown on noise, where values are missing."""

    def __init__(self, kind, seed, *, rate=0.2, lengths=(9, 1, 14, 3, 60), **options):
        rng = np.random.default_rng(seed)
        self.kind = kind
        self.grow(gapped_sequences(kind, rng, lengths, rate), rng, seed, **options)

    def new_sequences(self, rate, lengths=(1, 30, 2, 50)):
        return gapped_sequences(self.kind, np.random.default_rng(99), lengths, rate, new=True)


@pytest.mark.parametrize(
    "options", [{}, {"order": 0, "window": (2, 0)}, {"order": 2, "n_labels": 3}]
)
@pytest.mark.parametrize("kind", GAPPED_STORAGES)
@pytest.mark.parametrize("method", METHODS)
def test_scores_equal_those_of_training_and_of_walking(method, kind, options):
    trained = TrainedOnGaps(kind, 1, missing=method, **options)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    np.testing.assert_array_equal(trained.scores(), trained.walked(trained.sequences))


@pytest.mark.parametrize("rates", [(0.0, 0.3), (0.2, 0.0), (0.3, 0.6), (0.0, 1.0), (0.2, 1.0)])
@pytest.mark.parametrize("kind", GAPPED_STORAGES)
@pytest.mark.parametrize("method", METHODS)
def test_new_sequences(method, kind, rates):
    """Values may be missing in training or at prediction alone."""
    trained = TrainedOnGaps(kind, 2, missing=method, rate=rates[0], n_labels=3)
    new = trained.new_sequences(rates[1])
    np.testing.assert_array_equal(trained.scores(new), trained.walked(new))
