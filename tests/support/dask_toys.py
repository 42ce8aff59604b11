"""Shards and growth of trees that are quick, and show how often they are made and repeated."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from treecrf.dask.partitions import DaskShards
from treecrf.learners.boosted.sampled.exchange import Stale

SETUP = SimpleNamespace(
    spec=SimpleNamespace(n_jobs=None), tree_settings=SimpleNamespace(subsample=1.0)
)


class ToyStep:
    """A step of which the trees are numbers."""

    def __init__(self, trees, first=0, crash=None):
        self.first = first
        self.n_iter = len(trees)
        self.trees = trees[first:]
        self.crash = crash


class ToyShard:
    """State that is a function of the parts and of the trees: a vector of scores."""

    def __init__(self, setup, parts, n_threads=1):
        self.setup = setup
        self.parts = {i: np.asarray(part, dtype=np.int64) for i, part in parts.items()}
        self.scores = {i: np.zeros_like(part) for i, part in self.parts.items()}
        self.n_iter = 0
        self._lock = threading.Lock()

    def __getstate__(self):
        with self._lock:
            state = dict(vars(self), scores={i: s.copy() for i, s in self.scores.items()})
        del state["_lock"]
        return state

    def __setstate__(self, state):
        vars(self).update(state, _lock=threading.Lock())

    def run(self, step):
        with self._lock:
            if self.n_iter < step.first:
                return Stale(self.n_iter)
            crash(step.crash, "draw")
            for tree in step.trees[self.n_iter - step.first :]:
                for i, part in self.parts.items():
                    self.scores[i] = (3 * self.scores[i] + tree * part) % 1_000_003
                self.n_iter += 1
            assert self.n_iter == step.n_iter
            return {i: int(scores.sum()) for i, scores in self.scores.items()}


class ToyShards(DaskShards):
    make = ToyShard


class ToyGrowing:
    """The next tree is the sum of all answers."""

    seconds = 0.0

    def grow(self, drawn, step, n_threads=1):
        crash(step.crash, "grow")
        time.sleep(self.seconds)
        answers = {i: value for answer in drawn for i, value in answer.items()}
        return sum((i + 1) * answers[i] for i in sorted(answers)) % 1000 + 1


def toy_trees(parts, n_iter):
    """The trees of a run in this process."""
    shard, trees = ToyShard(None, dict(enumerate(parts))), []
    for _ in range(n_iter):
        trees.append(ToyGrowing().grow([shard.run(ToyStep(trees, len(trees[:-1])))], ToyStep([])))
    return trees


def run(shards, n_iter, crashes=None, after=lambda i: None):
    """Run iterations; ``crashes`` has the file and the place of a crash for some of them."""
    trees = []
    for i in range(n_iter):
        crash = (crashes or {}).get(i)

        def again(first, i=i, crash=crash):
            return ToyStep(trees, first, crash)

        trees.append(shards.iterate(again(max(0, i - 1)), again))
        after(i)
    return trees


def crash(given, place):
    """Kill this process if it is at a place, as often as there are files for it.

    ``given`` is None, or the path of these files, see `take_file`, and the place.
    """
    if given is None or given[1] != place:
        return
    if take_file(given[0]):
        # A process that dies while it starts is not started again.
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)


def take_file(path):
    """Remove one of the files ``path.0``, ``path.1`` and so on; return whether there was one."""
    for file in Path(path).parent.glob(f"{Path(path).name}.*"):
        try:
            file.unlink()
        except FileNotFoundError:
            continue
        return True
    return False


def make_files(path, n):
    """Make the files that `take_file` removes; return the path."""
    for i in range(n):
        Path(f"{path}.{i}").touch()
    return str(path)


def source(seed, crash_at=None):
    """Numbers of a part."""
    crash(crash_at, "read")
    return np.random.default_rng(seed).integers(0, 100, 50)


def encoded(part, crash_at=None):
    crash(crash_at, "encode")
    return part * 2 + 1
