"""Forests score positions as training did and as a walk down each tree does, to the last bit."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.cases import STORAGES, STORAGES_WITH_MISSING, random_sequences, random_with_missing
from support.forests import LENGTHS, Trained
from support.sweeps import sweep

from treecrf.trees import evaluators
from treecrf.trees.evaluators import ForestEvaluator
from treecrf.trees.fast import costs, lookup
from treecrf.trees.forest import LABEL
from treecrf.trees.scoring.batch import Batch
from treecrf.utils.threads import Threads

BORDERS = [8193, 4097, 4095, 4096, 8192, 8196, 16400]  # blocks are of 4096 or of 8192 positions


def grown(sequences, rng, seed, **options):
    """A forest grown on noise, on some sequences."""
    trained = Trained.__new__(Trained)
    trained.grow(sequences, rng, seed, **options)
    return trained


@pytest.mark.parametrize("window", sweep([(2, 1), (0, 0), (1, 1), (2, 0), (0, 3)], 1))
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("kind", STORAGES)
def test_scores_equal_those_of_training_and_of_walking(kind, order, window, few_codes):
    trained = Trained(kind, order, order=order, window=window, n_labels=2 + order % 2)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    np.testing.assert_array_equal(trained.scores(), trained.walked(trained.sequences))


def test_each_length_of_a_block_rest():
    """Words of 64 positions are filled to every length, and no label test reaches further."""
    trained = Trained("letters", 0, n_iter=1, window=(0, 1), max_leaf_nodes=40)
    assert all((tree["column"] == LABEL).any() for tree in trained.forest.trees)
    text = random_sequences("letters", np.random.default_rng(0), [200])[0]
    for length in [*range(1, 5), *range(60, 70), *range(125, 131), 191, 192, 193]:
        np.testing.assert_array_equal(
            trained.scores([text[:length]]), trained.walked([text[:length]]), err_msg=str(length)
        )


def test_iterations_add_up():
    trained = Trained("letters", 0, n_iter=5)
    np.testing.assert_array_equal(trained.scores(iterations=(0, 5)), trained.scores())
    each = trained.forest.scores_of_trees(trained.encoder, trained.encoded, Threads(1), 1)
    np.testing.assert_array_equal(each[1], trained.scores(iterations=(2, 3)))
    np.testing.assert_array_equal(each.sum(axis=0), trained.scores(iterations=(1, 5)))
    assert not trained.scores(iterations=(2, 2)).any()
    scores = trained.scores(iterations=(0, 2))
    assert trained.scores(iterations=(2, 4), start=scores) is scores
    np.testing.assert_array_equal(
        scores + trained.scores(iterations=(4, 5)), trained.training_scores
    )
    np.testing.assert_array_equal(
        trained.forest.copy(4).scores(trained.encoder, trained.encoded, Threads(1)), scores
    )


def test_a_growing_forest_is_not_scored_as_it_was_before():
    """Evaluators are cached; they must not be used after the forest has grown."""
    one, two = (Trained("letters", 0, n_iter=n) for n in (1, 2))
    first = one.scores()
    one.forest.trees.extend(two.forest.trees[2:])
    np.testing.assert_array_equal(first, two.scores(iterations=(0, 1)))
    np.testing.assert_array_equal(one.scores(), two.training_scores)


def test_a_forest_without_trees_scores_zero():
    trained = Trained("floats", 0, n_iter=0)
    assert trained.scores().shape == (2, sum(LENGTHS), 2)
    assert not trained.scores().any()


# Each evaluator

EVALUATORS = ("reference", "walking", "lookup", "lookup in memory")


@pytest.fixture(params=EVALUATORS)
def evaluator(request, monkeypatch):
    """Use this evaluator for all positions and trees that it supports."""
    name = request.param.removesuffix(" in memory")

    def chosen(self, n_positions):
        named = [e for e in self.fast_evaluators if e.name == name and e.supports(n_positions)]
        return named[0] if named else None

    monkeypatch.setattr(ForestEvaluator, "fastest", chosen)
    monkeypatch.setattr(costs, "is_worth_setup", lambda *_: True)
    monkeypatch.setattr(lookup, "MIN_POSITIONS_BY_PERMUTES", 0)
    monkeypatch.setattr(evaluators, "MAX_MISSING", 1)
    if request.param != name:
        monkeypatch.setattr(lookup, "has_permutes", lambda: False)
    return name


@pytest.mark.parametrize("order", sweep([2, 0, 1, 3], 1))
@pytest.mark.parametrize("kind", STORAGES)
def test_every_evaluator_gives_the_same_scores(evaluator, kind, order, few_codes):
    trained = Trained(kind, order, order=order, window=(2, 1), n_labels=3, max_leaf_nodes=30)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    new = random_sequences(kind, np.random.default_rng(7), [1, 2, 70, 3], new=True)
    np.testing.assert_array_equal(trained.scores(new), trained.walked(new))
    labels = np.random.default_rng(0).integers(0, 3, (order, trained.encoded.n_positions))
    depth = trained.encoded.depth_of(order)
    lags = np.arange(order)[:, np.newaxis]
    given = np.where(lags < depth, labels, 3).astype(np.uint8)
    contexts = (np.where(lags < depth, labels, 0) * 3**lags).sum(axis=0)
    expected = trained.scores()[:, np.arange(len(depth)), contexts]
    for n_threads in (1, 2):
        scored = trained.scores(given=given, n_threads=n_threads)
        np.testing.assert_array_equal(scored[:, :, 0], expected)


def test_every_evaluator_takes_trees_of_many_leaves(evaluator):
    """A byte distinguishes 255 leaves; there are more, and trees without any test."""
    rng = np.random.default_rng(1)
    text = random_sequences("letters", rng, [2000])
    trained = grown(text, rng, 3, n_iter=1, max_leaf_nodes=700, window=(4, 4))
    leaves = [(tree["true_child"] < 0).sum() for tree in trained.forest.trees]
    assert max(leaves) > 2 * 255
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    stump = Trained("letters", 3, n_iter=2, min_gain=1e9)
    assert all(len(tree["leaf"]) == 1 for tree in stump.forest.trees)
    np.testing.assert_array_equal(stump.scores(), stump.training_scores)


@pytest.mark.parametrize("max_leaf_nodes", sweep([3, 20, 64, 65, 100, 129, 255, 256, 257], 4))
def test_every_evaluator_takes_trees_of_any_size(evaluator, max_leaf_nodes):
    """Leaf numbers have up to 8 bits; groups of contexts share subtrees."""
    rng = np.random.default_rng(max_leaf_nodes)
    text = random_sequences("letters", rng, [900, 1, 2])
    options = {"n_labels": 3, "order": 1, "n_iter": 2, "window": (3, 3)}
    trained = grown(text, rng, 5, max_leaf_nodes=max_leaf_nodes, **options)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)


def evaluator_of(trained):
    """The evaluator of all trees."""
    return trained.forest.evaluator(trained.encoder, 0, trained.forest.n_iter, False)


def scores_by_sets(trained):
    """Scores by the reference."""
    scores = trained.forest.zeros(trained.encoded, None)
    depth = trained.forest.depth_of(trained.encoded, None)
    batch = Batch(trained.encoded, depth, None, scores, Threads(1))
    batch.run(evaluator_of(trained).reference)
    return scores


@pytest.mark.parametrize("largest", [2.0**-18, 2.0**-12, 2.0**-4, 5.0, 300.0])
@pytest.mark.parametrize("n_iter", [3, 90])
def test_every_evaluator_takes_values_of_any_size(evaluator, largest, n_iter):
    """Values have 1 to 4 bytes, and sums of more than 256 of them are taken apart."""
    trained = Trained("letters", 0, n_iter=n_iter, n_labels=3, max_leaf_nodes=9)
    rng = np.random.default_rng(0)
    trained.forest.trees *= 4 if n_iter > 3 else 1
    for tree in trained.forest.trees:
        tree["leaf"] = np.rint(rng.uniform(-largest, largest, len(tree["leaf"])) * 2**20) / 2**20
    np.testing.assert_array_equal(trained.scores(), scores_by_sets(trained))


def supported(evaluator):
    """Names of the evaluators that support many positions."""
    return {fast.name for fast in evaluator.fast_evaluators if fast.supports(10**6)}


@pytest.mark.parametrize("factor", [2.0**-3, 2.0**12])
def test_values_out_of_range_are_scored_by_sets(factor):
    """Finer ones than training makes, and sums that do not fit 32 bits."""
    trained = Trained("letters", 0, n_iter=30, max_leaf_nodes=4)
    assert supported(evaluator_of(trained)) == {"walking", "lookup"}
    expected = trained.walked(["abcd" * 9]) * factor
    for tree in trained.forest.trees:
        tree["leaf"] = tree["leaf"] * factor
    trained.forest = trained.forest.copy()
    assert not supported(evaluator_of(trained))
    np.testing.assert_array_equal(trained.scores(["abcd" * 9]), expected)


@pytest.mark.parametrize(("n_labels", "order"), [(64, 1), (65, 1), (8, 2), (9, 2)])
def test_every_evaluator_takes_many_contexts(evaluator, n_labels, order):
    """Contexts are bits of a word, as long as there are not too many of them."""
    trained = Trained("letters", 0, n_labels=n_labels, order=order, n_iter=1, max_leaf_nodes=25)
    assert any((tree["column"] == LABEL).sum() > 1 for tree in trained.forest.trees)
    np.testing.assert_array_equal(trained.scores(), trained.training_scores)
    np.testing.assert_array_equal(trained.scores(n_threads=2), trained.training_scores)


@functools.cache
def walked(kind, length):
    """A forest, sequences of a total length, and their scores by walking, which takes long."""
    trained = Trained(kind, 0, n_iter=1, max_leaf_nodes=8)
    sequences = random_sequences(kind, np.random.default_rng(length), [length - 7, 7])
    return trained, sequences, trained.walked(sequences)


@pytest.mark.parametrize("length", sweep(BORDERS, 1))
@pytest.mark.parametrize("kind", ["letters", "floats", "sparse"])
def test_every_evaluator_in_blocks_and_threads(kind, length, evaluator):
    trained, sequences, expected = walked(kind, length)
    trained.forest = trained.forest.copy()  # without the cached evaluator of another test
    for n_threads in (1, 2, 4):
        np.testing.assert_array_equal(trained.scores(sequences, n_threads), expected)


def test_the_evaluator_depends_on_missing_values(monkeypatch):
    """The reference scores positions with missing values, and if these are many, all of them."""
    used = []

    def run(batch, kernel, *arguments):
        used.append(type(kernel).__name__)
        run.original(batch, kernel, *arguments)

    run.original = Batch.run
    monkeypatch.setattr(Batch, "run", run)
    walking = lambda self, _: self.fast_evaluators[0]  # noqa: E731
    monkeypatch.setattr(ForestEvaluator, "fastest", walking)
    trained = Trained("letters", 0, n_iter=3, max_leaf_nodes=4)
    for text, expected in (
        ("abcd" * 30, {"Walker"}),
        ("abc?" * 30, {"Walker"}),  # an unknown letter is a value
        ([*"abcd" * 30, np.nan], {"SetEvaluator", "Walker"}),
        (["a", "b", "c", np.nan] * 30, {"SetEvaluator"}),
    ):
        used.clear()
        np.testing.assert_array_equal(trained.scores([text]), trained.walked([text]))
        assert set(used) == expected


@pytest.mark.parametrize("has_permutes", [False, True])
def test_the_choice_depends_on_the_processor(monkeypatch, has_permutes):
    """Byte lookups in registers pay off from few positions on, those in memory from many."""
    monkeypatch.setattr(lookup, "has_permutes", lambda: has_permutes)
    evaluator = evaluator_of(Trained("floats", 0, n_iter=40, max_leaf_nodes=30, lengths=[300] * 3))
    names = [getattr(evaluator.fastest(n), "name", "reference") for n in (4, 100, 100_000)]
    assert names[0] == "walking"
    assert (names[1] == "lookup") == has_permutes
    assert names[2] == "lookup" or not has_permutes


def test_little_work_needs_no_other_evaluator():
    """Setting up an evaluator takes time."""
    evaluator = evaluator_of(Trained("letters", 0, n_iter=3, max_leaf_nodes=4))
    assert len(evaluator.trees.packed.classes) < costs.MIN_TREES
    assert evaluator.fastest(4) is None
    assert evaluator.fastest(costs.MANY_POSITIONS - 1) is None


@pytest.mark.parametrize("kind", ["letters", "floats"])
def test_costs_depend_on_the_positions(kind, monkeypatch):
    """Walking costs little at few positions, and much at many. Lookup is the opposite."""
    monkeypatch.setattr(lookup, "has_permutes", lambda: False)
    evaluator = evaluator_of(Trained(kind, 0, n_iter=30, max_leaf_nodes=30))
    walking, by_lookup = evaluator.fast_evaluators
    assert walking.cost(1) < 1 < walking.cost(4096)
    assert by_lookup.cost(1) > by_lookup.cost(512) > 0
    times = [costs.reference_time(evaluator.trees, n) for n in (1, 64, 65, 4096, 4097, 10**6)]
    assert times == sorted(times)


def trained_with_missing(kind, missing):
    return Trained(kind, 2, rate=0.1, missing=missing, n_labels=3, order=2)


@functools.cache
def walked_with_missing(kind, missing):
    """Sequences and their scores, which are the same for all evaluators."""
    trained, rng = trained_with_missing(kind, missing), np.random.default_rng(3)
    new = [random_with_missing(kind, rng, [50, 1, 9], rate, new=True) for rate in (0.0, 0.01, 0.2)]
    return [(sequences, trained.walked(sequences)) for sequences in new]


@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_positions_with_missing_values_are_scored_separately(evaluator, kind, missing):
    trained = trained_with_missing(kind, missing)
    for sequences, expected in walked_with_missing(kind, missing):
        np.testing.assert_array_equal(trained.scores(sequences), expected)
