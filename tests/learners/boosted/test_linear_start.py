"""Boosting that starts from the scores of a linear CRF."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from support.family import assert_equal_arrays, scores_of
from support.model_files import read, sealed
from support.settings import PLAIN

import treecrf
from treecrf import LinearCRF, ModelFileError, StructuredPerceptron, TreeCRF, TreeMEMM, flatten
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted import starts as start_module
from treecrf.learners.boosted.starting_scores import linear_scores
from treecrf.learners.boosted.starts import FRACTION
from treecrf.learners.linear import crf as linear_module
from treecrf.learners.linear.base import linear_model
from treecrf.utils.exact import LEAF_UNIT
from treecrf.utils.threads import Threads

SMALL = PLAIN | {"window": 1, "max_iter": 4, "max_leaf_nodes": 6, "l2_regularization": 1.0}
LINEAR = LinearCRF(window=(2, 0), l2_regularization=2.0, solver="sgd", max_iter=5)


def small(**settings):
    return TreeCRF(**SMALL, random_state=0).set_params(**{"init": "linear", **settings})


def parts_of(model, X):
    sequences, _ = fitted_model(model).predictor.read(X)
    with Threads(1) as threads:
        return sequences.offsets, *linear_scores(linear_model(model.init_), sequences, threads)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("init", ["linear", "transitions", LINEAR])
def test_scores_are_those_of_the_linear_model_plus_those_of_the_trees(order, init, letters):
    X, y = letters
    crf = small(order=order, init=init).fit(X, y)
    offsets, state, transitions = parts_of(crf, X)
    without = copy.copy(crf)
    without.init_ = None
    trees, scores, n = scores_of(without, X), scores_of(crf, X), len(crf.classes_)
    for start, stop in pairwise(offsets):
        for t in range(start, stop):
            depth = min(t - start, order)
            for c, labels in enumerate(product(range(n), repeat=depth)):
                # The last of the previous labels is the nearest.
                before = labels[-1] if labels else n
                linear = state[:, t] + transitions[before]
                np.testing.assert_array_equal(scores[:, t, c], trees[:, t, c] + linear)
    assert np.abs(trees).max() > 0
    assert (np.abs(state).max() > 0) == (init != "transitions")
    assert np.abs(transitions).max() > 0


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_the_scores_of_the_linear_model(seed, letters, tables):
    """Rounded to multiples of a unit, so that all sums with leaves are exact."""
    for X, y in (letters, tables):
        linear = clone(LINEAR).set_params(random_state=seed).fit(X, y)
        crf = small(init=linear).fit(X, y)
        _, state, transitions = parts_of(crf, X)
        for part in (state, transitions):
            np.testing.assert_array_equal(part, np.rint(part / LEAF_UNIT) * LEAF_UNIT)
        table = scores_of(linear, X)
        np.testing.assert_allclose(table[:, 0, 0], state[:, 0] + transitions[-1], atol=1e-4)
        np.testing.assert_allclose(table[2, 1], state[2, 1] + transitions[:-1, 2], atol=1e-4)
        np.testing.assert_allclose(transitions[:-1], linear.transition_weights_, atol=1e-6)
        assert crf.init_ is not linear
        np.testing.assert_allclose(crf.init_.state_weights_, linear.state_weights_, atol=1e-6)
        assert (crf.init_.state_weights_ != linear.state_weights_).any()


def test_training_starts_from_the_linear_model(letters):
    X, y = letters
    crf = small().fit(X, y)
    n = sum(map(len, y))
    assert crf.train_score_[0] == pytest.approx(crf.init_.predict_log_likelihood(X, y).sum() / n)
    assert crf.train_score_[-1] == pytest.approx(crf.predict_log_likelihood(X, y).sum() / n)
    assert (np.diff(crf.train_score_) > 0).all()
    assert crf.train_score_[0] > -np.log(3)
    assert crf.init_.get_params()["solver"] == "lbfgs"
    assert crf.init_.l2_regularization == 1
    assert crf.init_.window == 1
    assert small(init="zero").fit(X, y).init_ is None
    for objective in ("exponential", "hamming_log", "hamming_exponential"):
        scores = small(objective=objective).fit(X, y).train_score_
        assert scores[0] < scores[-1]


def test_a_start_of_transitions_has_half_the_scores_of_a_chain_of_labels(letters):
    X, y = letters
    crf = small(init="transitions").fit(X, y)
    same_symbols = ["a" * len(labels) for labels in y]
    chain = LinearCRF(l2_regularization=1.0).fit(same_symbols, y)
    assert crf.init_.state_weights_.shape == (0, 3)
    np.testing.assert_allclose(
        differences(crf.init_.transition_weights_),
        differences(chain.transition_weights_) / 2,
        atol=0.02,
    )
    assert small(init="zero").fit(X, y).train_score_[0] < crf.train_score_[0]


def differences(transitions):
    """Return the weights of labels after labels without what depends on one label alone."""
    rows = transitions - transitions.mean(axis=1, keepdims=True)
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize("settings", [{"order": 2}, {"constant_transitions": True}])
def test_a_start_of_transitions_ignores_the_form_of_the_input(settings, letters):
    """It is the same model of labels, whatever the input is."""
    _, y = letters
    codes = [["xyz".index(label) for label in labels] for labels in y]
    words = [[{"word": symbol} for symbol in symbols] for symbols in letters[0]]
    starts = [
        small(init="transitions", **settings).fit(X, codes).init_
        for X in (letters[0], words, [np.ones((len(labels), 2)) for labels in y])
    ]
    for start in starts[1:]:
        assert_equal_arrays(start.transition_weights_, starts[0].transition_weights_)


def test_the_penalty_grows_with_the_square_root_of_the_positions(letters, monkeypatch):
    X, y = letters
    monkeypatch.setattr(linear_module, "POSITIONS_OF_PENALTY", sum(map(len, y)) / 4)
    start = small().fit(X, y).init_
    assert start.l2_regularization == 1.0
    check_penalty(start, 2.0, X, y)


def check_penalty(start, penalty, X, y):
    """Compare the weights of a start with those of a model with this penalty."""
    expected = LinearCRF(window=1, l2_regularization=penalty).fit(X, y).state_weights_
    difference = np.abs(start.state_weights_ / FRACTION - expected).max()
    assert difference < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize(("are_numbers", "factor"), [(True, 120 * 3 / 16), (False, 1)])
def test_the_penalty_grows_with_the_numbers_in_a_window(are_numbers, factor):
    """Numbers that mean nothing get small weights; indicators have the penalty of few numbers."""
    rng = np.random.default_rng(0)
    y = [np.cumsum(rng.random(40) < 0.15) % 3 for _ in range(10)]
    noise = rng.normal(size=(10, 40, 119))
    noise = noise if are_numbers else (noise > 0).astype(float)
    X = [np.column_stack([s + rng.normal(size=40), of_s]) for s, of_s in zip(y, noise, strict=True)]
    start = small(window=1, max_iter=1).fit(X, y).init_
    assert start.l2_regularization == 1.0
    check_penalty(start, factor, X, y)


def test_the_start_is_near_the_optimum_where_labels_persist():
    """Characters and whether they are in quotes: L-BFGS needs many iterations."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(30):
        quoted = np.repeat(np.arange(20) % 2, rng.integers(10, 60, 20))
        marks = np.append(True, np.diff(quoted) != 0)
        symbols = np.where(marks, '"', rng.choice(list("abc"), len(quoted)))
        X.append("".join(symbols))
        y.append(quoted)
    start = small(window=1).fit(X, y).init_
    whole = LinearCRF(window=1, l2_regularization=start.l2_regularization).fit(X, y)
    assert start.n_iter_ < whole.n_iter_
    assert start.loss_ < 1.02 * whole.loss_


def test_estimators_are_cloned_unless_they_are_fitted(letters):
    X, y = letters
    given = clone(LINEAR).set_params(random_state=1)
    crf = small(init=given).fit(X, y)
    assert not hasattr(given, "classes_")
    assert crf.init_.window == (2, 0)
    again = small(init=clone(given).fit(X, y)).fit(X, y)
    assert_equal_arrays(crf.predict_proba(X), again.predict_proba(X))
    # A fitted one may come from other sequences.
    other = small(init=clone(LINEAR).fit(X[:12], y[:12])).fit(X, y)
    assert (other.init_.state_weights_ != crf.init_.state_weights_).any()
    crf.set_params(init__max_iter=1)
    assert given.max_iter == 1
    stopped = LinearCRF(window=1, early_stopping=True, validation_fraction=0.3)
    assert len(small(init=stopped).fit(X, y).init_.validation_score_)


@pytest.mark.parametrize("settings", [{}, {"order": 2, "second_order": True}])
@pytest.mark.parametrize("init", ["linear", "transitions", LINEAR])
def test_every_form_of_the_model_predicts_the_same(settings, init, letters, tmp_path):
    X, y = letters
    crf = small(init=init, **settings).fit(X, y)
    expected = crf.predict_proba(X)
    crf.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    flat = flatten(crf)
    flat.save(tmp_path / "flat")
    for model in (loaded, pickle.loads(pickle.dumps(crf)), flat, treecrf.load(tmp_path / "flat")):
        assert_equal_arrays(model.predict_proba(X), expected)
        assert_equal_arrays(model.decode(X)[0], crf.decode(X)[0])
        assert model.score(X, y) == crf.score(X, y)
    *_, last = crf.staged_predict_proba(X)
    assert_equal_arrays(last, expected)
    assert type(loaded.init) is type(crf.init)
    assert_equal_arrays(loaded.fit(X, y).predict_proba(X), expected)


def test_a_warm_start_keeps_the_linear_model(letters):
    X, y = letters
    whole = small(max_iter=6).fit(X, y)
    parts = small(max_iter=2, warm_start=True).fit(X, y)
    parts.set_params(max_iter=6).fit(X, y)
    assert_equal_arrays(whole.predict_proba(X), parts.predict_proba(X))
    np.testing.assert_array_equal(whole.train_score_, parts.train_score_)
    with pytest.raises(ValueError, match="trained with a linear start, which init='zero' cannot"):
        parts.set_params(init="zero").fit(X, y)
    plain = small(init="zero", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="trained without a linear start, which init='linear'"):
        plain.set_params(init="linear").fit(X, y)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"order": 0}, ValueError, "init='linear' requires order=1 or higher"),
        ({"init": "transitions", "order": 0}, ValueError, "init='transitions' requires order=1"),
        ({"beam_width": 2}, ValueError, "init='linear' needs all contexts"),
        ({"init": LINEAR, "beam_width": 2}, ValueError, "needs all contexts"),
        ({"init": StructuredPerceptron()}, TypeError, "init is of type StructuredPerceptron; exp"),
        ({"init": TreeMEMM()}, TypeError, "expected 'auto', 'zero', 'transitions', 'linear'"),
        ({"init": "line"}, ValueError, "The 'init' parameter of TreeCRF must be"),
        ({"init": LinearCRF(transition_features=True)}, ValueError, "init: transition_features"),
        (
            {"init": LinearCRF(solver="sgd", objective="hamming_log")},
            ValueError,
            "solver='sgd' does",
        ),
        ({"init": LinearCRF().fit(["ab"], ["xy"])}, ValueError, "init was fitted to the labels"),
    ],
)
def test_unsupported_starts_are_refused(settings, error, message, letters):
    with pytest.raises(error, match=message):
        small(**settings).fit(*letters)


def test_a_beam_is_refused_in_prediction(letters):
    crf = small().fit(*letters).set_params(beam_width=2)
    for call in (crf.predict, lambda X: next(crf.staged_predict_proba(X))):
        with pytest.raises(ValueError, match="linear start needs all contexts"):
            call(letters[0])


def test_a_start_must_fit_the_data(letters, tables):
    X, y = letters
    linear = clone(LINEAR).fit(X, [["xyz".index(label) for label in labels] for labels in y])
    with pytest.raises(TypeError, match="the model was trained on"):
        small(init=linear).fit(*tables)
    with pytest.raises(ValueError, match=r"the labels \['x', 'y', 'z'\]; expected \[0, 1, 2\]"):
        small(init=clone(LINEAR).fit(X, y)).fit(*tables)


def test_forged_files_are_refused(letters, tmp_path):
    small().fit(*letters).save(tmp_path / "model")
    values, arrays = read(tmp_path / "model")
    for name in ("init.weights", "init.attributes.kept"):
        path = tmp_path / "forged"
        path.write_bytes(sealed(values, arrays | {name: arrays[name][:-1]}))
        with pytest.raises(ModelFileError, match="not a valid model"):
            treecrf.load(path)


def test_conjunctions_alone_give_no_starting_weights(letters):
    """Without the linear scores, the weights of the trees are not those of a model."""
    flat = flatten(small().fit(*letters))
    again = LinearCRF(attributes=flat, transition_features=True).fit(*letters)
    assert again.train_score_[0] == pytest.approx(-np.log(3))


def test_the_own_linear_model_does_not_warn_of_settings_that_a_user_cannot_change(letters):
    _, y = letters
    crowded = [np.arange(len(labels))[:, None] + 1e6 for labels in y]
    fitted_to = start_module.fitted_to

    def fitted_in_one_iteration(linear, *others):
        return fitted_to(linear.set_params(max_iter=1), *others)

    with pytest.warns(ConvergenceWarning, match="LinearCRF did not converge in max_iter=1 "):
        small(init=LinearCRF(max_iter=1)).fit(crowded, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start_module, "fitted_to", fitted_in_one_iteration)
        assert small().fit(crowded, y).init_.max_iter == 1
