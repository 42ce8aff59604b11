"""The support vector machine for label sequences: its optimum, its kernels, its stopping rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_kernels
from sklearn.svm import SVC
from support.label_sequences import enumerated, named_weights
from support.sweeps import sweep

import treecrf
from treecrf import StructuredSVM
from treecrf.inputs.dataset import as_sequences
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.structured.frank_wolfe import Inputs, Kernel, gamma_of

# One word occurs twice, with different labels.
WORDS = ["abc", "b", "ca", "bb", "abc", "bca"]
TAGS = ["xyx", "y", "xx", "yx", "yyx", "yxx"]
VARIANTS = {
    "states": {},
    "windows": {"window": (1, 0)},
    "pairs": {"transition_features": True},
    "weighted": {"class_weight": {"x": 3.0, "y": 0.5}},
    "rules": {"transitions": [[1, 0], [1, 1]]},
}
RULED = ["xxx", "y", "xx", "yx", "yyx", "yxx"]


def tags_of(variant):
    return RULED if variant == "rules" else TAGS


def costs_of(model, y):
    weights = model.class_weight or {}
    return model.C * np.array([np.mean([weights.get(v, 1.0) for v in labels]) for labels in y])


def objective(every, costs, scores, square):
    hinges = [
        (loss + score - score[true]).max()
        for loss, score, true in zip(every.losses, scores, every.true, strict=True)
    ]
    return 0.5 * square + costs @ hinges


def solved(every, costs):
    """The minimum of the objective by its dual, and how much higher it may be."""
    psi = np.concatenate([t[k] - t for t, k in zip(every.features, every.true, strict=True)])
    losses = np.concatenate(every.losses)
    block = np.repeat(np.arange(len(costs)), [len(t) for t in every.features])
    scale = costs[block]

    def f(a):
        w = (a * scale) @ psi
        return 0.5 * w @ w - (a * scale) @ losses, scale * (psi @ w - losses)

    sums = (block == np.arange(len(costs))[:, None]).astype(float)
    start = (losses == 0) * 1.0
    found = minimize(
        f, start, jac=True, method="SLSQP", bounds=[(0, 1)] * len(start),
        constraints={"type": "eq", "fun": lambda a: sums @ a - 1, "jac": lambda _: sums},
        options={"ftol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    # The duality gap verifies the solution, whatever the status of the solver.
    slope = f(found.x)[1]
    gap = slope @ found.x - sum(slope[block == i].min() for i in range(len(costs)))
    assert gap < 1e-4
    return -found.fun, gap


@pytest.mark.parametrize("C", sweep([2.0, 0.1], 1))
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_minimum_is_that_of_the_quadratic_program(variant, C):
    y = tags_of(variant)
    model = StructuredSVM(C=C, tol=1e-4, max_iter=100_000, random_state=0, **VARIANTS[variant])
    model.fit(WORDS, y)
    every, costs = enumerated(model, WORDS, y), costs_of(model, y)
    minimum, gap = solved(every, costs)
    n = sum(map(len, y))
    assert 0 <= model.dual_gap_ <= 1e-4 * costs @ [len(labels) for labels in y] <= C * n
    assert minimum - 1e-6 <= model.objective_ <= minimum + gap + model.dual_gap_ + 1e-6
    # The objective agrees with its definition.
    weights = named_weights(model)
    square = sum(weight**2 for weight in weights.values())
    value = objective(every, costs, every.scores(weights), square)
    assert model.objective_ == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("average", [False, True])
def test_the_gap_goes_to_zero_and_bounds_the_distance(average, letters):
    X, y = letters
    model = StructuredSVM(window=1, average=average, tol=0.0, random_state=0)
    values = []
    for max_iter in (1, 10, 100, 1000):
        with pytest.warns(ConvergenceWarning, match=f"did not converge in max_iter={max_iter}"):
            values.append(clone(model).set_params(max_iter=max_iter).fit(X, y))
    gaps = [v.dual_gap_ for v in values]
    assert all(a > 2 * b for a, b in pairwise(gaps))
    assert gaps[-1] < 1e-2 * gaps[0]
    best = values[-1].objective_
    for v in values:
        assert best - 1e-9 <= v.objective_ <= best + v.dual_gap_
    ended = clone(model).set_params(tol=1e-2).fit(X, y)
    assert ended.dual_gap_ <= 1e-2 * model.C * sum(map(len, X))
    assert ended.n_iter_ < 1000


def test_the_mean_is_better_after_few_passes(letters):
    X, y = letters
    last, mean = (
        StructuredSVM(window=1, C=10, max_iter=5, tol=1e-9, average=average, random_state=0)
        for average in (False, True)
    )
    for model in (last, mean):
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
    assert mean.objective_ < last.objective_


# Kernels


def linear_kernel(a, b):
    return (a @ b.T).toarray()


@pytest.mark.parametrize("variant", sweep(["windows", "rules", "states", "weighted"], 2))
def test_a_linear_kernel_gives_the_linear_model(variant):
    y = tags_of(variant)
    linear = StructuredSVM(C=1.0, tol=1e-5, max_iter=100_000, random_state=0, **VARIANTS[variant])
    dual = clone(linear).set_params(kernel=linear_kernel)
    linear.fit(WORDS, y)
    dual.fit(WORDS, y)
    # Ties may be broken differently, but the optimum is unique.
    assert dual.objective_ == pytest.approx(linear.objective_, rel=1e-4)
    np.testing.assert_allclose(dual.transition_weights_, linear.transition_weights_, atol=0.01)
    np.testing.assert_allclose(dual.start_weights_, linear.start_weights_, atol=0.01)
    X = [*WORDS, "cab?", "aaaa"]
    for a, b in zip(dual.predict_proba(X), linear.predict_proba(X), strict=True):
        np.testing.assert_allclose(a, b, atol=0.01)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_kernels_combine_attributes(kernel):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 2, (8, 2)).astype(bool) for _ in range(30)]
    y = [table[:, 0] ^ table[:, 1] for table in X]
    linear = StructuredSVM(C=1.0, random_state=0).fit(X[:20], y[:20])
    assert linear.score(X[20:], y[20:]) < 0.8
    curved = StructuredSVM(C=1.0, kernel=kernel, degree=2, coef0=1.0, random_state=0)
    curved.fit(X[:20], y[:20])
    assert curved.score(X[20:], y[20:]) == 1
    # There are only four distinct inputs.
    assert len(curved._support.rows.indptr) - 1 <= 4


def inputs_of(X, window):
    sequences = as_sequences(X)
    return Inputs.of(AttributeMatrix.of(WindowAttributes(window).fit(sequences), sequences))


def test_inputs_are_the_distinct_windows():
    inputs = inputs_of(["abab", "ab", "b"], (1, 0))
    rows = inputs.rows.toarray()[inputs.indices]
    n_columns = 3  # a, b and outside
    windows = [pair for word in ("abab", "ab", "b") for pair in pairwise("|" + word)]
    for (before, letter), row in zip(windows, rows, strict=True):
        expected = np.zeros(2 * n_columns)
        expected[["ab|".index(before), n_columns + "ab".index(letter)]] = 1
        np.testing.assert_array_equal(row, expected)
    assert len(inputs.rows.indptr) - 1 == 4  # |a, ab, ba, |b


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_kernels_are_those_of_scikit_learn(kernel):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
    given = {"gamma": 0.3, "degree": 2, "coef0": 0.7} if kernel == "poly" else {"gamma": 0.3}
    expected = pairwise_kernels(a, b, kernel, filter_params=True, **given)
    ours = Kernel(kernel, 0.3, 2, 0.7).between(sparse.csr_array(a), sparse.csr_array(b))
    np.testing.assert_allclose(ours, expected)


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
def test_gamma_is_that_of_scikit_learn(gamma, tables):
    X, _ = tables
    inputs = inputs_of(X, (0, 0))
    rows = inputs.rows[inputs.indices].toarray()
    svc = SVC(gamma=gamma).fit(rows, np.arange(len(rows)) % 2)
    assert gamma_of(gamma, inputs) == pytest.approx(svc._gamma)
    assert gamma_of("scale", inputs_of([np.ones((3, 2))], (0, 0))) == 1.0


def test_too_large_kernel_matrices_are_refused(letters):
    model = StructuredSVM(kernel="rbf", window=2, cache_size=1e-3)
    with pytest.raises(MemoryError, match=r"windows needs \d+ MB, but cache_size allows 0"):
        model.fit(*letters)


def test_bad_kernels_are_refused(letters):
    X, y = letters
    with pytest.raises(ValueError, match="transition_features has no effect on kernel='rbf'"):
        StructuredSVM(kernel="rbf", transition_features=True).fit(X, y)
    for wrong in (
        lambda a, b: np.zeros((1, 2)),
        lambda a, b: np.full((a.shape[0], b.shape[0]), np.nan),
        lambda a, b: np.full((a.shape[0], b.shape[0]), "x"),
    ):
        with pytest.raises(ValueError, match=r"kernel: \d+ and \d+ inputs give an array of"):
            StructuredSVM(kernel=wrong).fit(X, y)


def test_callable_kernels_are_not_saved(letters, tmp_path):
    model = StructuredSVM(kernel=linear_kernel, tol=0.1).fit(*letters)
    with pytest.raises(TypeError, match="callable kernel cannot be saved as data; use joblib"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_forged_support_is_refused(letters, tmp_path):
    from support.model_files import read, sealed

    path = tmp_path / "model"
    StructuredSVM(kernel="rbf", tol=0.1, random_state=0).fit(*letters).save(path)
    values, arrays = read(path)
    indices = arrays["support.indices"]
    forged = [
        {"support.indices": np.full_like(indices, 10**6)},
        {"support.indptr": arrays["support.indptr"][::-1].copy()},
        {"support.coefficients": arrays["support.coefficients"][:, :1]},
        {"support.data": np.full_like(arrays["support.data"], np.inf)},
    ]
    for changed in forged:
        path.write_bytes(sealed(values, arrays | changed))
        with pytest.raises(treecrf.ModelFileError):
            treecrf.load(path)
    for changed in ({"kind": "sigmoid"}, {"gamma": "scale"}, {"coef0": None}):
        path.write_bytes(sealed(values | {"kernel": values["kernel"] | changed}, arrays))
        with pytest.raises(treecrf.ModelFileError):
            treecrf.load(path)


# Other properties


def test_validation_data_are_refused(letters):
    X, y = letters
    with pytest.raises(ValueError, match="X_val and y_val have no effect"):
        StructuredSVM().fit(X, y, X, y)
