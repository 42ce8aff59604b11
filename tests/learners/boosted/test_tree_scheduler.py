"""Threads that grow trees: all trees, each once, whatever fails, and without waiting forever."""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import threading
import time
from itertools import count

import numpy as np
import pytest
from support.family import assert_equal_arrays
from support.sweeps import sweep
from test_sampled import assert_same_fit, labeled, model

from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.learners.boosted.sampled import growth
from treecrf.learners.boosted.sampled.scheduler import TreeScheduler
from treecrf.trees.lists._list_grower import ListGrower
from treecrf.utils.threads import Threads

TIME_LIMIT = 120


@pytest.fixture(autouse=True)
def _time_limit():
    """End the process if a test waits forever, which nothing else could end."""
    faulthandler.dump_traceback_later(TIME_LIMIT, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


class Failure(Exception):
    """A failure on purpose."""


class FakeGrower:
    """Trees of a few stages, each of which wants several parts; calls fail on demand."""

    def __init__(self, fail=lambda method: None):
        self.n_idle = None
        self.fail = fail
        self.lock = threading.Lock()

    def begin(self, number):
        self.fail("begin")
        self.number, self.n_stages, self.done = number, 5, []

    def advance(self):
        self.fail("advance")
        self.parts = []
        self.n_stages -= 1
        return 1 + self.n_stages % 3 * 5 if self.n_stages else 0

    def work(self, part, n_parts, helper=None):
        self.fail("work")
        assert (helper is None) == (part == 0)
        if helper is not None:
            assert helper.tree in (None, self)
            helper.tree = self
        if random.random() < 0.3:
            time.sleep(1e-4)
        with self.lock:
            self.parts.append((part, n_parts, helper))

    def finish(self, helpers):
        self.fail("finish")
        n_parts = 1 + len(helpers)
        expected = {(i, n_parts, helper) for i, helper in enumerate([None, *helpers])}
        assert len(self.parts) == n_parts
        assert set(self.parts) == expected
        self.done.append(n_parts)
        time.sleep(1e-4)
        for helper in helpers:
            assert helper.tree is self
            helper.tree = None

    def describe(self):
        self.fail("describe")
        return {"number": self.number, "parts": self.done}


class FakeHistogram:
    """A histogram that belongs to one tree from its first part until that is finished."""

    tree = None


def scheduler_of(threads, n_growers, fail=lambda method: None):
    growers = [FakeGrower(fail) for _ in range(min(n_growers, threads.n_threads))]
    return TreeScheduler(growers, [FakeHistogram() for _ in range(threads.n_threads)], threads)


@pytest.mark.parametrize("n_trees", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
def test_each_tree_is_grown_once(n_threads, n_trees):
    numbers = list(range(n_trees))
    with Threads(n_threads) as threads:
        scheduler = scheduler_of(threads, n_trees)
        for _ in range(5):
            random.shuffle(numbers)
            trees = scheduler.grow(numbers, FakeGrower.begin)
            assert {k: tree["number"] for k, tree in trees.items()} == {k: k for k in numbers}
            assert all(len(tree["parts"]) == 4 for tree in trees.values())


def test_idle_threads_help():
    with Threads(4) as threads:
        scheduler = scheduler_of(threads, 1)
        helped = [max(scheduler.grow([0], FakeGrower.begin)[0]["parts"]) for _ in range(20)]
    assert max(helped) > 1


@pytest.mark.parametrize("kind", [Failure, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["begin", "advance", "work", "finish", "describe"])
@pytest.mark.parametrize("n_threads, n_trees", [(1, 3), (2, 5), (16, 40)])
def test_failures_are_raised(n_threads, n_trees, method, kind):
    calls, moment = count(), random.Random(n_trees).randrange(2 * n_trees)

    def fail(called):
        if called == method and next(calls) == moment % n_trees:
            raise kind("on purpose")

    with Threads(n_threads) as threads:
        scheduler = scheduler_of(threads, n_trees, fail)
        with pytest.raises(kind, match="on purpose"):
            scheduler.grow(range(n_trees), FakeGrower.begin)
        # No thread is left behind.
        scheduler = scheduler_of(threads, n_trees)
        assert scheduler.grow(range(n_trees), FakeGrower.begin).keys() == set(range(n_trees))


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("n_threads", [1, 2, 16])
def test_interrupts_end_training(n_threads, monkeypatch):
    """The signal of Ctrl-C reaches the main thread, which waits for the others."""
    begun = []

    class Interrupted(ListGrower):
        def begin(self, *arguments):
            begun.append(self)
            if len(begun) == 4:
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.05)
            super().begin(*arguments)

    monkeypatch.setattr(growth, "ListGrower", Interrupted)
    X, y = labeled(np.random.default_rng(0))
    crf = model(sampling=0.3, max_iter=100, n_jobs=n_threads)
    with pytest.raises(KeyboardInterrupt):
        crf.fit(X, y)
    assert not hasattr(crf, "classes_")
    assert len(begun) < 20
    monkeypatch.undo()
    crf.set_params(max_iter=2).fit(X, y)


def test_a_failure_in_training_is_raised(monkeypatch):
    class Failing(SmallParts):
        def finish(self, helpers):
            if helpers:
                raise MemoryError("on purpose")
            super().finish(helpers)

    monkeypatch.setattr(growth, "ListGrower", Failing)
    X, y = labeled(np.random.default_rng(0))
    with pytest.raises(MemoryError, match="on purpose"):
        model(sampling=0.3, max_iter=100, n_jobs=16).fit(X, y)


class SmallParts(ListGrower):
    """A grower whose small nodes are divided into parts too."""

    def __init__(self, *_, **__):
        self.many_examples, self.block_size = 4, 2


SETTINGS = [
    {"second_order": True},
    {"order": 2, "min_samples_leaf": 3},
    {"order": 0, "second_order": True, "max_features": 0.5},
    {"max_features_per_tree": 0.5, "subsample": 0.7, "class_weight": "balanced"},
    {"missing": "surrogate"},
    {"init": "linear", "second_order": True, "curvature": "diagonal"},
    {"objective": "hamming_log"},
    {"sampling": None, "second_order": True},
    {"sampling": None, "order": 0},
    {"sampling": None, "beam_width": 2, "order": 2},
]
KINDS = [TreeMEMM, SlidingWindowClassifier, RecurrentSlidingWindowClassifier]
CASES = [*((TreeCRF, settings, i % 2 == 0) for i, settings in enumerate(SETTINGS)),
         *((kind, {"sampling": sampling, "second_order": True}, sampling is None)
           for kind in KINDS for sampling in (0.2, None))]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings", "has_missing"), CASES)
def test_models_do_not_depend_on_the_number_of_threads(kind, settings, has_missing, monkeypatch):
    monkeypatch.setattr(growth, "ListGrower", SmallParts)
    X, y = labeled(np.random.default_rng(1), 20)
    if has_missing:
        X[0][::2, 0] = X[1][1:, 1] = X[2][::3, 2] = np.nan
    settings = {"sampling": 0.2, "max_iter": 3} | settings
    models = [model(kind, n_jobs=n, **settings).fit(X, y) for n in (1, 2, 16)]
    for other in models[1:]:
        assert_same_fit(models[0], other)
        np.testing.assert_array_equal(models[0].train_score_, other.train_score_)
        expected, probabilities = models[0].predict_proba(X), other.predict_proba(X)
        assert_equal_arrays(expected, probabilities)


@pytest.mark.parametrize("seed", sweep(range(30), 2))
def test_many_threads_under_stress(seed, monkeypatch):
    """More threads than processors that switch often, and two labels of few stages."""
    monkeypatch.setattr(growth, "ListGrower", SmallParts)
    X, y = labeled(np.random.default_rng(seed), 40)
    y = [np.where(labels == "c", "b", labels) for labels in y]
    settings = {"sampling": 0.05, "max_iter": 6, "max_leaf_nodes": 20, "second_order": True}
    expected = model(**settings).fit(X, y)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert_same_fit(expected, model(n_jobs=16, **settings).fit(X, y))
    finally:
        sys.setswitchinterval(interval)
