"""The kernel that reads dicts, against a reader of one value after another."""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecrf.inputs._dicts import Entries, StringCodes
from treecrf.inputs.columns import ColumnSpecs
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.offsets import position_name
from treecrf.inputs.schema import CATEGORY
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import floats_of_codes

NAN = float("nan")


class Word(str):
    """A string whose hash differs from that of the plain string."""

    __slots__ = ()

    def __hash__(self):
        return hash(("word", str(self)))


class Color(StrEnum):
    RED = "red"
    A = "a"


words = st.one_of(
    st.sampled_from(["", "a", "b", "a" * 15, "a" * 16, "a" * 17, "1", "red"]),
    st.sampled_from(["\xe9", "\xe9" * 8, "\u0394", "\u0394" * 7, "\0", "a\0", "\ud800"]),
    st.text(max_size=3), st.text(st.characters(exclude_categories=()), max_size=20),
)  # fmt: skip
floats = st.one_of(st.floats(), st.floats(width=32), st.sampled_from([0.0, -0.0, 1.0, 0.5, NAN]))
numbers = st.one_of(
    floats, st.integers(-2, 2), st.integers(), st.integers(0, 10**400), floats.map(np.float64),
    st.integers(0, 255).map(np.uint8), st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats(width=16).map(np.float16), st.floats(width=32).map(np.float32),
    floats.map(np.longdouble),
)  # fmt: skip
booleans = st.one_of(st.booleans(), st.booleans().map(np.bool_))
strings = st.one_of(words, words.map(np.str_), words.map(Word), st.sampled_from(Color))
missing = st.sampled_from([None, NAN, np.float64(NAN), np.float32(NAN), np.ma.masked])
others = st.sampled_from([[], b"x", Decimal("1.5"), 1j, np.datetime64("2004-01-01"), {"a": 1}])
KINDS = {
    "word": words, "flag": st.just(True), "count": st.integers(-3, 3), "number": floats,
    "boolean": booleans | missing, "strings": strings | missing, "numbers": numbers | missing,
    "zeros": st.sampled_from([0, 1, 0.0, True, False, None]), "missing": missing,
    "anything": st.one_of(strings, numbers, booleans, missing, others),
}  # fmt: skip
names = st.sampled_from(["b", "a", "c", "long name", "\u0394", Color.A, np.str_("a"), Word("b")])


@st.composite
def rows_of_dicts(draw, min_rows: int = 1) -> list:
    """Rows with a few keys, most of which keep to one kind of value."""
    kinds = draw(st.dictionaries(names, st.sampled_from(list(KINDS)), max_size=5))
    if draw(st.integers(0, 9)) == 0:
        kinds[draw(st.sampled_from([None, 3, 1.5, ("a",)]))] = "word"
    row = st.fixed_dictionaries({}, optional={key: KINDS[kind] for key, kind in kinds.items()})
    rows = draw(st.lists(row, min_size=min_rows, max_size=12))
    kind = draw(st.sampled_from([dict, dict, dict, OrderedDict, MappingProxyType]))
    return [kind(row) if draw(st.booleans()) else row for row in rows]


def read_naively(rows, offsets, schema=None, categorical="from_dtype"):
    """The names, dense table, kinds and categories of rows, one column after another."""
    plain = [[str.__str__(key) if isinstance(key, str) else key for key in row] for row in rows]
    for t, row in enumerate(plain):
        twice = [key for i, key in enumerate(row) if key in row[:i]]
        if twice:
            raise ValueError(f"{position_name(t, offsets)} has two keys {twice[0]!r}")
    keys = {key: None for row in plain for key in row}
    rows = [dict(zip(row, old.values(), strict=True)) for row, old in zip(plain, rows, strict=True)]
    if schema is None:
        invalid = [key for key in keys if not isinstance(key, str)]
        if invalid:
            key = invalid[0]
            where = position_name(next(t for t, row in enumerate(rows) if key in row), offsets)
            kind = type(key).__name__
            raise TypeError(f"{where}: the key {key!r} is of type {kind}; expected strings")
        if not keys:
            raise ValueError("the sequences have 0 features: all dicts are empty")
    columns = tuple(sorted(keys)) if schema is None else schema.names
    table, kinds, categories = np.zeros((len(rows), len(columns))), [], {}
    specs = ColumnSpecs(columns, len(columns), schema, categorical)
    for j, name in enumerate(columns):
        index = {name: 0}
        found = [(t, value) for t, row in enumerate(rows) for key, value in row.items()
                 if key in index]  # fmt: skip
        positions = np.array([t for t, _ in found], dtype=int)
        reader = specs.reader(j, offsets, positions)
        reader.add_objects([value for _, value in found])
        column = reader.finish()
        is_category = column.kind == CATEGORY
        table[positions, j] = floats_of_codes(column.data) if is_category else column.data
        kinds.append(column.kind)
        if is_category:
            categories[j] = column.values
    return columns, table, kinds, categories


def outcome(read):
    """The result, or the type and message of the error."""
    try:
        return read()
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def check(rows, lengths, schema=None, categorical="from_dtype"):
    """Read rows both ways; return the sequences, or None after an error."""
    offsets = np.append(0, np.cumsum(lengths))
    expected = outcome(lambda: read_naively(rows, offsets, schema, categorical))
    X = [rows[i:j] for i, j in pairwise(offsets)]
    found = outcome(lambda: as_sequences(X, schema, categorical_features=categorical))
    long = outcome(lambda: as_sequences(rows, schema, Segmentation(lengths=lengths), categorical))
    if isinstance(expected[0], type):
        assert found == long == expected
        return None
    for sequences in (found, long):
        names, table, kinds, categories = expected
        assert sequences.names == names
        assert sequences.kinds.tolist() == kinds
        np.testing.assert_array_equal(sequences.table.toarray(), table)
        assert (sequences.table.data != 0).all()
        assert sequences.table.has_canonical_format
        assert list(sequences.categories) == list(categories)
        for j, values in categories.items():
            assert sequences.categories[j].dtype == values.dtype
            np.testing.assert_array_equal(sequences.categories[j], values)
    return found


@given(st.data())
def test_dicts_are_read_like_one_value_after_another(data):
    rows = data.draw(rows_of_dicts())
    cut = data.draw(st.integers(1, len(rows)))
    lengths = [cut, len(rows) - cut] if cut < len(rows) else [cut]
    categorical = data.draw(
        st.just("from_dtype") | st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=2)
    )
    sequences = check(rows, lengths, categorical=categorical)
    if sequences is not None:
        schema = sequences.schema
        check(rows, lengths, schema)
        others = data.draw(rows_of_dicts())
        check(others, [len(others)], schema)


def test_many_rows_columns_and_strings():
    rng = np.random.default_rng(0)
    keys = [f"k{i}" for i in range(100)]
    texts = [str(i) * (1 + i % 4) for i in range(3000)] + ["\u0394" * (i % 20) for i in range(40)]
    rows = [
        {keys[k]: texts[rng.integers(len(texts))] if k % 3 else float(rng.integers(3))
         for k in rng.choice(100, rng.integers(0, 80), replace=False)}
        for _ in range(200)
    ]  # fmt: skip
    sequences = check(rows, [50] * 4)
    check([{**row, "new": 1} for row in rows[::-1]] + [{"k1": "unseen"}], [201], sequences.schema)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000])
def test_codes_of_strings(n):
    strings = [chr(i + 1) * (i % 40) + str(i) for i in range(n)]
    assert StringCodes(strings).strings == strings
    rows = [{"a": string} for string in [*strings, *strings[::-1]]]
    entries = Entries([*rows, {"a": "?"}], len(rows) + 1, ["a"], [StringCodes(strings)])
    expected = [*range(1, n + 1), *range(n, 0, -1), 0]
    np.testing.assert_array_equal(entries.values, expected)
    entries = Entries(rows, len(rows))
    np.testing.assert_array_equal(entries.values, expected[:-1])
