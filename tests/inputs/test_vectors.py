"""Vectors in dicts: numbers with the names ``key[0]``, ``key[1]``, ..."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treecrf
from treecrf.inputs.dataset import RawData, as_sequences
from treecrf.inputs.large.parts import describe_part, merged, read_part
from treecrf.inputs.segmentation import Segmentation


def sentences(n: int = 12, width: int = 11) -> tuple[list, list]:
    rng = np.random.default_rng(0)
    X = [
        [{"w": str(rng.choice(["a", "b"])), "v": rng.normal(size=width)} for _ in range(9)]
        for _ in range(n)
    ]
    return X, [["np"[int(row["v"][-1] > 0)] for row in x] for x in X]


def flat(X: list) -> list:
    return [
        [{"w": row["w"]} | {f"v[{i}]": value for i, value in enumerate(row["v"])} for row in x]
        for x in X
    ]


def test_models_are_those_of_flat_keys(tmp_path):
    X, y = sentences()
    crf = treecrf.TreeCRF(max_iter=5, early_stopping=False).fit(X, y)
    other = treecrf.TreeCRF(max_iter=5, early_stopping=False).fit(flat(X), y)
    assert crf.feature_names_in_.tolist() == other.feature_names_in_.tolist()
    expected = other.predict_proba(flat(X))
    crf.save(tmp_path / "model")
    lists = [[{**row, "v": row["v"].tolist()} for row in x] for x in X]
    for model in (crf, treecrf.load(tmp_path / "model")):
        for form in (X, lists, flat(X)):
            np.testing.assert_array_equal(np.vstack(model.predict_proba(form)),
                                          np.vstack(expected))  # fmt: skip
            # Short sequences are read in another way.
            np.testing.assert_array_equal(model.predict_proba(form[:1])[0], expected[0])
    long = [row for x in X for row in x]
    assert crf.predict(long, lengths=[9] * 12).tolist() == np.concatenate(crf.predict(X)).tolist()


def test_missing_vectors_and_values_are_nan_and_absent_ones_zero():
    X = [[{"v": (1, 2.5, None)}, {"v": None}, {}, {"v": np.array([0, np.nan, 3])}]]
    table = as_sequences(X).rows(0, 1).toarray()
    nan = np.nan
    expected = [[1, 2.5, nan], [nan] * 3, [0] * 3, [0, nan, 3]]
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"v": [1, 2]}, {"v": [1]}], "position 1, key 'v': a vector of 1 values, but 2 at seq"),
        ([{"v": [1, 2]}, {"v": 3}], "position 1, key 'v': 3 is of type int; expected a vector"),
        ([{"v": [1]}, {"v": ["1"]}], "position 1 has the key 'v', whose value is not a vector"),
        ([{"v": []}, {"v": [1]}], "position 0 has the key 'v', whose value is not a vector of"),
        ([{"v": [[1]]}], "position 0, key 'v': [[1]] is not a vector of numbers"),
        ([{"v": [1, np.inf]}], "position 0, key 'v': inf is infinite"),
        ([{"v": [1], "v[0]": 2}], "some dicts have the key 'v[0]', which is the name of a value"),
    ],
)
def test_errors_name_the_position_and_the_key(rows, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        as_sequences([rows])


def test_vectors_are_no_categories_and_keep_their_width():
    with pytest.raises(ValueError, match="'v' holds vectors, which are numbers"):
        as_sequences([[{"v": [1, 2]}]], categorical_features=["v"])
    schema = as_sequences([[{"v": [1, 2]}]]).schema
    with pytest.raises(ValueError, match="a vector of 3 values, but 2 in training"):
        as_sequences([[{"v": [1, 2, 3]}]], schema)


def test_parts_without_vectors_join_parts_with_vectors():
    parts = [
        RawData([rows], [["a"] * len(rows)], Segmentation(), place=f"partition {i}")
        for i, rows in enumerate(([{"w": 1}, {"v": None}], [{"v": [1, 2]}], [{"v": [3, 4]}]))
    ]
    described = merged([describe_part(part, "from_dtype") for part in parts])
    tables = [read_part(part, described)[0].rows(0, 1).toarray() for part in parts]
    columns = [described.schema.names.index(name) for name in ("v[0]", "v[1]")]
    assert [table[:, columns].tolist() for table in tables[1:]] == [[[1, 2]], [[3, 4]]]
