"""The log-linear conditional random field."""

from __future__ import annotations

import numbers
from typing import ClassVar

from scipy.optimize import minimize
from sklearn.utils._param_validation import Interval

from treecrf.crf import ChainObjective
from treecrf.linear_base import LinearSequenceClassifier, TrainingData
from treecrf.linear_likelihood import Likelihood, ScoreLikelihood, StateLikelihood
from treecrf.linear_weights import Weights


class LinearCRF(LinearSequenceClassifier):
    """Log-linear conditional random field.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> crf = LinearCRF(l2_regularization=0.1).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> crf.predict(["ab"])[0].tolist()
    ['x', 'y']
    """

    _results: ClassVar[tuple[str, ...]] = ("n_iter_", "loss_")

    _parameter_constraints: ClassVar[dict] = {
        **LinearSequenceClassifier._parameter_constraints,
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        window=0,
        attributes=None,
        transition_features=False,
        l2_regularization=1.0,
        max_iter=1000,
        tol=1e-5,
        min_count=1,
        missing="indicator",
        categorical_features="from_dtype",
        decoding="marginal",
        cost_matrix=None,
        transitions=None,
        warm_start=False,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.window = window
        self.attributes = attributes
        self.transition_features = transition_features
        self.l2_regularization = l2_regularization
        self.max_iter = max_iter
        self.tol = tol
        self.min_count = min_count
        self.missing = missing
        self.categorical_features = categorical_features
        self.decoding = decoding
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _likelihood(self, data: TrainingData) -> Likelihood:
        if data.is_free and not self.transition_features:
            return StateLikelihood(data)
        objective = ChainObjective(
            data.offsets,
            data.codes,
            len(data.classes),
            self.order,
            False,
            0,
            data.constraints,
            data.scores.threads,
        )
        return ScoreLikelihood(data, objective)

    def _learn(self, training, held_out, start, rng) -> tuple[Weights, dict]:
        likelihood = self._likelihood(training)
        l2 = self.l2_regularization

        def f(vector):
            value, _, gradient = likelihood.slope(training.layout.weights(vector))
            return l2 * (vector @ vector) - value, 2 * l2 * vector - gradient.vector

        r = minimize(
            f,
            start.vector,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iter,
                "ftol": self.tol * 1e-3,
                "gtol": 1e-5,
                "maxfun": 10**9,
            },
        )
        return training.layout.weights(r.x), {"n_iter_": int(r.nit), "loss_": r.fun}
