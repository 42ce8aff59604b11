"""Beam search against the enumeration of all label sequences, and a loop that decodes greedily."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.sweeps import sweep

from treecrf.chains.lattice import Lattice
from treecrf.chains.local.search import searched
from treecrf.learners.local.rows import beam_search
from treecrf.utils.threads import Threads


class Local:
    """Random distributions of the label at each position in each context, created on demand."""

    def __init__(self, rng, n_labels, order, lengths):
        self.rng, self.n_labels, self.order = rng, n_labels, order
        self.offsets = np.append(0, np.cumsum(lengths))
        self.known = {}

    def log_p(self, position, given):
        key = (position, *given)
        if key not in self.known:
            values = self.rng.normal(size=self.n_labels) * 2
            self.known[key] = values - np.log(np.exp(values).sum())
        return self.known[key]

    def step(self, positions, given):
        rows = [self.log_p(int(p), given[:, i].tolist()) for i, p in enumerate(positions)]
        return np.array(rows)

    def before(self, labels, t):
        return [labels[t - j] if j <= t else self.n_labels for j in range(1, self.order + 1)]

    def value(self, start, labels):
        return sum(self.log_p(start + t, self.before(labels, t))[v] for t, v in enumerate(labels))

    def greedy(self, start, length):
        labels = []
        for t in range(length):
            labels.append(int(self.log_p(start + t, self.before(labels, t)).argmax()))
        return labels


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("seed", sweep(range(5), 2))
def test_width_one_is_greedy_and_all_is_exact(seed, n_labels, order):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, rng.integers(1, 5))
    local = Local(rng, n_labels, order, lengths)
    for width in (1, 2, n_labels**order):
        codes, values = beam_search(local.step, local.offsets, n_labels, order, width)
        for start, length, value in zip(local.offsets, lengths, values, strict=False):
            found = codes[start : start + length].tolist()
            assert local.value(start, found) == pytest.approx(value)
            if width == 1:
                assert found == local.greedy(start, length)
            if width == n_labels**order:
                everything = product(range(n_labels), repeat=int(length))
                assert value == pytest.approx(max(local.value(start, y) for y in everything))


def random_table(rng, n_labels, order, lengths, kind):
    """Draw log-probabilities of all labels in all contexts; ties and forbidden labels by kind."""
    shape = (n_labels, int(lengths.sum()), n_labels**order)
    if kind == "ties":
        return np.log(rng.integers(1, 3, shape) / 4)
    log_p = rng.normal(size=shape) * (500 if kind == "extreme" else 2)
    if kind == "forbidden":
        log_p[rng.uniform(size=shape) < 0.5] = -np.inf
    return log_p


def step_of(log_p, order):
    """Return the step of `beam_search` that reads a table."""

    def step(positions, previous):
        n_labels = len(log_p)
        # Labels before the start of the sequence do not count.
        labels = np.where(previous < n_labels, previous, 0).astype(int)
        contexts = (labels * (n_labels ** np.arange(order))[:, None]).sum(axis=0)
        return log_p[:, positions, contexts].T

    return step


@pytest.mark.parametrize("kind", ["random", "ties", "forbidden", "extreme"])
@pytest.mark.parametrize(("n_labels", "order"), [(1, 0), (1, 2), (3, 0), (3, 1), (2, 2), (3, 3)])
def test_search_in_a_table_is_the_search_by_steps(n_labels, order, kind):
    rng = np.random.default_rng(order)
    for _ in range(10):
        lengths = rng.integers(1, 8, rng.integers(1, 8))
        offsets = np.append(0, np.cumsum(lengths))
        log_p = random_table(rng, n_labels, order, lengths, kind)
        for width, n_jobs in ((1, 1), (2, 3), (3, 1), (100, 3)):
            expected = beam_search(step_of(log_p, order), offsets, n_labels, order, width)
            with Threads(n_jobs) as threads:
                found = searched(Lattice(log_p, offsets, order, threads), width)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
