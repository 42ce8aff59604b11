"""Inputs of new users: forms that are accepted, and errors that say what to do."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest
from support.family import assert_equal_arrays

import treecrf
from treecrf import HMMClassifier, LinearCRF, SlidingWindowClassifier, TreeCRF
from treecrf.chains.contexts import require_memory
from treecrf.learners.base.fitted import fitted_model

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
every_library = pytest.mark.parametrize("library", LIBRARIES)


def small(**parameters) -> TreeCRF:
    settings = {"max_iter": 4, "l2_regularization": 1.0, "early_stopping": False, "init": "zero"}
    return TreeCRF(**settings | parameters)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    heat, light = rng.normal(size=(2, 30))
    return pd.DataFrame({
        "heat": heat, "light": light, "day": np.repeat([1, 2, 3], 10),
        "state": np.where(heat + light > 0, "on", "off"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def days(frame) -> list:
    return [frame[frame.day == day][["heat", "light"]] for day in (1, 2, 3)]


@pytest.fixture(scope="module")
def labels(frame) -> list:
    return np.split(frame.state.to_numpy(), 3)


@pytest.fixture(scope="module")
def expected(days, labels) -> TreeCRF:
    return small().fit(days, labels)


def assert_same(model, expected, days) -> None:
    assert model.feature_names_in_.tolist() == ["heat", "light"]
    for one, other in zip(model.predict_proba(days), expected.predict_proba(days), strict=True):
        assert np.array_equal(one, other)


# Labels in a column


@every_library
def test_labels_may_be_a_column_of_a_long_table(library, frame, days, expected):
    table = LIBRARIES[library](frame.to_dict("list"))
    model = small().fit(table, "state", table, "state", groups="day", groups_val="day")
    assert_same(model, expected, days)
    assert len(model.validation_score_) == 5
    arguments = frame.drop(columns="state"), frame.state
    for method in ("score", "predict_log_likelihood"):
        by_name = getattr(model, method)(table, "state", groups="day")
        assert np.array_equal(by_name, getattr(model, method)(*arguments, groups="day"))


@every_library
def test_labels_may_be_a_column_of_each_sequence(library, frame, days, expected):
    parts = [frame[frame.day == day].drop(columns="day").to_dict("list") for day in (1, 2, 3)]
    frames = [LIBRARIES[library](part) for part in parts]
    assert_same(small().fit(frames, "state"), expected, days)


def test_evaluation_sets_may_have_a_column_of_labels(frame):
    model = small().fit(frame, "state", groups="day", eval_set=[(frame, "state")])
    assert len(model.validation_score_) == 5


@every_library
def test_a_string_that_is_no_name_may_have_a_label_for_each_row(library):
    table = LIBRARIES[library]({"a": [1.0, 2.0, 3.0, 4.0], "name": [0, 1, 1, 0]})
    assert small().fit(table, "xyxy", lengths=[2, 2]).classes_.tolist() == ["x", "y"]
    assert small().fit(table, "name", lengths=[2, 2]).classes_.tolist() == [0, 1]


def test_a_column_of_labels_that_does_not_exist_is_refused(frame, days):
    names = "expected one of 'heat', 'light', 'day', 'state'; did you mean 'state'?"
    with pytest.raises(ValueError, match=re.escape(f"'stat' is not a column of X; {names}")):
        small().fit(frame, "stat", groups="day")
    with pytest.raises(ValueError, match="'state' is not a column of sequence 0; expected one of"):
        small().fit(days, "state")
    with pytest.raises(TypeError, match="y is a string; expected a list of label sequences"):
        small().fit([[[1.0]], [[2.0]]], "xy")
    with pytest.raises(TypeError, match="y is a string; expected a list of label sequences"):
        HMMClassifier().fit(["ab"], "xy")


# Groups of pandas and polars


def test_groups_of_pandas_are_sequences(frame, days, labels, expected):
    X = frame.drop(columns="state")
    for keys in ("day", ["day"], frame.day, lambda t: frame.day[t]):
        grouped = X.groupby(keys)
        if callable(keys) and not isinstance(keys, pd.Series):
            grouped = X.drop(columns="day").groupby(keys)
        assert_same(small().fit(grouped, labels), expected, days)
    assert_same(small().fit(X.groupby("day"), frame.groupby("day").state), expected, days)
    assert_same(small().fit(frame.groupby("day"), "state"), expected, days)
    predicted = expected.predict(X.groupby("day"))
    named = small().fit(frame, "state", groups="day")
    for one, other in zip(named.predict(frame.groupby("day")), predicted, strict=True):
        assert np.array_equal(one, other)
    assert [part.tolist() for part in predicted] == [p.tolist() for p in expected.predict(days)]
    assert expected.score(X.groupby("day"), frame.groupby("day").state) == expected.score(
        days, labels
    )


def test_groups_of_polars_are_refused(frame):
    with pytest.raises(TypeError, match="X is a polars GroupBy, whose groups have no fixed order"):
        small().fit(pl.DataFrame(frame.to_dict("list")).group_by("day"), "state")


def test_lazy_frames_of_polars_are_refused(frame):
    lazy = pl.DataFrame(frame.to_dict("list")).lazy()
    for X, y in ((lazy, "state"), ([lazy], [frame.state])):
        with pytest.raises(TypeError, match=r"LazyFrame has no rows yet; pass frame.collect\(\)"):
            small().fit(X, y, groups="day" if X is lazy else None)


# Lists of attributes

ATTRIBUTES = [[["w=a", "t=b"], ["w=c"]], [["w=c"], [], ("w=a",), {"w=a", "t=b"}]]
DICTS = [[dict.fromkeys(row, True) for row in rows] for rows in ATTRIBUTES]
Y = ["xy", "yxxx"]


@pytest.mark.parametrize("model", [small(), LinearCRF(), SlidingWindowClassifier(max_iter=3)])
def test_lists_of_attributes_are_like_dicts(model):
    expected = model.fit(DICTS, Y).predict_proba(DICTS)
    model.fit(ATTRIBUTES, Y)
    assert model.feature_names_in_.tolist() == ["t=b", "w=a", "w=c"]
    # Also lists that could be rows of a table, and attributes that are new.
    for X in (ATTRIBUTES, [ATTRIBUTES[0], [["w=c"], ["new"], ["w=a"], ["t=b", "w=a"]]]):
        for one, other in zip(model.predict_proba(X), expected, strict=True):
            assert np.array_equal(one, other)
    assert model.predict([[["w=a", "t=b"]]])[0].tolist() == ["x"]


def test_lists_of_attributes_may_be_a_long_list():
    rows = ATTRIBUTES[0] + ATTRIBUTES[1]
    model = small().fit(rows, "".join(Y), lengths=[2, 4])
    assert np.array_equal(
        model.predict_proba(rows, lengths=[2, 4]), np.concatenate(model.predict_proba(DICTS))
    )


def test_lists_of_one_length_are_attributes_in_any_order():
    lists = [[["a", "b"], ["c", "d"], ["a", "d"]], [["c", "b"]]]
    y = ["xyx", "y"]
    model = small().fit(lists, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    shuffled = [[row[::-1] for row in rows] for rows in lists]
    with pytest.warns(UserWarning, match="lists of strings are attributes, whose places do not"):
        other = small().fit([[["b", "a"], *lists[0][1:]], lists[1]], y)
    for again in (other, small().fit([[set(row) for row in rows] for rows in lists], y)):
        for X in (lists, shuffled, [[["a"], ["a", "b", "c"]]]):
            assert_equal_arrays(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_models_of_tables_take_lists_of_strings_as_rows():
    table = [[["a", "b"], ["c", "d"]]]
    model = small().fit([np.array(table[0])], ["xy"])
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match=r"sequence 0 is ragged: .*; expected lists of the same"):
        model.predict(ATTRIBUTES)
    named = small().fit([pd.DataFrame({"p": ["a", "c"], "q": ["b", "d"]})], ["xy"])
    listed = small(categorical_features=[0, 1]).fit(table, ["xy"])
    for other in (named, listed):
        assert_equal_arrays(other.predict_proba(table), model.predict_proba(table))


# Numbers


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_decimals_are_numbers():
    X = [[{"a": Decimal("1.5")}, {"a": Decimal("2.5")}, {"a": 3}, {"a": None}]]
    floats = [[{"a": 1.5}, {"a": 2.5}, {"a": 3}, {"a": None}]]
    model, other = small().fit(X, ["xyxy"]), small().fit(floats, ["xyxy"])
    assert np.array_equal(model.predict_proba(X)[0], other.predict_proba(floats)[0])
    table = [[[Decimal("1.5")], [Decimal("2.5")], [Decimal("3")], [Decimal("NaN")]]]
    assert np.array_equal(model.predict_proba(table)[0], other.predict_proba(floats)[0])


# Errors

SERIES = pd.Series(pd.period_range("2020-01", periods=2, freq="M"))
BAD = {
    "periods": ([pd.DataFrame({"t": SERIES})], "xy", r"type Period; add the parts .*\.dt\.month"),
    "bytes": ([b"ab"], "xy", "sequence 0 is of type bytes; decode it to a string"),
    "arrays of bytes": ([np.array([b"a", b"b"])], "xy", "type |S1; .* or integers; decode them"),
    "a Decimal and a string": (
        [np.array([[Decimal(1)], ["b"]], dtype=object)], "xy", "'b' is a string, but 1.0"),
}  # fmt: skip


@pytest.mark.parametrize(("X", "y", "message"), BAD.values(), ids=BAD)
def test_errors_say_what_to_do(X, y, message):
    with pytest.raises(TypeError, match=message):
        small().fit(X, [y])


def test_names_of_groups_that_do_not_exist_are_refused(frame):
    message = "groups='days' is not a column of X; expected one of 'heat', 'light', 'day'; did you"
    with pytest.raises(ValueError, match=re.escape(message)):
        small().fit(frame[["heat", "light", "day"]], frame.state, groups="days")
    numbered = pd.DataFrame(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="'day' is not a column of X, whose columns have no names"):
        small().fit(numbered, "xyxy", groups="day")


def test_errors_about_other_columns_show_how_to_leave_them_out(frame, expected):
    with pytest.raises(ValueError, match=re.escape("; pass X[[*model.feature_names_in_, 'day']]")):
        expected.predict(frame, groups="day")
    assert fitted_model(expected).predictor.columns.label is None  # fitted to arrays of labels
    with pytest.raises(ValueError, match=re.escape("; pass X[1][[*model.feature_names_in_]]")):
        expected.predict([frame[["heat", "light"]], frame])
    # The mend works.
    expected.predict(frame[[*expected.feature_names_in_, "day"]], groups="day")


@every_library
def test_columns_of_labels_and_groups_may_stay_in_tables_to_predict(library, frame, tmp_path):
    table = LIBRARIES[library](frame.to_dict("list"))
    model = small().fit(table, "state", groups="day")
    expected = model.predict(frame[["heat", "light", "day"]], groups="day")
    model.save(tmp_path / "model")
    for again in (model, treecrf.load(tmp_path / "model")):
        assert np.array_equal(again.predict(table, groups="day"), expected)
        assert np.array_equal(again.predict([table])[0], model.predict(table, lengths=[30]))
    other = LIBRARIES[library](frame.assign(note=1.0).to_dict("list"))
    with pytest.raises(ValueError, match="X has the column 'note', not among the columns"):
        model.predict(other, groups="day")
    # Not if they are features.
    X = frame[["heat", "light", "day"]]
    model = small().fit([X], [frame.state])
    assert model.predict([X])[0].shape == (30,)
    with pytest.raises(ValueError, match="lacks the column 'day'"):
        model.predict([X[["heat", "light"]]])


def test_labels_that_need_too_much_memory():
    with pytest.raises(MemoryError, match=r"set constant_transitions, .* is y a measurement\?"):
        require_memory(1000, 2, 10**7)
    with pytest.raises(MemoryError, match=r"set beam_width .* or fewer sequences$"):
        require_memory(100, 3, 10**8)
