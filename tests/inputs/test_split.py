"""`treecrf.split`: a long table as a list of sequences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import treecrf
from treecrf import TreeCRF

LENGTHS = [3, 1, 4]
GROUPS = np.repeat(["a", "b", "c"], LENGTHS)
TABLE = np.arange(16.0).reshape(8, 2)
LABELS = np.array(list("xyxxyyxy"))


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        sparse.csr_array(TABLE),
        sparse.coo_array(TABLE),
        TABLE.tolist(),
        [{"a": a, "b": b} for a, b in TABLE],
        "abcdefgh",
        np.arange(8),
        list("abcdefgh"),
    ],
)
@pytest.mark.parametrize("cuts", [{"lengths": LENGTHS}, {"groups": GROUPS}])
def test_models_of_the_list_are_those_of_the_long_table(table, cuts):
    X, y = treecrf.split(table, LABELS, **cuts)
    assert [len(labels) for labels in y] == LENGTHS
    assert [x.shape[0] if hasattr(x, "shape") else len(x) for x in X] == LENGTHS
    crf = TreeCRF(max_iter=3, second_order=True)
    listed, long = crf.fit(X, y).predict_proba(X), crf.fit(table, LABELS, **cuts)
    np.testing.assert_array_equal(np.concatenate(listed), long.predict_proba(table, **cuts))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_remain_frames_without_the_column_of_groups(library):
    module = pytest.importorskip(library)
    columns = {"day": list(GROUPS), "light": list(range(8)), "kind": list("uvuvuvuv")}
    make = module.table if library == "pyarrow" else module.DataFrame
    frame = make(columns)
    X, y = treecrf.split(frame, frame["day"], groups="day")
    assert all(type(x) is type(frame) for x in X)
    names = [getattr(x, "column_names", None) or list(x.columns) for x in X]
    assert names == [["light", "kind"]] * 3
    assert [x.shape[0] for x in X] == LENGTHS
    assert [list(map(str, labels)) for labels in y] == [["a"] * 3, ["b"], ["c"] * 4]
    X, y = treecrf.split(frame, "kind", groups="day")
    assert X[0].shape == (3, 1)
    assert [list(map(str, labels)) for labels in y] == [list("uvu"), ["v"], list("uvuv")]
    again, none = treecrf.split(frame, lengths=LENGTHS)
    assert none is None
    assert again[0].shape == (3, 3)


def test_rows_keep_their_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": TABLE[:, 0]}, index=range(100, 108))
    X, _ = treecrf.split(frame, groups=GROUPS)
    assert X[2].index.tolist() == [104, 105, 106, 107]


@pytest.mark.parametrize(
    ("arguments", "cuts", "error", "message"),
    [
        ((TABLE,), {}, TypeError, "neither lengths nor groups is given; expected one of them"),
        ((TABLE,), {"groups": "day"}, ValueError, "groups='day' names a column, but X is not a"),
        ((TABLE,), {"groups": GROUPS[::-1][[0, 7, 1, 2, 3, 4, 5, 6]]}, ValueError, "contiguous"),
        ((TABLE, LABELS[:7]), {"lengths": LENGTHS}, ValueError, "X has 8 positions, y has 7"),
        (({"a": [1]},), {"lengths": [1]}, TypeError, "X is of type dict; expected one long table"),
    ],
)
def test_invalid_arguments(arguments, cuts, error, message):
    with pytest.raises(error, match=message):
        treecrf.split(*arguments, **cuts)


def test_columns_that_do_not_exist():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(
        ValueError, match="groups='dya' is not a column of X; expected one of 'day'; did"
    ):
        treecrf.split(pandas.DataFrame({"day": GROUPS}), groups="dya")
