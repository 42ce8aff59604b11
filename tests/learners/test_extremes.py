"""Numbers at the ends of their ranges: explained errors, or finite predictions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from treecrf import (
    StructuredSVM,
    TreeCRF,
)
from treecrf.learners.registry import LEARNERS
from treecrf.utils.validation import Interval

WORDS, LABELS = ["banana", "nab"], ["cvcvcv", "cvc"]
SMALL = {"max_iter": 1, "random_state": 0}


def constrained() -> list[str]:
    """Names of all parameters that are numbers in an interval."""
    return [
        f"{name} {parameter}"
        for name, kind in LEARNERS.items()
        for parameter, constraints in kind._parameter_constraints.items()
        if any(isinstance(c, Interval) for c in constraints) and parameter in kind().get_params()
    ]


def small(name: str, **parameters):
    model = LEARNERS[name]()
    few = {k: v for k, v in SMALL.items() if k in model.get_params()}
    return model.set_params(**few | parameters)


@pytest.mark.parametrize("case", constrained())
def test_integers_beyond_all_types_are_refused(case):
    name, parameter = case.split()
    for value in (10**400, -(10**400)):
        with pytest.raises(ValueError, match=f"The '{parameter}' parameter of"):
            small(name, **{parameter: value}).fit(WORDS, LABELS)


# So many iterations take forever.
BOUNDED = [case for case in constrained() if not case.endswith("max_iter")]
RARE = pytest.mark.exhaustive


@pytest.mark.parametrize("case", BOUNDED)
@pytest.mark.parametrize(
    "value", [2**63 - 1, *(pytest.param(v, marks=RARE) for v in (2**31 - 1, 2**31, 2**62))]
)
def test_large_integers_work_or_are_refused(case, value):
    name, parameter = case.split()
    model = small(name, **{parameter: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            found = model.fit(WORDS, LABELS).predict_proba(WORDS)
        except (ValueError, MemoryError) as error:
            assert str(error)
        else:
            assert np.isfinite(np.concatenate(found)).all()


def test_costs_beyond_all_types_are_refused():
    for costs in ([[0, 10**400], [1, 0]], {("c", "v"): 10**400}):
        model = TreeCRF(decoding="minimum_risk", cost_matrix=costs, max_iter=1)
        with pytest.raises(ValueError, match="cost_matrix"):
            model.fit(WORDS, LABELS).predict(WORDS)


def test_ragged_transitions_are_refused():
    with pytest.raises(ValueError, match="transitions has rows of different lengths"):
        TreeCRF(transitions=[[True, False], [True]]).fit(WORDS, LABELS)


@pytest.mark.parametrize("n_best", [2**62, 10**9, 10**400])
def test_no_more_label_sequences_than_there_are(n_best, trained):
    labels, values = trained.decode(["ab", "c"], n_best=n_best)
    assert [len(found) for found in labels] == [9, 3]
    assert [len(found) for found in values] == [9, 3]
    with pytest.raises(MemoryError, match=r"no memory for the 10+ best label sequences of 100 pos"):
        trained.decode(["ab" * 50], n_best=10**17)


def test_kernels_are_finite():
    X = [np.array([[1e6], [2e6], [1e6]])] * 2
    y = [[0, 1, 0]] * 2
    with pytest.raises(ValueError, match="kernel='poly': values of degree 1000 are not finite"):
        StructuredSVM(kernel="poly", degree=1000).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(kernel="rbf", gamma=1e300, max_iter=2).fit(X, y)
    assert np.isfinite(model.predict_proba(X)[0]).all()
