"""Numbers at the ends of their ranges: explained errors, or finite predictions."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support.model_files import read, sealed
from support.sweeps import pairs

from treecrf import (
    LinearCRF,
    ModelFileError,
    SequenceBoostingClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
    flatten,
    load,
)
from treecrf.chains.objectives import OBJECTIVES
from treecrf.learners.registry import LEARNERS
from treecrf.utils.validation import Interval

WORDS, LABELS = ["banana", "nab"], ["cvcvcv", "cvc"]
SMALL = {"max_iter": 1, "instance_max_iter": 1, "max_future_features": 1, "random_state": 0}


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


@pytest.mark.parametrize("learner", LEARNERS)
def test_integers_beyond_all_types_are_refused(learner):
    for case in constrained():
        name, parameter = case.split()
        if name == learner:
            for value in (10**400, -(10**400)):
                with pytest.raises(ValueError, match=f"The '{parameter}' parameter of"):
                    small(name, **{parameter: value}).fit(WORDS, LABELS)


# So many iterations take forever.
BOUNDED = [case for case in constrained() if not case.endswith("max_iter")]


# Learners of each kind, whose parameters most others share.
EACH_KIND = ("crf", "future", "linear", "svm")


@pytest.mark.parametrize(
    ("case", "value"),
    pairs(
        product(BOUNDED, [2**63 - 1, 2**31 - 1, 2**31, 2**62]),
        lambda case, value: value == 2**63 - 1 and case.split()[0] in EACH_KIND,
    ),
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
        StructuredSVM(kernel="poly", degree=1000, standardize=False).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel='poly': values up to 3.4e\+125; expected"):
        StructuredSVM(kernel="poly", degree=100, standardize=False).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel=<function .*>: values up to 4e\+18; expected at"):
        StructuredSVM(kernel=lambda a, b: 1e6 * (a @ b.T), standardize=False).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSVM(kernel="rbf", gamma=1e300, max_iter=2).fit(X, y)
    assert np.isfinite(model.predict_proba(X)[0]).all()


def test_huge_tolerances_prune_everything(trained):
    for tolerance in (10**400, np.inf, np.finfo(float).max):
        pruned = flatten(trained).prune(tolerance)
        assert np.ptp(pruned.predict_proba(["ab"])[0], axis=1).max() == 0


# Large scores


def assert_is_a_distribution(model, X):
    """Compare the probabilities of all label sequences of each sequence."""
    for x, rows in zip(X, model.predict_proba(X), strict=True):
        n_sequences = len(model.classes_) ** len(x)
        [labels], [values] = model.decode([x], n_best=n_sequences)
        p = np.exp(model.predict_log_likelihood([x] * len(labels), labels))
        np.testing.assert_allclose(p, np.exp(values), atol=1e-6)
        assert p.sum() == pytest.approx(1.0, abs=1e-6)
        marginals = [
            [p[[found[t] == label for found in labels]].sum() for label in model.classes_]
            for t in range(len(x))
        ]
        np.testing.assert_allclose(rows, marginals, atol=1e-6)
        assert model.decode([x])[1][0] == pytest.approx(values[0], abs=1e-6)


def data(scale, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 2, 4) for _ in range(12)]
    return [scale * (rng.integers(0, 3, (4, 2)) + labels[:, None]) for labels in y], y


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("second_order", [False, "auto"])
def test_the_largest_learning_rate(objective, second_order):
    X, y = data(1.0)
    settings = {"init": "zero", "early_stopping": False, "max_iter": 8, "l2_regularization": 1.0}
    crf = TreeCRF(objective=objective, second_order=second_order, learning_rate=1e6, **settings)
    assert_is_a_distribution(crf.fit(X, y), X[:2])
    with pytest.raises(
        ValueError, match=r"'learning_rate' parameter of TreeCRF .* \(0.0, 1000000.0"
    ):
        crf.set_params(learning_rate=1.1e6).fit(X, y)


@pytest.mark.parametrize("line_search", [False, True])
@pytest.mark.parametrize("bound", ["union", "sequence"])
def test_the_largest_step(bound, line_search):
    settings = {"max_step": 1e6, "bound": bound, "line_search": line_search, "max_iter": 8}
    X, y = ["ab", "ba", "aa", "bc"], ["xy", "yx", "xx", "yz"]
    model = SequenceBoostingClassifier(**settings).fit(X, y)
    assert np.abs(model.steps_).max() > 30
    assert_is_a_distribution(model, X)
    with pytest.raises(ValueError, match="'max_step' parameter of SequenceBoostingClassifier"):
        model.set_params(max_step=1.1e6).fit(X, y)


@pytest.mark.parametrize("scale", [1e6, 1e15, 1e50, 1e99])
@pytest.mark.parametrize(
    "model",
    [StructuredPerceptron(max_iter=5, random_state=0), StructuredSVM(max_iter=5), LinearCRF()],
    ids=["perceptron", "SVM", "CRF"],
)
def test_large_features_of_linear_models(model, scale):
    X, y = data(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_is_a_distribution(model.fit(X, y), X[:2])


def test_decoding_and_likelihoods_of_a_long_sequence_round_alike():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20_000)
    x = rng.normal(size=(len(y), 3)) + 0.3 * y[:, np.newaxis]
    model = StructuredPerceptron(max_iter=2, random_state=0).fit([x], [y])
    labels, [value] = model.decode([x])
    assert model.predict_log_likelihood([x], labels).tolist() == [value]
    [[first, second]], [values] = model.decode([x], n_best=2)
    assert (first == labels[0]).all()
    assert values[0] == value
    assert value > values[1] == pytest.approx(model.predict_log_likelihood([x], [second])[0], 1e-3)


@pytest.mark.parametrize(
    ("model", "name", "too_large"),
    [
        (TreeCRF(max_iter=2), "forest.leaf", (1e308, 1e10, -1e10)),
        (LinearCRF(), "weights", (1e308, -1e201)),
    ],
)
def test_leaves_and_weights_of_files_are_bounded(model, name, too_large, tmp_path):
    path = tmp_path / "model"
    model.fit(WORDS, LABELS).save(path)
    values, arrays = read(path)
    for large in too_large:
        arrays[name] = np.full_like(arrays[name], large)
        path.write_bytes(sealed(values, arrays))
        with pytest.raises(ModelFileError, match=r"invalid (leaves|weights)"):
            load(path)
