"""The solvers of linear learners find the optimum."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import optimize
from support.sweeps import sweep

from treecrf.learners.linear.lbfgs import minimize


def logistic(rng, n=80, d=30, scale=1.0):
    """Logistic regression with a small squared penalty: value and gradient."""
    x = rng.normal(size=(n, d)) * scale
    y = np.sign(x[:, :5].sum(axis=1) + rng.normal(size=n))

    def function(w):
        margins = y * (x @ w)
        p = 0.5 - 0.5 * np.tanh(margins / 2)
        value = np.logaddexp(0, -margins).sum() + 0.01 * w @ w
        return float(value), -(x * (y * p)[:, None]).sum(axis=0) + 0.02 * w

    return function, d


def found_by(function, start, max_iter, penalties):
    """The weights and values of all iterations, and whether it ended by itself."""
    states = list(islice(minimize(function, start, penalties), max_iter + 1))
    return states, len(states) <= max_iter


def by_bounds(function, penalties, d):
    """The minimum, found with positive and negative parts of the weights as separate variables."""

    def both(z):
        value, gradient = function(z[:d] - z[d:])
        slopes = np.concatenate([gradient + penalties, penalties - gradient])
        return value + penalties @ z[:d] + penalties @ z[d:], slopes

    options = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
    found = optimize.minimize(
        both, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * d),
        options=options,
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize("seed", sweep(range(4), 1))
@pytest.mark.parametrize("penalty", [0.3, 3.0, 30.0, 1e4])
def test_the_sparse_optimum_is_found(seed, penalty):
    rng = np.random.default_rng(seed)
    function, d = logistic(rng, scale=rng.choice([0.5, 1.0, 2.0], 30))
    penalties = penalty * rng.choice([0.5, 1.0], d)
    start = rng.normal(size=d)
    states, ended = found_by(function, start, 1000, penalties)
    weights, values = states[-1][0], [value for _, value in states]
    assert ended
    value = function(weights)[0] + penalties @ np.abs(weights)
    assert value == pytest.approx(by_bounds(function, penalties, d), rel=1e-9)
    assert (np.diff(values) <= 0).all()
    gradient = function(weights)[1]
    free = weights != 0
    assert (np.abs(gradient[~free]) <= penalties[~free] + 1e-5).all()
    np.testing.assert_allclose(gradient[free], -penalties[free] * np.sign(weights[free]), atol=1e-3)
    assert free.any() == (penalty < 1e4)


@pytest.mark.parametrize("penalties", [None, 0.0])
def test_without_penalty_the_optimum_is_that_of_scipy(penalties):
    function, d = logistic(np.random.default_rng(0))
    if penalties is not None:
        penalties = np.full(d, penalties)
    states, ended = found_by(function, np.zeros(d), 1000, penalties)
    weights = states[-1][0]
    expected = optimize.minimize(function, np.zeros(d), jac=True, method="L-BFGS-B", tol=1e-14)
    assert ended
    assert function(weights)[0] == pytest.approx(expected.fun, rel=1e-10)
    np.testing.assert_allclose(function(weights)[1], 0.0, atol=1e-4)


def test_a_start_at_the_optimum_is_kept():
    function, d = logistic(np.random.default_rng(0))
    states, ended = found_by(function, np.zeros(d), 10, np.full(d, 1e5))
    assert ended
    assert len(states) == 1
    assert not states[-1][0].any()
