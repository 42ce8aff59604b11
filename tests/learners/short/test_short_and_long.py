"""The compiled form of short sequences and the code for all others agree, whatever they are given.

What either raises or warns of, the other does as well.
"""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
import zlib
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from support.settings import FIXED
from support.sweeps import pairs
from support.unusual import FORMS, labels, numbers, variant

from treecrf import (
    LinearCRF,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    StructuredPerceptron,
    TreeCRF,
    TreeMEMM,
)
from treecrf.learners.base.fitted import fitted_model

SMALL = FIXED | {"max_iter": 4, "l2_regularization": 1.0, "max_leaf_nodes": 8}
MODELS = {
    "CRF": TreeCRF(init="linear", window=1, **SMALL),
    "linear": LinearCRF(window=1),
    "CRF without a start": TreeCRF(init="zero", window=(2, 0), **SMALL),
    "constant transitions": TreeCRF(
        init="linear", constant_transitions=True, window=1, **SMALL | {"max_leaf_nodes": 5}
    ),
    "constant transitions of order 2": TreeCRF(
        init="zero", constant_transitions=True, order=2, **SMALL
    ),
    "constrained": TreeCRF(init="zero", **SMALL),
    "MEMM": TreeMEMM(window=1, **SMALL),
    "greedy MEMM": TreeMEMM(decoding="greedy", **SMALL),
    "window": SlidingWindowClassifier(window=1, **SMALL),
    "recurrent": RecurrentSlidingWindowClassifier(window=1, **SMALL),
    "not standardized": LinearCRF(standardize=False),
    "perceptron": StructuredPerceptron(window=1, max_iter=3),
}
# The same label never follows itself.
CHANGES = ~np.eye(3, dtype=bool)
FAST = {("linear", "numbers"), ("linear", "words"), ("linear", "dicts")}
N_VARIANTS = 150
RNG = np.random.default_rng(0)
TABLES = [numbers(n, RNG) for n in RNG.integers(1, 12, 40)]


def fitted(name, form):
    categorical = {"categorical_features": ["code"]} if form == "categories of integers" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = [FORMS[form](x) for x in TABLES], [labels(x) for x in TABLES]
        model = clone(MODELS[name]).set_params(**categorical).fit(X, y)
    return model.set_params(transitions=CHANGES) if name == "constrained" else model


def without_short_form(model):
    """Return a copy that reads all sequences like long ones."""
    copied = pickle.loads(pickle.dumps(model))
    fitted_model(copied).predictor.short_model = None
    return copied


def outcome(call, *arguments, **named):
    """Return the result or the error of a call, and all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call(*arguments, **named)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
    if isinstance(found, list):
        found = [item.tolist() for item in found]
    return found, [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("name", "form"),
    pairs(product(MODELS, FORMS), lambda name, form: name == "CRF" or (name, form) in FAST),
)
def test_unusual_input_has_the_outcome_of_long_sequences(name, form):
    model = fitted(name, form)
    long_way = without_short_form(model)
    assert name == "recurrent" or fitted_model(model).predictor.short_model is not None
    rng = np.random.default_rng(zlib.crc32(f"{name} {form}".encode()))
    n_results = 0
    for i in range(N_VARIANTS):
        X = variant(form, rng)
        for method in ("predict", "predict_proba"):
            found = outcome(getattr(model, method), copy.copy(X))
            assert found == outcome(getattr(long_way, method), copy.copy(X)), (i, method, X)
        n_results += isinstance(found[0], list)
    assert N_VARIANTS / 10 < n_results < N_VARIANTS


N_ROWS = 6
DAY = pd.Timestamp("2020-01-01")
GROUPS = {
    "one integer": [7] * N_ROWS,
    "one string": ["a"] * N_ROWS,
    "one date": [DAY.date()] * N_ROWS,
    "one time": pd.Series([DAY] * N_ROWS),
    "one time with a zone": pd.Series([DAY.tz_localize("UTC")] * N_ROWS),
    "one float": [1.5] * N_ROWS,
    "one category": pd.Series(["a"] * N_ROWS, dtype="category"),
    "equal numbers": pd.Series([1, 1.0, True, 1, 1, 1], dtype=object),
    "two": [1, 1, 1, 2, 2, 2],
    "one that returns": [1, 1, 2, 2, 1, 1],
    "None": [None] * N_ROWS,
    "NaN": [np.nan] * N_ROWS,
    "one NaN": pd.Series([np.nan] * N_ROWS, dtype=object),
    "NA": pd.Series([pd.NA] * N_ROWS, dtype=object),
    "Int64": pd.array([None] * N_ROWS, dtype="Int64"),
    "some Int64": pd.array([1, None, 1, 1, 1, 1], dtype="Int64"),
    "string": pd.array([None] * N_ROWS, dtype="string"),
    "some Arrow strings": pd.array(["a", None, "a", "a", "a", "a"], dtype="string[pyarrow]"),
    "Arrow integers": pd.array([None] * N_ROWS, dtype="int64[pyarrow]"),
    "NaT": pd.Series([pd.NaT] * N_ROWS),
    "some NaT": pd.Series([DAY, pd.NaT, DAY, DAY, DAY, DAY]),
    "durations": pd.Series([pd.NaT] * N_ROWS, dtype="timedelta64[ns]"),
    "missing categories": pd.Series([None] * N_ROWS, dtype="category"),
    "missing booleans": pd.array([None] * N_ROWS, dtype="boolean"),
    "lists": pd.Series([[1]] * N_ROWS),
    "arrays": pd.Series([np.zeros(2)] * N_ROWS),
    "masked": pd.Series([np.ma.masked] * N_ROWS, dtype=object),
}
LIBRARIES = {
    "pandas": lambda frame: frame,
    "pandas of Arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "Arrow": pa.Table.from_pandas,
}


@functools.cache
def model_of_groups(name):
    rows = [FORMS["frames"](x).assign(g=i, y=labels(x)) for i, x in enumerate(TABLES)]
    return clone(MODELS[name]).fit(pd.concat(rows, ignore_index=True), "y", groups="g")


@pytest.mark.parametrize(
    ("kind", "library"),
    pairs(product(MODELS, LIBRARIES), lambda kind, library: kind == "CRF" or library == "pandas"),
)
def test_groups_have_the_outcome_of_long_tables(kind, library):
    model = model_of_groups(kind)
    long_way = without_short_form(model)
    table = FORMS["frames"](numbers(N_ROWS, RNG))
    n_compared = 0
    for name, groups in GROUPS.items():
        try:
            frame = LIBRARIES[library](table.assign(g=groups))
        except (ValueError, TypeError, pa.ArrowException, NotImplementedError):
            continue  # what the libraries themselves refuse
        n_compared += 1
        for method in ("predict", "predict_proba"):
            found, warned = outcome(getattr(model, method), frame)
            expected, also = outcome(getattr(long_way, method), frame)
            assert warned == also
            assert type(found) is type(expected), (name, found, expected)
            np.testing.assert_array_equal(found, expected, err_msg=name)
    assert n_compared > len(GROUPS) / 2
    several = LIBRARIES[library](pd.concat([table] * 20, ignore_index=True).assign(g=None))
    assert outcome(model.predict, several)[0].startswith("ValueError: groups is missing (")
    assert outcome(model.predict, several[:64]) == outcome(model.predict, several)
