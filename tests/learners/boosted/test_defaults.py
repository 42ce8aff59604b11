"""Models of the default parameters: nothing is random, and copies are complete."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from support.family import assert_predicts_the_same

import treecrf
from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM

LEARNERS = [TreeCRF, TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]


@pytest.fixture(scope="module", params=LEARNERS)
def plain(request, letters):
    return request.param().fit(*letters)


def test_seeds_order_and_threads_change_nothing(plain, letters):
    X, y = letters
    order = np.random.default_rng(0).permutation(len(X))
    again = clone(plain).set_params(n_jobs=3).fit([X[i] for i in order], [y[i] for i in order])
    for name in ("train_score_", "validation_score_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(plain, name))
    assert_predicts_the_same(again, plain, X)


def test_copies_predict_the_same(plain, letters, tmp_path):
    plain.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    for copied in (loaded, pickle.loads(pickle.dumps(plain)), copy.deepcopy(plain)):
        assert copied.get_params() == plain.get_params()
        assert_predicts_the_same(copied, plain, letters[0])
