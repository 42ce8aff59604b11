"""Random and damaged input of all forms ends in a result or in an error that explains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fuzz import check_call, dicts, frames, garbage, labels_for, scalars, sequences, text

from treecrf import TreeCRF

many = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
choices = st.one_of(
    st.just("from_dtype"), st.none(), st.lists(st.integers(-3, 3), max_size=2),
    st.lists(st.booleans(), max_size=4), st.lists(text, max_size=2), st.lists(scalars, max_size=2),
)  # fmt: skip


def small(**parameters) -> TreeCRF:
    return TreeCRF(**{"max_iter": 1, "l2_regularization": 1.0, "window": 1} | parameters)


def fit_and_ask(X, y, other, **parameters) -> None:
    """Fit, and ask for what was given and for something else."""
    crf = small(**parameters)
    check_call(lambda: crf.fit(X, y).predict_proba(X))
    if hasattr(crf, "classes_"):
        check_call(lambda: crf.predict_proba(other))


@many
@given(st.data())
def test_dicts_work_or_are_explained(data):
    X = data.draw(dicts())
    fit_and_ask(X, data.draw(labels_for(X)), data.draw(dicts() | garbage))


@many
@given(st.data())
def test_frames_work_or_are_explained(data):
    pytest.importorskip("polars")
    pytest.importorskip("narwhals")
    X = data.draw(frames())
    fit_and_ask(X, data.draw(labels_for(X)), data.draw(frames() | dicts()))


@many
@given(st.data(), choices)
def test_choices_of_categories_work_or_are_explained(data, chosen):
    X = data.draw(sequences | dicts())
    fit_and_ask(X, data.draw(labels_for(X)), data.draw(sequences), categorical_features=chosen)


@many
@given(st.data(), st.lists(scalars, max_size=6) | garbage)
def test_groups_of_frames_work_or_are_explained(data, groups):
    pytest.importorskip("polars")
    pytest.importorskip("narwhals")
    frame = data.draw(frames())[0]
    y = ["xy"[t % 2] for t in range(len(frame))]
    names = [name for name in frame.columns if isinstance(name, str)]
    told = groups if data.draw(st.booleans()) or not names else data.draw(st.sampled_from(names))
    check_call(lambda: [small().fit(frame, y, groups=told).predict_proba(frame, groups=told)])
    check_call(lambda: [small().fit(frame, y, lengths=told).predict_proba(frame, lengths=told)])


@many
@given(garbage, garbage, garbage)
def test_long_garbage_works_or_is_explained(X, y, told):
    check_call(lambda: [small().fit(X, y, lengths=told).predict_proba(X, lengths=told)])
    check_call(lambda: [small().fit(X, y, groups=told).predict_proba(X, groups=told)])


def test_extremes_of_numbers():
    values = [5e-324, 1.7e308, -1.7e308, 2**62, -0.0, None, True]
    X = [[{"a": value, "b": "x"} for value in values]]
    crf = small(max_iter=20).fit(X, ["xyxyxyx"])
    assert np.isfinite(crf.predict_proba(X)[0]).all()
