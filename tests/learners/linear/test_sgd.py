"""Stochastic gradient descent for linear CRFs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from support.training import loss_of

from treecrf import LinearCRF
from treecrf.learners.linear import sgd
from treecrf.learners.linear._linear_chain import LinearSteps
from treecrf.learners.linear.likelihoods import Loss
from treecrf.utils.hashing import mix

# Short sequences, one of them of a single position; the windows reach beyond all of them.
WORDS = ["abca", "b", "ca", "bbcab", "ac"]
TAGS = ["xyzx", "y", "zx", "yyzxy", "xz"]
# The labels that may follow each label, and those that may come first.
RULES = [[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]]
SGD = LinearCRF(window=1, solver="sgd", max_iter=10, random_state=0)


def steps_of(data, vector, rates=None):
    """Steps from the given weights, and the arrays that hold the weights."""
    weights = data.layout.weights(vector)
    blocks, transitions = weights.attributes.astype(np.float32), weights.transitions.copy()
    table, allowed = data.table, data.constraints.allowed
    rates = np.ones(data.layout.n_attributes) if rates is None else rates
    steps = LinearSteps(
        (*table.by_row[:2], table.values), table.window, table.offsets, table.first_rows,
        data.codes, data.weights, rates, blocks, transitions,
        data.constraints.limited(np.zeros(transitions.shape)),
        None if allowed is None else np.ascontiguousarray(allowed).view(np.uint8),
    )  # fmt: skip
    return steps, blocks, transitions


def change(data, vector, order, size, decay=0.0, smallest=0.0, seed=0):
    """The change of the weights by steps of constant size, and the likelihoods before them."""
    steps, blocks, transitions = steps_of(data, vector)
    found = np.full(len(data.weights), np.nan)
    numbers = mix(seed, steps.keys())
    sizes = np.full(len(order), float(size))
    steps.run(np.array(order), numbers, sizes, decay, smallest, found)
    steps.settle()
    after = data.layout.weights()
    after.attributes[:] = blocks
    after.transitions[:] = transitions
    return after.vector - vector, found


@pytest.mark.parametrize("scale", [0.5, 300.0])
@pytest.mark.parametrize("window", [0, (2, 1), 6])
@pytest.mark.parametrize("class_weight", [None, {"x": 3.0, "y": 0.5}])
@pytest.mark.parametrize("constrained", [False, True])
def test_a_step_follows_the_slope_of_the_loss(scale, window, class_weight, constrained):
    """Scores of several hundred need logarithms in inference."""
    model = LinearCRF(window=window, class_weight=class_weight, l2_regularization=0.0)
    given = {}
    if constrained:
        model.set_params(transitions=RULES)
        given["allowed"] = [np.ones((len(tags), 3), bool) for tags in TAGS]
        given["allowed"][0][1] = [False, True, True]
        given["allowed"][3][2:4] = [False, False, True], [True, False, True]
    for i in range(len(WORDS)):
        _, data = loss_of(model, WORDS, TAGS, **given)
        vector = np.random.default_rng(i).normal(size=data.layout.size) * scale
        vector = vector.astype(np.float32).astype(float)
        moved, found = change(data, vector, [i], 1.0)
        # The loss of this sequence alone: the others have weight 0.
        data.weights[np.arange(len(WORDS)) != i] = 0.0
        loss = Loss(LinearCRF()._likelihood(data), 0.0)
        value, gradient = loss(vector)
        np.testing.assert_allclose(moved, -gradient, atol=1e-4 * scale)
        assert found[i] * data.weights[i] == pytest.approx(-value, rel=1e-5, abs=1e-5)
        assert np.isnan(np.delete(found, i)).all()


def test_steps_shrink_all_weights():
    _, data = loss_of(LinearCRF(window=1), WORDS, TAGS)
    vector = np.random.default_rng(0).normal(size=data.layout.size).astype(np.float32)
    order = [0, 3, 1, 0, 2, 4]
    moved, _ = change(data, vector.astype(float), order, 0.1, decay=0.5)
    expected = vector.astype(float)
    for i in order:
        data.weights[:] = np.arange(len(WORDS)) == i
        _, gradient = Loss(LinearCRF()._likelihood(data), 0.0)(expected)
        expected = expected * np.exp(-0.05) - 0.1 * gradient
    np.testing.assert_allclose(vector + moved, expected, atol=1e-5)
    # Factors that would underflow: only the last steps count.
    data.weights[:] = 1.0
    moved, _ = change(data, vector.astype(float), order * 50, 0.1, decay=100.0)
    assert np.isfinite(moved).all()
    assert 0.01 < np.abs(vector + moved).max() < 1.0


def test_small_residuals_are_sampled_without_bias():
    _, data = loss_of(LinearCRF(window=1), WORDS, TAGS)
    vector = np.random.default_rng(0).normal(size=data.layout.size)
    vector = vector.astype(np.float32).astype(float)
    exact, _ = change(data, vector, [3], 1e-3)
    draws = [change(data, vector, [3], 1e-3, smallest=2.0, seed=s)[0] for s in range(4000)]
    changed = {bytes(draw.round(7)) for draw in draws}
    assert len(changed) > 10
    np.testing.assert_allclose(np.mean(draws, axis=0), exact, atol=1e-4)
    assert np.abs(exact).max() > 5e-4


@pytest.mark.parametrize(
    ("l2", "class_weight", "transitions"),
    [(0.3, None, None), (3.0, "balanced", None), (3.0, None, RULES), (0.3, "balanced", RULES)],
)
def test_many_epochs_reach_the_optimum(l2, class_weight, transitions, letters):
    kept = [k for k, labels in enumerate(letters[1]) if transitions is None or "zy" not in labels]
    letters = [[part[k] for k in kept] for part in letters]
    settings = {
        "window": 1, "l2_regularization": l2, "class_weight": class_weight,
        "transitions": transitions,
    }  # fmt: skip
    best = LinearCRF(tol=1e-10, **settings).fit(*letters)
    found = LinearCRF(solver="sgd", max_iter=200, tol=0.0, random_state=1, **settings)
    found.fit(*letters)
    assert best.loss_ * (1 - 1e-9) < found.loss_ < best.loss_ * 1.0005
    np.testing.assert_allclose(found.state_weights_, best.state_weights_, atol=0.06)
    loss, _ = loss_of(LinearCRF(**settings), *letters)
    assert found.loss_ == pytest.approx(loss(found._weights.vector)[0])
    n = sum(map(len, letters[1]))
    log_p = found.predict_log_likelihood(*letters).sum() / n
    assert found.train_score_[-1] == pytest.approx(log_p)


@pytest.mark.parametrize("l2", [0.0, 1e8])
def test_extreme_penalties(l2, letters):
    crf = clone(SGD).set_params(l2_regularization=l2).fit(*letters)
    assert np.isfinite(crf.state_weights_).all()
    if l2:
        assert np.abs(crf.state_weights_).max() < 1e-6
    else:
        assert crf.train_score_[-1] > -0.9


def test_epochs_lower_the_loss(letters):
    crf = clone(SGD).fit(*letters)
    assert crf.n_iter_ == 10
    assert len(crf.train_score_) == 11
    assert -np.log(3) < crf.train_score_[0] < crf.train_score_[3] < crf.train_score_[-1]
    assert crf.validation_score_.shape == (0,)
    longer = clone(crf).set_params(max_iter=1000, tol=1e-3).fit(*letters)
    assert 10 < longer.n_iter_ < 200
    np.testing.assert_array_equal(longer.train_score_[:10], crf.train_score_[:10])


# Randomness


def assert_equal_models(one, other):
    np.testing.assert_array_equal(one._weights.vector, other._weights.vector)
    np.testing.assert_array_equal(one.train_score_, other.train_score_)
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)
    assert one.loss_ == other.loss_


def test_the_seed_determines_the_weights(letters, monkeypatch):
    monkeypatch.setattr("treecrf.learners.linear.matrix.RANGE_POSITIONS", 64)
    held_out = [part[::5] for part in letters]
    one = clone(SGD).fit(*letters, *held_out)
    assert_equal_models(one, clone(SGD).set_params(n_jobs=2).fit(*letters, *held_out))
    other = clone(SGD).set_params(random_state=1).fit(*letters, *held_out)
    assert (other._weights.vector != one._weights.vector).any()
    monkeypatch.setattr(sgd, "BURST_SEQUENCES", 3)
    assert_equal_models(one, clone(SGD).fit(*letters, *held_out))


def test_the_order_of_the_sequences_has_no_effect(letters, tables):
    for (X, y), copies in ((letters, 3), (tables, 1)):
        # Equal sequences are interchangeable.
        X, y = X + copies * X[:5], y + copies * y[:5]
        shuffled = np.random.default_rng(0).permutation(len(X))
        one = clone(SGD).fit(X, y)
        other = clone(SGD).fit([X[i] for i in shuffled], [y[i] for i in shuffled])
        assert_equal_models(one, other)


# Training


def test_a_warm_start_continues(letters):
    whole = LinearCRF(window=1, tol=1e-9).fit(*letters)
    started = copy.copy(whole).set_params(solver="sgd", max_iter=2, warm_start=True)
    started.fit(*letters)
    assert started.loss_ < 1.01 * whole.loss_
    assert clone(SGD).set_params(max_iter=2).fit(*letters).loss_ > 1.02 * whole.loss_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"l1_regularization": 0.5}, "l1_regularization=0.5 requires solver='lbfgs'"),
        ({"transition_features": True}, "transition_features=True requires solver='lbfgs'"),
        ({"all_possible_states": False}, "all_possible_states=False requires solver='lbfgs'"),
        ({"objective": "hamming_log"}, "objective='hamming_log' requires solver='lbfgs'"),
        ({"solver": "newton"}, "'solver' parameter of LinearCRF must be a str among"),
    ],
)
def test_unsupported_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        clone(SGD).set_params(**settings).fit(WORDS[1:3], TAGS[1:3])


def test_no_warning_at_the_last_epoch(letters, recwarn):
    clone(SGD).set_params(max_iter=1, verbose=1).fit(*letters)
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
