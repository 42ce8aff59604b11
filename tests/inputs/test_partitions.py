"""Data in memory in pieces."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from treecrf.inputs.dataset import RawData
from treecrf.inputs.large.tables import n_values, partitioned
from treecrf.inputs.segmentation import Segmentation

LENGTHS = [3, 1, 10, 2, 2]
N = sum(LENGTHS)
FRAME = pd.DataFrame(
    {"doc": np.repeat(list("vwxyz"), LENGTHS), "x": np.arange(N), "tag": ["N", "V"] * (N // 2)},
    index=np.arange(N)[::-1],
)
SCORES = np.arange(2.0 * N).reshape(N, 2)


def long(X, y, **arguments):
    return RawData(X, y, Segmentation(groups="doc"), **arguments)


@pytest.mark.parametrize("n_rows", [1, 4, 100])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
@pytest.mark.parametrize(
    ("y", "weights"),
    [("name", None), ("array", "sequences"), ("list", "positions"), ("series", "positions")],
)
def test_long_data_frames(n_rows, kind, y, weights):
    table, labels = kind(FRAME), FRAME["tag"]
    X = table if y == "name" else kind(FRAME.drop(columns="tag"))
    y = {"name": "tag", "array": labels.to_numpy(), "list": labels.tolist(), "series": labels}[y]
    w = {"sequences": np.arange(5.0), "positions": np.arange(float(N))}.get(weights)
    pieces = partitioned(long(X, y, sample_weight=w, init_score=SCORES), n_rows)
    assert len(pieces) == {1: 5, 4: 3, 100: 1}[n_rows]
    joined = (pd if kind is pd.DataFrame else pl).concat([piece.X for piece in pieces])
    assert joined.equals(X)
    if isinstance(y, str):
        assert {piece.y for piece in pieces} == {"tag"}
    else:
        assert np.concatenate([piece.y for piece in pieces]).tolist() == labels.tolist()
    if w is None:
        assert all(piece.sample_weight is None for piece in pieces)
    else:
        np.testing.assert_array_equal(np.concatenate([p.sample_weight for p in pieces]), w)
    np.testing.assert_array_equal(np.concatenate([p.init_score for p in pieces]), SCORES)
    assert all(piece.segmentation == Segmentation(groups="doc") for piece in pieces)


@pytest.mark.parametrize("n_rows", [1, 4, 100])
def test_lists_of_sequences(n_rows):
    X = [np.full((n, 2), i) for i, n in enumerate(LENGTHS)]
    y = [["N"] * n for n in LENGTHS]
    raw = RawData(X, y, Segmentation(), [np.ones(n) for n in LENGTHS])
    pieces = partitioned(raw, n_rows)
    assert len(pieces) == {1: 5, 4: 3, 100: 1}[n_rows]
    assert (
        pieces[-1].place
        == {1: "part from sequence 4 on", 4: "part from sequence 3 on", 100: ""}[n_rows]
    )
    for name in ("X", "y", "sample_weight"):
        joined = [item for piece in pieces for item in getattr(piece, name)]
        assert all(one is other for one, other in zip(joined, getattr(raw, name), strict=True))


@pytest.mark.parametrize(
    "raw",
    [
        RawData("abab", "xyxy", Segmentation(lengths=[2, 2])),
        RawData(FRAME, ["N"] * 17, Segmentation(groups="doc")),
        RawData(FRAME, "NV" * 9, Segmentation(groups="doc")),
        RawData(FRAME, "tag", Segmentation(groups="dco")),
        RawData(["ab", ""], ["xy", ""], Segmentation()),
        RawData(["ab", 5], ["xy", "x"], Segmentation()),
        RawData([], [], Segmentation()),
        RawData(["ab", "ab"], iter(["xy", "xy"]), Segmentation()),
    ],
)
def test_other_data_are_one_piece(raw):
    (piece,) = partitioned(raw, 1)
    assert piece.X is raw.X
    assert piece.y is raw.y
    assert piece.place == ""


@pytest.mark.parametrize(
    ("X", "expected"),
    [(FRAME, 3), ([FRAME, FRAME], 3), ([np.zeros((2, 7))], 7), (["ab"], 1), ([], 1), ("ab", 1)],
)
def test_numbers_of_values(X, expected):
    assert n_values(RawData(X, None, Segmentation())) == expected
