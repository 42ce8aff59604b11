"""Forests of multi-output trees: one tree with vectors as leaves equals K trees, to the bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from support.cases import STORAGES, STORAGES_WITH_MISSING
from support.forests import Trained, with_vector_leaves
from support.sweeps import sweep

from treecrf.trees.contexts.context_scores import Nodes
from treecrf.trees.explain.conjunctions import leaf_values
from treecrf.trees.explain.shapley import ForestExplainer
from treecrf.trees.forest import LABEL, Forest, check_forest, from_file, to_file
from treecrf.utils.threads import Threads

N_LABELS = 5


class VectorForest:
    """A random forest of multi-output trees, the same as trees of one label, and positions."""

    def __init__(self, kind, seed, *, order=0, has_transitions=False, **options):
        trained = Trained(kind, seed, order=0, n_labels=3, n_iter=1, **options)
        self.encoder = trained.encoder
        self.encoded = trained.encoded
        self.forest = with_vector_leaves(
            trained.forest, N_LABELS, order, seed, has_transitions=has_transitions
        )
        self.single = divided(self.forest)

    def scores(self, forest, encoded=None, n_threads=1, **options):
        with Threads(n_threads) as threads:
            encoded = self.encoded if encoded is None else encoded
            return forest.scores(self.encoder, encoded, threads, **options)


def divided(forest):
    """Write out a tree for each label."""
    single = Forest(forest.n_labels, forest.order, forest.transitions is not None)
    for tree in forest.trees:
        for label in range(forest.n_labels):
            single.trees.append(tree | {"leaf": tree["leaf"][:, label].copy()})
    if forest.transitions is not None:
        single.transitions += forest.transitions
    return single


def assert_same_trees(forest, other):
    assert len(forest.trees) == len(other.trees)
    for one, two in zip(forest.trees, other.trees, strict=True):
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)


CASES = [(0, False), (1, False), (1, True), (2, True)]


@pytest.mark.parametrize(("order", "has_transitions"), CASES)
@pytest.mark.parametrize("kind", STORAGES)
def test_scores_are_those_of_a_tree_for_each_label(kind, order, has_transitions):
    assert_same_scores(VectorForest(kind, 3, order=order, has_transitions=has_transitions))


@pytest.mark.parametrize("rate", sweep([0.02, 0.5, 1.0], 1))
@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_positions_without_values_have_these_scores_too(kind, missing, rate):
    assert_same_scores(
        VectorForest(kind, 5, order=1, has_transitions=True, missing=missing, rate=rate)
    )


def test_blocks_of_positions():
    """A block has thousands of positions, fewer where values are missing or labels are many."""
    for rate in (None, 0.1):
        case = VectorForest("letters", 1, lengths=[5000, 3, 4200], rate=rate)
        assert_same_scores(case)
    case.forest = with_vector_leaves(case.forest, 130, 0, 1)
    case.single = divided(case.forest)
    assert_same_scores(case)


@pytest.mark.parametrize("scale", [1e-6, 1 << 7, 1 << 10, 1 << 28])
def test_values_may_be_small_or_large(scale):
    """Sums beyond the 32 bits of the evaluator's integers are exact, too."""
    case = VectorForest("letters", 4, order=1, rate=0.2)
    case.forest = with_vector_leaves(case.forest, 3, 1, 2, scale=float(scale))
    case.single = divided(case.forest)
    assert_same_scores(case)


@pytest.mark.parametrize("n_labels", [1, 2, 8, 9])
def test_any_number_of_labels(n_labels):
    case = VectorForest("mixture", 4, rate=0.3)
    case.forest = with_vector_leaves(case.forest, n_labels, 1, 2)
    case.single = divided(case.forest)
    assert_same_scores(case)


def test_trees_without_tests():
    case = VectorForest("letters", 3, min_gain=1e9)
    assert all(len(tree["leaf"]) == 1 for tree in case.forest.trees)
    assert_same_scores(case)


def assert_same_scores(case):
    order = case.forest.order
    expected = case.scores(case.single)
    for n_threads in (1, 2):
        np.testing.assert_array_equal(case.scores(case.forest, n_threads=n_threads), expected)
    start = np.ones_like(expected)
    assert case.scores(case.forest, start=start, iterations=(1, 3)) is start
    np.testing.assert_array_equal(start - 1.0, case.scores(case.single, iterations=(1, 3)))
    given = np.zeros((order, case.encoded.n_positions), dtype=np.uint8)
    np.testing.assert_array_equal(
        case.scores(case.forest, given=given), case.scores(case.single, given=given)
    )
    each = [
        forest.scores_of_trees(case.encoder, case.encoded, Threads(1), 1)
        for forest in (case.forest, case.single)
    ]
    np.testing.assert_array_equal(*each)
    state = [
        forest.state_scores(case.encoder, case.encoded, Threads(1))
        for forest in (case.forest, case.single)
    ]
    np.testing.assert_array_equal(*state)


def test_a_tree_for_each_label_is_made_once_until_the_forest_grows():
    case = VectorForest("letters", 0, has_transitions=True, order=1)
    single = case.forest.one_output_per_tree()
    assert_same_trees(single, case.single)
    assert single is case.forest.one_output_per_tree() is single.one_output_per_tree()
    assert (single.n_trees, case.forest.n_trees) == (N_LABELS, 1)
    case.forest.extend(case.forest.iterations(0, 2))
    assert_same_trees(case.forest.one_output_per_tree(), divided(case.forest))
    assert len(case.forest.one_output_per_tree().transitions) == 5


def test_parts_and_copies():
    case = VectorForest("letters", 1, order=1, has_transitions=True)
    assert case.forest.n_iter == case.single.n_iter == 3
    for part in (case.forest.copy(2), case.forest.copy(), case.forest.iterations(1, 2)):
        assert part.is_multi_output
        assert part.n_iter == len(part.trees) == len(part.transitions)
    case.forest.one_output_per_tree()
    copied = pickle.loads(pickle.dumps(case.forest))
    assert copied.is_multi_output
    assert_same_trees(copied, case.forest)
    np.testing.assert_array_equal(case.scores(copied), case.scores(case.single))
    empty = pickle.loads(pickle.dumps(case.forest.copy(0)))
    assert empty.is_multi_output
    assert empty.n_iter == 0
    assert not case.scores(empty).any()


def test_explanations_are_those_of_a_tree_for_each_label():
    case = VectorForest("letters", 2, order=1)
    given = np.full((1, case.encoded.n_positions), N_LABELS, dtype=np.uint8)
    values = []
    for forest in (case.forest, case.single):
        explainer = ForestExplainer(forest, case.encoder, [0, 3])
        shape = len(given[0]), 2, len(explainer.players)
        values.append(np.zeros(shape))
        explainer.add_contributions(case.encoded, given, explainer.players, values[-1], Threads(1))
    assert values[0].any()
    np.testing.assert_array_equal(*values)
    assert leaf_values(case.forest, case.encoder) == leaf_values(case.single, case.encoder)
    nodes = []
    for forest in (case.forest, case.single):
        nodes.append(Nodes(case.encoder))
        nodes[-1].follow(forest)
    np.testing.assert_array_equal(nodes[0].nodes.array, nodes[1].nodes.array)


def test_gains_count_once():
    case = VectorForest("letters", 2)
    gains = sum(
        np.bincount(tree["column"][inner], tree["gain"][inner], 1)
        for tree in case.forest.trees
        for inner in [(tree["true_child"] >= 0) & (tree["column"] >= 0)]
    )
    np.testing.assert_allclose(case.forest.gains(1), gains, rtol=1e-12)
    assert case.forest.tested_columns(1).all()


DAMAGE = {
    "too few values": lambda packed: packed.update(leaf=packed["leaf"][:, :-1]),
    "too many values": lambda packed: packed.update(leaf=np.pad(packed["leaf"], [(0, 0), (0, 1)])),
    "missing nodes": lambda packed: packed.update(leaf=packed["leaf"][:-1]),
    "not a number": lambda packed: packed["leaf"].__setitem__((-1, 2), np.nan),
    "infinite": lambda packed: packed["leaf"].__setitem__((-1, 0), np.inf),
    "another type": lambda packed: packed.update(leaf=packed["leaf"].astype(np.float32)),
    "a tree is missing": lambda packed: packed.update(starts=packed["starts"][:-1]),
    "previous label": lambda packed: (
        packed["column"].__setitem__(0, LABEL), packed["offset"].__setitem__(0, 1)
    ),
    "three axes": lambda packed: packed.update(leaf=packed["leaf"][:, :, None]),
}  # fmt: skip


@pytest.mark.parametrize(("scale", "is_small"), [(2.0, True), (1 << 12, False), (2.0**-21, True)])
def test_files_hold_the_vectors_of_leaves_as_integers(scale, is_small):
    case = VectorForest("letters", 2)
    packed = with_vector_leaves(case.forest, 4, 0, 0, scale=scale).pack()
    stored = to_file(packed)
    assert ("leaf" in stored) == (not is_small)
    read = from_file(stored, 4)
    assert read.keys() >= packed.keys()
    for name in packed:
        np.testing.assert_array_equal(read[name], packed[name])
    assert read["leaf"].dtype == np.float64
    others = case.single.pack()
    assert to_file(others) is from_file(others, 5) is others


DAMAGED_UNITS = {
    "too few labels": lambda stored: stored.update(leaf_units=stored["leaf_units"][:, :-1]),
    "too few leaves": lambda stored: stored.update(leaf_units=stored["leaf_units"][:-1]),
    "a leaf becomes a node": lambda stored: stored["true_child"].__setitem__(-1, 1),
    "another type": lambda stored: stored.update(leaf_units=stored["leaf_units"] * 1.0),
    "one axis": lambda stored: stored.update(leaf_units=stored["leaf_units"].ravel()),
    "no leaves": lambda stored: stored.update(
        leaf_units=stored["leaf_units"][:0], true_child=np.abs(stored["true_child"])
    ),
    "children of two axes": lambda stored: stored.update(true_child=stored["true_child"][:, None]),
}


@pytest.mark.parametrize("damage", DAMAGED_UNITS)
def test_damaged_units_are_refused(damage):
    stored = to_file(VectorForest("letters", 2).forest.pack())
    from_file(stored, N_LABELS)
    DAMAGED_UNITS[damage](stored)
    with pytest.raises(ValueError, match="invalid"):
        from_file(stored, N_LABELS)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_vectors_are_refused(damage):
    case = VectorForest("letters", 2, order=1)
    packed = case.forest.pack()
    check_forest(packed, 3, N_LABELS, 1, case.encoder)
    DAMAGE[damage](packed)
    with pytest.raises(ValueError, match="invalid"):
        check_forest(packed, 3, N_LABELS, 1, case.encoder)
