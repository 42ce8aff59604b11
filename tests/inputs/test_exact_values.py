"""Values that are names pass through no float: labels, symbols, categories and groups."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from support.family import CORE, FAMILY, every
from support.inputs import small

import treecrf
from treecrf import load
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.schema import CATEGORY, NUMBER
from treecrf.inputs.segmentation import Segmentation
from treecrf.metrics import token_accuracy_score

# Neighbors that are one float64.
B = 2**53
IDS = [B, B + 1, B + 2]
LARGEST = [2**63 - 3, 2**63 - 2, 2**63 - 1]


def decimals(values) -> list:
    return [None if value is None else Decimal(value) for value in values]


def masked(values) -> np.ma.MaskedArray:
    gaps = [value is None for value in values]
    return np.ma.array([0 if value is None else value for value in values], mask=gaps)


def pandas_of(dtype):
    return lambda values: pd.Series(pd.array(values, dtype=dtype))


def polars_of(dtype):
    return lambda values: pl.Series(values, dtype=dtype)


def dictionary(values) -> pa.Array:
    return pa.array(values, pa.int64()).dictionary_encode()


COLUMNS = {
    "pandas Int64": pandas_of("Int64"),
    "pandas UInt64": pandas_of("UInt64"),
    "pandas objects": pandas_of(object),
    "pandas category": lambda v: pd.Series(pd.Categorical(pd.array(v, dtype="Int64"))),
    "pandas Arrow": pandas_of("int64[pyarrow]"),
    "pandas Arrow decimal": lambda v: pd.Series(
        pd.array(decimals(v), dtype=pd.ArrowDtype(pa.decimal128(20)))
    ),
    "pandas Arrow dictionary": lambda v: pd.Series(
        pd.array(v, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.int64())))
    ),
    "polars Int64": polars_of(pl.Int64),
    "polars UInt64": polars_of(pl.UInt64),
    "polars Int128": polars_of(pl.Int128),
    "polars decimal": lambda v: pl.Series(decimals(v), dtype=pl.Decimal(20, 0)),
    "polars objects": polars_of(pl.Object),
    "Arrow": lambda v: pa.chunked_array([pa.array(v, pa.int64())]),
    "Arrow chunks": lambda v: pa.chunked_array([v[:2], v[2:]], pa.int64()),
    "Arrow uint64": lambda v: pa.chunked_array([pa.array(v, pa.uint64())]),
    "Arrow decimal": lambda v: pa.chunked_array([pa.array(decimals(v), pa.decimal128(20))]),
    "Arrow dictionary": lambda v: pa.chunked_array([dictionary(v)]),
}
SEQUENCES = COLUMNS | {
    "list": list,
    "tuple": tuple,
    "list of decimals": decimals,
    "list with NaN": lambda v: [np.nan if value is None else value for value in v],
    "list with NA": lambda v: [pd.NA if value is None else value for value in v],
    "objects": lambda v: np.array(v, dtype=object),
    "decimals": lambda v: np.array(decimals(v), dtype=object),
    "masked": masked,
    "masked objects": lambda v: masked(v).astype(object),
    "pandas array": lambda v: pd.array(v, dtype="Int64"),
    "pandas index": lambda v: pd.Index(pd.array(v, dtype="Int64")),
    "Arrow array": lambda v: pa.array(v, pa.int64()),
    "Arrow dictionary array": dictionary,
}
GAPS = {"with gaps": [None], "without gaps": []}
all_sequences = pytest.mark.parametrize("make", SEQUENCES.values(), ids=SEQUENCES.keys())
all_columns = pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS.keys())
all_gaps = pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS.keys())


def frame_of(columns: dict):
    """Make a data frame of the library of the columns."""
    first = next(iter(columns.values()))
    if isinstance(first, pd.Series):
        return pd.DataFrame(columns)
    return pl.DataFrame(columns) if isinstance(first, pl.Series) else pa.table(columns)


def of_library(make, values: list):
    """Make a column of numbers of the same library as another one."""
    column = make(IDS)
    if isinstance(column, pd.Series):
        return pd.Series(values)
    return pl.Series(values) if isinstance(column, pl.Series) else pa.chunked_array([values])


# Labels

X = [[[float(value)] for value in [0, 1, 2, 3]]] * 5


@all_gaps
@all_sequences
def test_labels_remain_what_they_are(make, gap):
    y = [make([7, *IDS[:2], *(gap or [7])])] * 5
    model = small().fit(X, y)
    assert model.classes_.tolist() == [7, B, B + 1]
    assert model.classes_.dtype == np.int64
    assert model.score(X, y) == small().fit(X, [[1, 2, 3, *(gap or [1])]] * 5).score(
        X, [[1, 2, 3, *(gap or [1])]] * 5
    )


@all_gaps
@all_columns
def test_labels_that_are_a_column_remain_what_they_are(make, gap):
    y = [*IDS, *(gap or [B])] * 5
    numbers = of_library(make, [0.0, 1.0, 2.0, 3.0] * 5)
    groups = of_library(make, np.repeat(range(5), 4).tolist())
    frame = frame_of({"label": make(y), "x": numbers, "id": groups})
    model = small().fit(frame, "label", groups="id")
    assert model.classes_.tolist() == IDS
    _, labels = treecrf.split(frame, "label", groups="id")
    assert small().fit(X, labels).classes_.tolist() == IDS


@all_sequences
def test_labels_that_are_read_after_training_remain_what_they_are(make):
    model = small().fit(X, [[*IDS, B]] * 5)
    plain = small().fit(X, [[1, 2, 3, 1]] * 5)
    for some, other in (([*IDS, None], [1, 2, 3, None]), ([B + 2, B, B, B], [3, 1, 1, 1])):
        here, there = model.predict_log_likelihood(X, [make(some)] * 5), plain
        np.testing.assert_array_equal(here, there.predict_log_likelihood(X, [other] * 5))
        given = model.predict_proba(X, known=[make(some)] * 5)
        np.testing.assert_array_equal(given, plain.predict_proba(X, known=[other] * 5))
    with pytest.raises(ValueError, match=f"{B + 3} was not seen in training"):
        model.predict_log_likelihood(X, [make([*IDS, B + 3])] * 5)


@all_sequences
def test_labels_of_validation_remain_what_they_are(make):
    settings = {"early_stopping": True, "max_iter": 3}
    y = [[*IDS, B]] * 5
    model = small(**settings).fit(X, y, X_val=X, y_val=[make([*IDS[:2], None, B])] * 5)
    plain = small(**settings).fit(X, [[1, 2, 3, 1]] * 5, X_val=X, y_val=[[1, 2, None, 1]] * 5)
    np.testing.assert_array_equal(model.validation_score_, plain.validation_score_)


@all_sequences
def test_metrics_read_labels_exactly(make):
    assert token_accuracy_score([IDS], [make(IDS)]) == 1
    assert token_accuracy_score(make(IDS), make([B, B, B + 2])) == 2 / 3


@every(FAMILY, CORE)
def test_every_estimator_keeps_labels_apart(name):
    symbols = ["abcb", "abca", "cbab"] * 3
    y = [[IDS["abc".index(letter)] for letter in text] for text in symbols]
    model = clone(FAMILY[name]).fit(symbols, [pl.Series(labels) for labels in y])
    assert model.classes_.tolist() == IDS
    plain = clone(FAMILY[name]).fit(symbols, [[label - B for label in labels] for labels in y])
    for ours, theirs in zip(model.predict(symbols), plain.predict(symbols), strict=True):
        assert (ours - B).tolist() == theirs.tolist()


def test_dicts_of_parameters_name_labels_exactly():
    y = [[*IDS, B]] * 5
    one = small(class_weight={B: 1.0, B + 1: 5.0, B + 2: 1.0}).fit(X, y)
    other = small(class_weight={1: 1.0, 2: 5.0, 3: 1.0}).fit(X, [[1, 2, 3, 1]] * 5)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    costs = {(B, B + 1): 5.0, (B + 1, B): 0.5}
    here = small(cost_matrix=costs, decoding="minimum_risk").fit(X, y).predict(X)
    small_costs = {(1, 2): 5.0, (2, 1): 0.5}
    there = small(cost_matrix=small_costs, decoding="minimum_risk").fit(X, [[1, 2, 3, 1]] * 5)
    assert (np.array(here) - B + 1).tolist() == np.array(there.predict(X)).tolist()


def test_labels_are_saved_exactly(tmp_path):
    small().fit(X, [[*LARGEST, None]] * 5).save(tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == LARGEST


BEYOND = {
    "list": [2**64, 1, 2],
    "list with gaps": [2**63, None, 2],
    "uint64": np.array([2**63, 1, 2], dtype=np.uint64),
    "UInt64": pd.array([2**63, None, 2], dtype="UInt64"),
    "polars": pl.Series([2**63, None, 2], dtype=pl.UInt64),
    "polars Int128": pl.Series([2**100, None, 2], dtype=pl.Int128),
    "decimal": [Decimal(2**63), Decimal(1), None],
}


@pytest.mark.parametrize("y", BEYOND.values(), ids=BEYOND.keys())
def test_labels_beyond_int64_are_refused(y):
    with pytest.raises(ValueError, match=r"position 0: label .* is outside the range of int64"):
        small().fit([[[0.0], [1.0], [2.0]]], [y])


BOOLEANS = {
    "list": lambda v: v,
    "objects": lambda v: np.array(v, dtype=object),
    "masked": lambda v: np.ma.array([bool(x) for x in v], mask=[x is None for x in v]),
    "pandas boolean": pandas_of("boolean"),
    "pandas Arrow": pandas_of("bool[pyarrow]"),
    "polars": polars_of(pl.Boolean),
    "Arrow": pa.array,
}


@pytest.mark.parametrize("make", BOOLEANS.values(), ids=BOOLEANS.keys())
def test_booleans_with_gaps_are_booleans(make):
    classes = small().fit(X, [make([True, None, False, True])] * 5).classes_
    assert classes.tolist() == [False, True]
    assert classes.dtype == bool


STRINGS = {
    "list": lambda v: v,
    "objects": lambda v: np.array(v, dtype=object),
    "masked": lambda v: np.ma.array(["" if x is None else x for x in v], mask=[not x for x in v]),
    "pandas str": pd.Series,
    "pandas string": pandas_of("string"),
    "pandas Arrow": pandas_of("string[pyarrow]"),
    "pandas category": lambda v: pd.Series(pd.Categorical(v)),
    "polars": pl.Series,
    "polars Categorical": polars_of(pl.Categorical),
    "polars Enum": polars_of(pl.Enum(["c", "b", "a"])),
    "Arrow": pa.array,
    "Arrow large": lambda v: pa.array(v, pa.large_string()),
    "Arrow view": lambda v: pa.array(v, pa.string_view()),
    "Arrow dictionary": lambda v: pa.array(v).dictionary_encode(),
}


@pytest.mark.parametrize("make", STRINGS.values(), ids=STRINGS.keys())
def test_strings_with_gaps_are_read_alike(make):
    values = ["a", None, "b", "a"]
    assert small().fit(X, [make(values)] * 5).classes_.tolist() == ["a", "b"]
    model, plain = (small().fit([of(values)] * 5, [[0, 1, 0, 0]] * 5) for of in (make, list))
    np.testing.assert_array_equal(
        model.predict_proba([make([None, "b", "c"])]), plain.predict_proba([[None, "b", "c"]])
    )


FLOATS = {
    "array": lambda v: np.array(v, dtype=float),
    "list": lambda v: v,
    "pandas": pandas_of(float),
    "pandas Float64": pandas_of("Float64"),
    "polars": pl.Series,
    "Arrow": pa.array,
}


@pytest.mark.parametrize("make", FLOATS.values(), ids=FLOATS.keys())
def test_whole_floats_with_gaps_are_integers(make):
    classes = small().fit(X, [make([0.0, None, 1.0, 0.0])] * 5).classes_
    assert classes.tolist() == [0, 1]
    assert classes.dtype == np.int64


def test_decimals_with_a_fraction_are_no_labels():
    with pytest.raises(TypeError, match=r"position 1: label Decimal\('0.5'\) is of type Decimal"):
        small().fit(X, [[Decimal(1), Decimal("0.5"), None, Decimal("NaN")]] * 5)


# Symbols


def assert_equal_predictions(model, plain, X, other, form) -> None:
    methods = [name for name in ("predict", "predict_proba") if hasattr(model, name)]
    for method in methods:
        ours, theirs = getattr(model, method)(X), getattr(plain, method)(other)
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=form)


@every(FAMILY, CORE)
def test_symbols_remain_what_they_are(name):
    y = [[0, 1, 0, 1, 0]] * 6
    plain = clone(FAMILY[name]).fit([["b", "c", None, "c", "b"]] * 6, y)
    for form, make in SEQUENCES.items():
        model = clone(FAMILY[name]).fit([make([B, B + 1, None, B + 1, B])] * 6, y)
        for ours, theirs in (([B + 1, B, B], "cbb"), ([B, None, B + 2], ["b", None, "d"])):
            assert_equal_predictions(model, plain, [make(ours)], [theirs], form)


@all_sequences
def test_long_tables_of_symbols_remain_what_they_are(make):
    values, y = [B, B + 1, None, B + 1, B, B], [0, 1, 0, 1, 0, 0]
    model = small().fit(make(values * 3), y * 3, lengths=[6] * 3)
    plain = small().fit([["b", "c", None, "c", "b", "b"]] * 3, [y] * 3)
    assert model.score(make(values), y, lengths=[6]) == 1
    parts, _ = treecrf.split(make(values), lengths=[3, 3])
    assert_equal_predictions(model, plain, parts, [["b", "c", None], "cbb"], "")


# Categories


def rows_beside_floats(values) -> list:
    return [[value, 0.5] for value in values]


def sparse_of(values):
    return sparse.csr_array(np.array([[0 if value is None else value] for value in values]))


TABLES = {
    "list": lambda v: [[value] for value in v],
    "list of decimals": lambda v: [[value] for value in decimals(v)],
    "list beside floats": rows_beside_floats,
    "list of arrays": lambda v: [np.array([value], dtype=object) for value in v],
    "objects": lambda v: np.array([[value] for value in v], dtype=object),
    "objects beside floats": lambda v: np.array(rows_beside_floats(v), dtype=object),
    "masked": lambda v: masked(v)[:, np.newaxis],
    "masked objects": lambda v: masked(v).astype(object)[:, np.newaxis],
    "list of masked": lambda v: [masked([value]) for value in v],
    "sparse": sparse_of,
    "sparse beside floats": lambda v: sparse.csr_array(sparse_of(v)),
}
FRAMES = {name: lambda v, of=of: frame_of({"id": of(v)}) for name, of in COLUMNS.items()} | {
    f"{name} beside floats": lambda v, of=of: frame_of(
        {"id": of(v), "x": of_library(of, [0.5] * len(v))}
    )
    for name, of in COLUMNS.items()
}
DICTS = {
    "dicts": lambda v: [{"id": value} for value in v],
    "dicts of decimals": lambda v: [{"id": value} for value in decimals(v)],
}
FORMS = TABLES | FRAMES | DICTS


OF_CATEGORIES = {name: model for name, model in FAMILY.items() if not name.startswith("HMM")}
EACH_KIND = ("list", "sparse", "pandas Int64", "polars Int64", "dicts")


# All models read columns alike, so that one of them is enough for the fast tests of all forms.
@every(OF_CATEGORIES, {"CRF of order 2"})
def test_categories_remain_what_they_are(name):
    assert_same_categories(name, FORMS)


@every(OF_CATEGORIES, CORE)
def test_categories_of_each_kind_remain_what_they_are(name):
    assert_same_categories(name, {form: FORMS[form] for form in EACH_KIND})


def assert_same_categories(name, forms):
    y = [[0, 1, 0, 1, 0]] * 6
    for form, make in forms.items():
        model, plain = (
            clone(FAMILY[name]).set_params(categorical_features=[0]).fit([make(values)] * 6, y)
            for values in ([B, B + 1, None, B + 1, B], [1, 2, None, 2, 1])
        )
        for ours, theirs in (([B + 1, B, B], [2, 1, 1]), ([B + 2, B, None], [3, 1, None])):
            assert_equal_predictions(model, plain, [make(ours)], [make(theirs)], form)


def test_sparse_matrices_of_several_types_are_read_exactly():
    ids, numbers = sparse.csr_array([[B, 1], [B + 1, 0]]), sparse.csr_array([[7.0, 0.5]])
    sequences = as_sequences([ids, numbers], None, None, [0])
    assert sequences.categories[0].tolist() == [7, B, B + 1]
    np.testing.assert_array_equal(sequences.rows(0, 2).toarray(), [[2, 1], [3, 0], [1, 0.5]])


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS.keys())
def test_long_tables_of_categories_remain_what_they_are(make):
    table, cuts = make([B, B + 1, None] * 6), Segmentation([3] * 6)
    assert as_sequences(table, None, cuts, [0]).categories[0].tolist() == [B, B + 1]


CATEGORIES_BEYOND = {
    "list": [[2**63], [1]],
    "beside floats": [[2**63, 0.5], [1, 0.5]],
    "objects": np.array([[2**64], [1]], dtype=object),
    "uint64": np.array([[2**63], [1]], dtype=np.uint64),
    "decimal": [[Decimal(2**63)], [1]],
    "large decimal": [[Decimal("1E+400")], [1]],
    "infinite decimal": [[Decimal("inf")], [1]],
    "fraction": [[Decimal("9007199254740993.5")], [1]],
    "pandas": pd.DataFrame({"id": pd.array([2**63, None], dtype="UInt64")}),
    "polars": pl.DataFrame({"id": pl.Series([2**63, None], dtype=pl.Int128)}),
    "Arrow": pa.table({"id": pa.array([2**63, None], pa.uint64())}),
    "dicts": [{"id": 2**63}, {"id": 1}],
}


@pytest.mark.parametrize("X", CATEGORIES_BEYOND.values(), ids=CATEGORIES_BEYOND.keys())
def test_categories_beyond_int64_are_refused(X):
    place = "position [01], (feature 0|column 'id')"
    with pytest.raises(ValueError, match=rf"{place}: .* cannot be a category"):
        small(categorical_features=[0]).fit([X], [[0, 1]])


def test_numbers_beside_large_categories_are_read_as_before():
    X = [[[B + 1, True, 0.5], [B, None, 2**70]]]
    sequences = as_sequences(X, None, None, [0])
    assert sequences.kinds.tolist() == [CATEGORY, NUMBER, NUMBER]
    np.testing.assert_array_equal(sequences.rows(0, 1), [[2, 1, 0.5], [1, np.nan, 2.0**70]])


# Groups


@all_sequences
def test_groups_remain_what_they_are(make):
    X, y = np.arange(8.0).reshape(-1, 1), [0, 1] * 4
    groups = make([B, B, B + 1, B + 1, B + 2, B + 2, 7, 7])
    assert len(treecrf.split(X, y, groups=groups)[0]) == 4
    assert small().fit(X, y, groups=groups).score(X, y, groups=groups) > 0
    with pytest.raises(ValueError, match=r"groups is missing .* at position 2"):
        small().fit(X, y, groups=make([B, B, None, B + 1, B + 2, B + 2, 7, 7]))


# Other arguments


def hidden(values):
    """Mask the last value of an array."""
    array = np.ma.array(values)
    array[(-1,) * array.ndim] = np.ma.masked
    return array


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_weight", hidden([1.0, 2.0])),
        ("sample_weight", [np.ones(2), hidden([1.0, 2.0])]),
        ("init_score", [np.zeros((2, 2)), hidden(np.zeros((2, 2)))]),
        ("allowed", [np.ones((2, 2), dtype=bool), hidden(np.ones((2, 2), dtype=bool))]),
    ],
)
def test_masked_values_of_other_arguments_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name}.* holds masked values"):
        small().fit([[[0.0], [1.0]]] * 2, ["ab"] * 2, **{name: value})


def test_masked_lengths_and_transitions_are_refused():
    with pytest.raises(ValueError, match="lengths holds masked values"):
        small().fit([[0.0], [1.0]] * 2, "abab", lengths=hidden([2, 2]))
    with pytest.raises(ValueError, match="transitions holds masked values"):
        small(transitions=hidden(np.ones((2, 2)))).fit([[[0.0], [1.0]]], ["ab"])
    model = small().fit([[[0.0], [1.0]]], ["ab"])
    with pytest.raises(ValueError, match="sequence 0: allowed holds masked values"):
        model.predict([[[0.0], [1.0]]], allowed=[hidden(np.ones((2, 2)))])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_of_narrow_floats_are_read_like_wider_ones(dtype):
    rows = [[dtype(0.5), dtype(2.0)], [dtype(1.5), dtype(-1.0)]]
    wide = np.array(rows, dtype=np.float64)
    model = treecrf.TreeCRF(max_iter=2, init="zero")
    expected = model.fit([wide] * 4, ["ab"] * 4).predict_proba([wide])[0]
    found = model.fit([rows] * 4, ["ab"] * 4).predict_proba([rows])[0]
    np.testing.assert_array_equal(found, expected)
