"""Parameters without effect cause a warning; defaults and settings with an effect do not."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.naive_bayes import BernoulliNB

import treecrf
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
from treecrf.learners.registry import LEARNERS
from treecrf.utils.validation import warn_without_effect

X, Y = ["abab", "ba", "ab", "bb"], ["xyxy", "yx", "xy", "yy"]
COST = [[0, 1], [2, 0]]


def messages(estimator, has_validation=False) -> list[str]:
    needs = estimator._needed
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_without_effect(estimator, needs, has_validation)
    return [str(warning.message) for warning in found]


WITHOUT = {
    "cost_matrix has no effect with decoding='marginal'; expected decoding='minimum_risk'": [
        kind(decoding="marginal", cost_matrix=COST) for kind in LEARNERS.values()
    ],
    "validation_fraction=0.2 has no effect with early_stopping=False; expected": [
        kind(early_stopping=False, validation_fraction=0.2)
        for kind in (TreeCRF, TreeMEMM, SlidingWindowClassifier, LinearCRF, StructuredPerceptron,
                     SequenceBoostingClassifier, FutureFeatureMEMM)
    ],
    "validation_fraction=0.2 has no effect with early_stopping='auto'; expected": [
        TreeCRF(early_stopping="auto", validation_fraction=0.2)
    ],
    "n_iter_no_change=3 has no effect with early_stopping=False; expected early_stopping=True or": [
        kind(early_stopping=False, n_iter_no_change=3) for kind in (TreeCRF, TreeMEMM, LinearCRF)
    ],
    "tol=0.1 has no effect with early_stopping=False": [
        kind(early_stopping=False, tol=0.1) for kind in (TreeCRF, SlidingWindowClassifier)
    ],
    "scoring='accuracy' has no effect with early_stopping=False": [
        kind(early_stopping=False, scoring="accuracy") for kind in (TreeCRF, LinearCRF)
    ],
    "scoring has no effect with": [TreeCRF(early_stopping=False, scoring=lambda y, z: 0.0)],
    "refit=True has no effect with": [FutureFeatureMEMM(early_stopping=False, refit=True)],
    "curvature='diagonal' has no effect with second_order=False": [
        TreeCRF(second_order=False, curvature="diagonal")
    ],
    "beam='forward-only' has no effect with beam_width=None; set beam_width": [
        TreeCRF(beam="forward-only")
    ],
    "max_examples=1000 has no effect with sampling=None": [
        kind(sampling=None, max_examples=1000) for kind in (TreeCRF, TreeMEMM)
    ],
    "beam_width=3 has no effect with decoding='viterbi'; expected decoding='beam'": [
        kind(decoding="viterbi", beam_width=3)
        for kind in (TreeMEMM, RecurrentSlidingWindowClassifier, FutureFeatureMEMM)
    ],
    "max_leaf_nodes=7 has no effect with estimator; expected estimator=None": [
        kind(BernoulliNB(), max_leaf_nodes=7)
        for kind in (SlidingWindowClassifier, RecurrentSlidingWindowClassifier)
    ],
    "min_count=2 has no effect with attributes": [LinearCRF(attributes=BernoulliNB(), min_count=2)],
    "gamma=0.1 has no effect with kernel='linear'; expected kernel='poly' or kernel='rbf'": [
        StructuredSVM(gamma=0.1)
    ],
    "degree=2 has no effect with kernel='rbf'": [StructuredSVM(kernel="rbf", degree=2)],
    "coef0=1.0 has no effect with kernel": [StructuredSVM(kernel=np.dot, coef0=1.0)],
    "cache_size=9 has no effect with kernel='linear'": [StructuredSVM(cache_size=9)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("message", "estimator"), [(m, each) for m, some in WITHOUT.items() for each in some]
)
def test_parameters_without_effect_cause_a_warning(message, estimator):
    assert len(found := messages(estimator)) == 1
    assert found[0].startswith(message)
    assert messages(clone(estimator)) == found


WITH = [
    TreeCRF(decoding="minimum_risk", cost_matrix=COST),
    HMMClassifier(decoding="minimum_risk", cost_matrix=COST),
    TreeCRF(early_stopping=True, validation_fraction=0.2, n_iter_no_change=3, tol=0.1),
    TreeCRF(early_stopping="auto", n_iter_no_change=3, tol=0.1, scoring="accuracy"),
    TreeCRF(early_stopping=np.True_, validation_fraction=0.2),
    TreeCRF(beam_width=5, beam="forward-only"),
    TreeCRF(second_order=True, curvature="diagonal"),
    TreeCRF(sampling=0.1, max_examples=1000),
    TreeCRF(sampling=None, max_examples="auto", early_stopping=False),
    TreeMEMM(decoding="beam", beam_width=3),
    LinearCRF(tol=0.1, early_stopping=False),
    FutureFeatureMEMM(early_stopping=True, refit=True),
    SlidingWindowClassifier(max_leaf_nodes=7),
    SlidingWindowClassifier(BernoulliNB(), window=1, max_bins=9),
    StructuredSVM(kernel="poly", gamma=0.1, degree=2, coef0=1.0, cache_size=9),
    StructuredSVM(kernel=np.dot, cache_size=9),
]


@pytest.mark.parametrize("estimator", WITH)
def test_parameters_with_an_effect_cause_no_warning(estimator):
    assert messages(estimator) == []


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_defaults_cause_no_warning(kind):
    assert messages(kind()) == []
    assert messages(clone(kind())) == []
    # Nor do the defaults if they are given.
    parameters = inspect.signature(kind.__init__).parameters.values()
    assert messages(kind(**{p.name: p.default for p in parameters if p.name != "self"})) == []


@pytest.mark.parametrize("kind", LEARNERS.values())
def test_what_parameters_need_are_parameters(kind):
    names = set(kind()._get_param_names())
    for name, needs in kind()._needed.items():
        assert name not in names or needs.name in names
        assert name not in names or bool(needs.values) != bool(needs.unless)


def test_validation_data_are_enough_to_score_them():
    crf = TreeCRF(early_stopping=False, scoring="accuracy", max_iter=1)
    assert messages(crf, has_validation=True) == []
    crf.fit(X, Y, X, Y)
    crf.fit(X, Y, eval_set=[(X, Y)])
    with pytest.warns(UserWarning, match="scoring='accuracy' has no effect"):
        crf.fit(X, Y)


@pytest.mark.parametrize("kind", [TreeCRF, HMMClassifier])
def test_fit_warns_of_the_line_of_the_user(kind):
    estimator = kind(cost_matrix=COST)
    with pytest.warns(UserWarning, match="cost_matrix has no effect") as found:
        estimator.fit(X, Y)
    assert [warning.filename for warning in found] == [__file__]


def test_searches_warn_only_of_settings_without_effect():
    crf = TreeCRF(max_iter=1, early_stopping=False)
    search = GridSearchCV(crf, {"window": [0, 1]}, cv=KFold(2))
    search.fit(X, Y)
    search = GridSearchCV(crf, {"validation_fraction": [0.1, 0.3]}, cv=KFold(2), refit=False)
    with pytest.warns(UserWarning, match=r"validation_fraction=0\.3 has no effect") as found:
        search.fit(X, Y)
    assert len(found) == 2


# Early stopping


def noisy(n: int) -> tuple[list, list]:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(20, 3)) for _ in range(n)]
    return values, [(v[:, 0] + v[:, 1] + rng.normal(size=20) > 0).astype(int) for v in values]


@pytest.mark.parametrize("kind", [TreeCRF, SlidingWindowClassifier])
def test_early_stopping_that_max_iter_ends_causes_a_warning(kind):
    values, labels = noisy(20)
    settings = {"learning_rate": 0.05, "l2_regularization": 10.0, "random_state": 0}
    if kind is TreeCRF:
        settings["init"] = "zero"
    with pytest.warns(ConvergenceWarning, match=r"still improving at max_iter=3; raise") as found:
        kind(max_iter=3, early_stopping=True, **settings).fit(values, labels)
    assert [warning.filename for warning in found] == [__file__]
    # Not if the best iteration is an earlier one, without early stopping, and by default.
    kind(max_iter=300, early_stopping=True, n_iter_no_change=3).fit(values, labels)
    kind(max_iter=3, early_stopping=False, **settings).fit(values, labels, values, labels)
    kind(max_iter=3, early_stopping="auto", **settings).fit(values, labels, values, labels)
    kind(max_iter=3, early_stopping="auto", **settings).fit(values, labels)


def test_linear_models_warn_of_the_line_of_the_user():
    values, labels = noisy(5)
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1") as found:
        treecrf.LinearCRF(max_iter=1).fit(values, labels)
    assert [warning.filename for warning in found] == [__file__]
