"""Trees on lists of all examples are, to the last bit, those on the table of all examples."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import STORAGES, STORAGES_WITH_MISSING, random_with_missing
from support.growing import LENGTHS, Positions, Setting, random_positions, random_settings
from support.sweeps import sweep

from treecrf.chains.contexts import extended_contexts
from treecrf.trees.growing._features import Features
from treecrf.trees.lists._list_grower import ListGrower


def list_grower(positions, n_parts=1, max_kept_bins=0):
    setting = positions.setting
    grower = ListGrower(
        Features(positions.encoded, positions.table),
        positions.table,
        positions.tree_settings(),
        setting.n_labels,
        setting.order,
        with_counts=setting.second_order or setting.weighted,
        has_curvature=setting.second_order,
        surrogates=setting.missing == "surrogate",
        max_parts=n_parts,
    )
    grower.many_examples = 10
    grower.block_size = 4
    grower.max_kept_bins = max_kept_bins
    return grower


def list_examples(positions, targets, curvature, weights):
    """Rows, labels, values and counts of all examples."""
    setting = positions.setting
    symbols, starts = extended_contexts(setting.n_labels, setting.order)
    rows, labels, values, counts = [], [], [], []
    for t, depth in enumerate(positions.depth):
        for c in range(setting.n_labels ** int(depth)):
            rows.append(positions.encoded.rows_from_first[t])
            labels.append(symbols[starts[depth] + c])
            weight = weights[t] if curvature is None else curvature[t, c]
            values.append((targets[t, c], weight))
            counts.append(float(weights[t] > 0))
    return (
        np.array(rows, dtype=np.int32),
        np.array(labels, dtype=np.uint8).reshape(len(rows), setting.order),
        np.array(values),
        np.array(counts),
    )


def assert_same_trees(positions, rng, n_parts=1, n_trees=1):
    setting = positions.setting
    grower = positions.grower()
    growing = list_grower(positions, n_parts, max_kept_bins=int(rng.choice([0, 60, 1 << 20])))
    features = [Features(positions.encoded, positions.table) for _ in range(n_parts - 1)]
    others = [growing.new_part(part) for part in features]
    for _ in range(n_trees):
        targets, curvature, weights = positions.draw_examples(rng)
        expected = grower.grow(targets, curvature, weights, 0, np.zeros(positions.shape))
        examples = list_examples(positions, targets, curvature, weights)
        order = rng.permutation(len(examples[0]))
        grown = grow(growing, [part[order] for part in examples], others)
        assert grown.keys() == expected.keys()
        for name, values in expected.items():
            # Positions do not have weights there.
            if name == "share" and setting.weighted and setting.second_order:
                continue
            np.testing.assert_array_equal(grown[name], values, err_msg=name)


def grow(grower, examples, others=(), seed=0, chosen=None):
    """Grow a tree whose large nodes are added in parts."""
    grower.begin(*examples, seed, chosen)
    n_parts = 1 + len(others)
    while grower.advance():
        grower.work(0, n_parts)
        for k, other in enumerate(others):
            grower.work(k + 1, n_parts, other)
        grower.finish(list(others))
    return grower.describe()


@pytest.mark.parametrize("seed", sweep(range(60), 12))
@pytest.mark.parametrize("kind", STORAGES)
def test_random_cases(kind, seed):
    rng = np.random.default_rng(seed)
    positions = random_positions(kind, rng, **random_settings(kind, seed, rng))
    assert_same_trees(positions, rng, n_parts=1 + seed % 3, n_trees=2)


CONSTRAINTS = [
    {"monotonic": True},
    {"interactions": "sets"},
    {"monotonic": True, "interactions": "pairwise", "max_features": 0.5},
]


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("kind", STORAGES)
def test_constraints(kind, constraints, seed):
    rng = np.random.default_rng(seed)
    settings = {"order": seed % 3, "second_order": seed % 2 > 0, "max_leaf_nodes": 20, "l2": 0.0}
    positions = random_positions(kind, rng, lengths=LENGTHS[seed % 5], **settings, **constraints)
    assert_same_trees(positions, rng, n_parts=1 + seed % 3, n_trees=2)


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("constraints", CONSTRAINTS)
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_constraints_with_missing_values(kind, constraints, missing):
    positions, rng = random_missing(kind, 0, missing, max_leaf_nodes=20, **constraints)
    assert_same_trees(positions, rng, n_parts=2, n_trees=2)


def random_missing(kind, seed, missing, **settings):
    rng = np.random.default_rng(seed)
    sequences = random_with_missing(kind, rng, (9, 1, 14, 30), 0.3)
    setting = Setting(missing=missing, unit=2.0**-12, **settings)
    return Positions(sequences, rng, setting), rng


@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
@pytest.mark.parametrize("second_order", [False, True])
@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("seed", sweep(range(12), 2))
def test_missing_values(seed, missing, second_order, kind):
    positions, rng = random_missing(
        kind,
        seed,
        missing,
        second_order=second_order,
        order=seed % 3,
        max_depth=[None, 3][seed % 2],
        min_samples_leaf=1 + seed % 2,
    )
    assert_same_trees(positions, rng, n_parts=1 + seed % 3, n_trees=2)
