"""Models do not depend on the order of columns and sequences, and on the names of labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from treecrf import SlidingWindowClassifier, TreeCRF, TreeMEMM

N_COLUMNS = 5
FORMS = ("numbers", "frames", "dicts", "missing")
MODELS = {
    "default": TreeCRF(max_iter=40),
    "zero": TreeCRF(init="zero", window=1, max_iter=8, early_stopping=False),
    "linear": TreeCRF(init="linear", max_iter=8, early_stopping=False),
    "features": TreeCRF(max_features=0.5, max_iter=8, early_stopping=False),
    "sampled": TreeCRF(sampling=None, max_examples=400, max_iter=8, early_stopping=False),
    "constant": TreeCRF(constant_transitions=True, max_iter=8, early_stopping=False),
    "one tree": TreeCRF(
        multi_strategy="multi_output_tree",
        constant_transitions=True,
        max_iter=8,
        early_stopping=False,
    ),
    "order 2": TreeCRF(order=2, init="zero", max_iter=5, early_stopping=False),
    "memm": TreeMEMM(max_iter=20),
    "sliding": SlidingWindowClassifier(window=1, max_iter=20),
}


def make_data(n_labels: int, seed: int = 0):
    """Make sequences of small whole numbers, in which many tests are equally good."""
    rng = np.random.default_rng(seed)
    X = [rng.integers(-1, 3, (n, N_COLUMNS)).astype(float) for n in rng.integers(4, 30, 24)]
    y = []
    for table in X:
        code = (table[:, 0] + 2 * (table[:, 1] > 0) + np.roll(table[:, 2], 1)).astype(int)
        noise = rng.integers(0, n_labels, len(code)) * (rng.random(len(code)) < 0.3)
        y.append((code + noise) % n_labels)
    return X, y


def in_form(X: list, form: str, order: np.ndarray) -> list:
    """Return tables in a form, with the columns in this order."""
    names = [f"column{j}" for j in range(N_COLUMNS)]
    if form == "missing":
        return [np.where(table == 2, np.nan, table)[:, order] for table in X]
    if form == "numbers":
        return [table[:, order] for table in X]
    if form == "frames":
        frames = [pd.DataFrame(table, columns=names) for table in X]
        for frame in frames:
            frame["column1"] = frame["column1"].map({-1: "m", 0: "o", 1: "p", 2: "q"})
        return [frame[[names[j] for j in order]] for frame in frames]
    # The keys of dicts are sorted, so that other names are another order.
    return [
        [{f"{place}": row[j] for place, j in enumerate(order)} for row in table.tolist()]
        for table in X
    ]


def fitted(model, X, y):
    return clone(model).set_params(random_state=0).fit(X, y)


def assert_equal_models(ours, theirs, found, expected, tolerance=1e-9):
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_columns_does_not_matter(name, form):
    X, y = make_data(3)
    order = np.array([3, 0, 4, 2, 1])
    plain = in_form(X, form, np.arange(N_COLUMNS))
    model = MODELS[name]
    theirs = fitted(model, plain, y)
    expected = theirs.predict_proba(plain)
    other = in_form(X, form, order)
    ours = fitted(model, other, y)
    assert_equal_models(ours, theirs, ours.predict_proba(other), expected)


@pytest.mark.parametrize("n_labels", [2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_the_names_of_labels_do_not_matter(name, n_labels):
    X, y = make_data(n_labels)
    new_names = np.array([f"label {chr(ord('z') - k)}" for k in range(n_labels)])
    model = MODELS[name]
    theirs = fitted(model, X, y)
    expected = theirs.predict_proba(X)
    ours = fitted(model, X, [new_names[labels] for labels in y])
    order = np.searchsorted(ours.classes_, new_names)
    found = [proba[:, order] for proba in ours.predict_proba(X)]
    assert_equal_models(ours, theirs, found, expected)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_sequences_does_not_matter(name):
    X, y = make_data(3)
    order = np.random.default_rng(1).permutation(len(X))
    model = MODELS[name]
    theirs = fitted(model, X, y)
    expected = theirs.predict_proba(X)
    ours = fitted(model, [X[i] for i in order], [y[i] for i in order])
    assert_equal_models(ours, theirs, ours.predict_proba(X), expected, tolerance=0)


def test_symbols_with_other_names_of_labels():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), n)) for n in rng.integers(5, 40, 20)]
    y = [["x" if a in "ab" else "y" for a in text] for text in X]
    mirrored = [["y" if label == "x" else "x" for label in labels] for labels in y]
    theirs = TreeCRF(window=1, max_iter=20).fit(X, y)
    ours = TreeCRF(window=1, max_iter=20).fit(X, mirrored)
    found = [proba[:, ::-1] for proba in ours.predict_proba(X)]
    assert_equal_models(ours, theirs, found, theirs.predict_proba(X))


def test_many_labels_with_other_names():
    # From nine labels on, samples are drawn in single precision.
    X, y = make_data(11)
    new_names = np.array([f"label {chr(ord('z') - k)}" for k in range(11)])
    model = TreeCRF(max_iter=6, early_stopping=False, max_examples=3000)
    theirs = fitted(model, X, y)
    expected = theirs.predict_proba(X)
    ours = fitted(model, X, [new_names[labels] for labels in y])
    found = [proba[:, ::-1] for proba in ours.predict_proba(X)]
    assert_equal_models(ours, theirs, found, expected, tolerance=1e-4)


def test_duplicate_columns_are_alike():
    X, y = make_data(2)
    doubled = [np.hstack([table, table]) for table in X]
    swapped = [table[:, ::-1] for table in doubled]
    theirs = TreeCRF(max_iter=20, random_state=0).fit(doubled, y)
    ours = TreeCRF(max_iter=20, random_state=0).fit(swapped, y)
    assert_equal_models(ours, theirs, ours.predict_proba(swapped), theirs.predict_proba(doubled))


@pytest.mark.parametrize("factor", [0.25, 1000.0])
def test_units_do_not_matter_to_trees(factor):
    X, y = make_data(2)
    # Folds depend on the numbers.
    model = TreeCRF(init="zero", max_iter=10, early_stopping=False)
    theirs = fitted(model, X, y)
    expected = theirs.predict_proba(X)
    scaled = [factor * table for table in X]
    ours = fitted(model, scaled, y)
    assert_equal_models(ours, theirs, ours.predict_proba(scaled), expected)
