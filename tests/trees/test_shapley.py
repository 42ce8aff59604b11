"""Contributions to the scores of trees, compared with sums over all coalitions."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import STORAGES, STORAGES_WITH_MISSING, dense, pack
from support.forests import Trained
from support.shapley_oracle import TreeGame, shapley_values
from test_evaluators import grown

import treecrf.trees.explain.shapley
from treecrf.chains.contexts import previous_labels
from treecrf.encoding.encoder import METHODS
from treecrf.trees.explain.shapley import ForestExplainer, Players, relative_covers
from treecrf.trees.forest import LABEL
from treecrf.utils.threads import Threads


class Explained:
    """Contributions to the scores of a grown forest, with random labels before the positions."""

    def __init__(self, trained, sequences=None, codes=None, n_threads=1):
        self.trained, n_labels = trained, trained.n_labels
        packed = trained.encoded if sequences is None else trained.encoder.encode(sequences)
        labels = np.random.default_rng(0).integers(0, n_labels, packed.n_positions)
        self.given = previous_labels(labels, packed.offsets, n_labels, trained.order)
        codes = list(range(n_labels)) if codes is None else codes
        explainer = ForestExplainer(trained.forest, trained.encoder, codes)
        self.base, self.players = explainer.base_values, explainer.players
        self.values = np.zeros((packed.n_positions, len(codes), len(self.players)))
        with Threads(n_threads) as threads:
            arguments = packed, self.given, self.players, self.values, threads
            explainer.add_contributions(*arguments)
            scores = trained.forest.scores(trained.encoder, packed, threads, given=self.given)
        self.scores = scores[codes, :, 0].T

    def expected(self, sequences, positions):
        """Enumerate all coalitions; return the base values and the contributions."""
        forest, n_labels = self.trained.forest, self.trained.n_labels
        base = np.zeros(n_labels)
        values = np.zeros((len(positions), n_labels, len(self.players)))
        index = {pair: i for i, pair in enumerate(self.players.pairs)}
        for k, tree in enumerate(forest.trees):
            game = TreeGame(tree, self.trained.encoder, sequences)
            base[k % n_labels] += game.value(frozenset(), 0, None)
            for i, t in enumerate(positions):
                known = {}

                def value(some, t=t, known=known, game=game):
                    if some not in known:
                        known[some] = game.value(some, t, self.given[:, t])
                    return known[some]

                for player, part in shapley_values(value, game.players).items():
                    values[i, k % n_labels, index[player]] += part
        return base, values


SMALL = {"max_leaf_nodes": 8, "n_iter": 2, "window": (1, 1)}
POSITIONS = [0, 9, 24, 60, 86]


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("kind", STORAGES)
def test_contributions_are_shapley_values(kind, order):
    trained = Trained(kind, order, order=order, n_labels=2 + order % 2, **SMALL)
    explained = Explained(trained)
    base, values = explained.expected(dense(trained.sequences), POSITIONS)
    np.testing.assert_allclose(explained.base, base, atol=1e-12)
    np.testing.assert_allclose(explained.values[POSITIONS], values, atol=1e-12)
    total = explained.base + explained.values.sum(axis=2)
    np.testing.assert_allclose(total, explained.scores, atol=1e-12)


@pytest.mark.parametrize("missing", METHODS)
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_missing_values(kind, missing):
    trained = Trained(kind, 1, rate=0.2, missing=missing, **SMALL)
    explained = Explained(trained)
    prepared = trained.encoder.prepared(trained.sequences)
    items = [prepared.rows(i, i + 1) for i in range(prepared.n_sequences)]
    base, values = explained.expected(dense(items), POSITIONS)
    np.testing.assert_allclose(explained.base, base, atol=1e-12)
    np.testing.assert_allclose(explained.values[POSITIONS], values, atol=1e-12)
    total = explained.base + explained.values.sum(axis=2)
    # Fractions of positions are rounded in the scores.
    tolerance = 1e-4 if missing.startswith("weighting") else 1e-12
    np.testing.assert_allclose(total, explained.scores, atol=tolerance)


@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_a_missing_value_contributes_nothing(kind):
    trained = Trained(kind, 2, rate=0.2, missing="weighting-only", n_iter=4)
    explained, n_found = Explained(trained), 0
    table = np.concatenate(dense(trained.sequences))
    for (feature, offset), values in zip(
        explained.players.pairs, np.moveaxis(explained.values, 2, 0), strict=True
    ):
        if feature >= 0 and offset == 0:
            lacking = np.isnan(table[:, feature])
            assert (values[lacking] == 0).all()
            assert (values[~lacking] != 0).any()
            n_found += lacking.sum()
    assert n_found


def test_large_trees_add_up():
    """Paths have many players, and some of them return."""
    rng = np.random.default_rng(0)
    sequences = [rng.random((n, 40)) < 0.5 for n in (300, 200)]
    trained = grown(sequences, rng, 0, max_leaf_nodes=200, window=(1, 1), n_labels=2, order=1)
    explained = Explained(trained)
    total = explained.base + explained.values.sum(axis=2)
    np.testing.assert_allclose(total, explained.scores, atol=1e-10)


@pytest.mark.parametrize("n_players", [2, 3, 4, 5, 9, 16, 17, 33, 70])
def test_chains_of_tests(n_players):
    """All but one coalition of these games have the same value, so that the values are known."""
    forest, encoder, encoded = chain_of_tests(n_players)
    explainer = ForestExplainer(forest, encoder, [0])
    values = np.zeros((1, 1, n_players))
    with Threads(1) as threads:
        given = np.zeros((0, 1), dtype=np.uint8)
        explainer.add_contributions(encoded, given, explainer.players, values, threads)
    assert explainer.base_values[0] == 0
    np.testing.assert_allclose(values[0, 0], 1 / n_players, rtol=1e-12)


def chain_of_tests(n):
    """A tree with value 1 where all booleans are true; absent ones are false."""
    rng = np.random.default_rng(0)
    tables = [rng.random((50, n)) < 0.5, np.ones((1, n), dtype=bool)]
    options = {"order": 0, "n_labels": 1, "n_iter": 1, "window": (0, 0)}
    trained = grown(tables, rng, 0, max_leaf_nodes=2, **options)
    inner = 2 * np.arange(n)
    tree = {name: np.zeros(2 * n + 1) for name in ("leaf", "gain", "weight", "share")}
    for name in ("column", "offset", "value", "n_surrogates", "true_child", "false_child"):
        tree[name] = np.full(2 * n + 1, -1 if "child" in name else 0, dtype=np.int32)
    for name in ("surrogate_column", "surrogate_offset", "surrogate_value", "reversed"):
        tree[name] = np.zeros(0, dtype=np.int32)
    tree["column"][inner] = np.arange(n)
    tree["true_child"][inner], tree["false_child"][inner] = inner + 2, inner + 1
    tree["leaf"][-1] = 1.0
    trained.forest.trees = [tree]
    return trained.forest, trained.encoder, trained.encoder.encode(pack(tables[1:]))


def test_covers_are_shares_and_in_early_models_weights_of_label_tests():
    trained = Trained("mixture", 3, rate=0.2, order=1, n_labels=3)
    packed = trained.forest.pack()
    on_label = packed["column"] == LABEL
    assert on_label.any()
    np.testing.assert_array_equal(relative_covers(packed), packed["share"])
    early = packed | {"share": np.where(on_label, 0.0, packed["share"])}
    # In first-order boosting, without fractions, they are the same.
    np.testing.assert_allclose(relative_covers(early), packed["share"], rtol=1e-3)
    nothing = early | {"weight": np.zeros(len(on_label))}
    assert (relative_covers(nothing)[on_label] == 0.5).all()


def test_one_label_and_parts_of_the_forest(monkeypatch):
    trained = Trained("floats", 0, n_labels=3, n_iter=4)
    every, one = Explained(trained), Explained(trained, codes=[1])
    columns = every.players.index_of(one.players.features, one.players.offsets)
    np.testing.assert_array_equal(every.values[:, 1][:, columns], one.values[:, 0])
    assert every.base[1] == one.base[0]
    monkeypatch.setattr(treecrf.trees.explain.shapley, "MAX_NODES", 60)
    np.testing.assert_allclose(Explained(trained).values, every.values, atol=1e-12)


def test_threads_do_not_matter():
    trained = Trained("sparse", 0, n_labels=3)
    np.testing.assert_array_equal(Explained(trained, n_threads=3).values, Explained(trained).values)


def test_a_forest_without_tests_has_no_players():
    explained = Explained(Trained("letters", 3, n_iter=2, min_gain=1e9))
    assert explained.values.shape[2] == len(explained.players) == 0
    np.testing.assert_allclose(explained.base + 0 * explained.scores, explained.scores)


def test_a_forest_without_trees():
    explained = Explained(Trained("floats", 0, n_iter=0))
    assert explained.base.tolist() == [0.0, 0.0]


def test_players_are_sorted_and_distinct():
    players = Players.from_pairs(np.array([-2, 3, -1, 0, 3, -2]), np.array([1, -1, 2, 5, -1, 2]))
    assert players.pairs == [(0, 5), (3, -1), (-1, 2), (-2, 1), (-2, 2)]
    more = players.union(Players.from_pairs(np.array([1]), np.array([0])))
    assert more.pairs == [(0, 5), (1, 0), (3, -1), (-1, 2), (-2, 1), (-2, 2)]
    assert more.index_of(np.array([3, -2]), np.array([-1, 2])).tolist() == [2, 5]
