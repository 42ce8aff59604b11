"""Random and invalid input of all forms gives a result or an error with an explanation."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.calls import check_call, dicts, frames, garbage, labels_for, scalars, sequences, text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.settings import FIXED

from treecrf import TreeCRF

pytestmark = [
    pytest.mark.filterwarnings("ignore:nothing in a sequence:UserWarning"),
    pytest.mark.filterwarnings("ignore:X lacks the column:UserWarning"),
    pytest.mark.filterwarnings("ignore:X has .* not among the columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning"),
]

many = settings(suppress_health_check=[HealthCheck.too_slow])
choices = st.one_of(
    st.just("from_dtype"), st.none(), st.lists(st.integers(-3, 3), max_size=2),
    st.lists(st.booleans(), max_size=4), st.lists(text, max_size=2), st.lists(scalars, max_size=2),
)  # fmt: skip


def small(**parameters) -> TreeCRF:
    return TreeCRF(**{"max_iter": 1, "l2_regularization": 1.0, "window": 1} | FIXED | parameters)


def fit_and_predict(X, y, other, **parameters) -> None:
    """Fit, and predict the training data and other data."""
    crf = small(**parameters)
    check_call(lambda: crf.fit(X, y).predict_proba(X))
    if hasattr(crf, "classes_"):
        check_call(lambda: crf.predict_proba(other))


@many
@given(st.data())
def test_dicts_work_or_raise(data):
    X = data.draw(dicts())
    fit_and_predict(X, data.draw(labels_for(X)), data.draw(dicts() | garbage))


@many
@given(st.data())
def test_frames_work_or_raise(data):
    pytest.importorskip("polars")
    X = data.draw(frames())
    fit_and_predict(X, data.draw(labels_for(X)), data.draw(frames() | dicts()))


@many
@given(st.data(), choices)
def test_choices_of_categories_work_or_raise(data, chosen):
    X = data.draw(sequences | dicts())
    fit_and_predict(X, data.draw(labels_for(X)), data.draw(sequences), categorical_features=chosen)


@many
@given(st.data(), st.lists(scalars, max_size=6) | garbage)
def test_groups_of_frames_work_or_raise(data, groups):
    pytest.importorskip("polars")
    frame = data.draw(frames())[0]
    y = ["xy"[t % 2] for t in range(len(frame))]
    names = [name for name in frame.columns if isinstance(name, str)]
    value = groups if data.draw(st.booleans()) or not names else data.draw(st.sampled_from(names))
    check_call(lambda: [small().fit(frame, y, groups=value).predict_proba(frame, groups=value)])
    check_call(lambda: [small().fit(frame, y, lengths=value).predict_proba(frame, lengths=value)])


@many
@given(garbage, garbage, garbage)
def test_long_garbage_works_or_raises(X, y, value):
    check_call(lambda: [small().fit(X, y, lengths=value).predict_proba(X, lengths=value)])
    check_call(lambda: [small().fit(X, y, groups=value).predict_proba(X, groups=value)])


def test_extreme_numbers():
    values = [5e-324, 1.7e308, -1.7e308, 2**62, -0.0, None, True]
    X = [[{"a": value, "b": "x"} for value in values]]
    crf = small(max_iter=20).fit(X, ["xyxyxyx"])
    assert np.isfinite(crf.predict_proba(X)[0]).all()
