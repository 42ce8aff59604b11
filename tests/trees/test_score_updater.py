"""Trees add the same values to factored scores as to tables of scores, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import (
    STORAGES,
    STORAGES_WITH_MISSING,
    pack,
    random_sequences,
    random_with_missing,
)
from support.forests import Trained
from support.sweeps import sweep

from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.trees.forest import LABEL
from treecrf.trees.updates.score_updater import ScoreUpdater
from treecrf.utils.threads import Threads


def contexts_that_exist(encoded, n_labels, order):
    depth = encoded.depth_of(order).astype(int)
    return np.arange(n_labels**order) < n_labels ** depth[:, np.newaxis]


def check_scores(trained, sequences=None, n_threads=1, first=0):
    """Compare parts, which start at random scores, with the scores of the forest."""
    forest, encoder = trained.forest, trained.encoder
    encoded = trained.encoded if sequences is None else encoder.encode(pack(sequences))
    updater = ScoreUpdater(encoder, encoded, forest.order)
    parts = FactoredScores(forest.n_labels, forest.order, encoded.offsets)
    rng = np.random.default_rng(0)
    for part in (parts.state, parts.transitions):
        part[:] = rng.integers(-(2**22), 2**22, part.shape)
    before = parts.table()
    with Threads(n_threads) as threads:
        updater.add(forest, parts, threads, first)
    added = parts.table() - before
    exist = contexts_that_exist(encoded, forest.n_labels, forest.order)
    expected = forest.scores(encoder, encoded, Threads(1), (first, forest.n_iter))
    np.testing.assert_array_equal(added[:, exist], expected[:, exist])
    return parts


@pytest.mark.parametrize("order", sweep([1, 0, 2, 3], 2))
@pytest.mark.parametrize("kind", STORAGES)
def test_parts_equal_scores(kind, order, few_codes):
    trained = Trained(kind, order, order=order, window=(2, 1), n_labels=3, max_leaf_nodes=30)
    check_scores(trained)
    check_scores(trained, first=1)
    new = random_sequences(kind, np.random.default_rng(7), [1, 2, 70, 3], new=True)
    check_scores(trained, new)


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_missing_values(kind, order, missing):
    options = {"n_labels": 3, "order": order, "window": (1, 1), "max_leaf_nodes": 25}
    trained, rng = Trained(kind, 2, rate=0.1, missing=missing, **options), np.random.default_rng(3)
    check_scores(trained)
    for rate in (0.0, 0.02, 0.3, 1.0):
        new = random_with_missing(kind, rng, [50, 1, 9], rate, new=True)
        check_scores(trained, new)
    check_scores(trained, random_with_missing(kind, rng, [1017, 7, 1100], 0.1), n_threads=2)


@pytest.mark.parametrize("kind", ["letters", "words", "floats", "sparse"])
@pytest.mark.parametrize("length", sweep([4097, 4095, 4096, 8193, 16400], 2))
def test_blocks_and_threads(kind, length):
    """Blocks are of 4096 rows; one may begin after boundary rows."""
    trained = Trained(kind, 0, n_iter=1, max_leaf_nodes=8, window=(3, 2))
    for lengths in ([length - 7, 7], [length], [7] * (length // 7)):
        sequences = random_sequences(kind, np.random.default_rng(length), lengths)
        for n_threads in (1, 2, 4):
            check_scores(trained, sequences, n_threads)


@pytest.mark.parametrize("kind", ["letters", "words", "floats"])
def test_one_position(kind):
    trained = Trained(kind, 0, window=(2, 2), order=2)
    check_scores(trained, random_sequences(kind, np.random.default_rng(1), [1]))


def test_many_contexts_and_label_tests():
    trained = Trained("letters", 0, n_labels=12, order=2, n_iter=1, max_leaf_nodes=60)
    assert any((tree["column"] == LABEL).sum() > 5 for tree in trained.forest.trees)
    check_scores(trained)


def test_trees_without_label_tests_need_no_scores_of_contexts():
    trained = Trained("floats", 0, order=1)
    assert check_scores(trained).rest is not None
    for tree in trained.forest.trees:
        on_label = tree["column"] == LABEL
        tree |= {name: np.where(on_label, 0, tree[name]) for name in ("offset", "value", "column")}
    trained.forest = trained.forest.copy()
    assert check_scores(trained).rest is None


def test_trees_of_one_leaf_and_no_trees():
    stump = Trained("letters", 3, n_iter=2, min_gain=1e9)
    assert all(len(tree["leaf"]) == 1 for tree in stump.forest.trees)
    parts = check_scores(stump)
    assert parts.rest is None
    check_scores(Trained("letters", 3, n_iter=0))


def test_values_out_of_range_are_refused():
    trained = Trained("letters", 0, n_iter=1)
    for tree in trained.forest.trees:
        tree["leaf"] = np.where(tree["true_child"] < 0, 1500.0, 0.0)
    check_scores(trained)
    trained.forest.trees *= 2
    with pytest.raises(ValueError, match="scores may reach 30"):
        check_scores(trained)
