"""Data frames of pandas, polars and pyarrow: columns of all kinds, matched by name."""

from __future__ import annotations

import datetime
import re
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from support.family import assert_equal_arrays
from support.inputs import small

from treecrf import TreeCRF
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.schema import BOOLEAN, CATEGORY, NUMBER
from treecrf.learners.base.fitted import fitted_model

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

LIBRARIES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table}
every_library = pytest.mark.parametrize("library", LIBRARIES)


def random_columns(n: int, rng: np.random.Generator) -> dict[str, list]:
    """Columns of every kind, as lists."""
    return {
        "heat": rng.normal(size=n).tolist(),
        "count": rng.integers(0, 5, n).tolist(),
        "open": (rng.random(n) < 0.4).tolist(),
        "room": rng.choice(["attic", "bath", "cellar"], n).tolist(),
    }


def labels_of(columns: dict[str, list]) -> list[str]:
    rows = zip(columns["heat"], columns["room"], strict=True)
    return ["x" if room == "bath" else "y" if heat > 0 else "z" for heat, room in rows]


@pytest.fixture(scope="module")
def columns() -> list[dict[str, list]]:
    rng = np.random.default_rng(0)
    return [random_columns(n, rng) for n in (9, 1, 12, 30, 2, 17)]


@pytest.fixture(scope="module")
def labels(columns) -> list[list[str]]:
    return [labels_of(some) for some in columns]


def rows_of(frame) -> np.ndarray:
    """All values in the form that the encoder reads."""
    return np.concatenate([piece for _, _, piece in as_sequences([frame]).pieces()])


# Types of columns


def series(values, dtype) -> object:
    return pandas.array(values, dtype=dtype)


GAP = np.nan
TYPES = {
    "pandas float64": (series([1.5, GAP], "float64"), NUMBER, [1.5, GAP]),
    "pandas float32": (series([1.5, GAP], "float32"), NUMBER, [1.5, GAP]),
    "pandas Float64": (series([1.5, None], "Float64"), NUMBER, [1.5, GAP]),
    "pandas int8": (series([-3, 4], "int8"), NUMBER, [-3, 4]),
    "pandas uint64": (series([3, 2**63], "uint64"), NUMBER, [3, 2.0**63]),
    "pandas Int64": (series([-3, None], "Int64"), NUMBER, [-3, GAP]),
    "pandas bool": (series([True, False], "bool"), BOOLEAN, [1, 0]),
    "pandas boolean": (series([None, False], "boolean"), BOOLEAN, [GAP, 0]),
    "pandas string": (series(["b", None], "string"), CATEGORY, [1, GAP]),
    "pandas str": (series(["b", "a"], "str"), CATEGORY, [2, 1]),
    "pandas objects of strings": (series(["b", None], object), CATEGORY, [1, GAP]),
    "pandas objects of booleans": (series([True, None], object), BOOLEAN, [1, GAP]),
    "pandas objects of numbers": (series([7, None], object), NUMBER, [7, GAP]),
    "pandas objects of both": (series([7, True], object), NUMBER, [7, 1]),
    "pandas objects of nothing": (series([None, None], object), CATEGORY, [GAP, GAP]),
    "pandas category": (series(["b", None], "category"), CATEGORY, [1, GAP]),
    "pandas category of integers": (series([10, 2], "category"), CATEGORY, [2, 1]),
    "pandas category of few": (
        pandas.Categorical(["b", "b"], categories=["c", "b", "a"]),
        CATEGORY,
        [1, 1],
    ),
    "pandas sparse": (pandas.arrays.SparseArray([0.0, 2.0]), NUMBER, [0, 2]),
    "pandas longdouble": (series([1, 2], np.longdouble), NUMBER, [1, 2]),
    "pandas pyarrow integers": (series([1, None], "int64[pyarrow]"), NUMBER, [1, GAP]),
    "pandas pyarrow booleans": (series([True, None], "bool[pyarrow]"), BOOLEAN, [1, GAP]),
    "polars Float32": (polars.Series([1.5, None], dtype=polars.Float32), NUMBER, [1.5, GAP]),
    "polars NaN": (polars.Series([1.5, float("nan")]), NUMBER, [1.5, GAP]),
    "polars Int64": (polars.Series([1, None]), NUMBER, [1, GAP]),
    "polars Int128": (polars.Series([1, None], dtype=polars.Int128), NUMBER, [1, GAP]),
    "polars Decimal": (polars.Series(["1.5", None]).cast(polars.Decimal(9, 2)), NUMBER, [1.5, GAP]),
    "polars Boolean": (polars.Series([True, False]), BOOLEAN, [1, 0]),
    "polars Boolean with missing values": (polars.Series([None, False]), BOOLEAN, [GAP, 0]),
    "polars String": (polars.Series(["b", None]), CATEGORY, [1, GAP]),
    "polars Categorical": (polars.Series(["b", "a"], dtype=polars.Categorical), CATEGORY, [2, 1]),
    "polars Enum": (polars.Series(["b", None], dtype=polars.Enum(["a", "b"])), CATEGORY, [1, GAP]),
    "polars Null": (polars.Series([None, None]), CATEGORY, [GAP, GAP]),
    "pyarrow int8": (pyarrow.array([1, None], pyarrow.int8()), NUMBER, [1, GAP]),
    "pyarrow bool": (pyarrow.array([True, None]), BOOLEAN, [1, GAP]),
    "pyarrow string": (pyarrow.array(["b", None]), CATEGORY, [1, GAP]),
    "pyarrow dictionary": (pyarrow.array(["b", None]).dictionary_encode(), CATEGORY, [1, GAP]),
    "pyarrow null": (pyarrow.nulls(2), CATEGORY, [GAP, GAP]),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_columns(name):
    values, kind, expected = TYPES[name]
    frame = LIBRARIES[name.split()[0]]({"a": values})
    assert as_sequences([frame]).kinds.tolist() == [kind]
    np.testing.assert_array_equal(rows_of(frame)[:, 0], expected)


def test_categories_are_sorted_and_only_those_that_occur():
    frames = [
        pandas.DataFrame({"a": pandas.Categorical(["é", "b"], categories=["x", "b", "é"])}),
        pandas.DataFrame({"a": ["b", "\U0001f600", None]}),
    ]
    sequences = as_sequences(frames)
    assert sequences.categories[0].tolist() == ["b", "é", "\U0001f600"]
    rows = np.concatenate([piece for _, _, piece in sequences.pieces()])
    np.testing.assert_array_equal(rows[:, 0], [2, 1, 1, 3, GAP])


def test_parts_of_a_column_may_be_of_different_types():
    frames = [pandas.DataFrame({"a": a, "b": b}) for a, b in (
        ([1, 2], [None, None]), ([True, False], ["x", "y"]), ([0.5, None], [GAP, GAP]),
    )]  # fmt: skip
    sequences = as_sequences(frames)
    assert sequences.kinds.tolist() == [NUMBER, CATEGORY]
    rows = np.concatenate([piece for _, _, piece in sequences.pieces()])
    np.testing.assert_array_equal(rows[:, 0], [1, 2, 1, 0, 0.5, GAP])
    np.testing.assert_array_equal(rows[:, 1], [GAP, GAP, 1, 2, GAP, GAP])


# The same model as from arrays


def as_indicators(columns: dict[str, list]) -> np.ndarray:
    rooms = [np.array(columns["room"]) == room for room in ("attic", "bath", "cellar")]
    return np.column_stack([columns["heat"], columns["count"], columns["open"], *rooms])


@every_library
def test_a_category_is_equivalent_to_indicators(library, columns, labels):
    frames = [LIBRARIES[library](some) for some in columns]
    arrays = [as_indicators(some) for some in columns]
    # A window of 0, class weights and small trees avoid ties between tests.
    weights = {"x": 1.0, "y": 1.1, "z": 1.23}
    options = {"window": 0, "class_weight": weights, "max_leaf_nodes": 8}
    one, other = small(**options).fit(frames, labels), small(**options).fit(arrays, labels)
    np.testing.assert_allclose(
        np.concatenate(one.predict_proba(frames)), np.concatenate(other.predict_proba(arrays))
    )
    assert one.score(frames, labels) > 0.9


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_unnamed_columns_are_matched_by_position(columns, labels):
    names = ["heat", "count"]
    frames = [pandas.DataFrame({i: some[n] for i, n in enumerate(names)}) for some in columns]
    named = [pandas.DataFrame({n: some[n] for n in names}) for some in columns]
    arrays = [np.column_stack([some[n] for n in names]) for some in columns]
    crf = small().fit(frames, labels)
    assert not hasattr(crf, "feature_names_in_")
    for same in (named, arrays):
        assert_equal_arrays(crf.predict_proba(same), crf.predict_proba(frames))


# Prediction


@pytest.fixture(scope="module")
def crf(columns, labels) -> TreeCRF:
    return small().fit([polars.DataFrame(some) for some in columns], labels)


def changed(columns, **others) -> list:
    return [pandas.DataFrame(some).assign(**others) for some in columns]


def test_columns_are_matched_by_name(crf, columns):
    expected = np.concatenate(crf.predict_proba([pandas.DataFrame(some) for some in columns]))
    for library, order in zip(LIBRARIES.values(), (-1, 2, 3), strict=True):
        names = list(columns[0])[::-1] if order < 0 else sorted(columns[0])[order:]
        names += [name for name in columns[0] if name not in names]
        frames = [library({name: some[name] for name in names}) for some in columns]
        np.testing.assert_array_equal(np.concatenate(crf.predict_proba(frames)), expected)


def test_columns_are_matched_in_training_too(columns, labels):
    frames = [pandas.DataFrame(some) for some in columns]
    mixed = [frame[frame.columns[:: -1 if i % 2 else 1]] for i, frame in enumerate(frames)]
    assert_equal_arrays(
        small().fit(mixed, labels).predict_proba(mixed),
        small().fit(frames, labels).predict_proba(frames),
    )


@pytest.mark.parametrize("missing", [None, GAP])
def test_a_missing_category(crf, columns, missing):
    frames = [frame.astype({"room": object}) for frame in changed(columns)]
    gone = [frame.assign(room=None) for frame in frames]
    for frame in frames:
        frame["room"] = [missing] * len(frame)
    assert_equal_arrays(crf.predict_proba(frames), crf.predict_proba(gone))
    rows = [as_sequences([frame], fitted_model(crf).chain.schema) for frame in frames]
    assert all(np.isnan(piece[:, 3]).all() for one in rows for _, _, piece in one.pieces())


def test_an_unseen_category_is_not_missing(crf, columns):
    frames = [frame.astype({"room": object}) for frame in changed(columns)]
    one, other = ([frame.assign(room=room) for frame in frames] for room in ("never", "nowhere"))
    assert_equal_arrays(crf.predict_proba(one), crf.predict_proba(other))
    rows = [as_sequences([frame], fitted_model(crf).chain.schema) for frame in one]
    assert all((piece[:, 3] == 0).all() for one in rows for _, _, piece in one.pieces())


def test_equivalent_columns_of_another_type(crf, columns):
    frames = [pandas.DataFrame(some) for some in columns]
    same = [
        frame.assign(open=frame["open"].astype(int), room=frame["room"].astype("category"))
        .astype({"count": "Float64", "heat": object})
        for frame in frames
    ]  # fmt: skip
    assert_equal_arrays(crf.predict_proba(same), crf.predict_proba(frames))


OTHER = {
    "a number for a category": (
        {"room": 3},
        "sequence 0, position 0, column 'room': 3 is a number; in training the column held strings",
    ),
    "a category for a number": (
        {"heat": "warm"},
        "sequence 0, position 0, column 'heat': 'warm' is a string; in training the column held n",
    ),
    "a category for a boolean": (
        {"open": "yes"},
        "sequence 0, position 0, column 'open': 'yes' is a string; in training the column held bo",
    ),
    "a number for a boolean": (
        {"open": 0.5},
        "sequence 0, position 0, column 'open': 0.5 is neither 0 nor 1; in training the column he",
    ),
    "a date": (
        {"heat": pandas.Timestamp("2004-01-01")},
        "sequence 0, position 0, column 'heat': Timestamp('2004-01-01 00:00:00') is of type Times",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_a_column_of_another_type_is_refused_by_name(case, crf, columns):
    others, message = OTHER[case]
    with pytest.raises(TypeError, match=re.escape(message)):
        crf.predict(changed(columns, **others))


def test_missing_and_extra_columns_are_refused_by_name(crf, columns):
    frames = changed(columns)
    with pytest.raises(ValueError, match="sequence 2 lacks the columns 'heat', 'room' of the trai"):
        crf.predict([*frames[:2], frames[2].drop(columns=["room", "heat"])])
    with pytest.raises(ValueError, match="sequence 0 has the column 'age', not among the columns"):
        crf.predict(changed(columns, age=3))
    with pytest.raises(ValueError, match="sequence 1 lacks the column 'heat' of sequence 0"):
        small().fit([frames[0], frames[1].rename(columns={"heat": "cold"})], ["x", "y"])
    with pytest.raises(ValueError, match="sequence 0 has column names, sequence 1 does not"):
        small().fit([frames[0], pandas.DataFrame(frames[1].to_numpy())], ["x", "y"])
    with pytest.raises(ValueError, match="sequence 0 has 3 features, the model was trained with 4"):
        crf.predict([np.zeros((2, 3))])


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_columns_of_arrays_are_matched_by_position(crf, columns):
    frames = [pandas.DataFrame(some) for some in columns]
    arrays = [frame.to_numpy(dtype=object) for frame in frames]
    assert_equal_arrays(crf.predict_proba(arrays), crf.predict_proba(frames))
    with pytest.raises(TypeError, match=r"position 0, column 'room': 0.0 is a number; in traini"):
        crf.predict([np.zeros((2, 4))])


def test_only_trained_categories_count_after_a_hold_out(columns, labels):
    frames = [pandas.DataFrame(some) for some in columns]
    for i, frame in enumerate(frames):
        frame["room"] = [f"room of {i}"] * len(frame)
    crf = small(early_stopping=True, validation_fraction=0.5).fit(frames, labels)
    known = fitted_model(crf).chain.schema.categories[3].tolist()
    assert len(known) == 3
    # The held-out rooms are unseen in validation as they are in prediction.
    kept = [i for i in range(6) if f"room of {i}" in known]
    held_out = [i for i in range(6) if i not in kept]
    some = [[frames[i] for i in part] for part in (kept, held_out)]
    y = [[labels[i] for i in part] for part in (kept, held_out)]
    again = small(early_stopping=True).fit(some[0], y[0], some[1], y[1])
    np.testing.assert_array_equal(crf.validation_score_, again.validation_score_)


# categorical_features


@pytest.mark.parametrize(
    "chosen",
    [["count", "room"], [1, 3], [-3, -1], np.array([1, 3]), [False, True, False, True],
     np.array([False, True, False, True]), ("room", "count")],
)  # fmt: skip
def test_categorical_features_may_be_named(chosen, columns, labels):
    frames = [pandas.DataFrame(some) for some in columns]
    crf = small(categorical_features=chosen).fit(frames, labels)
    assert fitted_model(crf).chain.schema.categories[1].tolist() == [0, 1, 2, 3, 4]
    as_strings = [frame.astype({"count": str}) for frame in frames]
    assert_equal_arrays(
        crf.predict_proba(frames), small().fit(as_strings, labels).predict_proba(as_strings)
    )
    with pytest.raises(
        TypeError, match=r"column 'count': '.' is a string; in training the column held integers"
    ):
        crf.predict(as_strings)
    floats = [frame.astype({"count": float}) for frame in frames]
    assert_equal_arrays(crf.predict_proba(floats), crf.predict_proba(frames))


def test_a_category_may_be_a_number(columns):
    frame = pandas.DataFrame({"a": pandas.Categorical([3, 1, None]), "b": [True, False, True]})
    sequences = as_sequences([frame], categorical_features=None)
    assert sequences.kinds.tolist() == [NUMBER, BOOLEAN]
    sequences = as_sequences([frame], categorical_features=["a", "b"])
    assert sequences.kinds.tolist() == [CATEGORY, CATEGORY]
    assert [values.tolist() for values in sequences.categories.values()] == [[1, 3], [0, 1]]


CHOICES = {
    "a name that is none": (["age"], "there is no column 'age'; X has the columns 'heat', 'count'"),
    "an index too large": ([4], "no column has index 4; X has 4 columns"),
    "a mask too short": ([True, False], "categorical_features has 2 booleans for 4 columns"),
    "two dimensions": (
        [[1], [2]],
        "categorical_features=.* expected 'from_dtype', None, or a list",
    ),
    "a float": ([1.5], "categorical_features=.* expected 'from_dtype', None, or"),
    "names and indices": (["room", 1], "categorical_features=.* expected 'from_dtype', None, or"),
    "ragged": ([["room"], []], "categorical_features=.* expected 'from_dtype', None, or"),
    "strings that are not named": (
        None,
        "column 'room': 'attic' is a string; the column is not in",
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_other_categorical_features_are_refused(case, columns, labels):
    chosen, message = CHOICES[case]
    frames = [pandas.DataFrame(some).sort_values("room") for some in columns]
    with pytest.raises((ValueError, TypeError), match=message):
        small(categorical_features=chosen).fit(frames, labels)


def test_codes_in_arrays_and_matrices_are_categories(labels, columns):
    codes = [np.array([["attic", "bath", "cellar"].index(r) + 7 for r in some["room"]])
             for some in columns]  # fmt: skip
    arrays = [np.column_stack([c, some["heat"]]) for c, some in zip(codes, columns, strict=True)]
    frames = [pandas.DataFrame({"room": some["room"], "heat": some["heat"]}) for some in columns]
    expected = np.concatenate(small().fit(frames, labels).predict_proba(frames))
    crf = small(categorical_features=[0]).fit(arrays, labels)
    np.testing.assert_array_equal(np.concatenate(crf.predict_proba(arrays)), expected)
    ids = np.array([[8.0, 0.5], [9.5, 0.5]])
    with pytest.raises(ValueError, match=r"sequence 0, position 1, feature 0: 9.5 cannot be a"):
        small(categorical_features=[0]).fit([ids], ["xy"])
    matrices = [sparse.csr_array(array) for array in arrays]
    of_matrices = small(categorical_features=[0], window=0).fit(matrices, labels)
    assert_equal_arrays(of_matrices.predict_proba(arrays), of_matrices.predict_proba(matrices))
    assert_equal_arrays(
        small(window=0).fit(frames, labels).predict_proba(frames),
        of_matrices.predict_proba(matrices),
    )


# Invalid input

ONE = {"a": [1, 2]}
BAD = {
    "one frame": (pandas.DataFrame(ONE), TypeError, "X is one DataFrame; for one sequence, pass"),
    "duplicates": (
        [pandas.DataFrame([[1, 2]], columns=["a", "a"])],
        ValueError,
        "sequence 0 has more than one column 'a'",
    ),
    "duplicates of pyarrow": (
        [pyarrow.table([[1], [2]], names=["ä", "ä"])],
        ValueError,
        "sequence 0 has more than one column 'ä'",
    ),
    "names of two types": (
        [pandas.DataFrame([[1, 2]], columns=["a", 0])],
        TypeError,
        "sequence 0: some column names are strings, others are not",
    ),
    "no columns": ([pandas.DataFrame(index=[0, 1])], ValueError, "the sequences have 0 features"),
    "no rows": (
        [pandas.DataFrame(ONE), pandas.DataFrame(ONE).iloc[:0]],
        ValueError,
        "sequence 1 is empty",
    ),
    "infinite": (
        [polars.DataFrame(ONE), polars.DataFrame({"a": [None, -np.inf]})],
        ValueError,
        "sequence 1, position 1, column 'a': -inf is infinite",
    ),
    "dates": (
        [polars.DataFrame({"a": [None, datetime.date(2004, 1, 1)]})],
        TypeError,
        "sequence 0, position 1, column 'a': datetime.date(2004, 1, 1) is of type date; add the",
    ),
    "durations": (
        [pandas.DataFrame({"a": pandas.to_timedelta([3], unit="s")})],
        TypeError,
        "column 'a': Timedelta('0 days 00:00:03') is of type Timedelta; convert durations",
    ),
    "intervals": (
        [pandas.DataFrame({"a": pandas.cut([1, 2], 2)})],
        TypeError,
        "is of type Interval; expected strings, numbers or booleans",
    ),
    "lists": (
        [polars.DataFrame({"a": [[1], [2]]})],
        TypeError,
        "sequence 0, position 0, column 'a': [1] is of type list",
    ),
    "complex": ([pandas.DataFrame({"a": [1j]})], TypeError, "column 'a': 1j is of type complex"),
    "a frame among arrays": (
        [pandas.DataFrame(ONE), np.zeros((2, 1))],
        ValueError,
        "sequence 1 is a 2-D array of float64, sequence 0 is a data frame",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_frames_are_refused(case, crf):
    X, error, message = BAD[case]
    with pytest.raises(error, match=re.escape(message)) as refused:
        small().fit(X, [[0, 1], [1, 0]])
    assert type(refused.value) is error
    with pytest.raises((ValueError, TypeError)):
        crf.predict(X)


# Memory


def test_a_long_frame_is_not_copied():
    rng = np.random.default_rng(0)
    n = 200_000
    frame = pandas.DataFrame({f"n{i}": rng.normal(size=n) for i in range(4)})
    frame["c"] = rng.choice(["a", "b", "c"], n)
    tracemalloc.start()
    try:
        sequences = as_sequences([frame])
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.shares_memory(sequences.table.columns[0], frame["n0"].to_numpy())
    assert held < 5 * n  # an int32 code a position
    assert most < 40 * n
