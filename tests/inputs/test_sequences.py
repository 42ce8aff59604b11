"""All forms of input: equivalent forms train the same model; invalid input raises errors."""

from __future__ import annotations

import datetime
import re
import sys
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from fuzz.calls import check_call, garbage
from hypothesis import given
from scipy import sparse
from support.family import assert_equal_arrays
from support.inputs import small

from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.forms import is_empty_list
from treecrf.inputs.sequences import PIECE_BYTES
from treecrf.inputs.values import characters


def fitted_probabilities(X, y, **parameters) -> np.ndarray:
    return np.concatenate(small(**parameters).fit(X, y).predict_proba(X))


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.setflags(write=False)
    return array


def with_stride(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=0)[::2]


NUMBERS = {
    "lists of lists": lambda t: t.tolist(),
    "tuples": lambda t: tuple(map(tuple, t.tolist())),
    "int8": lambda t: t.astype(np.int8),
    "int32, big-endian": lambda t: t.astype(">i4"),
    "float16": lambda t: t.astype(np.float16),
    "float32": lambda t: t.astype(np.float32),
    "float64": lambda t: t.astype(np.float64),
    "float64, big-endian": lambda t: t.astype(">f8"),
    "longdouble": lambda t: t.astype(np.longdouble),
    "objects": lambda t: t.astype(object),
    "objects of int": lambda t: np.array([[int(v) for v in row] for row in t], dtype=object),
    "Fortran order": np.asfortranarray,
    "read-only": read_only,
    "strided": with_stride,
}
SPARSE = [
    *(f"{format}_array" for format in ("csr", "csc", "coo", "lil", "dok", "bsr")),
    *(f"{format}_matrix" for format in ("csr", "csc", "coo")),
]


@pytest.fixture(scope="module")
def integers():
    """Tables of whole numbers with few distinct values, and labels that depend on them."""
    rng = np.random.default_rng(2)
    X = [rng.integers(-3, 4, (n, 3)) for n in rng.integers(3, 12, 15)]
    return X, [(t[:, 0] + t[:, 1] > 0).astype(int) + (t[:, 2] > 1) for t in X]


@pytest.mark.parametrize("form", NUMBERS)
def test_forms_of_numbers_train_the_same_model(form, integers):
    X, y = integers
    same = [NUMBERS[form](table) for table in X]
    np.testing.assert_array_equal(fitted_probabilities(same, y), fitted_probabilities(X, y))


@pytest.mark.parametrize("form", SPARSE)
def test_sparse_formats_train_the_same_model(form, integers):
    X, y = integers
    expected = fitted_probabilities([sparse.csr_array(table) for table in X], y)
    same = [getattr(sparse, form)(table) for table in X]
    np.testing.assert_array_equal(fitted_probabilities(same, y), expected)


def test_sparse_and_dense_numbers_train_the_same_model(integers):
    X, y = integers
    # Tests in lists compare the distance from 0 in one direction, which matters outside the ends.
    for window, tables in ((0, X), (1, [np.maximum(table, 0) for table in X])):
        matrices = [sparse.csr_array(table) for table in tables]
        np.testing.assert_array_equal(
            fitted_probabilities(matrices, y, window=window),
            fitted_probabilities(tables, y, window=window),
        )


def sparse_oddities(table: np.ndarray) -> dict[str, sparse.csr_array]:
    """The same sparse matrix in valid but unusual representations."""
    rows, columns = np.nonzero(table)
    values = table[rows, columns]
    starts = np.searchsorted(rows, np.arange(len(table) + 1))
    shape = table.shape
    halves = np.repeat(values / 2, 2)
    backwards = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(starts)])
    with_zeros = sparse.csr_array(table + 1.0)
    with_zeros.data -= 1.0
    return {
        "duplicates": sparse.csr_array((halves, np.repeat(columns, 2), 2 * starts), shape=shape),
        "unsorted": sparse.csr_array((values[backwards], columns[backwards], starts), shape=shape),
        "explicit zeros": with_zeros,
        "int64 indices": sparse.csr_array(
            (values, columns.astype(np.int64), starts.astype(np.int64)), shape=shape
        ),
    }


@pytest.mark.parametrize("way", ["duplicates", "unsorted", "explicit zeros", "int64 indices"])
def test_unusual_sparse_matrices(way):
    rng = np.random.default_rng(3)
    # Rare values are kept in lists, the others as bits or codes.
    density = np.array([0.05, 0.05, 0.3, 0.9])
    X = [(rng.random((40, 4)) < density) * rng.integers(1, 3, (40, 4)) * 1.0 for _ in range(4)]
    y = [(t[:, 0] + t[:, 1] > 0) ^ (t[:, 2] > 1) for t in X]
    odd = [sparse_oddities(table)[way] for table in X]
    kept = [(s.data.copy(), s.indices.copy()) for s in odd]
    expected = fitted_probabilities([sparse.csr_array(table) for table in X], y)
    np.testing.assert_array_equal(fitted_probabilities(odd, y), expected)
    for matrix, (data, indices) in zip(odd, kept, strict=True):
        np.testing.assert_array_equal(matrix.data, data)
        np.testing.assert_array_equal(matrix.indices, indices)


def test_forms_of_booleans_train_the_same_model():
    rng = np.random.default_rng(4)
    X = [rng.random((n, 5)) < [0.5, 0.3, 0.05, 0.02, 1] for n in rng.integers(5, 30, 12)]
    y = [(t[:, 0] ^ t[:, 2]).astype(int) + t[:, 3] for t in X]
    expected = fitted_probabilities(X, y)
    for same in (
        [table.tolist() for table in X],
        [sparse.csr_array(table) for table in X],
        [table.astype(np.uint8) for table in X],
        [table.astype(float) for table in X],
    ):
        np.testing.assert_array_equal(fitted_probabilities(same, y), expected)


def test_a_model_of_arrays_reads_sparse_matrices_and_the_reverse(integers):
    X, y = integers
    matrices = [sparse.csr_array(table) for table in X]
    for crf in (small().fit(X, y), small().fit(matrices, y)):
        assert_equal_arrays(crf.predict_proba(X), crf.predict_proba(matrices))


def test_a_3d_array_is_a_list_of_tables():
    X = np.random.default_rng(6).normal(size=(6, 8, 2))
    y = (X[:, :, 0] > 0).astype(int)
    np.testing.assert_array_equal(
        fitted_probabilities(X, y), fitted_probabilities(list(X), list(y))
    )


def test_forms_of_symbols_train_the_same_model(letters):
    X, y = letters
    expected = fitted_probabilities(X, y)
    codes = [[ord(letter) for letter in word] for word in X]
    halves = [word if i % 2 else list(word) for i, word in enumerate(X)]
    for same in (
        [list(word) for word in X],
        [tuple(word) for word in X],
        [np.array(list(word)) for word in X],
        [np.array(list(word), dtype=object) for word in X],
        halves,
        tuple(X),
        codes,
        [np.array(code, dtype=np.uint8) for code in codes],
        [np.array(code, dtype=">i8") for code in codes],
        [np.array(code, dtype=np.uint64) for code in codes],
        [np.array(code, dtype=object) for code in codes],
    ):
        np.testing.assert_array_equal(fitted_probabilities(same, y), expected)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy has it from version 2")
def test_symbols_of_string_dtype(letters, trained):
    X, y = letters
    string = np.dtypes.StringDType(na_object=None)
    words = [[f"{letter} and more" for letter in word] for word in X]
    given = [np.array(word, dtype=string) for word in words]
    np.testing.assert_array_equal(fitted_probabilities(given, y), fitted_probabilities(words, y))
    gap = np.array(["a", None], dtype=string)
    np.testing.assert_array_equal(
        trained.predict_proba([gap]), trained.predict_proba([["a", None]])
    )
    tables = [np.array([[word] for word in sequence], dtype=string) for sequence in words]
    np.testing.assert_array_equal(fitted_probabilities(tables, y), fitted_probabilities(words, y))


def test_the_largest_integers_are_symbols():
    X = [[2**63 - 1, -(2**63)], np.array([2**63 - 1, 5], dtype=np.uint64)]
    crf = small(window=0, order=0, max_iter=20).fit(X, ["xy", "xy"])
    assert crf.predict([np.array([2**63 - 1, -(2**63), 5], dtype=object)])[0].tolist() == [*"xyy"]


def test_fit_reads_a_generator_once(letters):
    X, y = letters
    crf = small().fit((word for word in X), (labels for labels in y))
    np.testing.assert_array_equal(
        np.concatenate(crf.predict_proba(word for word in X)), fitted_probabilities(X, y)
    )
    assert crf.score((word for word in X), (labels for labels in y)) == crf.score(X, y)


def test_forms_of_pandas(integers, letters):
    pandas = pytest.importorskip("pandas")
    X, y = integers
    frames = [pandas.DataFrame(table, columns=list("abc")) for table in X]
    np.testing.assert_array_equal(fitted_probabilities(frames, y), fitted_probabilities(X, y))
    X, y = letters
    series = [pandas.Series(list(word), index=range(len(word), 0, -1)) for word in X]
    labels = [pandas.Series(list(labels)) for labels in y]
    expected = fitted_probabilities(X, y)
    for same in (series, [one.astype("category") for one in series], pandas.Series(X)):
        np.testing.assert_array_equal(fitted_probabilities(same, labels), expected)


@pytest.mark.parametrize("symbols", ["a\ud800", "a\U0001f600", "a\x85", "ß€"])
def test_any_character_is_a_symbol(symbols):
    a, b = symbols
    words, y = [3 * a + 3 * b, 3 * b + 3 * a], ["xxxyyy", "yyyxxx"]
    crf = small(window=0, max_iter=20).fit(words, y)
    assert ["".join(labels) for labels in crf.predict(words)] == y
    lists = [list(word) for word in words]
    np.testing.assert_array_equal(fitted_probabilities(lists, y), fitted_probabilities(words, y))


def test_characters_are_read_one_by_one():
    text = "aß\U0001f600\ud800\n"
    assert characters(text).tolist() == list(text)


def test_an_unseen_symbol_passes_no_test(trained):
    a, b = trained.predict_proba(["ab?", "ab!"])
    np.testing.assert_array_equal(a, b)


LARGEST, TINY = np.finfo(float).max, np.finfo(float).tiny


@pytest.mark.parametrize(
    "values", [[-LARGEST, LARGEST], [LARGEST] * 3, [-1.0, -TINY, 0, TINY, 1, np.nextafter(1, 2)]]
)
def test_extreme_numbers_are_numbers(values):
    X = [np.array(values)[:, None]]
    crf = small(window=0, order=0, max_iter=50).fit(X, [np.arange(len(values)) % 2])
    assert np.isfinite(crf.train_score_).all()
    if len(set(values)) > 1:
        np.testing.assert_array_equal(crf.predict(X)[0], np.arange(len(values)) % 2)


def test_pieces_hold_whole_sequences_in_order():
    rng = np.random.default_rng(7)
    row = PIECE_BYTES // 64
    X = [rng.random((n, row // 8)) < 0.5 for n in (3, 600, 1, 1, 300, 513)]
    for items in (X, [t.astype(float) for t in X[2:4]], ["ab", "c"]):
        packed = as_sequences(items)
        pieces = list(packed.pieces())
        assert [a for a, _, _ in pieces] + [packed.n_positions] == [0] + [b for _, b, _ in pieces]
        assert {a for a, _, _ in pieces} <= set(packed.offsets.tolist())
        joined = np.concatenate([values for _, _, values in pieces])
        flat = [list(word) if isinstance(word, str) else word for word in items]
        np.testing.assert_array_equal(joined, np.concatenate(flat))


T = np.zeros((2, 2))
INF = np.array([[1.0, np.nan], [np.inf, 4]])
BAD_X = {
    "no sequences": ([], ValueError, "X holds no sequences"),
    "empty 3-D array": (np.zeros((0, 4, 2)), ValueError, "X holds no sequences"),
    "empty string": (["ab", ""], ValueError, "sequence 1 is empty"),
    "empty list": ([["a"], []], ValueError, "sequence 1 is empty"),
    "empty list of rows": ([[[1, 2]], []], ValueError, "sequence 1 is empty"),
    "empty array": ([T, np.zeros((0, 2))], ValueError, "sequence 1 is empty"),
    "empty matrix": ([sparse.csr_array((0, 2))], ValueError, "sequence 0 is empty"),
    "widths": ([T, np.zeros((2, 3))], ValueError, "sequence 1 has 3 features, sequence 0 has 2"),
    "widths of sparse": (
        [sparse.csr_array(T), sparse.csr_array((2, 4))],
        ValueError,
        "sequence 1 has 4 features, sequence 0 has 2",
    ),
    "width 0": ([np.zeros((2, 0))], ValueError, "the sequences have 0 features"),
    "infinity": ([T, INF], ValueError, "sequence 1, position 1, feature 0: inf is infinite; exp"),
    "infinities": ([np.array([[-np.inf], [np.inf]])], ValueError, "position 0, feature 0: -inf"),
    "float16": ([INF.astype(np.float16)], ValueError, "position 1, feature 0: inf"),
    "sparse": ([sparse.csr_array(INF)], ValueError, "sequence 0, position 1, feature 0: inf is"),
    "2-D array as X": (T, TypeError, "X is a 2-D array of float64; expected a list of sequences"),
    "1-D array as X": (np.arange(3), TypeError, "X is a 1-D array of int64; expected a list"),
    "array of strings as X": (np.array(["a"]), TypeError, "X is a 1-D array of <U1, whose strin"),
    "sparse matrix as X": (sparse.csr_array(T), TypeError, "X is a sparse matrix of shape (2, 2)"),
    "string as X": ("ab", TypeError, "X is a string; expected a list of sequences: pass [X]"),
    "None as X": (None, TypeError, "X is of type NoneType; expected a list of sequences"),
    "number as X": (3, TypeError, "X is of type int; expected a list of sequences"),
    "dict as X": ({"ab": 1}, TypeError, "X is of type dict; expected a list of sequences"),
    "set as X": ({"ab"}, TypeError, "X is of type set; expected a list of sequences"),
    "bytes as X": (b"ab", TypeError, "X is of type bytes; expected a list of sequences"),
    "4-D array": (np.zeros((2, 2, 2, 2)), ValueError, "sequence 0 has 3 dimensions"),
    "number in place of a sequence": ([T, 3], ValueError, "sequence 1 is the number 3; expected"),
    "None in place of a sequence": ([None], ValueError, "sequence 0 has 0 dimensions"),
    "1-D sparse": ([sparse.coo_array(np.arange(3))], ValueError, "sequence 0 has 1 dimensions"),
    "ragged": ([[[1, 2], [3]]], ValueError, "ragged: position 0 has 2 values, position 1 has 1;"),
    "forms": ([T, "ab"], ValueError, "sequence 1 is a string, sequence 0 is a 2-D array of fl"),
    "dense and sparse": ([T, sparse.csr_array(T)], ValueError, "sequence 1 is a sparse matrix"),
    "strings and integers": (["ab", [1, 2]], TypeError, "some sequences hold strings, others int"),
    "mixed symbols": ([["a", 1]], TypeError, "sequence 0, position 1: symbol 1 is of type int"),
    "only missing symbols": ([[None, None], [None]], ValueError, "all symbols of X are missing"),
    "strings and integers with missing values": (
        [["a", None], [None, 1]],
        TypeError,
        "sequence 1, position 1: 1 is a number, but 'a' at sequence 0, position 0 is a string",
    ),
    "floats as symbols": ([[0.5, 1.0]], TypeError, "sequence 0 is a 1-D array of floats"),
    "floats among symbols": ([[1, 0.5]], TypeError, "sequence 0 is a 1-D array of floats"),
    "objects of floats": (
        [np.array([1, 0.5], dtype=object)],
        TypeError,
        "sequence 0 is a 1-D array of floats",
    ),
    "bytes as symbols": ([[b"a", b"b"]], TypeError, "sequence 0, position 0: symbol b'a' is of"),
    "huge integers": (
        [[2**70, 1]],
        ValueError,
        "sequence 0, position 0: symbol 1180591620717411303424 is outside the range of int64",
    ),
    "huge integers in an array": (
        [[1, 2], np.array([1, 2**70], dtype=object)],
        ValueError,
        "sequence 1, position 1: symbol 1180591620717411303424 is outside the range of int64",
    ),
    "unsigned integers": (
        [[1], np.array([1, 2**63], dtype=np.uint64)],
        ValueError,
        "sequence 1, position 1: symbol 9223372036854775808 is outside the range of int64",
    ),
    "large and small": (
        [[2**63, -1]],
        ValueError,
        "sequence 0, position 0: symbol 9223372036854775808 is outside the range of int64",
    ),
    "huge integers in a table": (
        [[[10**40], [10**400]]],
        ValueError,
        f"sequence 0, position 1, feature 0: 1{79 * '0'}... is outside the range of float64",
    ),
    "integers that Python does not write": (
        [[[10**5000]]],
        ValueError,
        "sequence 0, position 0, feature 0: an object of type int is outside the range of float64",
    ),
    "NUL at the end of a symbol": (
        [["a"], ["a", "b\0"]],
        ValueError,
        "sequence 1, position 1: symbol 'b\\x00' ends with a NUL character",
    ),
    "NUL": (["ab\0c"], ValueError, "sequence 0, position 2: symbol '\\x00' ends with a NUL char"),
    "complex": ([T + 1j], TypeError, "sequence 0 holds values of type complex128; expected"),
    "complex sparse": ([sparse.csr_array(T + 1j)], TypeError, "sequence 0 holds values of type co"),
    "dates": ([T.astype("M8[s]")], TypeError, "sequence 0 holds values of type datetime64[s]"),
    "strings among numbers": (
        [[[1, 2]], np.array([[1, 2], [0.5, "a"]], dtype=object)],
        TypeError,
        "sequence 1, position 1, feature 1: 'a' is a string, but 2 at sequence 1, position 0, feat",
    ),
    "dates among objects": (
        [[[1, datetime.date(2004, 1, 1)]]],
        TypeError,
        "sequence 0, position 0, feature 1: datetime.date(2004, 1, 1) is of type date; add",
    ),
    "objects in a table": (
        [np.array([[1, {}]], dtype=object)],
        TypeError,
        "sequence 0, position 0, feature 1: {} is of type dict; expected strings, numbers or bool",
    ),
    "NUL at the end of a category": (
        [np.array([["a"], ["b\0"]], dtype=object)],
        ValueError,
        "sequence 0, position 1, feature 0: 'b\\x00' ends with a NUL character",
    ),
    "table of objects as X": (T.astype(object), TypeError, "X is a 2-D array of object"),
    "records": ([np.zeros(2, dtype=[("a", int)])], TypeError, "sequence 0 holds symbols of type ["),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_X)
def test_bad_input_is_refused_by_fit_and_predict(case, tables):
    X, error, message = BAD_X[case]
    crf = small().fit(*tables)
    with pytest.raises(error, match=re.escape(message)) as refused:
        crf.fit(X, [[0, 1], [1, 0]])
    assert type(refused.value) is error
    if not is_empty_list(X) and "is empty" not in message:
        with pytest.raises((ValueError, TypeError)):
            crf.predict(X)


RARE = [np.ones(20), np.ones(20, bool), -np.ones(20), np.arange(20) - 9.5]


def rare(n_columns: int, values) -> tuple[list, list]:
    """Wide tables with the same 20 entries for any width, and labels that depend on some."""
    rng = np.random.default_rng(9)
    places = [(np.arange(20), rng.permutation(20)) for _ in range(5)]
    X = [sparse.csr_array((values, place), shape=(20, n_columns)) for place in places]
    return X, [(columns < 10).astype(int) for _, columns in places]


def calls_of(function) -> int:
    """Count the function calls while a function runs."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("values", RARE)
def test_empty_columns_cost_no_steps(values):
    crf = small().fit(*rare(30, values))
    narrow, wide = (
        calls_of(lambda X=X, y=y: crf.fit(X, y).predict(X))
        for X, y in (rare(30, values), rare(100_000, values))
    )
    assert wide < 1.1 * narrow


@pytest.mark.parametrize("values", RARE)
def test_empty_columns_cost_little_memory(values):
    X, y = rare(100_000, values)
    tracemalloc.start()
    try:
        small().fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 200 * 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_rare_values_of_either_sign_take_memory_where_they_are(sign):
    table = sparse.eye_array(2000, format="csr") * sign
    encoder = small().fit([table], [np.arange(2000) % 2])._encoder
    encoded = encoder.encode(as_sequences([table]))
    assert encoded.bits.size == 0
    assert len(encoded.list_ids) == 2000


def test_matrices_of_numpy_are_tables(integers):
    X, y = integers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrices = [np.matrix(table) for table in X]
        np.testing.assert_array_equal(fitted_probabilities(matrices, y), fitted_probabilities(X, y))


def test_sequences_that_do_not_fit_a_model_are_refused():
    """Sequences that were read without the model, as the command line reads files."""
    numbers, wide = as_sequences([np.zeros((2, 2))]), as_sequences([np.zeros((2, 3))])
    categories = as_sequences([[["a", 1.0], ["b", 2.0]]])
    with pytest.raises(ValueError, match="X has 3 features, the model was trained with 2"):
        wide.for_model(numbers.schema)
    with pytest.raises(TypeError, match="feature 0 was a category in training, but is a number"):
        numbers.for_model(categories.schema)


def test_prediction_refuses_another_width_or_form(trained, tables):
    numeric = small().fit(*tables)
    wide = [np.zeros((2, 3)), np.zeros((2, 4))]
    with pytest.raises(ValueError, match="sequence 1 has 4 features, the model was trained with 3"):
        numeric.predict(wide)
    with pytest.raises(TypeError, match="X holds symbols, but the model was trained on tables"):
        numeric.predict(["ab"])
    with pytest.raises(
        TypeError, match="symbols of X are integers, but the model was trained on strings"
    ):
        trained.predict([[1, 2]])
    for width in (1, 2):
        with pytest.raises(TypeError, match="X holds tables, but the model was trained on symbols"):
            trained.predict([np.zeros((2, width))])
    with pytest.raises(ValueError, match="y holds no known labels"):
        trained.score([], [])


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_only_0_and_1_are_booleans(store):
    X = [store(np.eye(3, dtype=bool)[:, :2]), store(np.eye(2, dtype=bool))]
    crf = small().fit(X, ["xyx", "yx"])
    expected = np.concatenate(crf.predict_proba(X))
    same = [store(table.astype(float)) for table in X]
    np.testing.assert_array_equal(np.concatenate(crf.predict_proba(same)), expected)
    odd = [same[0], store(np.array([[1.0, 0.0], [np.nan, 0.7]]))]
    with pytest.raises(TypeError, match=r"sequence 1, position 1, feature 1: 0.7 is neither 0 nor"):
        crf.predict(odd)


@given(garbage, garbage)
def test_garbage_works_or_raises(X, y):
    check_call(lambda: small(max_iter=1).fit(X, y).predict_proba(X))


@pytest.mark.filterwarnings("ignore:nothing in a sequence")
@given(garbage)
def test_prediction_of_garbage_works_or_raises(trained, X):
    check_call(lambda: trained.predict_proba(X))
    check_call(lambda: trained.predict_log_likelihood(X, X))
