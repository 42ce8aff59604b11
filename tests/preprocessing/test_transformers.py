"""Forms of sequences, names, parameters, and use with scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

import treecrf
from treecrf import LinearCRF, TreeCRF
from treecrf.preprocessing import RollingFeatures, SequenceScaler

ROLLING = RollingFeatures([3, 4], ["difference", "std", "since_change"])
TRANSFORMERS = [
    ROLLING,
    RollingFeatures(5, "slope", centered=False, keep=False),
    SequenceScaler(),
    SequenceScaler(running=True, keep=True),
]


def frame(n: int = 30, seed: int = 0) -> pd.DataFrame:
    """Make a long table of three days."""
    rng = np.random.default_rng(seed)
    heat = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    return pd.DataFrame({
        "day": np.repeat(["mon", "tue", "wed"], [n // 2, n // 3, n - n // 2 - n // 3]),
        "heat": heat, "open": rng.random(n) < 0.5, "room": rng.choice(["attic", "bath"], n),
        "state": rng.choice(["on", "off"], n),
    })  # fmt: skip


FRAME = frame()
DAYS = [part.drop(columns=["day", "state"]) for _, part in FRAME.groupby("day", sort=False)]


# Forms


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_lists_and_long_tables_agree(transformer):
    listed = pd.concat(transformer.fit_transform(DAYS))
    table = clone(transformer).fit(FRAME, "state", groups="day")
    for given in ({}, {"groups": "day"}, {"lengths": [15, 10, 5]}):
        long = table.transform(FRAME, **given)
        pd.testing.assert_frame_equal(long.drop(columns=["day", "state"]), listed)
    without = table.transform(FRAME.drop(columns="state"))
    pd.testing.assert_frame_equal(without.drop(columns="day"), listed)
    assert list(listed.columns) == transformer.get_feature_names_out().tolist()


@pytest.mark.parametrize("transformer", TRANSFORMERS)
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_all_libraries_agree(transformer, library):
    make = {
        "polars": pl.from_pandas,
        "pyarrow": lambda x: pa.Table.from_pandas(x, preserve_index=False),
    }[library]
    expected = transformer.fit_transform(DAYS)
    found = clone(transformer).fit_transform([make(day) for day in DAYS])
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(make(DAYS[0]))
        as_pandas = one.to_pandas()
        for name in other.columns:
            assert list(as_pandas[name].astype(str)) == list(other[name].astype(str))


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_arrays_frames_and_sparse_matrices_agree(transformer):
    numbers = [day[["heat", "open"]].astype(float) for day in DAYS]
    expected = transformer.fit_transform(numbers)
    arrays = [day.to_numpy() for day in numbers]
    found = clone(transformer).fit_transform(arrays)
    of_matrices = clone(transformer).fit_transform([sparse.csr_array(x) for x in arrays])
    long = clone(transformer).fit_transform(np.concatenate(arrays), lengths=[15, 10, 5])
    np.testing.assert_array_equal(long, np.concatenate(found))
    for one, other, matrix in zip(found, expected, of_matrices, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(matrix.toarray(), other)
    names = clone(transformer).fit(arrays).get_feature_names_out(["heat", "open"])
    assert names.tolist() == list(expected[0].columns)


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_rows_with_strings_and_dicts_agree_with_frames(transformer):
    expected = transformer.fit_transform(DAYS)
    rows = [day.to_dict("records") for day in DAYS]
    for found in (transformer.transform(rows), clone(transformer).fit_transform(rows)):
        for one, other in zip(found, expected, strict=True):
            table = pd.DataFrame(one)[list(other.columns)]
            pd.testing.assert_frame_equal(table, other.reset_index(drop=True), check_dtype=False)
    mixed = clone(transformer).fit_transform([day.values.tolist() for day in DAYS])
    assert mixed[0].dtype == object
    assert (
        mixed[0].astype(str).tolist() == expected[0].astype(object).to_numpy().astype(str).tolist()
    )


def test_columns_with_numbers_as_names_get_names():
    days = [day[["heat", "open"]].set_axis([0, 1], axis=1) for day in DAYS]
    rolling = RollingFeatures(3, "mean")
    table = rolling.fit_transform(days)[0]
    assert list(table.columns) == ["x0", "x1", "x0_mean_3", "x1_mean_3"]
    assert list(table.columns) == rolling.get_feature_names_out().tolist()


def test_the_index_remains():
    days = [day.set_index(np.full(len(day), 7)) for day in DAYS]
    table = ROLLING.fit_transform(days)[1]
    assert (table.index == 7).all()


def test_columns_in_another_order():
    rolling = clone(ROLLING).fit(DAYS)
    turned = rolling.transform([day[["room", "open", "heat"]] for day in DAYS])
    for one, other in zip(turned, rolling.transform(DAYS), strict=True):
        pd.testing.assert_frame_equal(one[other.columns], other)


def test_empty_sequences():
    rolling = clone(ROLLING).fit(DAYS)
    found = rolling.transform([DAYS[0][:0], DAYS[1], []])
    assert found[0].shape == (0, 13)
    assert list(found[0].columns) == rolling.get_feature_names_out().tolist()
    assert found[2] == []
    assert rolling.set_output(transform="polars").transform([[], DAYS[1]])[0] == []
    rolling.set_output(transform="default")
    assert rolling.transform([]) == []
    assert rolling.transform(FRAME[:0], groups="day").shape == (0, 15)


def test_iterators_and_groups_of_pandas():
    rolling = clone(ROLLING)
    expected = rolling.fit_transform(DAYS)
    for given in (iter(DAYS), FRAME.drop(columns="state").groupby("day", sort=False)):
        for one, other in zip(rolling.fit_transform(given), expected, strict=True):
            pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_set_output(transformer, library):
    expected = transformer.fit_transform(DAYS)
    chosen = clone(clone(transformer).set_output(transform=library))
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    rows = [day.to_dict("records") for day in DAYS]
    for X in (DAYS, rows, [pl.from_pandas(day) for day in DAYS]):
        found = chosen.fit_transform(X)
        assert all(isinstance(table, kind) for table in found)
        assert {*found[0].columns} == {*expected[0].columns}
    arrays = [day[["heat", "open"]].to_numpy(float) for day in DAYS]
    found = chosen.fit_transform(arrays)[0]
    assert isinstance(found, kind)
    assert list(found.columns) == chosen.get_feature_names_out().tolist()
    with sklearn.config_context(transform_output=library):
        assert isinstance(clone(transformer).fit_transform(arrays)[0], kind)
    with pytest.raises(ValueError, match="transform='numpy'; expected 'default', 'pandas'"):
        chosen.set_output(transform="numpy")


# Columns


def test_columns_are_chosen_by_name_and_index():
    by_name = RollingFeatures(3, "mean", columns=["open"]).fit(DAYS)
    by_index = RollingFeatures(3, "mean", columns=[-2]).fit(DAYS)
    names = ["heat", "open", "room", "open_mean_3"]
    assert by_name.get_feature_names_out().tolist() == names
    assert by_index.get_feature_names_out().tolist() == names
    assert by_name.n_features_in_ == 3
    assert by_name.feature_names_in_.tolist() == ["heat", "open", "room"]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"columns": ["heart"]}, ValueError, "no column 'heart'; .* did you mean 'heat'"),
        ({"columns": ["room"]}, ValueError, "column 'room' holds categories; expected columns of"),
        ({"columns": [3]}, ValueError, "no column has index 3; X has 3 columns"),
        ({"columns": [True]}, TypeError, "columns holds True; expected names or indices"),
        ({"columns": []}, ValueError, "no columns of numbers or booleans"),
        ({"windows": 1}, ValueError, "windows=1; expected integers, at least 2"),
        ({"windows": [5, 2.5]}, TypeError, r"windows=\[5, 2.5\]; expected integers"),
        ({"windows": []}, ValueError, r"windows=\[\]; expected at least one of each"),
        ({"statistics": []}, ValueError, r"statistics=\[\] and .* expected at least one of each"),
        ({"statistics": ["median"]}, ValueError, "statistics has 'median'; expected some of 'diff"),
        ({"statistics": "median"}, ValueError, "'statistics' parameter"),
        ({"centered": 3}, ValueError, "'centered' parameter"),
    ],
)
def test_invalid_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        RollingFeatures(**parameters).fit(DAYS)


def test_invalid_sequences():
    rolling = clone(ROLLING)
    with pytest.raises(NotFittedError):
        rolling.transform(DAYS)
    with pytest.raises(TypeError, match="X holds symbols; RollingFeatures expects sequences of nu"):
        rolling.fit(["abba", "ba"])
    with pytest.raises(ValueError, match="no columns of numbers"):
        rolling.fit([day[["room"]] for day in DAYS])
    with pytest.raises(ValueError, match="new column 'heat_std_3' has the name of a column of X"):
        rolling.fit([day.assign(heat_std_3=1) for day in DAYS])
    rolling.fit(DAYS)
    for invalid in ([day[["room"]] for day in DAYS], [day.assign(heat_std_3=1) for day in DAYS]):
        with pytest.raises(ValueError, match="column"):
            rolling.fit(invalid)
        assert rolling.n_features_in_ == 3
        rolling.transform(DAYS)
    with pytest.raises(ValueError, match="input_features has 2 names; expected 3"):
        clone(ROLLING).fit([day.values.tolist() for day in DAYS]).get_feature_names_out(["a", "b"])
    with pytest.raises(ValueError, match="sequence 1 lacks the column 'heat'"):
        rolling.transform([DAYS[0], DAYS[1].drop(columns="heat")])
    with pytest.raises(TypeError, match="sequence 0, position 0, column 'heat': 'warm' is a strin"):
        rolling.transform([DAYS[0].assign(heat="warm")])
    with pytest.raises(TypeError, match="X is one DataFrame"):
        rolling.transform(DAYS[0])


def test_events_need_no_windows():
    rolling = RollingFeatures([], ["since_true", "since_change"], columns=["open"])
    assert rolling.fit_transform(DAYS)[0].columns[-2:].tolist() == [
        "open_since_true", "open_since_change",
    ]  # fmt: skip


# Standardization


def test_scores_are_those_of_the_sequence():
    rng = np.random.default_rng(0)
    X = [1e9 + rng.normal(size=(n, 3)) for n in (1, 2, 30)]
    X[2][rng.random((30, 3)) < 0.3] = np.nan
    X[2][:, 1] = 0.1
    for x, z in zip(X, SequenceScaler().fit_transform(X), strict=True):
        shifted = x - np.nanmin(x, axis=0)
        deviation = np.nanstd(shifted, axis=0)
        expected = (shifted - np.nanmean(shifted, axis=0)) / np.where(deviation, deviation, 1)
        np.testing.assert_allclose(z, expected, atol=1e-12)
    assert (SequenceScaler().fit_transform(X)[2][:, 1] == 0).all()


def test_running_scores_are_those_of_all_positions_so_far():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x[rng.random((50, 2)) < 0.3] = np.nan
    running = SequenceScaler(running=True).fit_transform([x])[0]
    for t in range(50):
        whole = SequenceScaler().fit_transform([x[: t + 1]])[0]
        np.testing.assert_array_equal(running[t], whole[t])


def test_missing_columns_stay_missing():
    assert np.isnan(SequenceScaler().fit_transform([np.full((4, 1), np.nan)])[0]).all()


# scikit-learn


def weeks(n: int = 12) -> tuple[list, list]:
    """Make sequences of different levels, whose labels are deviations from them."""
    rng = np.random.default_rng(0)
    y = [np.where(np.cumsum(rng.random(60) < 0.1) % 2, "on", "off") for _ in range(n)]
    X = [100 * rng.random() + (labels == "on")[:, None] + rng.normal(0, 0.1, (60, 1))
         for labels in y]  # fmt: skip
    return X, y


def test_pipelines_learn_differences_and_can_be_searched():
    X, y = weeks()
    crf = TreeCRF(max_iter=10, early_stopping=False, init="zero")
    pipe = make_pipeline(RollingFeatures(25, "difference"), crf)
    raw = clone(crf).fit(X[:8], y[:8]).score(X[8:], y[8:])
    assert clone(pipe).fit(X[:8], y[:8]).score(X[8:], y[8:]) > raw + 0.2
    search = GridSearchCV(
        pipe,
        {"rollingfeatures": ["passthrough", SequenceScaler(), pipe[0]], "treecrf__max_iter": [5]},
        cv=GroupKFold(4),
    ).fit(X, y, groups=np.repeat(range(6), 2))
    assert search.best_params_["rollingfeatures"] != "passthrough"
    search.predict(X)


def test_pipelines_of_long_tables():
    pipe = make_pipeline(RollingFeatures(5), TreeCRF(max_iter=3, early_stopping=False))
    fitted = pipe.fit(FRAME, "state", rollingfeatures__groups="day", treecrf__groups="day")
    assert fitted[-1].feature_names_in_.tolist() == fitted[0].get_feature_names_out().tolist()
    expected = fitted.predict(FRAME)
    assert len(expected) == len(FRAME)
    listed = np.concatenate(fitted.predict(DAYS))
    np.testing.assert_array_equal(expected, listed)
    assert fitted[:1].get_feature_names_out().tolist() == fitted[-1].feature_names_in_.tolist()


def test_groups_are_routed():
    table = np.random.default_rng(0).normal(size=(40, 2))
    y = np.repeat(["a", "b", "a", "b"], 10)
    groups = np.repeat([0, 1, 2, 3], 10)
    with sklearn.config_context(enable_metadata_routing=True):
        rolling = RollingFeatures(5).set_fit_request(groups=True).set_transform_request(groups=True)
        crf = LinearCRF().set_fit_request(groups=True).set_predict_request(groups=True)
        pipe = make_pipeline(rolling, crf).fit(table, y, groups=groups)
        routed = pipe.predict(table, groups=groups)
    X, labels = treecrf.split(table, y, groups=groups)
    listed = make_pipeline(RollingFeatures(5), LinearCRF()).fit(X, labels).predict(X)
    np.testing.assert_array_equal(routed, np.concatenate(listed))


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_copies(transformer):
    fitted = clone(transformer).fit(DAYS)
    expected = fitted.transform(DAYS)
    for one, other in zip(
        pickle.loads(pickle.dumps(fitted)).transform(DAYS), expected, strict=True
    ):
        pd.testing.assert_frame_equal(one, other)
    assert clone(fitted).get_params() == fitted.get_params()
    assert transformer._get_doc_link().endswith(
        f"treecrf.preprocessing.{type(transformer).__name__}.html"
    )


def test_parameters_that_are_set_after_fit_are_checked():
    rolling = clone(ROLLING).fit(DAYS).set_params(windows=0)
    with pytest.raises(ValueError, match="windows=0; expected integers, at least 2"):
        rolling.transform(DAYS)
    with pytest.raises(ValueError, match="windows=0; expected integers, at least 2"):
        rolling.stream()


def test_groups_of_several_columns_and_levels_of_the_index():
    table = FRAME.assign(site=np.repeat(["a", "b"], 15))
    expected = clone(ROLLING).fit_transform(
        [part.drop(columns=["site", "day"]) for _, part in parts_of(table)]
    )
    rolling = clone(ROLLING).fit(table, "state", groups=["site", "day"])
    for found in (rolling.transform(table), rolling.transform(table, groups=["site", "day"])):
        for name in ("heat_std_3", "heat_since_change"):
            np.testing.assert_array_equal(found[name], pd.concat(expected)[name])
    indexed = table.drop(columns="state").set_index(["site", "day", table.index])
    found = clone(ROLLING).fit_transform(indexed)
    assert found.index.equals(indexed.index)
    np.testing.assert_array_equal(found["heat_std_3"], pd.concat(expected)["heat_std_3"])


def parts_of(table: pd.DataFrame):
    return table.drop(columns=["state"]).groupby(["site", "day"], sort=False)


def test_labels_may_be_a_column_of_each_sequence():
    days = [part.drop(columns="day") for _, part in FRAME.groupby("day", sort=False)]
    pipe = make_pipeline(clone(ROLLING), TreeCRF(max_iter=3, early_stopping=False))
    pipe.fit(days, "state")
    assert "state" not in pipe[-1].feature_names_in_
    found = pipe.predict(days)
    for one, other in zip(found, pipe.predict(DAYS), strict=True):
        np.testing.assert_array_equal(one, other)
