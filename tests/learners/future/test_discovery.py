"""Bags and the discovery of features in them, compared with a version that goes bag by bag."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.future_oracle import NaiveDiscovery, naive_bags, naive_feature
from support.growing import Positions, Setting
from support.oracles import finite_difference_gradient
from support.sweeps import pairs

from treecrf.inputs.offsets import offsets_of
from treecrf.learners.future.discovery import (
    InstanceGrower,
    OneLabel,
    Sloped,
    discover,
    score_gradient,
)
from treecrf.learners.future.features import DIRECTIONS, Bags, bag_probabilities

LENGTHS = [9, 1, 14, 3, 20]
SIZES = [1, 2, 6, 30, None]
FAST = [(1, "past"), (6, "future"), (None, "both")]
every_bag = pytest.mark.parametrize(
    ("size", "direction"), pairs(product(SIZES, DIRECTIONS), lambda *pair: pair in FAST)
)


def make_bags(size=3, direction="future"):
    return Bags(offsets_of(np.array(LENGTHS)), size, direction), naive_bags(
        LENGTHS, size, direction
    )


@every_bag
def test_bags_hold_the_neighbors_of_a_sequence(size, direction):
    bags, naive = make_bags(size, direction)
    values = np.random.default_rng(0).integers(-(2**40), 2**40, sum(LENGTHS)) / 2.0**32
    np.testing.assert_array_equal(bags.sum_members(values), [values[bag].sum() for bag in naive])
    holders = [[t for t, bag in enumerate(naive) if j in bag] for j in range(len(naive))]
    np.testing.assert_array_equal(bags.sum_holders(values), [values[h].sum() for h in holders])
    np.testing.assert_array_equal(bags.n_holders, [len(h) for h in holders])


def test_sums_do_not_depend_on_earlier_positions():
    values = np.random.default_rng(0).normal(size=40) * 30
    alone = Bags(np.array([0, 10]), 4).sum_members(values[30:])
    far = np.append(np.full(30, 2.0**30), values[30:])
    after = Bags(np.array([0, 30, 40]), 4).sum_members(far)[30:]
    np.testing.assert_array_equal(alone, after)


@every_bag
def test_a_bag_is_positive_if_any_of_its_instances_is(size, direction):
    bags, naive = make_bags(size, direction)
    score = np.random.default_rng(1).normal(size=sum(LENGTHS)) * 4
    np.testing.assert_allclose(
        bag_probabilities(bags, score), naive_feature(naive, score), atol=1e-8
    )
    np.testing.assert_array_equal(bag_probabilities(bags, score)[[not bag for bag in naive]], 0)


def test_extreme_scores_are_certain():
    bags, _ = make_bags(2)
    score = np.full(sum(LENGTHS), -800.0)
    assert bag_probabilities(bags, score).max() < 1e-12
    score[5] = 800.0
    np.testing.assert_array_equal(np.flatnonzero(bag_probabilities(bags, score) > 0.5), [3, 4])


def draw_response(kind, n_labels, seed=0):
    """A response of labels to a feature, and an effect."""
    rng = np.random.default_rng(seed)
    n = sum(LENGTHS)
    scores, slopes = rng.normal(size=(2, n_labels, n))
    codes, weights = rng.integers(0, n_labels, n), rng.integers(1, 4, n) / 2.0
    if kind == "sloped":
        return Sloped(scores, slopes, codes, weights), np.array([0.7])
    return OneLabel(scores, codes, 1, weights), np.array([-0.3, 1.7])


@pytest.mark.parametrize("kind", ["one label", "sloped"])
@pytest.mark.parametrize("n_labels", [2, 4])
@every_bag
def test_the_gradient_is_that_of_the_likelihood(size, direction, n_labels, kind):
    """Equation 5.15 of the dissertation, summed over the bags that contain an instance."""
    bags, _ = make_bags(size, direction)
    response, effect = draw_response(kind, n_labels)
    n = sum(LENGTHS)
    score = np.random.default_rng(2).normal(size=n) - 1.0
    feature = bag_probabilities(bags, score)
    found = score_gradient(bags, score, feature, response.gradient(effect, feature))
    expected = finite_difference_gradient(
        lambda g: n * response.value(effect, bag_probabilities(bags, g[0, :, 0])),
        score[None, :, None],
        1e-3,
    )
    np.testing.assert_allclose(found, expected[0, :, 0], atol=1e-5)


@pytest.mark.parametrize("n_labels", [2, 4])
def test_the_likelihood_of_one_label_is_that_of_all_scores(n_labels):
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(n_labels, 47)), rng.integers(0, n_labels, 47)
    feature, effect = rng.random(47), np.array([0.4, -1.3])
    response = OneLabel(scores, codes, 1, np.ones(47))
    naive = NaiveDiscovery(None, scores, codes, 1, [])
    assert response.value(effect, feature) == pytest.approx(naive.value(effect, feature))
    slopes = np.zeros_like(scores)
    slopes[1] = 1.0
    sloped = Sloped(scores, slopes, codes, np.ones(47))
    assert sloped.value(effect[1:], feature) == pytest.approx(
        naive.value(np.array([0.0, -1.3]), feature)
    )


def test_the_best_effect_has_no_gradient():
    response, effect = draw_response("one label", 3)
    feature = np.random.default_rng(3).random(sum(LENGTHS))
    best = response.fit(effect, feature)
    for nearby in np.eye(2) * 0.05:
        assert response.value(best, feature) > response.value(best + nearby, feature)
        assert response.value(best, feature) > response.value(best - nearby, feature)
    assert np.abs(response.fit(best, feature) - best).max() < 1e-6


def test_a_feature_that_separates_the_labels_has_a_bounded_effect():
    codes = np.arange(40) % 2
    response = OneLabel(np.zeros((2, 40)), codes, 1, np.ones(40))
    effect = response.fit(np.array([0.0, 0.1]), codes.astype(float))
    assert 5 < effect[1] <= 40


def test_a_forbidden_label_has_no_gradient():
    scores = np.random.default_rng(0).normal(size=(3, 47))
    scores[1, ::2] = scores[2, 1::3] = -np.inf
    codes = np.zeros(47, dtype=int)
    for response in (
        OneLabel(scores, codes, 1, np.ones(47)),
        Sloped(scores, np.ones((3, 47)), codes, np.ones(47)),
    ):  # fmt: skip
        effect = response.start(0.5)
        gradient = response.gradient(effect, np.full(47, 0.5))
        assert np.isfinite(response.value(effect, np.full(47, 0.5)))
        assert np.isfinite(gradient).all()
    one = OneLabel(scores, codes, 1, np.ones(47)).gradient(np.array([0.0, 1.0]), np.ones(47))
    assert abs(one[::2]).max() < 1e-12


def draw_problem(seed, n_labels):
    rng = np.random.default_rng(seed)
    X = [rng.random((n, 4)) < 0.4 for n in LENGTHS]
    positions = Positions(X, rng, Setting(window=(0, 0)))
    scores = rng.normal(size=(n_labels, sum(LENGTHS))) / 4
    return positions, scores, rng.integers(0, n_labels, sum(LENGTHS))


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("sign", [1, -1])
@every_bag
def test_the_trees_are_those_of_a_table_of_bags(size, direction, sign, n_labels):
    """The naive version fits a tree to the gradient at the state of each round."""
    bags, naive_lists = make_bags(size, direction)
    positions, scores, codes = draw_problem(4, n_labels)
    naive = NaiveDiscovery(positions.truth, scores, codes, 1, naive_lists)
    response = OneLabel(scores, codes, 1, np.ones(len(codes)))
    grower = InstanceGrower(positions.encoder, positions.encoded, 6, 2.0)
    effect, score = np.array([0.0, 0.2 * sign]), np.full(len(codes), -3.0)
    for n_trees in (1, 2, 3):
        found = discover(response, bags, grower, -3.0, 0.2 * sign, n_trees)
        if len(found.trees) < n_trees:
            break
        gradient = naive.gradient(effect, score)
        tree, values = naive.tree(gradient, 6, 2.0)
        grown = found.trees[-1].nodes
        assert grown["true_child"].tolist() == [node.true_child for node in tree.nodes]
        step = np.abs(found.trees[-1].values).max()
        assert 0.05 - 1e-9 <= step <= 10 + 1e-9
        np.testing.assert_allclose(found.trees[-1].values, step * values, atol=1e-4 * step)
        score = score + found.trees[-1].values
        np.testing.assert_allclose(found.score, score, atol=1e-9)
        assert found.value == pytest.approx(
            naive.value(found.effect, naive_feature(naive_lists, score))
        )
        effect = found.effect
    assert found.trees


def test_the_step_is_the_best_in_its_range():
    bags, _ = make_bags(3)
    positions, scores, codes = draw_problem(5, 2)
    response = OneLabel(scores, codes, 1, np.ones(len(codes)))
    grower = InstanceGrower(positions.encoder, positions.encoded, 6, 2.0)
    found = discover(response, bags, grower, -3.0, 0.2, 1)
    tree = found.trees[0].values / np.abs(found.trees[0].values).max()
    effect = response.start(0.2)

    def value(step):
        return response.value(effect, bag_probabilities(bags, -3.0 + step * tree))

    step = np.abs(found.trees[0].values).max()
    assert value(step) >= max(value(b) for b in np.geomspace(0.05, 10, 200)) - 1e-6


def test_no_gradient_no_tree():
    positions, _, _ = draw_problem(0, 2)
    grower = InstanceGrower(positions.encoder, positions.encoded, 6, 2.0)
    n = sum(LENGTHS)
    assert grower.grow(np.zeros(n), np.ones(n, dtype=int)) is None
