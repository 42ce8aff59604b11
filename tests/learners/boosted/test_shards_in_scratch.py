"""Shards with parts and scores in scratch files: the same trees as in memory."""

import numpy as np
import pytest
from support.parts import assert_equal_fits
from support.settings import FIXED
from support.shards import dealt, fit_on_shards

from treecrf import SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.learners.boosted.sampled_booster import LocalShards
from treecrf.utils import scratch as module
from treecrf.utils.partitions import LocalPartitions
from treecrf.utils.scratch import Scratch

SETTINGS = FIXED | {"window": 1, "max_iter": 4, "max_leaf_nodes": 8, "l2_regularization": 1.0,
                    "sampling": 0.2, "learning_rate": 0.5, "random_state": 0}  # fmt: skip


def identity(part):
    return part


class CountedScratch(Scratch):
    """Scratch files that count their arrays."""

    n_arrays = 0

    def allocate(self, shape, dtype=np.float64):
        self.n_arrays += 1
        return super().allocate(shape, dtype)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Scratch files that hold even the smallest arrays."""
    monkeypatch.setattr(module, "MIN_BYTES", 1)
    return CountedScratch(tmp_path)


def labeled(form):
    rng = np.random.default_rng(1)
    X, y = [], []
    for _ in range(20):
        codes = rng.integers(0, 3, int(rng.integers(1, 15)))
        y.append(np.array(list("abc"))[codes])
        if form == "numbers":
            values = rng.normal(size=(len(codes), 3)) + codes[:, None]
            values[rng.random(values.shape) < 0.2] = np.nan
            X.append(values)
        else:
            words = codes + 3 * rng.integers(0, 9, len(codes))
            X.append([{f"w{word}": 1.0, "x": float(word % 5)} for word in words])
    return X, y


@pytest.mark.parametrize("form", ["numbers", "dicts"])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TreeCRF, {}),
        (TreeCRF, {"order": 2, "second_order": False}),
        (TreeCRF, {"init": "linear", "early_stopping": True, "n_iter_no_change": 2}),
        (TreeCRF, {"constant_transitions": True, "subsample": 0.7}),
        (TreeMEMM, {"early_stopping": True, "n_iter_no_change": 2}),
        (SlidingWindowClassifier, {}),
    ],
)
def test_fits_are_equal(scratch, form, kind, settings):
    X, y = labeled(form)

    def start(partitions, setup, n_shards, n_threads):
        loads = [lambda part=part: part for part in partitions.map(identity)]
        stored = LocalPartitions.reading(loads, scratch).derive(identity)
        return LocalShards.of(stored, setup, n_shards, n_threads, scratch.allocate)

    expected = kind(**SETTINGS | settings).fit(X, y)
    found = fit_on_shards(kind(**SETTINGS | settings), X, y, dealt(3), 2, start=start)
    assert_equal_fits(expected, found)
    assert scratch.n_arrays >= 3
