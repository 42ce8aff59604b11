"""Trees for all labels are, to the last bit, those that a table of all positions grows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2
from support.cases import STORAGES, random_sequences
from support.growing import Positions, Setting, assert_same_nodes, random_settings
from support.multi_output_oracle import grow_naive_multi_output_tree
from support.sweeps import sweep

from treecrf.encoding import columns
from treecrf.trees.multi_output._grower import MultiOutputGrower
from treecrf.trees.multi_output._search import limit_ratio

N_LABELS = [1, 2, 3, 4, 5, 8, 9, 10, 17, 26]


class Case:
    """Positions, and a grower of trees with a value for each of several labels."""

    def __init__(self, kind, seed, n_labels, lengths=(9, 1, 14, 3), missing_share=0.0, **settings):
        self.rng = np.random.default_rng(seed)
        settings |= {"order": 0, "n_labels": 2}
        sequences = random_sequences(kind, self.rng, lengths)
        if missing_share:
            for table in sequences:
                table[self.rng.random(table.shape) < missing_share] = np.nan
        self.positions = Positions(sequences, self.rng, Setting(**settings))
        self.setting = self.positions.setting
        self.n_labels = n_labels
        self.grower = MultiOutputGrower(
            self.positions.encoded, self.positions.table, self.positions.tree_settings(), n_labels
        )

    def few_histograms(self):
        """Return a grower that keeps the histograms of two nodes only."""
        return MultiOutputGrower(
            self.positions.encoded,
            self.positions.table,
            self.positions.tree_settings(),
            self.n_labels,
            max_bytes=0,
        )

    def draw_examples(self):
        """Targets and curvature (or None), (n_labels, n_positions), and weights of positions."""
        columns = [self.positions.draw_examples(self.rng) for _ in range(self.n_labels)]
        weights = columns[0][2]
        shape = (self.n_labels, len(weights))
        targets = np.array([column[0][:, 0] * (weights > 0) for column in columns]).reshape(shape)
        if columns[0][1] is None:
            return targets, None, weights
        curvature = np.array([column[1][:, 0] * (weights > 0) for column in columns])
        targets[curvature == 0] = 0.0
        return targets, curvature, weights

    def expected(self, targets, curvature, weights, seed, chosen):
        setting = self.setting
        every = np.ones_like(targets)
        label_weights = weights * every if curvature is None else curvature
        missing = self.positions.missing_values
        limit = missing.min_gain * limit_ratio(self.n_labels)
        return grow_naive_multi_output_tree(
            self.positions.truth,
            targets.T,
            label_weights.T,
            max_leaf_nodes=setting.max_leaf_nodes,
            counts=(weights > 0) * 1.0,
            missing_values=replace(missing, min_gain=limit),
            position_weights=weights,
            l2=setting.l2,
            min_gain=setting.min_gain,
            min_samples_leaf=setting.min_examples,
            max_leaf_value=setting.max_leaf_value,
            learning_rate=setting.learning_rate,
            allowed=self.positions.allowed(seed, chosen),
            interacts=self.positions.interacts(),
        )

    def check(self, examples=None, chosen=None):
        """Grow one tree; return it."""
        targets, curvature, weights = examples or self.draw_examples()
        seed = int(self.rng.integers(2**63))
        before = self.rng.integers(-50, 50, targets.shape) * 2.0**-20
        scores = before.copy()
        given = weights if self.setting.weighted else None
        grown = self.grower.grow(targets, curvature, given, seed, scores, chosen)
        expected = self.expected(targets, curvature, weights, seed, chosen)
        assert grown["leaf"].shape == (len(expected.nodes), self.n_labels)
        values = np.array([node.value for node in expected.nodes])
        values[[node.test >= 0 for node in expected.nodes]] = 0.0
        np.testing.assert_array_equal(grown["leaf"], values)
        without_values = [node._replace(value=0.0) for node in expected.nodes]
        grown_without = grown | {"leaf": np.zeros(len(expected.nodes))}
        assert_same_nodes(grown_without, without_values, self.positions.tests)
        np.testing.assert_array_equal(scores, before + expected.increments.T)
        return grown


def random_case(kind, seed, n_labels, **settings):
    rng = np.random.default_rng(seed)
    drawn = random_settings(kind, seed, rng) | {"n_labels": n_labels}
    return Case(kind, seed, **(drawn | settings))


@pytest.mark.parametrize("seed", sweep(range(30), 8))
@pytest.mark.parametrize("kind", STORAGES)
def test_random_cases(kind, seed):
    rng = np.random.default_rng(seed)
    case = random_case(
        kind,
        seed,
        N_LABELS[seed % len(N_LABELS)],
        max_features=float(rng.choice([1.0, 0.3])),
        max_leaf_value=float(rng.choice([np.inf, 0.05])),
    )
    for _ in range(2):
        case.check()


@pytest.mark.parametrize("seed", sweep(range(20), 6))
@pytest.mark.parametrize("missing", ["weighting", "weighting-only"])
def test_missing_values(missing, seed):
    case = random_case(
        "floats",
        seed,
        N_LABELS[seed % len(N_LABELS)],
        missing=missing,
        missing_share=[0.1, 0.5][seed % 2],
        unit=2.0**-12,
        min_missing_gain=[0.0, 0.5][seed % 2],
        max_leaf_nodes=20,
    )
    for _ in range(2):
        case.check()


@pytest.mark.parametrize("kind", ["booleans", "floats", "sparse", "words"])
@pytest.mark.parametrize("n_labels", [1, 3, 10])
def test_a_long_sequence(n_labels, kind):
    """Whole bytes of bits are counted at once in large nodes, bit by bit in small ones."""
    Case(kind, 0, n_labels, lengths=[900], max_leaf_nodes=40, window=(1, 1)).check()


def test_hundreds_of_thresholds(monkeypatch):
    monkeypatch.setattr(columns, "MIN_BINS", 255)
    Case("floats", 0, 5, lengths=[900, 40], max_leaf_nodes=30, second_order=True).check()


@pytest.mark.parametrize("n_labels", [1, 10])
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_the_tree_does_not_depend_on_which_histograms_are_kept(kind, n_labels):
    case = Case(
        kind, 4, n_labels, lengths=[300], max_leaf_nodes=40, min_samples_leaf=2, l2=0.0,
        weighted=True,
    )  # fmt: skip
    examples = case.draw_examples()
    grown = case.check(examples)
    assert len(grown["gain"]) > 30
    case.grower = case.few_histograms()
    for name, values in case.check(examples).items():
        np.testing.assert_array_equal(values, grown[name])


def test_residuals_of_zero_grow_a_leaf_of_zero():
    case = Case("letters", 0, 3, second_order=True, l2=0.0)
    zeros = np.zeros((3, len(case.positions.depth)))
    tree = case.check((zeros, zeros, np.ones(zeros.shape[1])))
    assert tree["true_child"].tolist() == [-1]
    assert tree["leaf"].tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("n_labels", N_LABELS)
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_numbers_of_labels(kind, n_labels):
    Case(kind, 3, n_labels, second_order=n_labels % 2 > 0, max_leaf_nodes=20).check()


@pytest.mark.parametrize("min_samples_leaf", [3, 10])
@pytest.mark.parametrize("weights", ["counted", "weighted", "second order", "both"])
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_minimum_number_of_examples_in_a_leaf(kind, weights, min_samples_leaf):
    Case(
        kind,
        5,
        5,
        min_samples_leaf=min_samples_leaf,
        second_order=weights in ("second order", "both"),
        weighted=weights in ("weighted", "both"),
    ).check()


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize("interactions", ["sets", "pairwise"])
@pytest.mark.parametrize("kind", STORAGES)
def test_interaction_constraints(kind, interactions, seed):
    random_case(kind, seed, 1 + seed % 5, interactions=interactions, max_leaf_nodes=20).check()


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize("kind", STORAGES)
def test_chosen_features(kind, seed):
    case = random_case(kind, seed, 1 + seed % 5, max_features=[1.0, 0.5][seed % 2])
    n_features = case.positions.table.n_features
    for fraction in (0.1, 0.5):
        case.check(chosen=(case.rng.random(n_features) < fraction).astype(np.uint8))
    case.check()


@pytest.mark.parametrize("seed", sweep(range(30), 8))
@pytest.mark.parametrize("kind", STORAGES)
def test_one_label_has_the_tree_of_one_output(kind, seed):
    case = random_case(kind, seed, 1, max_features=[1.0, 0.3][seed % 2])
    targets, curvature, weights = case.draw_examples()
    given = weights if case.setting.weighted else None
    expected_scores = np.zeros((targets.shape[1], 1))
    expected = case.positions.grower().grow(
        targets.T.copy(), None if curvature is None else curvature.T.copy(), given, seed,
        expected_scores,
    )  # fmt: skip
    scores = np.zeros_like(targets)
    grown = case.grower.grow(targets, curvature, given, seed, scores)
    expected["leaf"] = expected["leaf"][:, np.newaxis]
    assert grown.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(grown[name], values, err_msg=name)
    np.testing.assert_array_equal(scores, expected_scores.T)


@pytest.mark.parametrize("n_labels", [2, 5, 11])
def test_residuals_of_one_label_alone_have_its_tree(n_labels):
    case = Case("floats", 2, n_labels, second_order=True, max_leaf_nodes=20)
    targets, curvature, _ = case.draw_examples()
    label = n_labels // 2
    targets[np.arange(n_labels) != label] = 0.0
    grown = case.grower.grow(targets, curvature, None, 0, np.zeros_like(targets))
    alone = case.positions.grower().grow(
        targets[label][:, None], curvature[label][:, None], None, 0, np.zeros((len(targets.T), 1))
    )
    for name in ("column", "offset", "value", "true_child", "false_child", "gain", "share"):
        np.testing.assert_array_equal(grown[name], alone[name], err_msg=name)
    np.testing.assert_array_equal(grown["leaf"][:, label], alone["leaf"])


def test_limit_of_the_gain_of_missing_values():
    """Gains of several labels are about chi-squared with as many degrees of freedom."""
    for n_labels in (1, 2, 26):
        expected = chi2.isf(0.05, n_labels) / chi2.isf(0.05, 1)
        assert limit_ratio(n_labels) == pytest.approx(expected, abs=0.01)
    assert limit_ratio(1) == 1.0
