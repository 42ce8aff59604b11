"""Groups of long tables: several columns, levels of the index of pandas, and panels."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.inputs import small

import treecrf
from treecrf.inspection import explain

N = 10


def recorded() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"device": np.repeat(["a", "b"], 2 * N), "v": rng.normal(size=4 * N)})
    frame["day"] = np.tile(np.repeat([1, 2], N), 2)
    frame["y"] = np.where(frame.v + np.roll(frame.v, 1) > 0, "p", "n")
    return frame


def fitted(frame, y="y", **options):
    return small(window=1).fit(frame, y, **options)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    frame = recorded()
    model = fitted(frame[["v"]], frame.y, lengths=[N] * 4)
    return model.predict_proba(frame[["v"]], lengths=[N] * 4)


FORMS = {
    "columns": (lambda f: f, ["device", "day"]),
    "a tuple": (lambda f: f, ("day", "device")),
    "polars": (pl.from_pandas, ["device", "day"]),
    "pyarrow": (pa.Table.from_pandas, ["device", "day"]),
    "a column and a level": (lambda f: f.set_index("device"), ["device", "day"]),
    "a level": (
        lambda f: f.set_index(f.device + f.day.astype(str)).rename_axis("g")[["v", "y"]],
        "g",
    ),
    "panel": (lambda f: f.assign(time=f.index).set_index(["device", "day", "time"]), None),
    "unnamed panel": (
        lambda f: (
            f.assign(time=f.index).set_index(["device", "day", "time"]).rename_axis([None] * 3)
        ),
        None,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_models_are_those_of_lengths(form, expected, tmp_path):
    convert, groups = FORMS[form]
    frame = convert(recorded())
    model = fitted(frame, groups=groups)
    assert model.feature_names_in_.tolist() == ["v"]
    model.save(tmp_path / "model")
    for one in (model, treecrf.load(tmp_path / "model")):
        np.testing.assert_array_equal(one.predict_proba(frame), expected)
        if groups is not None:
            np.testing.assert_array_equal(one.predict_proba(frame, groups=groups), expected)
    labels = model.classes_[expected.argmax(axis=1)]
    assert model.score(frame, "y") == (labels == recorded().y).mean()
    X, y = treecrf.split(recorded(), "y", groups=["device", "day"])
    assert [list(x.columns) for x in X] == [["v"]] * 4 and [len(part) for part in y] == [N] * 4


def test_one_group_at_a_time_and_explanations(expected):
    frame = recorded()
    model = fitted(frame, groups=["device", "day"])
    for first in range(0, 4 * N, N):
        group = frame.iloc[first : first + N]
        np.testing.assert_array_equal(model.predict_proba(group), expected[first : first + N])
    assert str(explain(model, frame, N)) == str(explain(model, frame[["v"]], N, lengths=[N] * 4))


def test_validation_sets_and_scratch_files_have_the_same_groups(expected, tmp_path):
    frame = recorded()
    model = fitted(frame, groups=["device", "day"], X_val=frame, y_val="y", eval_set=[(frame, "y")])
    np.testing.assert_array_equal(model.predict_proba(frame), expected)
    model = fitted(frame, groups=["device", "day"], scratch=tmp_path)
    np.testing.assert_array_equal(model.predict_proba(frame), expected)


@pytest.mark.parametrize(
    "groups, message",
    [
        (["device", "dya"], "groups=['device', 'dya']: 'dya' is neither a column of X nor a level"),
        (["device", "y"], "y and groups both name the column 'y'"),
        (["device", "gap"], "groups is missing (NaN) at position 3"),
    ],
)
def test_errors(groups, message):
    frame = recorded().assign(gap=[0.0] * 3 + [np.nan] * (4 * N - 3))
    with pytest.raises(ValueError, match=re.escape(message)):
        fitted(frame, groups=groups)


def test_groups_of_rows_may_be_called_as_columns():
    frame = recorded().iloc[:3]
    model = fitted(frame, ["p", "n", "p"], groups=["v", "day", "day"])
    assert {"v", "day"} <= set(model.feature_names_in_)


def test_groups_must_be_contiguous():
    frame = recorded()
    with pytest.raises(ValueError, match=re.escape("group ('a', 1) is at positions 0 to 9 and")):
        fitted(pd.concat([frame, frame.iloc[:2]]), groups=["device", "day"])
