"""Valid input of small models, and variants of it that nobody would expect."""

from __future__ import annotations

import copy
import datetime
import enum
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

WORDS = "uvwxyz"
LABELS = "abc"


class Text(str):
    """A subclass without changes."""

    __slots__ = ()


class Whole(int):
    """A subclass without changes."""


class Real(float):
    """A subclass without changes."""


class Color(enum.IntEnum):
    """Named integers."""

    RED = 1


class AnyCase(str):
    """A string that equals others whose case differs."""

    __slots__ = ()

    def __eq__(self, other):
        return self.lower() == str(other).lower()

    def __hash__(self):
        return hash(self.lower())


class Row(Mapping):
    """A mapping that is not a dict."""

    def __init__(self, values):
        self.values_ = values

    def __getitem__(self, key):
        return self.values_[key]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


# One object, because its representation is in messages.
UNKNOWN = object()
CELLS = [
    None, np.nan, float("nan"), pd.NA, pd.NaT, np.ma.masked, np.inf, -np.inf, True, False,
    np.True_, np.False_, 0, 1, 2, -1, -0.0, 0.5, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 2**64,
    10**30, 10**400, 1e101, 1e200, -1e308, 5e-324, "", "0", "1", "1.5", "nan", "None", "\0", "a\0",
    "\0a", "u\0v", "never", "u", "u ", "U", "é", "\U0001f600", "\ud800", "uv", b"u",
    np.float16(1.5), np.float32(0.1), np.float64(2.5), np.longdouble(1.5), np.int8(1), np.int64(3),
    np.uint64(2**64 - 1), np.str_("u"), np.str_("never"), np.bytes_(b"u"), Decimal("1.5"),
    Fraction(1, 2), 1j, Text("u"), Text("never"), AnyCase("U"), Whole(1), Real(1.5), Color.RED,
    [], [1.0], ["u"], (), (1.0, 2.0), {}, {"u": 1.0}, {1}, UNKNOWN, np.array(1.0),
    np.array([1.0]), np.zeros((1, 1)), datetime.date(2020, 1, 1), datetime.timedelta(1),
    pd.Timestamp("2020-01-01"), np.datetime64("NaT"), np.datetime64("2020-01-01"), lambda: 0,
]  # fmt: skip
KEYS = [
    "never", "Number", "", "\0", "number\0", 0, 1.5, None, ("number",), b"number", True,
    Text("number"), AnyCase("NUMBER"), np.str_("number"), np.str_("never"), Color.RED,
]  # fmt: skip


def numbers(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a table of four columns."""
    return np.round(rng.normal(size=(n, 4)), 1)


def labels(table: np.ndarray) -> list[str]:
    """Return labels that depend on a table."""
    rule = np.where(table[:, 2] > 0, "a", "b")
    return np.where(table[:, 0] > np.roll(table[:, 1], 1), rule, "c").tolist()


def _symbols(x: np.ndarray) -> str:
    return "".join("abcdef"[int(v)] for v in np.clip(x[:, 0] + 3, 0, 5))


def _words(column: np.ndarray) -> list[str]:
    return [WORDS[int(abs(value) * 2) % 6] for value in column]


def _dicts(x: np.ndarray) -> list[dict]:
    names = ("number", "none", "word", "is", "n")
    columns = (
        x[:, 0].tolist(),
        [0.0] * len(x),
        _words(x[:, 1]),
        (x[:, 2] > 0).tolist(),
        [2] * len(x),
    )
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for row, value in zip(rows, x[:, 3].tolist(), strict=True):
        if value > 0:
            del row["number"]
        if value < -1:
            del row["word"]
    return rows


def _frame(x: np.ndarray) -> pd.DataFrame:
    columns = {"number": x[:, 0], "whole": (x[:, 1] * 3).astype(int)}
    return pd.DataFrame(columns | {"word": _words(x[:, 2]), "is": x[:, 3] > 0})


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "numbers": lambda x: x,
    "booleans": lambda x: x > 0,
    "whole numbers": lambda x: (x * 2).astype(int),
    "characters": _symbols,
    "words": lambda x: [2 * c for c in _symbols(x)],
    "integers as symbols": lambda x: [int(v) for v in x[:, 0]],
    "dicts": _dicts,
    "frames": _frame,
    "dicts for a model of frames": _frame,
    "polars": lambda x: pl.from_pandas(_frame(x)),
    "categories of integers": lambda x: [
        {"code": int(v), "x": float(w)} for v, w in zip(x[:, 0] * 2, x[:, 1], strict=True)
    ],
}


def variant(form: str, rng: np.random.Generator) -> Any:
    """Return one or several sequences of a form with something unusual."""
    if rng.random() < 0.1:  # about as many positions as a word has bits
        lengths = [[64], [65], [32, 32], [32, 33], [64, 1]][rng.integers(5)]
    else:
        lengths = rng.integers(1, 6, rng.choice([1, 1, 1, 2, 3])).tolist()
    tables = [numbers(n, rng) for n in lengths]
    if form == "dicts for a model of frames":
        X = [FORMS[form](x).to_dict("records") for x in tables]
    else:
        X = [FORMS[form](x) for x in tables]
    for i in rng.permutation(len(X))[: rng.choice([0, 1, 1, 1, 2])].tolist():
        X[i] = _changed(X[i], rng)
    if rng.random() < 0.05:
        X.insert(int(rng.integers(len(X) + 1)), _any(["", [], (), None, 3, np.zeros((0, 4))], rng))
    return X


def _any(values: list, rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]


def _changed(item: Any, rng: np.random.Generator) -> Any:
    try:
        return _changed_form(item, rng)
    except (ValueError, TypeError, OverflowError, pl.exceptions.PolarsError, pa.ArrowException):
        return item  # what the libraries themselves refuse


def _changed_form(item: Any, rng: np.random.Generator) -> Any:
    if isinstance(item, np.ndarray):
        return _changed_array(item, rng)
    if isinstance(item, (pd.DataFrame, pl.DataFrame)):
        return _changed_frame(item, rng)
    if isinstance(item, str):
        return _changed_text(item, rng)
    if isinstance(item, list) and item and isinstance(item[0], dict):
        return _changed_dicts(item, rng)
    return _changed_list(item, rng)


def _changed_array(x: np.ndarray, rng: np.random.Generator) -> Any:
    t, j = int(rng.integers(len(x))), int(rng.integers(x.shape[1]))

    def with_object(x):
        x = x.astype(object)
        x[t, j] = _any([cell for cell in CELLS if not isinstance(cell, np.ndarray)], rng)
        return x

    def with_number(x):
        x = x.astype(float)
        x[t, j] = _any([np.nan, np.inf, -np.inf, 1e200, 2.0**60, -0.0, 5e-324, 0.5, 1.0], rng)
        return x

    kinds = "?bBhqQefdgDSUmM"
    return _any([
        with_object, with_number, with_number, np.asfortranarray, lambda x: x[:, ::-1],
        lambda x: x[:, :3], lambda x: x[0], lambda x: x[:0], lambda x: x[None], lambda x: x.T,
        lambda x: x.tolist(), lambda x: [*map(tuple, x)], lambda x: [*x], lambda x: x > 0,
        lambda x: (x * 3).astype(_any(list(kinds), rng)), lambda x: pd.DataFrame(x),
        lambda x: x.astype("U9"), lambda x: np.ma.masked_array(x, rng.random(x.shape) < 0.3),
        lambda x: pd.DataFrame(x, columns=list("pqrs")), lambda x: x.view(Table),
        lambda x: [dict(zip("pqrs", row, strict=True)) for row in x.tolist()],
    ], rng)(x)  # fmt: skip


class Table(np.ndarray):
    """A subclass of arrays."""


def _changed_text(text: str, rng: np.random.Generator) -> Any:
    t = int(rng.integers(len(text)))

    def put(text):
        strings = [cell for cell in CELLS if isinstance(cell, str)]
        return text[:t] + str.__str__(_any(strings, rng)) + text[t + 1 :]

    return _any([
        put, put, put, list, tuple, lambda text: np.array(list(text)), lambda text: text.encode(),
        lambda text: Text(text), lambda text: np.str_(text), lambda text: text.upper(),
        lambda text: _changed_list(list(text), rng), lambda text: pd.Series(list(text)),
        lambda text: [text], lambda text: "zzz", lambda text: text + "\0",
    ], rng)(text)  # fmt: skip


def _changed_list(item: list, rng: np.random.Generator) -> Any:
    t = int(rng.integers(len(item)))

    def put(item):
        return [*item[:t], _any(CELLS, rng), *item[t + 1 :]]

    return _any([
        put, put, put, put, tuple, lambda item: [], lambda item: np.array(item),
        lambda item: np.array(item, dtype=object), lambda item: pd.Series(item),
        lambda item: pl.Series(item), lambda item: [[value] for value in item],
        lambda item: [999 if isinstance(value, int) else "never" for value in item],
        lambda item: pd.Series(item).astype("category"), lambda item: [float(t)] * len(item),
    ], rng)(item)  # fmt: skip


def _changed_dicts(rows: list, rng: np.random.Generator) -> Any:
    rows = copy.deepcopy(rows)
    row = rows[int(rng.integers(len(rows)))]
    key = _any(list(row) or ["number"], rng)
    change = rng.integers(14)
    if change < 5:
        row[key] = _any(CELLS, rng)
    elif change < 7:
        row[_any(KEYS, rng)] = _any(CELLS, rng)
    elif change == 7:
        row[_any(KEYS, rng)] = row.pop(key, 1.0)
    elif change == 8:
        row.pop(key, None)
    elif change == 9:
        for other in rows:
            other.pop(key, None)
    elif change == 10:
        row.clear()
    elif change == 11:
        row.update({f"more{i}": 1.0 for i in range(130)})
    elif change == 12:
        rows[rows.index(row)] = _any([None, [], ["number"], Row(row), 3, "number"], rng)
    else:
        return _any([tuple(rows), [*map(Row, rows)], pd.DataFrame(rows), np.array(rows)], rng)
    return rows


def _changed_frame(frame: Any, rng: np.random.Generator) -> Any:
    if isinstance(frame, pl.DataFrame):
        return _changed_polars(frame, rng)
    n, column = len(frame), _any(list(frame), rng)

    def with_cell(frame):
        values = frame[column].astype(object).tolist()
        values[int(rng.integers(n))] = _any(CELLS, rng)
        return frame.assign(**{column: pd.Series(values, dtype=object, index=frame.index)})

    def with_type(frame):
        kinds = ["float32", "Int64", "object", "category", "string", "boolean", "int8", "str"]
        kinds += ["float64[pyarrow]", "Float64", "datetime64[ns]", "uint64", "complex"]
        try:
            return frame.astype({column: _any(kinds, rng)})
        except (ValueError, TypeError):
            return frame

    dates = pd.date_range("2020-01-01", periods=n)
    return _any([
        with_cell, with_cell, with_cell, with_cell, with_type, with_type,
        lambda f: f.drop(columns=column), lambda f: f.assign(more=1), lambda f: f.iloc[:, ::-1],
        lambda f: pd.concat([f, f[[column]]], axis=1), lambda f: f.set_index(dates[::-1]),
        lambda f: f.set_index(dates), lambda f: f.set_index(rng.permutation(n)),
        lambda f: f.set_index(pd.MultiIndex.from_arrays([[0] * n, range(n)[::-1]])),
        lambda f: f.set_index(pd.MultiIndex.from_arrays([[0] * n, dates[::-1]])),
        lambda f: f.iloc[:0], lambda f: f.rename(columns={column: column.upper()}),
        lambda f: f.rename(columns={column: Text(column)}), lambda f: f.to_numpy(),
        lambda f: f.rename(columns={column: 0}), lambda f: f.assign(**{column: None}),
        lambda f: f.assign(**{column: "never"}), lambda f: pa.Table.from_pandas(f),
        lambda f: pl.from_pandas(f), lambda f: f.to_dict("records"), lambda f: f[column],
        lambda f: f.assign(__index_level_0__=0), lambda f: f.to_dict("list"),
    ], rng)(frame)  # fmt: skip


def _changed_polars(frame: pl.DataFrame, rng: np.random.Generator) -> Any:
    n, column = len(frame), _any(frame.columns, rng)
    nulls = pl.Series(column, [None] * n, dtype=frame[column].dtype)
    kinds = [pl.Float32, pl.Int8, pl.String, pl.Categorical, pl.Decimal(20, 2), pl.Object]
    return _any([
        lambda f: f.drop(column), lambda f: f.with_columns(more=1), lambda f: f[:, ::-1],
        lambda f: f.with_columns(nulls), lambda f: f[:0], lambda f: f.to_dicts(),
        lambda f: f.with_columns(pl.lit("never").alias(column)), lambda f: f.to_pandas(),
        lambda f: f.with_columns(f[column].cast(_any(kinds[:5], rng), strict=False)),
        lambda f: f.with_columns(f[column].shift(1)), lambda f: f.lazy(), lambda f: f.to_arrow(),
        lambda f: f.with_columns(pl.Series(column, [UNKNOWN] * n, dtype=pl.Object)),
    ], rng)(frame)  # fmt: skip
