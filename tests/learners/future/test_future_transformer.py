"""Discovered features as input of other models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from support.sweeps import sweep

from treecrf import (
    FutureFeatureMEMM,
    FutureFeatures,
    RecurrentSlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)
from treecrf.datasets import make_future_bags
from treecrf.learners.base.fitted import fitted_model


def discovery(**parameters) -> FutureFeatures:
    model = FutureFeatureMEMM(
        order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    )
    return FutureFeatures(model, **parameters)


@pytest.fixture(scope="module")
def bags():
    return make_future_bags("or", n_sequences=150, random_state=0)


@pytest.fixture(scope="module")
def fitted(bags):
    return discovery().fit(*bags)


def test_the_features_are_those_of_the_model(bags, fitted):
    X, _ = bags
    encoder = fitted.estimator_._encoder
    codes = encoder.encode(fitted_model(fitted.estimator_).predictor.read(X[:5])[0])
    tables = fitted.transform(X[:5])
    assert [table.shape for table in tables] == [(30, len(fitted.future_features_))] * 5
    bins = codes.codes[codes.row_of_position, -1]
    found = np.concatenate(tables)[:, -1]
    np.testing.assert_array_equal(np.clip(np.ceil(found * 20) - 1, 0, 19), bins)
    for one, x in zip(tables, X[:5], strict=True):
        np.testing.assert_array_equal(fitted.transform([x])[0], one)


LOOKING_AHEAD = [
    RecurrentSlidingWindowClassifier(max_iter=30, decoding="beam", beam_width=3),
    TreeCRF(max_iter=30),
    TreeMEMM(order=0, max_iter=30),
]


@pytest.mark.parametrize("model", sweep(LOOKING_AHEAD, 1))
def test_other_models_can_look_ahead(model, bags):
    X, y = bags
    ahead = make_pipeline(discovery(append=True), clone(model)).fit(X[:100], y[:100])
    score = np.mean(np.concatenate(ahead.predict(X[100:])) == np.concatenate(y[100:]))
    assert score > 0.99
    assert model.fit(X[:100], y[:100]).score(X[100:], y[100:]) < 0.85


def forms(table):
    """One sequence of numbers in every form that has columns."""
    pd, pl = (pytest.importorskip(name) for name in ("pandas", "polars"))
    names = [f"x{j}" for j in range(table.shape[1])]
    return {
        "array": table.astype(float),
        "booleans": table,
        "matrix": sparse.csr_array(table.astype(float)),
        "pandas": pd.DataFrame(table, columns=names, index=np.arange(len(table)) + 7),
        "polars": pl.DataFrame(table, schema=names),
        "dicts": [dict(zip(names, row, strict=True)) for row in table.tolist()],
    }


@pytest.mark.parametrize("form", ["array", "booleans", "matrix", "pandas", "polars", "dicts"])
def test_features_are_appended_to_every_form(form, bags):
    X, y = bags
    given = [forms(x)[form] for x in X[:15]]
    memm = FutureFeatureMEMM(
        order=0, bag_size=2, max_iter=3, max_future_features=1, early_stopping=False,
        instance_max_iter=2, l2_regularization=1.0, instance_l2_regularization=1.0,
    )  # fmt: skip
    model = FutureFeatures(memm, append=True).fit(given, y[:15])
    (whole, *_), (alone, *_) = (
        model.transform(given),
        model.set_params(append=False).transform(given),
    )
    model.set_params(append=True)
    names = [f"x{j}" for j in range(8)] + [f"future{k}" for k in range(alone.shape[1])]
    assert model.get_feature_names_out().tolist() == names
    assert alone.shape[1] > 0
    if form == "dicts":
        assert [list(row) for row in whole] == [names] * 30
        whole = np.array([list(row.values()) for row in whole])
    elif form in ("pandas", "polars"):
        assert list(whole.columns) == names
        whole = whole.to_numpy()
    elif form == "matrix":
        whole = whole.toarray()
    expected = np.hstack([X[0].astype(float), alone])
    np.testing.assert_array_equal(np.asarray(whole, dtype=float), expected)
    TreeMEMM(max_iter=2).fit(model.transform(given), y[:15])


@pytest.mark.parametrize("kind", [str, np.array])
def test_symbols_become_a_column(kind):
    words, labels = ["abab", "ba"] * 5, ["xyxy", "yx"] * 5
    given = [kind(word if kind is str else list(word)) for word in words]
    model = FutureFeatures(
        FutureFeatureMEMM(
            order=0, bag_size=1, max_iter=2, max_future_features=1, early_stopping=False
        ),
        append=True,
    ).fit(given, labels)
    tables = model.transform(given)
    assert [row[0] for row in tables[0]] == list("abab")
    assert (
        TreeMEMM(max_iter=5, l2_regularization=1.0).fit(tables, labels).score(tables, labels) == 1
    )


def test_long_tables(bags, fitted):
    X, _ = bags
    lengths = [len(x) for x in X[:4]]
    found = fitted.transform(np.concatenate(X[:4]), lengths=lengths)
    np.testing.assert_array_equal(found, np.concatenate(fitted.transform(X[:4])))


def test_invalid_arguments_are_refused(bags, fitted):
    X, y = bags
    with pytest.raises(NotFittedError):
        FutureFeatures().transform(X)
    with pytest.raises(TypeError, match="estimator is a TreeMEMM; expected a FutureFeatureMEMM"):
        FutureFeatures(TreeMEMM()).fit(X, y)
    with pytest.raises(ValueError, match="has 3 features, the model was trained with 8"):
        fitted.transform([X[0][:, :3]])
