"""Small, quick variants of all learners, for the tests that they share."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from support.settings import PLAIN

from treecrf import (
    FutureFeatureMEMM,
    HMMClassifier,
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SequenceBoostingClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
)
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.threads import Threads

TREES = {"window": (1, 0), "max_iter": 4, "l2_regularization": 1.0, "random_state": 0, **PLAIN}
NEWTON = TREES | {"second_order": True}
BACKWARD = {"direction": "right-to-left", "decoding": "viterbi"}
FORWARD = {"decoding": "marginal"}


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=3, random_state=0)


BOOSTED = {
    "CRF of order 0": TreeCRF(order=0, **TREES),
    "CRF of order 1": TreeCRF(**TREES),
    "CRF of order 2": TreeCRF(order=2, **NEWTON),
    "CRF of an exponential objective": TreeCRF(objective="exponential", **TREES),
    "CRF of single labels": TreeCRF(objective="hamming_log", **TREES),
    "CRF of single labels, exponential": TreeCRF(objective="hamming_exponential", **TREES),
    "CRF in a beam of all contexts": TreeCRF(beam_width=10**6, **TREES),
    "MEMM of order 0": TreeMEMM(order=0, **TREES),
    "MEMM of order 1": TreeMEMM(**TREES),
    "MEMM of order 2": TreeMEMM(order=2, **NEWTON),
    "sliding window": SlidingWindowClassifier(**TREES),
    "recurrent window": RecurrentSlidingWindowClassifier(**FORWARD, **TREES),
    "recurrent window, backward": RecurrentSlidingWindowClassifier(order=2, **BACKWARD, **TREES),
}
FUTURE = {
    "window": (1, 0), "bag_size": 2, "max_future_features": 1, "instance_max_iter": 3,
    "max_iter": 2, "l2_regularization": 1.0, "early_stopping": False, "random_state": 0,
}  # fmt: skip
DISCOVERING = {
    "future features of order 0": FutureFeatureMEMM(order=0, **FUTURE),
    "future features of order 1": FutureFeatureMEMM(multiclass="shared", **FUTURE),
}
ESTIMATED = {
    "sliding window of logistic regression": SlidingWindowClassifier(
        LogisticRegression(tol=0.01), window=1
    ),
    "recurrent window of a tree": RecurrentSlidingWindowClassifier(tree(), window=1, **FORWARD),
    "recurrent window of logistic regression, backward": RecurrentSlidingWindowClassifier(
        LogisticRegression(tol=0.01), order=2, **BACKWARD
    ),
}
COUNTED = {
    "HMM of order 0": HMMClassifier(order=0),
    "HMM of order 1": HMMClassifier(),
    "HMM of order 2": HMMClassifier(order=2),
}
LINEAR = {
    "linear CRF": LinearCRF(window=(1, 0), l2_regularization=0.1),
    "linear CRF with transition features": LinearCRF(
        window=1, transition_features=True, l2_regularization=0.1
    ),
    "linear CRF by gradient steps": LinearCRF(
        window=(1, 0), l2_regularization=0.1, solver="sgd", max_iter=5, random_state=0
    ),
    "perceptron": StructuredPerceptron(window=(1, 0), random_state=0),
    "perceptron with transition features": StructuredPerceptron(
        window=1, transition_features=True, average=False, random_state=0
    ),
    "support vector machine": StructuredSVM(window=(1, 0), tol=0.05, random_state=0),
    "support vector machine with a kernel": StructuredSVM(
        window=1, kernel="rbf", tol=0.05, random_state=0
    ),
    "boosted features": SequenceBoostingClassifier(window=(1, 0), max_iter=20),
    "boosted transition features": SequenceBoostingClassifier(
        transition_features=True, bound="sequence", line_search=True, max_iter=10
    ),
}
KERNEL = "support vector machine with a kernel"
WEIGHTED = {name: model for name, model in LINEAR.items() if name != KERNEL}
GROWN = BOOSTED | DISCOVERING
# Their scores before the first iteration are not 0.
STARTED = {"CRF with a linear start": TreeCRF(init="linear", **TREES)}
FAMILY = GROWN | STARTED | LINEAR | ESTIMATED | COUNTED
# Flat forms of fitted models, by name, with the model to fit. They have no training of their own.
FLAT = {f"flat {name}": model for name, model in (GROWN | STARTED).items()}
PREDICTING = FAMILY | FLAT
# Their scores are sums over a window, of leaves or of weights.
WINDOWED = GROWN | STARTED | FLAT | WEIGHTED
# The others wrap an estimator, whose rounding may depend on the number of rows.
EXACT = GROWN | STARTED | LINEAR | COUNTED | FLAT
# Models with an order above 0; and those with greedy and beam search.
CHAINS = {name: model for name, model in FAMILY.items() if getattr(model, "order", 0)}
SEARCHING = {name: model for name, model in CHAINS.items() if hasattr(model, "beam_width")
           and not isinstance(model, TreeCRF)}  # fmt: skip
FLAT_SEARCHING = {
    name: model for name, model in FLAT.items() if name.removeprefix("flat ") in SEARCHING
}


# One variant for each path through the code; the others only run in the exhaustive tests.
FAST = {
    "CRF of order 2", "CRF of an exponential objective", "CRF in a beam of all contexts",
    "MEMM of order 2", "recurrent window, backward", "sliding window",
    "future features of order 1", "recurrent window of a tree", "HMM of order 1",
    "linear CRF", "linear CRF with transition features", "perceptron",
    "support vector machine", "support vector machine with a kernel", "boosted features",
    "flat CRF of order 2", "flat recurrent window, backward",
}  # fmt: skip
# One variant for each way of reading input and of training.
CORE = {
    "CRF of order 2", "recurrent window, backward", "recurrent window of a tree",
    "HMM of order 1", "linear CRF", "flat CRF of order 2",
}  # fmt: skip


def marked(names, fast=FAST) -> list:
    """Parameters of a test; those not in ``fast`` are marked exhaustive."""
    return [
        pytest.param(name, marks=[] if name in fast else pytest.mark.exhaustive, id=name)
        for name in names
    ]


def every(models=FAMILY, fast=FAST):
    """Parametrize a test by the names of models; those not in ``fast`` are exhaustive."""
    return pytest.mark.parametrize("name", marked(sorted(models), fast))


def assert_equal_arrays(ours, theirs) -> None:
    """Check that arrays are identical to the last bit, with the same kinds of types."""
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.asarray(one).dtype.kind == np.asarray(other).dtype.kind


def assert_close_arrays(ours, theirs, **tolerance) -> None:
    """Check that arrays differ by rounding only."""
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


def assert_same_forest(one, other) -> None:
    """Check that the trees of two models are identical to the last bit."""
    ours, theirs = one._forest.pack(), other._forest.pack()
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)


def assert_predicts_the_same(a, b, X) -> None:
    """Check that two models agree in all predictions, to the last bit."""
    assert_equal_arrays(a.predict(X), b.predict(X))
    assert_equal_arrays(a.predict_proba(X), b.predict_proba(X))
    assert_equal_arrays(a.predict_pairwise_proba(X), b.predict_pairwise_proba(X))
    labels, log_p = a.decode(X)
    assert_equal_arrays([*labels, log_p], [*b.decode(X)[0], b.decode(X)[1]])
    best, values = a.decode(X, n_best=3)
    assert_equal_arrays(sum(best, values), sum(*b.decode(X, n_best=3)))
    np.testing.assert_array_equal(
        a.predict_log_likelihood(X, labels), b.predict_log_likelihood(X, labels)
    )


def scores_of(model, X, n_threads=1) -> np.ndarray:
    """The scores of all labels in all contexts, before constraints."""
    with Threads(n_threads) as threads:
        return fitted_model(model).chain.scores(fitted_model(model).predictor.read(X)[0], threads)


def variant(model, **parameters):
    """A copy with other parameters, which stays fitted."""
    return copy.copy(model).set_params(**parameters)


def value_of(model, X, y) -> float:
    """Objective of a fitted model per position, computed from its predictions."""
    log_p = model.predict_log_likelihood(X, y)
    codes = [np.searchsorted(model.classes_, list(labels)) for labels in y]
    q = [p[np.arange(len(p)), c] for p, c in zip(model.predict_proba(X), codes, strict=True)]
    return objective_of(model, log_p, np.log(np.concatenate(q)))


def objective_of(model, log_p: np.ndarray, log_q: np.ndarray) -> float:
    """Objective of a model, from the log-probabilities of sequences and of labels."""
    return {
        "log": log_p.sum() / len(log_q),
        "exponential": -np.log(np.exp(-log_p).mean()) * len(log_p) / len(log_q),
        "hamming_log": log_q.mean(),
        "hamming_exponential": -np.log(np.exp(-log_q).mean()),
    }[getattr(model, "objective", "log")]


class Enumeration:
    """All label sequences of one input, with their probabilities under the model."""

    def __init__(self, model, x, allowed=None):
        n, classes = len(x), model.classes_
        self.codes = np.array(list(product(range(len(classes)), repeat=n)))
        log_p = model.predict_log_likelihood([x] * len(self.codes), list(classes[self.codes]))
        self.total = np.exp(log_p).sum()
        if allowed is not None:
            log_p[~allowed[np.arange(n), self.codes].all(axis=1)] = -np.inf
            log_p -= np.logaddexp.reduce(log_p)
        self.log_p = log_p
        self.by_labels = {
            tuple(classes[c].tolist()): p for c, p in zip(self.codes, log_p, strict=True)
        }
        indicators = np.eye(len(classes))[self.codes]
        self.marginals = np.einsum("i,itv->tv", np.exp(log_p), indicators)
        self.pairs = np.einsum(
            "i,itu,itv->tuv", np.exp(log_p), indicators[:, :-1], indicators[:, 1:]
        )
