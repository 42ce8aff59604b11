"""The kernel that reads dicts, against a reader of one value after another."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
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
from treecrf.inputs.values import find_missing, floats_of_codes

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
others = st.sampled_from([b"x", Decimal("1.5"), 1j, np.datetime64("2004-01-01"), {3: 1}])
several = st.recursive(
    st.lists(strings, max_size=3) | st.sets(words, max_size=3) | st.just([]) | st.just({}),
    lambda inner: st.dictionaries(words | st.sampled_from("ab"), inner | words | numbers | booleans,
                                  max_size=3),
    max_leaves=6,
)  # fmt: skip
KINDS = {
    "word": words, "flag": st.just(True), "count": st.integers(-3, 3), "number": floats,
    "boolean": booleans | missing, "strings": strings | missing, "numbers": numbers | missing,
    "zeros": st.sampled_from([0, 1, 0.0, True, False, None]), "missing": missing,
    "several": several, "strings and more": several | strings | booleans,
    "anything": st.one_of(strings, numbers, booleans, missing, several, others),
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


class Member(str):
    """A string of a collection."""


class SumError(ValueError):
    """Values of one attribute do not add up."""


class OtherKeyError(TypeError):
    """A key is not a string."""


def pairs_of(row, prefix: str = "") -> list[tuple]:
    """The names and values of a position, in their order, with strings of all kinds as plain ones.

    A string of a collection is a `Member`.
    """
    if not isinstance(row, Mapping):
        return [(prefix, Member(plain(item))) for item in row]
    pairs = []
    for key, value in row.items():
        if not isinstance(key, str):
            raise OtherKeyError(key)
        name = f"{prefix}:{plain(key)}" if prefix else plain(key)
        is_list = isinstance(value, (list, tuple))
        is_nested = isinstance(value, (set, frozenset, Mapping))
        if is_nested or (is_list and (not value or isinstance(value[0], (str, bytes)))):
            pairs += pairs_of(value, name)
        else:
            pairs.append((name, plain(value) if isinstance(value, (str, bytes)) else value))
    return pairs


def plain(text) -> str:
    return text.decode() if isinstance(text, bytes) else str.__str__(text)


def is_missing(value) -> bool:
    return find_missing([value]) is not None


def total(values: list):
    present = [value for value in values if not is_missing(value)]
    if len(present) < 2:
        return (present or values)[0]
    try:
        return sum(map(float, present))
    except (TypeError, ValueError, OverflowError):
        raise SumError from None


def as_attribute(name: str, string: str) -> tuple:
    return f"{name}:{string}" if name else str.__str__(string), True


def training_row(pairs: list[tuple], split: set[str]) -> dict:
    """What a position has of each name: one string, or the sum of numbers.

    Strings of some keys, two strings of a key, or a string and a number, are attributes.
    """
    pairs = [as_attribute(*pair) if isinstance(pair[1], Member) else pair for pair in pairs]
    crowded = set(split)
    while True:
        counts = Counter(name for name, value in pairs if not is_missing(value))
        crowded |= {name for name, count in counts.items() if count > 1}
        strings = [(name, value) for name, value in pairs if isinstance(value, str)]
        attributes = [pair for pair in strings if pair[0] in crowded]
        if not attributes:
            break
        pairs = [as_attribute(*pair) if pair in attributes else pair for pair in pairs]
    return {key: total([value for name, value in pairs if name == key]) for key in dict(pairs)}


def training_rows(rows: list[list[tuple]], is_split: bool) -> list[dict]:
    """Flat dicts of training data: keys are split until no other one has to be."""
    split: set[str] = set()
    while True:
        flat = [training_row(row, split) for row in rows]
        items = [item for row in flat for item in row.items()]
        numbers = {name for name, value in items
                   if not isinstance(value, (str, list)) and not is_missing(value)}  # fmt: skip
        found = {name for name, value in items if isinstance(value, str)
                 and (name in numbers or f"{name}:{value}" in numbers)}  # fmt: skip
        if not is_split or not found:
            return [{name: value for name, value in row.items()
                     if name in numbers or name not in split} for row in flat]  # fmt: skip
        split |= found


def model_row(pairs: list[tuple], schema) -> dict:
    """What a position has of the columns of a model of dicts."""
    flat: dict = {}
    for name, value in pairs:
        values = schema.known_values.get(name)
        if isinstance(value, Member) and as_attribute(name, value)[0] in schema.names:
            values = None
        if isinstance(value, str) and values is None:
            name, value = as_attribute(name, value)
        if name in schema.names:
            flat.setdefault(name, []).append(value)
    for name, values in flat.items():
        known = schema.known_values.get(name)
        if known is None or not known:
            flat[name] = total(values)
            continue
        strings = [plain(value) for value in values if isinstance(value, str)]
        chosen = sorted(string for string in strings if string in known) or strings
        missing = [value for value in values if is_missing(value)]
        flat[name] = (chosen or missing or [SKIPPED])[0]
    return {name: value for name, value in flat.items() if value is not SKIPPED}


SKIPPED = object()


def without_other_keys(row):
    if not isinstance(row, Mapping):
        return row
    return {key: without_other_keys(row[key]) for key in row if isinstance(key, (str, bytes))}


def read_naively(rows, offsets, schema=None, categorical="from_dtype"):
    """The names, dense table, kinds and categories of rows, one column after another."""
    pairs = []
    for t, row in enumerate(rows):
        if schema is not None:
            row = without_other_keys(row)
        try:
            pairs.append(pairs_of(row))
        except OtherKeyError as error:
            where, (key,) = position_name(t, offsets), error.args
            kind = type(key).__name__
            raise TypeError(
                f"{where}: the key {key!r} is of type {kind}; expected strings"
            ) from None
    if schema is None:
        rows = training_rows(pairs, categorical == "from_dtype")
        keys = {key: None for row in rows for key in row}
        if not keys:
            raise ValueError("the sequences have 0 features: all positions are empty")
    else:
        rows = [model_row(row, schema) for row in pairs]
    columns = tuple(sorted(keys)) if schema is None else schema.names
    table, kinds, categories = np.zeros((len(rows), len(columns))), [], {}
    specs = ColumnSpecs(columns, len(columns), schema, categorical, schema is not None)
    for j, name in enumerate(columns):
        found = [(t, row[name]) for t, row in enumerate(rows) if name in row]
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
        assert isinstance(found, tuple) and found == long
        assert found == expected or (expected[0] is SumError and "do not add up" in found[1])
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


@pytest.mark.filterwarnings("ignore:some keys of X have strings", "ignore:the key .* has numbers")
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
