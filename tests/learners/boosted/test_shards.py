"""Shards: the same trees and scores as in one piece, to the bit."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.parts import FORMS, assert_equal_fits, data_of, dealt, fit_parts_of
from support.persistent import LONG_STEPS, persistent
from support.settings import FIXED
from support.sweeps import sweep

from treecrf import SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.callbacks import LearningRateSchedule
from treecrf.inputs.large.scratch import Scratch
from treecrf.learners.boosted.sampled.booster import LocalShards
from treecrf.learners.boosted.sampled.exchange import Stale
from treecrf.learners.boosted.sampled.shard import Shard
from treecrf.metrics import get_scorer


def model(kind=TreeCRF, **settings):
    plain = {"window": 1, "max_iter": 5, "max_leaf_nodes": 8, "l2_regularization": 1.0}
    plain |= {"sampling": 0.2, "learning_rate": 0.5, "random_state": 0}
    return kind(**FIXED | plain | settings)


@pytest.fixture(autouse=True)
def joining(monkeypatch):
    """Join some parts of a shard."""
    monkeypatch.setattr("treecrf.learners.boosted.sampled.shard.LARGE_PARTITION", 100)


def test_validation_sequences_need_known_labels():
    X, y = data_of("numbers", n=40)
    unknown = [[{"x", "y"}] * len(x) for x in X[:4]]
    crf = model(scoring="accuracy", early_stopping=True, init="zero")
    with pytest.raises(ValueError, match="scoring='accuracy' needs known labels"):
        crf.fit(X, y, X[:4], unknown)
    with pytest.raises(ValueError, match="scoring='accuracy' needs known labels"):
        fit_parts_of(crf, X, y, dealt(X, 3), 2, X_val=X[:4], y_val=unknown)


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM, SlidingWindowClassifier])
@pytest.mark.parametrize(
    "scoring", ["accuracy", "span_f1", "log_likelihood", get_scorer("token_f1_macro")]
)
def test_scores_of_validation_sequences(kind, scoring):
    X, y = data_of("numbers", n=60)
    y = [[{"x": "O", "y": "B-x", "z": "I-x"}[label] for label in of_one] for of_one in y]
    # A seed with which the first trees improve the scores of the sequences that are held out.
    settings = {"scoring": scoring, "early_stopping": True, "learning_rate": 0.1, "max_iter": 12}
    settings["random_state"] = 2
    expected = model(kind, **settings).fit(X, y)
    assert_equal_fits(expected, fit_parts_of(model(kind, **settings), X, y, dealt(X, 5), 3))
    assert len(expected.validation_score_) > 1 or scoring == "span_f1"


def test_schedules_of_the_learning_rate():
    X, y = data_of("numbers", n=24)
    settings = {"early_stopping": True, "max_examples": 150}
    options = {"callbacks": [LearningRateSchedule(lambda i: 0.3 / (i + 1))]}
    expected = model(**settings).fit(X, y, **options)
    assert_equal_fits(expected, fit_parts_of(model(**settings), X, y, dealt(X, 5), 3, **options))


def started(wrap):
    """Return a function that starts local shards, with a wrapper around each."""

    def start(*arguments):
        shards = LocalShards(*arguments)
        shards.shards = [wrap(shard) for shard in shards.shards]
        return shards

    return start


class Forgetful:
    """A shard that is made anew, copied, or repeats a step at random."""

    def __init__(self, shard, seed):
        self.shard = shard
        self.rng = np.random.default_rng(seed)
        self.n_behind = 0

    def run(self, step):
        event = self.rng.integers(5)
        if event == 0:
            shard = self.shard
            parts = dict(enumerate(shard.training, -len(shard.training))) | shard.held_out
            self.shard = Shard(shard.setup, parts, shard.n_threads)
        elif event == 1:
            self.shard = pickle.loads(pickle.dumps(self.shard))
        elif event == 2:
            self.shard.run(step)
        elif event == 3 and step.n_iter > 1:
            self.shard.run(replace(step, first=0, n_iter=0, trees=self.shard.forest.copy(0)))
        answer = self.shard.run(step)
        if isinstance(answer, Stale):
            assert answer.n_iter < step.first
            self.n_behind += 1
        return pickle.loads(pickle.dumps(answer))


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
@pytest.mark.parametrize("seed", [0, 1])
def test_shards_that_are_lost_copied_or_repeat_steps(kind, seed):
    X, y = data_of("dicts", n=24)
    settings = {"early_stopping": True, "scoring": "accuracy", "max_iter": 8}
    expected = model(kind, **settings).fit(X, y)
    shards = []

    def wrap(shard):
        shards.append(Forgetful(shard, [seed, len(shards)]))
        return shards[-1]

    found = fit_parts_of(model(kind, **settings), X, y, dealt(X, 6), 3, start=started(wrap))
    assert_equal_fits(expected, found)
    assert sum(shard.n_behind for shard in shards) > 2


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_shards_that_are_lost_copied_or_repeat_steps_that_are_halved(is_constant, seed):
    X, y = persistent()
    for table in X:
        table[::7, 1] = np.nan
    given = {"X_val": X[:2], "y_val": y[:2]}
    settings = LONG_STEPS | {"sampling": 0.1, "early_stopping": True, "n_iter_no_change": 8}
    settings["constant_transitions"] = is_constant
    expected = TreeCRF(**settings).fit(X, y, **given)

    def wrap(shard):
        return Forgetful(shard, [seed, len(shard.training)])

    found = fit_parts_of(TreeCRF(**settings), X, y, dealt(X, 6), 3, start=started(wrap), **given)
    assert_equal_fits(expected, found)


def test_a_shard_without_sequences():
    X, y = data_of("numbers", n=6)
    expected = model(early_stopping=True).fit(X, y)
    assert_equal_fits(expected, fit_parts_of(model(early_stopping=True), X, y, dealt(X, 9), 12))


def test_a_threshold_that_is_too_large_is_drawn_again(monkeypatch):
    # The size of all examples decreases by more than the guess of the next threshold assumes.
    monkeypatch.setattr("treecrf.chains.sampled.sampling.PROBABLE_DECREASE", 1.2)
    X, y = data_of("numbers", n=24)
    found = fit_parts_of(model(max_examples=100), X, y, dealt(X, 5), 2)
    monkeypatch.undo()
    assert_equal_fits(model(max_examples=100).fit(X, y), found)


def test_an_error_leaves_no_half_added_trees():
    X, y = data_of("numbers", n=24)
    failed = []

    class Failing:
        def __init__(self, shard):
            self.shard = shard

        def run(self, step):
            if step.n_iter == 2 and not failed:
                failed.append(True)
                add, last = self.shard._training[-1].scores, step

                def fail(forest):
                    raise KeyboardInterrupt

                add.add_trees = fail
                with pytest.raises(KeyboardInterrupt):
                    self.shard.run(last)
            return self.shard.run(step)

    expected = model().fit(X, y)
    assert_equal_fits(expected, fit_parts_of(model(), X, y, dealt(X, 6), 2, start=started(Failing)))
    assert failed


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
def test_copies_of_shards_with_arrays_in_files(kind, tmp_path):
    X, y = data_of("dicts", n=24)
    scratch, n_copied = Scratch(tmp_path), []

    class Copied:
        def __init__(self, shard):
            self.shard = shard

        def run(self, step):
            self.shard = pickle.loads(pickle.dumps(self.shard))
            n_copied.append(self.shard.forest.n_iter)
            return self.shard.run(step)

    def start(*arguments):
        shards = LocalShards(*arguments, scratch.allocate)
        shards.shards = list(map(Copied, shards.shards))
        return shards

    expected = model(kind).fit(X, y)
    assert_equal_fits(expected, fit_parts_of(model(kind), X, y, dealt(X, 4), 2, start=start))
    assert max(n_copied) == 4


@pytest.mark.parametrize("kind", [TreeCRF, TreeMEMM])
def test_scores_in_files(kind, tmp_path, monkeypatch):
    """Scores of held-out sequences, too."""
    monkeypatch.setattr("treecrf.utils.allocation.MIN_BYTES", 1)  # even the smallest arrays
    X, y = data_of("dicts", n=24)
    allocate = Scratch(tmp_path).allocate

    def start(*arguments):
        return LocalShards(*arguments, allocate)

    settings = {"early_stopping": True, "n_iter_no_change": 2}
    expected = model(kind, **settings).fit(X, y)
    found = fit_parts_of(model(kind, **settings), X, y, dealt(X, 3), 2, start=start)
    assert_equal_fits(expected, found)


@pytest.mark.parametrize("window", [(0, 0), (1 << 63, 1 << 63)])
def test_subsamples_whose_last_hash_is_not_where_it_is_expected(window, monkeypatch):
    target = "treecrf.learners.boosted.sampled.booster._quantile_window"
    monkeypatch.setattr(target, lambda k, n: window)
    X, y = data_of("numbers", n=24)
    settings = {"subsample": 0.6, "second_order": False}
    expected = model(**settings).fit(X, y)
    assert_equal_fits(expected, fit_parts_of(model(**settings), X, y, dealt(X, 5), 3))


CHOICES = {
    "second_order": [False, True],
    "max_examples": [None, 100, 400],
    "sampling": [0.05, 0.5],
    "subsample": [1.0, 0.6],
    "max_features": [1.0, 0.5],
    "min_samples_leaf": [1, 4],
    "class_weight": [None, "balanced"],
    "window": [0, (0, 2), (3, 1)],
    "early_stopping": [False, True],
}


def at_random(X, seed, n_parts):
    """Put sequences into parts at random; some parts are empty."""
    rng = np.random.default_rng(seed)
    part = rng.integers(n_parts, size=len(X))
    return [rng.permutation(np.flatnonzero(part == i)) for i in range(n_parts)]


@pytest.mark.parametrize("seed", sweep(range(60), 4))
def test_any_settings_and_any_cut(seed):
    rng = np.random.default_rng(seed)
    X, y = data_of(FORMS[rng.integers(len(FORMS))], seed)
    kind = [TreeCRF, TreeCRF, TreeMEMM, SlidingWindowClassifier][rng.integers(4)]
    settings = {name: values[rng.integers(len(values))] for name, values in CHOICES.items()}
    if kind is not SlidingWindowClassifier:
        settings["order"] = int(rng.integers(kind is TreeMEMM, 3))
    if kind is TreeCRF and settings["order"]:
        settings["constant_transitions"] = bool(rng.integers(2))
        settings["init"] = ["zero", "linear"][rng.integers(2)]
    expected = model(kind, **settings).fit(X, y)
    n_parts = int(rng.integers(1, 7))
    parts, n_shards = at_random(X, seed, n_parts), int(rng.integers(1, 9))
    n_threads = int(rng.integers(1, 4))
    found = fit_parts_of(model(kind, **settings), X, y, parts, n_shards, n_threads)
    assert_equal_fits(expected, found)
