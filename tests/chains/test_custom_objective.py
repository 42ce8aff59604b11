"""A loss of the user, a function of the marginal probabilities, as the objective."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone
from support.chains import STEP, Chains, possible_kinds, seeds, shapes
from support.oracles import indicator
from support.settings import PLAIN

import treecrf
from treecrf import LinearCRF, TreeCRF
from treecrf.chains.constraints import Constraints
from treecrf.chains.likelihood import ChainLabels
from treecrf.chains.objectives import make_objective
from treecrf.inspection import likelihood_curve
from treecrf.utils.threads import Threads


def objective_of(objective, case, n_jobs=None):
    free = Constraints(None, None)
    data = ChainLabels(case.offsets, case.labels, case.n_labels, case.order, free)
    return make_objective(objective, data, Threads(n_jobs))


def squares(y, proba):
    """The Brier score."""
    errors = proba - np.eye(proba.shape[1])[y]
    return (errors**2).sum(axis=1), 2 * errors


def minus_log(y, proba):
    rows = np.arange(len(y))
    gradient = np.zeros_like(proba)
    gradient[rows, y] = -1 / proba[rows, y]
    return -np.log(proba[rows, y]), gradient


COST = np.array([[0.0, 1, 2], [4, 0, 1], [1, 3, 0]])


def expected_cost(y, proba):
    return (COST[y] * proba).sum(axis=1), COST[y]


def small(kind, **parameters):
    if kind is LinearCRF:
        return LinearCRF(window=1, l2_regularization=0.1, **parameters)
    return TreeCRF(**PLAIN | {"window": 1, "max_iter": 30, "l2_regularization": 1.0} | parameters)


def mean_loss(loss, model, X, y):
    codes = np.searchsorted(model.classes_, list("".join(y)))
    return loss(codes, np.concatenate(model.predict_proba(X)))[0].mean()


both = pytest.mark.parametrize("kind", [TreeCRF, LinearCRF])


@given(possible_kinds, seeds, shapes)
def test_residuals_of_a_linear_loss_agree_with_enumeration(kind, rng, shape):
    """This includes scores that are so large that logarithms are needed."""
    case = Chains(kind, rng, *shape)
    slopes = rng.normal(size=(len(case.labels), case.n_labels))

    def loss(y, proba):
        return (slopes * proba).sum(axis=1), slopes

    residuals, _, value = objective_of(loss, case).examples(case.scores, 0)
    total, expected = 0.0, np.zeros(case.scores.shape)
    for oracle, _, _, where in case.oracles():
        p = np.exp(oracle.log_probabilities)
        sums = np.array([slopes[where][np.arange(len(s)), s].sum() for s in oracle.sequences])
        total += p @ sums
        for sequence, weight in zip(oracle.sequences, p * (p @ sums - sums), strict=True):
            expected[:, where] += weight * indicator(sequence, case.n_labels, case.order)
    np.testing.assert_allclose(value, -total / len(case.labels), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(residuals, expected, rtol=0, atol=STEP * len(p) + 1e-10)
    assert (residuals / STEP % 1 == 0).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_logarithm_is_the_hamming_objective(order):
    case = Chains("moderate", np.random.default_rng(order), 3, order, [40, 1, 7])
    ours, theirs = (objective_of(name, case, 2) for name in (minus_log, "hamming_log"))
    for a, b in zip(ours.examples(case.scores, 0), theirs.examples(case.scores, 0), strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, atol=4 * STEP)
    np.testing.assert_allclose(ours.counts, theirs.counts, rtol=1e-8)


@pytest.mark.parametrize("loss", [squares, expected_cost])
def test_trees_reduce_the_loss(loss, letters):
    X, y = letters
    model = small(TreeCRF, objective=loss).fit(X, y)
    assert np.diff(model.train_score_).min() > 0
    assert model.train_score_[-1] == pytest.approx(-mean_loss(loss, model, X, y))
    curve = likelihood_curve(model, X, y)
    assert curve.objective == "custom"
    np.testing.assert_allclose(curve.given, curve.train)


@pytest.mark.parametrize("loss", [squares, expected_cost])
def test_linear_models_reduce_the_loss(loss, letters):
    X, y = letters
    one, other = (small(LinearCRF, **named).fit(X, y) for named in ({"objective": loss}, {}))
    assert mean_loss(loss, one, X, y) < mean_loss(loss, other, X, y)


def test_early_stopping_uses_the_loss(letters):
    X, y = letters
    model = small(TreeCRF, objective=squares, early_stopping="auto").fit(X, y)
    assert 0 < model.n_iter_ <= 30
    model = small(TreeCRF, objective=squares).fit(X[:16], y[:16], X[16:], y[16:])
    loss = mean_loss(squares, model, X[16:], y[16:])
    assert model.validation_score_[model.n_iter_] == pytest.approx(-loss)


@both
def test_a_file_does_not_contain_the_function(kind, letters, tmp_path):
    model = small(kind, objective=squares).fit(*letters)
    assert clone(model).objective is squares
    with pytest.warns(UserWarning, match=r"^objective is a function, which the file does not co"):
        model.save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model")
    assert loaded.objective == "log"
    for a, b in zip(loaded.predict_proba(letters[0]), model.predict_proba(letters[0]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:objective is a function")
def test_training_goes_on_with_the_function(letters, tmp_path):
    small(TreeCRF, objective=squares, max_iter=10).fit(*letters).save(tmp_path / "model")
    loaded = treecrf.load(tmp_path / "model").set_params(warm_start=True, max_iter=30)
    with pytest.raises(
        ValueError, match="trained with a function as its objective, not with 'log'"
    ):
        loaded.fit(*letters)
    with pytest.raises(ValueError, match="a function, which its file does not contain"):
        likelihood_curve(loaded, *letters)
    whole = small(TreeCRF, objective=squares).fit(*letters)
    loaded.set_params(objective=squares).fit(*letters)
    np.testing.assert_array_equal(loaded.train_score_, whole.train_score_)


@both
@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y, proba: proba, "must return two arrays, losses and gradient"),
        (lambda y, p: (p, p), r"losses of shape \(\d+, 3\); expected \(\d+,\)"),
        (lambda y, p: (p[:, 0], p[0]), r"gradient of shape \(3,\); expected \(\d+, 3\)"),
        (lambda y, p: (p[:, 0] / 0, p), "some losses are not finite; probabilities can be 0 or 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_invalid_results(kind, loss, message, letters):
    with pytest.raises(ValueError, match=message):
        small(kind, objective=loss).fit(*letters)


@both
def test_unknown_labels(kind, letters):
    X, y = letters
    y = [[None, *labels[1:]] for labels in y]
    with pytest.raises(ValueError, match="a function as objective needs all labels"):
        small(kind, objective=squares).fit(X, y)


@pytest.mark.parametrize("parameters", [{"second_order": True}, {"beam_width": 2}])
def test_what_needs_the_likelihood(parameters, letters):
    with pytest.raises(ValueError, match="objective"):
        small(TreeCRF, objective=squares, **parameters).fit(*letters)


def test_the_arrays_may_be_changed(letters):
    def careless(y, proba):
        losses, gradient = squares(y, proba)
        y[:], proba[:] = 0, 0
        return losses, gradient

    one, other = (small(TreeCRF, objective=loss).fit(*letters) for loss in (squares, careless))
    np.testing.assert_array_equal(one.train_score_, other.train_score_)


@pytest.mark.parametrize("kind", ["O", "U", "complex", "M8[s]", "bool", "masked"])
@pytest.mark.parametrize("name", ["losses", "gradient"])
def test_arrays_of_other_types_are_refused(kind, name):
    X, y = [np.zeros((6, 1))] * 3, [[0, 1, 0, 1, 0, 1]] * 3

    def converted(array):
        if kind == "masked":
            return np.ma.masked_less(array, np.inf)
        return np.zeros(array.shape, dtype=kind)

    def function(y, proba):
        losses, gradient = squares(y, proba)
        if name == "losses":
            return converted(losses), gradient
        return losses, converted(gradient)

    what = "masked values" if kind == "masked" else "dtype "
    with pytest.raises(TypeError, match=f"objective: {name} with {what}.*expected numbers"):
        TreeCRF(objective=function, max_iter=2).fit(X, y)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.asfortranarray, np.ndarray.tolist])
def test_arrays_of_other_numbers_are_accepted(kind):
    X, y = [np.zeros((6, 1))] * 3, [[0, 1, 0, 1, 0, 1]] * 3

    def function(y, proba):
        losses, gradient = squares(y, proba)
        if isinstance(kind, type):
            return losses.astype(kind), gradient.astype(kind)
        return losses, kind(gradient)

    TreeCRF(objective=function, max_iter=2).fit(X, y)
