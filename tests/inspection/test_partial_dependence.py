"""Partial dependence, compared with predictions for changed sequences."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from support.family import COUNTED, ESTIMATED, FAMILY, FLAT, KERNEL, TREES, WINDOWED, every

from treecrf import (
    FutureFeatureMEMM,
    HMMClassifier,
    LinearCRF,
    SlidingWindowClassifier,
    TreeCRF,
    flatten,
)
from treecrf.chains.contexts import true_contexts
from treecrf.encoding.encoder import METHODS
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import offsets_of
from treecrf.inspection import partial_dependence
from treecrf.learners.base.fitted import fitted_model
from treecrf.utils.threads import Threads

# Discovered features read more than one offset, and are not changed.
CHANGED = {n: m for n, m in WINDOWED.items() if "future" not in n and "beam" not in n}


def with_value(x, t, feature, value):
    """A copy of a sequence with another value at one position, or at all."""
    positions = range(x.shape[0] if hasattr(x, "shape") else len(x)) if t is None else [t]
    if isinstance(x, str):
        return "".join(value if s in positions else symbol for s, symbol in enumerate(x))
    if isinstance(x, list):
        return [row | {feature: value} if s in positions else row for s, row in enumerate(x)]
    changed = x.tolil() if sparse.issparse(x) else copy.deepcopy(x)
    for s in positions:
        changed[s, feature] = value
    return sparse.csr_array(changed) if sparse.issparse(x) else changed


def expected(model, X, feature, offset, values, response="probability"):
    """Change the value at the offset of one position after another."""
    codes = [encode_labels([labels], model.classes_) for labels in model.predict(X)]
    averages = []
    with Threads(None) as threads:
        for value in values:
            found = [
                _rows(model, x, (feature, offset, value), labels, response, threads)
                for x, labels in zip(X, codes, strict=True)
            ]
            averages.append(np.concatenate(found).mean(axis=0))
    return averages


def _rows(model, x, change, codes, response, threads):
    feature, offset, value = change
    n = x.shape[0] if hasattr(x, "shape") else len(x)
    inside = np.array([0 <= t + offset < n for t in range(n)])
    predictor = fitted_model(model).predictor
    chain = predictor.chain
    backward = chain.is_backward
    scores = np.array(chain.scores(predictor.read([x])[0], threads))
    for t in np.flatnonzero(inside):
        here = n - 1 - t if backward else t
        changed = predictor.read([with_value(x, t + offset, feature, value)])[0]
        scores[:, here] = chain.scores(changed, threads)[:, here]
    offsets = offsets_of([n])
    if response == "probability":
        constraints = chain.constraints(offsets)
        rows = chain.constrained(scores, offsets, constraints, threads).marginals()
    else:
        labels = codes[::-1] if backward else codes
        _, contexts = true_contexts(offsets, labels, len(model.classes_), chain.order)
        rows = np.take_along_axis(scores, contexts[None, :, None], axis=2)[:, :, 0].T
    return (rows[::-1] if backward else rows)[inside]


@pytest.mark.parametrize("response", ["probability", "score"])
@every(CHANGED)
def test_values_at_an_offset(name, response, fitted, letters):
    model, X = fitted(name), letters[0][:6]
    # One of the models has a window of one position.
    for offset in (0,) if name == "boosted transition features" else (-1, 0):
        found = partial_dependence(model, X, "symbol", offset, values=["d", "a"], response=response)
        wanted = expected(model, X, None, offset, "da", response)
        np.testing.assert_allclose(found.average, wanted, atol=1e-5)
        assert found.grid_values.tolist() == ["d", "a"]
        assert found.labels.tolist() == list("xyz")


@every(FAMILY | FLAT)
def test_values_at_all_offsets(name, fitted, letters):
    model, X = fitted(name), letters[0][:6]
    found = partial_dependence(model, X, 0, None, values=["b", "c"])
    for value, average in zip("bc", found.average, strict=True):
        proba = model.predict_proba([value * len(x) for x in X])
        np.testing.assert_allclose(average, np.concatenate(proba).mean(axis=0), atol=1e-6)
    assert found.feature_name == "symbol"


def mixed_sequences(rate=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = [
        [
            {
                "word": str(rng.choice(list("abc"))) if rng.random() > rate else None,
                "size": float(rng.integers(-3, 4)) if rng.random() > rate else None,
                "loud": bool(rng.random() < 0.5) if rng.random() > rate else None,
            }
            for _ in range(rng.integers(1, 9))
        ]
        for _ in range(30)
    ]
    y = [
        ["y" if (row["word"] == "a") ^ ((row["size"] or 0) > 0) ^ bool(row["loud"]) else "n"
         for row in x] for x in X
    ]  # fmt: skip
    return X, y


MIXED = {
    **{missing: TreeCRF(missing=missing, **TREES) for missing in METHODS},
    "linear start": TreeCRF(init="linear", **TREES),
    "constant transitions": TreeCRF(constant_transitions=True, **TREES),
    "linear": LinearCRF(window=(1, 0)),
    "imputed": LinearCRF(window=(1, 0), missing="impute"),
}
VALUES = {"word": ["c", "a"], "size": [-1.5, 0, 2.5], "loud": [True, False]}


@functools.cache
def fitted_to_mixed(name):
    return clone(MIXED[name]).fit(*mixed_sequences())


@pytest.mark.parametrize("feature", VALUES)
@pytest.mark.parametrize("name", MIXED)
def test_tables_with_missing_values(name, feature):
    X, model = mixed_sequences()[0][:3], fitted_to_mixed(name)
    for offset in (-1, 0):
        found = partial_dependence(model, X, feature, offset, values=VALUES[feature])
        wanted = expected(model, X, feature, offset, VALUES[feature])
        np.testing.assert_allclose(found.average, wanted, atol=1e-5)
    assert found.feature_name == f"{feature}[0]"
    everywhere = partial_dependence(model, X, feature, None, values=VALUES[feature])
    for value, average in zip(VALUES[feature], everywhere.average, strict=True):
        proba = model.predict_proba([with_value(x, None, feature, value) for x in X])
        np.testing.assert_allclose(average, np.concatenate(proba).mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize("dtype", [float, int, bool])
def test_arrays(form, dtype):
    rng = np.random.default_rng(0)
    X = [(rng.integers(-2, 3, (9, 4)) * (rng.random((9, 4)) < 0.5)).astype(dtype)
         for _ in range(20)]  # fmt: skip
    y = [np.where((table[:, 0] > 0) ^ (np.roll(table[:, 1], 1) < 0), 1, 0) for table in X]
    X = [form(table) for table in X]
    model = TreeCRF(**TREES).fit(X, y)
    values = [False, True] if dtype is bool else [-2, 0, 1]
    for j in (0, 1):
        found = partial_dependence(model, X[:5], j, -1, values=values)
        np.testing.assert_allclose(found.average, expected(model, X[:5], j, -1, values), atol=1e-9)
        everywhere = partial_dependence(model, X[:5], j, None, values=values)
        changed = [[with_value(x, None, j, value) for x in X[:5]] for value in values]
        wanted = [np.concatenate(model.predict_proba(items)).mean(axis=0) for items in changed]
        np.testing.assert_allclose(everywhere.average, wanted, atol=1e-9)


# Values by default


def test_the_values_that_occur(letters, monkeypatch):
    model = TreeCRF(**TREES).fit(*letters)
    X = ["aabbbbccq", "da"]
    assert partial_dependence(model, X, 0).grid_values.tolist() == list("abcd")
    assert partial_dependence(model, X, 0, n_values=2).grid_values.tolist() == list("ab")
    whole = partial_dependence(model, letters[0], 0, -1)
    monkeypatch.setattr("treecrf.inspection.dependence.MAX_BYTES", 999)  # in several parts
    np.testing.assert_allclose(partial_dependence(model, letters[0], 0, -1).average, whole.average)


def test_ends_of_numbers_and_kinds_of_values():
    X, y = mixed_sequences()
    model = TreeCRF(**TREES).fit(X, y)
    assert partial_dependence(model, X, "loud").grid_values.tolist() == [False, True]
    assert partial_dependence(model, X, "word").grid_values.tolist() == list("abc")
    new = [[{"word": word, "size": 0.0, "loud": True} for word in ("q", "b", "q", "c")]]
    assert partial_dependence(model, new, "word", n_values=1).grid_values.tolist() == ["b"]
    grid = partial_dependence(model, X, "size").grid_values
    assert {-3, -2, -1, 0, 1, 2, 3} < set(grid.tolist())
    column = np.array([row["size"] for x in X for row in x if row["size"] is not None])
    grid = partial_dependence(model, X, "size", n_values=3).grid_values
    assert grid.tolist() == np.linspace(*np.quantile(column, [0.05, 0.95]), 3).tolist()
    linear = LinearCRF(solver="sgd", max_iter=5).fit(X, y)
    grid = partial_dependence(linear, X, "size", n_values=7).grid_values
    assert grid.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    grid = partial_dependence(linear, X, "size").grid_values
    assert {*np.linspace(-3, 3, 50).tolist(), -2, -1, 0, 1, 2} == {*grid.tolist()}


def lamps(values_when_on, n=2000, seed=0):
    """A lamp that is off in 70 % of the rows, and a label that is its state, with noise."""
    rng = np.random.default_rng(seed)
    is_on = rng.random(n) > 0.7
    column = np.where(is_on, values_when_on(rng, n), 0)
    labels = is_on ^ (rng.random(n) < 0.02)
    tables = np.split(np.stack([column, rng.normal(size=n)], axis=1), 20)
    return tables, np.split(labels.astype(int), 20)


LAMPS = {
    "many values": lambda rng, n: rng.uniform(400, 500, n),
    "two values": lambda rng, n: np.full(n, 450.0),
    "two ranges": lambda rng, n: rng.uniform(0, 10, n) + 400 * rng.integers(0, 2, n),
}


@pytest.mark.parametrize("values", LAMPS)
@pytest.mark.parametrize("init", ["zero", "linear"])
@pytest.mark.parametrize("missing", ["weighting", "surrogate"])
def test_lines_between_the_values_follow_the_model(values, missing, init):
    X, y = lamps(LAMPS[values])
    settings = {"init": init, "missing": missing, "max_iter": 20, "early_stopping": False}
    model = TreeCRF(**settings).fit(X, y)
    X, dense = X[:4], np.linspace(0, 400, 101)
    for offset in (0, None):
        found = partial_dependence(model, X, 0, offset)
        assert found.has_all_steps
        exact = partial_dependence(model, X, 0, offset, values=dense).average[:, 1]
        drawn = np.interp(dense, found.grid_values, found.average[:, 1])
        np.testing.assert_allclose(drawn, exact, atol=1e-9 if init == "zero" else 0.02)
        few = partial_dependence(model, X, 0, offset, n_values=20)
        assert len(few.grid_values) <= 20
        exact = partial_dependence(model, X, 0, offset, values=few.grid_values).average
        np.testing.assert_allclose(few.average, exact, atol=1e-12)


CURVED = {
    "linear": LinearCRF(window=1),
    "linear start": TreeCRF(init="linear", window=1, max_iter=5, early_stopping=False),
}


@pytest.mark.parametrize("name", CURVED)
@pytest.mark.parametrize("n_values", [2, 5])
def test_lines_between_few_values_follow_a_curve(name, n_values):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, n_values, (30, 2)).astype(float) for _ in range(15)]
    y = [(np.roll(x[:, 0], 1) + rng.normal(size=30) > n_values / 2).astype(int) for x in X]
    model = clone(CURVED[name]).fit(X, y)
    X, dense = X[:5], np.linspace(0, n_values - 1, 41)
    for offset in (-1, 0, None):
        found = partial_dependence(model, X, 0, offset)
        assert found.has_all_steps
        exact = partial_dependence(model, X, 0, offset, values=dense).average[:, 1]
        drawn = np.interp(dense, found.grid_values, found.average[:, 1])
        np.testing.assert_allclose(drawn, exact, atol=0.01)


def test_discovered_features_have_steps_of_their_own():
    rng = np.random.default_rng(0)
    X = [rng.random((20, 2)) for _ in range(40)]
    y = [[int((x[t + 1 : t + 4, 0] > 0.8).any()) for t in range(20)] for x in X]
    model = FutureFeatureMEMM(
        order=0, bag_size=3, max_iter=10, max_future_features=1, random_state=0
    ).fit(X, y)
    assert model.future_features_
    found, dense = partial_dependence(model, X, 0, None), np.linspace(0.06, 0.94, 500)
    exact = [
        np.concatenate(model.predict_proba([with_value(x, None, 0, v) for x in X[:9]])).mean(axis=0)
        for v in dense[::25]
    ]
    found = partial_dependence(model, X[:9], 0, None)
    for k in range(2):
        drawn = np.interp(dense[::25], found.grid_values, found.average[:, k])
        np.testing.assert_allclose(drawn, np.array(exact)[:, k], atol=1e-9)


def test_steps_of_attributes_and_of_other_estimators():
    X, y = lamps(LAMPS["many values"])
    trees = TreeCRF(init="zero", max_iter=5, early_stopping=False).fit(X, y)
    linear = LinearCRF(attributes=flatten(trees)).fit(X, y)
    found = partial_dependence(linear, X, 0, None)
    dense = np.linspace(0, 400, 100)
    exact = partial_dependence(linear, X, 0, None, values=dense).average[:, 1]
    drawn = np.interp(dense, found.grid_values, found.average[:, 1])
    np.testing.assert_allclose(drawn, exact, atol=1e-9)
    window = SlidingWindowClassifier(DecisionTreeClassifier(max_depth=2)).fit(X, y)
    assert not partial_dependence(window, X, 0, None).has_all_steps


def test_all_jumps_of_few_thresholds_are_drawn():
    rng = np.random.default_rng(0)
    X = [rng.random((30, 2)) for _ in range(30)]
    y = [np.digitize(table[:, 0], [0.2, 0.3, 0.8]) % 2 for table in X]
    model = TreeCRF(init="zero", max_iter=1, max_leaf_nodes=4).fit(X, y)
    found = partial_dependence(model, X, 0)
    dense = np.linspace(0.06, 0.94, 300)
    exact = partial_dependence(model, X, 0, values=dense).average
    for k in range(2):
        drawn = np.interp(dense, found.grid_values, found.average[:, k])
        np.testing.assert_allclose(drawn, exact[:, k], atol=1e-12)
    mostly = [np.where(table < 0.97, 0.5, table) for table in X]
    assert np.ptp(partial_dependence(model, mostly, 0).grid_values) > 0.4


# Errors


@pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning")
def test_wrong_arguments(trained, letters):
    X = letters[0]
    for arguments, message in (
        ({"feature": "word"}, "feature='word'; expected the name of a feature or an index"),
        ({"feature": 1}, "feature=1; expected"),
        ({"offset": 2}, "offset=2; expected an integer from -1 to 1, the window of the model, or"),
        ({"offset": True}, "offset=True"),
        ({"values": ["q"]}, "values: 'q'; expected one of the 4 categories of symbol"),
        ({"n_values": 0}, "n_values=0; expected a positive integer"),
        ({"response": "proba"}, "response='proba'; expected 'probability' or 'score'"),
    ):
        with pytest.raises(ValueError, match=message):
            partial_dependence(trained, X, **({"feature": 0} | arguments))
    with pytest.raises(ValueError, match="no value of symbol in X occurs in the training data"):
        partial_dependence(trained, ["qq"], 0)
    with pytest.raises(ValueError, match="no sequence of X reaches to offset -1"):
        partial_dependence(trained, ["a", "b"], 0, -1)


@pytest.mark.parametrize("values", [[np.nan], [np.inf], ["a"], [None]])
def test_wrong_numbers(values, tables):
    model = TreeCRF(max_iter=2).fit(*tables)
    with pytest.raises(ValueError, match="expected finite numbers"):
        partial_dependence(model, tables[0], 1, values=values)


def test_wrong_booleans():
    X, y = mixed_sequences()
    model = TreeCRF(**TREES).fit(X, y)
    with pytest.raises(ValueError, match=r"values: 0\.5; expected booleans"):
        partial_dependence(model, X, "loud", values=[0.5])


@every(COUNTED | ESTIMATED)
def test_an_offset_needs_trees_or_weights(name, fitted, letters):
    with pytest.raises(TypeError, match="has neither boosted trees nor weights"):
        partial_dependence(fitted(name), letters[0], 0)


def test_other_attributes_are_refused(fitted, trained, letters):
    model = LinearCRF(attributes=flatten(trained)).fit(*letters)
    with pytest.raises(TypeError, match="expected those of a window"):
        partial_dependence(model, letters[0], 0)
    with pytest.raises(TypeError, match="kernel='rbf'"):
        partial_dependence(fitted(KERNEL), letters[0], 0)
    assert partial_dependence(HMMClassifier().fit(*letters), letters[0], 0, None).average.size


def test_columns_without_tests():
    # Leaves have no test, though their arrays hold that of the first column.
    X = [[[True], [True]]]
    model = SlidingWindowClassifier(max_iter=2).fit(X, [[3, -7]])
    found = partial_dependence(model, X, 0, offset=0)
    np.testing.assert_allclose(found.average[0], model.predict_proba(X)[0].mean(axis=0))
