"""Trees are, to the last bit, those that a table of all examples grows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.cases import STORAGES
from support.growing import (
    LENGTHS,
    WINDOWS,
    Layers,
    Positions,
    Setting,
    random_positions,
    random_settings,
)
from support.settings import PLAIN
from support.sweeps import pairs, sweep

import treecrf.trees.growing.window_tests
from treecrf import TreeCRF
from treecrf.encoding import columns
from treecrf.trees.scoring.packed_trees import LABEL


def check_case(kind, seed, n_trees=1, **options):
    rng = np.random.default_rng(seed)
    positions = random_positions(kind, rng, **options)
    grower = positions.grower()
    for _ in range(n_trees):
        positions.check(grower, rng)


CONSTRAINTS = [{"monotonic": True}, {"interactions": "sets"}]


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("n_layers", [1, 3])
def test_examples_in_layers(n_layers, kind, seed):
    rng = np.random.default_rng(seed)
    settings = random_settings(kind, seed, rng) | {"order": int(rng.integers(4)), "min_gain": 0.0}
    positions = random_positions(kind, rng, **settings)
    layers = Layers(positions, n_layers, rng)
    for _ in range(2):
        layers.check(rng)


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("kind", STORAGES)
def test_constraints_in_layers(kind, constraints, seed):
    rng = np.random.default_rng(seed)
    settings = {"order": 1 + seed % 2, "second_order": seed % 2 > 0, "max_leaf_nodes": 20, "l2": 0}
    positions = random_positions(kind, rng, lengths=LENGTHS[seed % 5], **settings, **constraints)
    Layers(positions, 2, rng).check(rng)


@pytest.mark.parametrize("seed", sweep(range(30), 8))
@pytest.mark.parametrize("kind", STORAGES)
def test_random_cases(kind, seed, few_codes):
    rng = np.random.default_rng(seed)
    settings = random_settings(kind, seed, rng)
    max_features, max_leaf_value = float(rng.choice([1.0, 0.3])), float(rng.choice([np.inf, 0.05]))
    check_case(kind, seed, max_features=max_features, max_leaf_value=max_leaf_value, **settings)


@pytest.mark.parametrize("weights", ["counted", "weighted", "second order", "both"])
@pytest.mark.parametrize("min_samples_leaf", sweep([3, 1, 10], 1))
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_minimum_number_of_examples_in_a_leaf(kind, min_samples_leaf, weights):
    check_case(
        kind,
        5,
        min_samples_leaf=min_samples_leaf,
        second_order=weights in ("second order", "both"),
        weighted=weights in ("weighted", "both"),
    )


@pytest.mark.parametrize("n_labels", sweep([3, 2, 4], 1))
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("window", WINDOWS)
def test_label_contexts_and_windows(window, order, n_labels):
    check_case("letters", 1, n_labels=n_labels, order=order, window=window, lengths=[30, 1, 2])


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize(
    "constraints", [*CONSTRAINTS, {"monotonic": True, "interactions": "pairwise"}]
)
@pytest.mark.parametrize("kind", STORAGES)
def test_constraints(kind, constraints, seed):
    check_case(
        kind,
        seed,
        n_trees=2,
        order=seed % 3,
        n_labels=2 + seed % 2,
        window=WINDOWS[seed % 4],
        max_leaf_nodes=20,
        l2=float(seed % 2),
        min_samples_leaf=1 + seed % 3,
        second_order=seed % 2 > 0,
        weighted=seed % 3 > 1,
        coarse=seed % 2 > 0,
        lengths=LENGTHS[seed % 5],
        **constraints,
    )


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_label_tests_alone(order):
    rng = np.random.default_rng(order)
    constant = [np.zeros((n, 2)) for n in (9, 1, 14, 3)]
    positions = Positions(constant, rng, Setting(order=order, window=(0, 0)))
    assert len(positions.bins) == 0
    tree = positions.check(positions.grower(), rng)
    assert (len(tree["leaf"]) > 1) == (order > 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize(
    ("n_labels", "max_depth"),
    pairs(
        product([2, 3, 4, 5, 7, 8], [None, 2]),
        lambda n_labels, max_depth: max_depth is None or n_labels == 4,
    ),
)
def test_label_tests_first(n_labels, second_order, weighted, max_depth):
    """All positions are summed once for all contexts, if a bin has room for the sums of each."""
    rng = np.random.default_rng(0)
    positions = random_positions(
        "letters",
        rng,
        n_labels=n_labels,
        order=1,
        window=(2, 1),
        lengths=[150, 1, 60],
        max_leaf_nodes=30,
        max_depth=max_depth,
        second_order=second_order,
        weighted=weighted,
    )
    grower = positions.grower()
    for _ in range(2):
        targets, curvature, weights = positions.draw_examples(rng)
        # Contexts differ more than positions do.
        scale = weights[:, np.newaxis] if curvature is None else curvature
        targets += 4.0 * np.arange(n_labels) * scale
        tree = positions.check(grower, rng, (targets, curvature, weights))
        assert tree["column"][0] == LABEL


def test_small_trees_after_large_ones_and_large_after_small():
    rng = np.random.default_rng(0)
    positions = random_positions("floats", rng, max_leaf_nodes=30, l2=0.0)
    grower = positions.grower()
    targets, _, weights = positions.draw_examples(rng)
    sizes = [
        len(positions.check(grower, rng, (share * targets, None, weights))["leaf"])
        for share in (1.0, 0.0, 1.0, 0.0)
    ]
    assert sizes[0] == sizes[2] > sizes[1] == sizes[3] == 1


@pytest.mark.parametrize("second_order", [False, True])
def test_residuals_of_zero_grow_a_leaf_of_zero(second_order):
    rng = np.random.default_rng(0)
    positions = random_positions("letters", rng, l2=0.0, second_order=second_order)
    curvature = np.zeros(positions.shape) if second_order else None
    examples = (np.zeros(positions.shape), curvature, np.ones(len(positions.depth)))
    tree = positions.check(positions.grower(), rng, examples)
    assert tree["true_child"].tolist() == [-1]
    assert tree["leaf"].tolist() == [0.0]


def test_positions_without_weight_teach_nothing_and_are_scored():
    rng = np.random.default_rng(0)
    positions = random_positions("letters", rng, weighted=True)
    weights = np.zeros(len(positions.depth))
    examples = (np.zeros(positions.shape), None, weights)
    assert positions.check(positions.grower(), rng, examples)["weight"].tolist() == [0.0]


def test_equal_and_opposite_columns_tie_toward_the_first():
    rng = np.random.default_rng(0)
    column = rng.random(40) < 0.5
    table = np.stack([rng.random(40) < 0.5, ~column, column, column], axis=1)
    positions = Positions([table], rng, Setting(order=0, window=(0, 0)))
    targets = np.where(column, 0.5, -0.25)[:, np.newaxis]
    tree = positions.check(positions.grower(), rng, (targets, None, np.ones(40)))
    assert tree["column"][0] == 1


def test_equal_gains_go_to_the_oldest_leaf():
    """Eight groups, separated one by one, in each of which the same column gains the same."""
    rng = np.random.default_rng(0)
    group, column = np.divmod(np.arange(32), 4)
    group = rng.permutation(8)[group]
    column %= 2
    targets = (group / 8 + column / 64)[:, np.newaxis]
    for max_leaf_nodes in range(8, 17):
        setting = Setting(order=0, window=(0, 0), l2=0.0, max_leaf_nodes=max_leaf_nodes)
        positions = Positions([np.stack([group, column], axis=1)], rng, setting)
        positions.check(positions.grower(), rng, (targets, None, np.ones(32)))


@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_long_sequence(n_labels):
    """Whole bytes of bits are counted at once in large nodes, bit by bit in small ones."""
    check_case("booleans", 0, n_labels=n_labels, lengths=[700], max_leaf_nodes=40, window=(2, 1))
    check_case("floats", 0, n_labels=n_labels, lengths=[700], max_leaf_nodes=40, min_samples_leaf=4)


@pytest.mark.parametrize("kind", ["letters", "integers", "floats"])
def test_joint_histograms_of_some_codes(kind, monkeypatch):
    """Neighboring codes are counted together if they have few joint bins."""
    monkeypatch.setattr(treecrf.trees.growing.window_tests, "MAX_PAIR_BINS", 26)
    monkeypatch.setattr(treecrf.trees.growing.window_tests, "MAX_JOINT_BINS", 60)
    for order in (0, 1):
        check_case(kind, 0, order=order, window=(2, 1), lengths=[300, 40])


@pytest.mark.parametrize(
    ("settings", "scale"),
    pairs(
        product(
            [
                {"coarse": True},
                {"second_order": True, "l2": 0.0},
                {"second_order": True, "min_samples_leaf": 9},
                {"monotonic": True},
                {"missing": "weighting", "unit": 2.0**-12},
            ],
            [1.0, 2.0**-40, 2.0**80],
        ),
        lambda settings, scale: (scale == 1.0) == ("l2" not in settings),
    ),
)
def test_hundreds_of_thresholds(settings, scale, monkeypatch):
    """Single precision finds long runs of thresholds that may be best, unless it is too coarse."""
    monkeypatch.setattr(columns, "MIN_BINS", 255)
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(n, 2)) for n in (200, 1, 19)]
    if "missing" in settings:
        tables[0][rng.random((200, 2)) < 0.1] = np.nan
    positions = Positions(tables, rng, Setting(window=(1, 0), max_leaf_nodes=7, **settings))
    assert len(positions.bins) > 2 * 2 * 170
    examples = [None if part is None else scale * part for part in positions.draw_examples(rng)]
    positions.check(positions.grower(), rng, examples)


def test_hundreds_of_words():
    check_case("words", 0, window=(0, 1), lengths=[250, 200], max_leaf_nodes=6)


def test_weights_of_classes_leave_no_leaf_empty():
    """Weights are rounded as residuals are: no remainder of a subtraction passes for an example."""
    rng = np.random.default_rng(0)
    tables = [rng.random((300, 3)) < 0.5 for _ in range(3)]
    labels = [rng.integers(0, 3, 300) for _ in tables]
    weights = {0: 1 / 3, 1: 0.7, 2: 1.1}
    crf = TreeCRF(order=0, max_iter=3, l2_regularization=1.0, class_weight=weights, **PLAIN)
    packed = crf.fit(tables, labels)._forest.pack()
    assert (packed["weight"] / 2.0**-32 % 1 == 0).all()
    assert packed["weight"].min() > 1
    assert np.diff(packed["starts"]).max() <= 15  # there are eight rows to distinguish
