"""Short frames are read at once, long ones column by column, with the same results."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.inputs import small

from treecrf.inputs import frame_columns
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.segmentation import Segmentation

N = 6
COLUMNS = {
    "floats": np.linspace(-1, 1, N),
    "integers": np.arange(N) - 2,
    "small integers": np.arange(N, dtype=np.int8),
    "large integers": np.array([2**63 + 3, 1, 2, 3, 4, 5], dtype=np.uint64),
    "single": np.linspace(0, 1, N).astype(np.float32),
    "booleans": np.arange(N) % 2 == 0,
    "gaps": [1.5, None, 2.5, None, 3.5, 4.5],
    "integers with gaps": [1, None, 2, 3, None, 4],
    "booleans with gaps": [True, None, False, True, None, False],
    "strings": list("abcabc"),
    "strings with gaps": ["a", None, "b", "a", None, "c"],
}
LIBRARIES = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas Arrow": lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}
GROUPS = {
    "numbers": ["floats", "integers", "small integers", "large integers", "single", "gaps"],
    "booleans": ["booleans"],
    "numbers and booleans": ["booleans", "floats", "integers"],
    "missing booleans": ["booleans", "booleans with gaps", "floats"],
    "strings": ["strings", "strings with gaps"],
    "all": list(COLUMNS),
}
of_library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES.keys())
of_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())


@pytest.fixture
def one_by_one(monkeypatch):
    """Read the columns of all frames one by one."""

    def read(*arguments):
        with monkeypatch.context() as patched:
            patched.setattr(frame_columns, "MAX_COPIED", -1)
            return as_sequences(*arguments)

    return read


def assert_equal_sequences(ours, theirs) -> None:
    np.testing.assert_array_equal(ours.rows(0, ours.n_sequences), theirs.rows(0, ours.n_sequences))
    assert ours.kinds.tolist() == theirs.kinds.tolist()
    assert ours.categories.keys() == theirs.categories.keys()
    for j, values in ours.categories.items():
        assert values.tolist() == theirs.categories[j].tolist()
    assert ours.names == theirs.names
    assert ours.offsets.tolist() == theirs.offsets.tolist()


@of_group
@of_library
def test_columns_are_read_alike_at_once_and_one_by_one(make, group, one_by_one):
    frame = make({name: COLUMNS[name] for name in group})
    for X in ([frame], [frame, frame, frame]):
        assert_equal_sequences(as_sequences(X), one_by_one(X))
    cuts = Segmentation([1, 3, 2])
    assert_equal_sequences(as_sequences(frame, None, cuts), one_by_one(frame, None, cuts))
    schema = as_sequences([frame]).schema
    assert_equal_sequences(as_sequences([frame], schema), one_by_one([frame], schema))


@of_library
def test_frames_of_different_types_and_orders_are_joined(make, one_by_one):
    first = make({name: COLUMNS[name] for name in ("floats", "integers", "strings")})
    other = make({name: COLUMNS[name] for name in ("strings", "integers", "floats")})
    third = make(
        {
            "strings": COLUMNS["strings with gaps"],
            "integers": COLUMNS["integers with gaps"],
            "floats": COLUMNS["integers"],
        }
    )
    X = [first, first, other, other, third, first]
    ours = as_sequences(X)
    assert_equal_sequences(ours, one_by_one(X))
    expected = [COLUMNS["integers"]] * 4 + [[1, np.nan, 2, 3, np.nan, 4], COLUMNS["integers"]]
    np.testing.assert_array_equal(ours.rows(0, 6)[:, 1], np.concatenate(expected))


def test_selected_categories_are_read_beside_numbers(one_by_one):
    frame = pd.DataFrame({name: COLUMNS[name] for name in GROUPS["numbers"]})
    selected = as_sequences([frame], None, None, ["small integers"])
    assert selected.categories[2].tolist() == list(range(N))
    assert_equal_sequences(selected, one_by_one([frame], None, None, ["small integers"]))


@of_library
def test_values_that_are_not_allowed_are_named(make):
    y = [[0, 1]]
    frame = make({"a": [1.0, 2.0], "b": [1.0, float("inf")], "c": [True, False]})
    with pytest.raises(ValueError, match="sequence 0, position 1, column 'b': inf is infinite"):
        small().fit([frame], y)
    model = small().fit([make({"a": [1.0, 2.0], "c": [True, False]})], y)
    with pytest.raises(TypeError, match=r"position 1, column 'c': 2(.0)? is neither 0 nor 1"):
        model.predict([make({"a": [1.0, 2.0], "c": [1, 2]})])
    with pytest.raises(TypeError, match="column 'a': 'x' is a string"):
        model.predict([make({"a": ["x", "y"], "c": [True, False]})])


@of_library
def test_wide_frames_are_as_arrays(make):
    table = np.random.default_rng(0).normal(size=(8, 300))
    y = [[0, 1] * 4] * 2
    names = [f"column {j}" for j in range(table.shape[1])]
    frames = [make(dict(zip(names, part.T, strict=True))) for part in (table, -table)]
    of_frames, of_arrays = small().fit(frames, y), small().fit([table, -table], y)
    for rows in (frames, frames[:1]):
        arrays = [table, -table][: len(rows)]
        for method in ("predict", "predict_proba"):
            ours = getattr(of_frames, method)(rows)
            np.testing.assert_array_equal(ours, getattr(of_arrays, method)(arrays))
