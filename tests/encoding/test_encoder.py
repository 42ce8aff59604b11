"""Columns, thresholds and storage: the input as the trees read it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from support.cases import STORAGES, random_sequences
from support.tree_oracle import meaning_of_tests

import treecrf.encoding.learned_columns
import treecrf.inputs.sequences
from treecrf import TreeCRF, TreeMEMM
from treecrf.encoding.column_layout import BITS, CODES, LISTS, NOWHERE, bundle
from treecrf.encoding.columns import MIN_BINS
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import as_sequences
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.threads import Threads

HUGE = 1.7e308


def fitted(sequences, window=(0, 0), max_bins=255):
    return Encoder(window, max_bins).fit(as_sequences(sequences))


def thresholds(values, max_bins=255, dtype=float):
    table = np.asarray(values, dtype=dtype)[:, np.newaxis]
    return fitted([table], max_bins=max_bins).columns[0].values


def fit_and_score(sequences, **parameters):
    """Return the probabilities of a model trained on random labels."""
    lengths = [s.shape[0] if sparse.issparse(s) else len(s) for s in sequences]
    labels = [np.random.default_rng(n).integers(0, 3, n) for n in lengths]
    # Folds depend on the values.
    settings = {
        "max_iter": 4,
        "window": 1,
        "l2_regularization": 1.0,
        "init": "zero",
        "early_stopping": False,
    }
    crf = TreeCRF(**settings | parameters)
    return np.concatenate(crf.fit(sequences, labels).predict_proba(sequences))


# Thresholds

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=MIN_BINS))
@example([1.0, np.nextafter(1.0, 2.0)])
@example([0.0, 5e-324, 1e-323, -5e-324])
@example([-HUGE, HUGE])
@example([HUGE, HUGE, -HUGE, 1e308])
@example([-0.0, 0.0])
def test_few_values_are_distinguished(values):
    distinct = np.unique(values)
    found = thresholds(values)
    assert len(found) == len(distinct) - 1
    assert (distinct[:-1] <= found).all()
    assert (found < distinct[1:]).all()


@pytest.mark.parametrize("low", [0.0, 1.0, -1.0, -5e-324])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_value_at_the_threshold_does_not_exceed_it(low, form):
    table = np.array([[low], [np.nextafter(low, 2.0)]])
    encoder = fitted([table])
    assert encoder.columns[0].values.tolist() == [low]
    assert encoder.encode(as_sequences([form(table)])).bits.ravel().tolist() == [0, 1]


@given(
    st.lists(st.floats(-3, 3) | st.integers(0, 4).map(float), min_size=1, max_size=80),
    st.integers(2, 12),
)
@example([2.0, 2.0, 2.0, 1.0, 0.0], 2)
@example([0.0, 0.0, 0.0, 1.0, 2.0], 2)
def test_thresholds_fit_the_bins(values, max_bins):
    found = thresholds(values, max_bins)
    assert len(found) <= max_bins - 1
    assert (np.diff(found) > 0).all()
    bins = np.searchsorted(found, values)
    assert (np.bincount(bins, minlength=len(found) + 1) > 0).all()
    assert (len(found) > 0) == (len(set(values)) > 1)


def test_codes_that_recur_have_a_bin_each():
    assert len(thresholds(list(range(60)) * 4)) == 59
    assert len(thresholds(list(range(60)) * 4, max_bins=20)) == 19 - 4
    assert len(thresholds(list(range(80)) * 3)) == MIN_BINS - 1


@pytest.mark.parametrize(
    ("n_positions", "max_leaf_nodes", "n_bins"),
    [
        (300, 64, 18),  # 16 positions a bin
        (4_000, 64, 128),
        (40_000, 64, 156),  # 4 positions a bin and leaf
        (20_000, 16, 255),
        (20_000, 1_000, 128),
        (70_000, 64, 255),
    ],
)
def test_automatic_bins_follow_from_positions_and_leaves(n_positions, max_leaf_nodes, n_bins):
    def n_of(values):
        encoder = Encoder((1, 0), "auto", max_leaf_nodes=max_leaf_nodes)
        columns = encoder.fit(as_sequences([values[:, np.newaxis]])).columns
        assert encoder.max_bins == 255
        return len(columns[0].values) + 1

    values = np.random.default_rng(0).permutation(n_positions).astype(float)
    assert n_of(values) == n_bins
    if n_positions >= 4 * 200:
        assert n_of(values % 200) == 200  # values that recur


def test_automatic_bins_follow_from_the_depth_of_trees():
    def n_of(**parameters):
        model = TreeMEMM(max_iter=1, early_stopping=False, **parameters).fit(X, y)
        return len(model._encoder.columns[0].values) + 1

    values = np.random.default_rng(0).normal(size=(4_000, 1))
    X = np.split(values, 40)
    y = [(x[:, 0] > 0).astype(int) for x in X]
    assert n_of() == n_of(max_leaf_nodes=16) == 128
    assert n_of(max_leaf_nodes=5) == 200
    assert n_of(max_depth=2) == 250
    assert n_of(max_depth=2, max_bins=50) == 50


@pytest.mark.parametrize("max_bins", [2, 3, 10, 255])
def test_bins_of_many_values_are_equally_full(max_bins):
    values = np.random.default_rng(0).normal(size=10_000)
    found = thresholds(values, max_bins)
    counts = np.bincount(np.searchsorted(found, values))
    assert len(counts) == max_bins
    assert np.abs(counts - 10_000 / max_bins).max() <= 2


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rare_values_of_either_sign_are_seen(form, sign):
    """Too few values differ from 0 for a quantile to fall on them."""
    table = np.zeros((100_000, 1))
    table[::1000, 0] = sign * np.arange(1, 101)
    encoder = Encoder((0, 0), 20).fit(as_sequences([form(table)]))
    assert encoder.columns[0].n_tests > 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float64])
def test_number_types(dtype):
    assert thresholds([1, 2, 2, 5], dtype=dtype).tolist() == [1.5, 3.5]


def test_neighbors_of_single_precision():
    low = np.float32(1)
    high = np.nextafter(low, np.float32(2))
    assert low <= thresholds([low, high], dtype=np.float32)[0] < high


def test_quantiles_come_from_a_sample_of_many_positions(monkeypatch):
    monkeypatch.setattr(treecrf.encoding.learned_columns, "MAX_SAMPLES", 500)
    table = np.random.default_rng(0).uniform(size=(5000, 2))
    pieces = np.split(table, 10)
    for sequences in (pieces, [sparse.csr_array(piece) for piece in pieces]):
        one, other = fitted(sequences, max_bins=4), fitted(sequences[::-1], max_bins=4)
        for column, again in zip(one.columns, other.columns, strict=True):
            np.testing.assert_allclose(column.values, [0.25, 0.5, 0.75], atol=0.1)
            np.testing.assert_array_equal(column.values, again.values)


# Storage


@pytest.mark.parametrize("kind", STORAGES)
def test_each_kind_of_input_reaches_its_storages(kind):
    encoder = fitted(random_sequences(kind, np.random.default_rng(0), [600]))
    assert set(encoder.layout.storage) - {NOWHERE} == STORAGES[kind]


def test_rare_and_common_columns_of_one_test():
    shares = np.array([0.5, 0.1])
    table = np.arange(100)[:, np.newaxis] < shares * 100
    for sequences in ([table], [table * 2.5], [sparse.csr_array(table)]):
        assert fitted(sequences).layout.storage.tolist() == [BITS, LISTS]


def test_constant_columns_have_no_test():
    table = np.full((20, 3), 4.0)
    encoder = fitted([table], (1, 1))
    assert (encoder.layout.storage == NOWHERE).all()
    tests = number_tests(encoder)
    assert sorted(tests.offsets[tests.columns == -1]) == [-1, 1]  # boundary tests remain
    assert (tests.columns < 0).all()
    assert np.isfinite(fit_and_score([table, table[:3]])).all()


@pytest.mark.parametrize("n_values", [1, 2, 252, 253])
def test_symbols_fit_a_byte(n_values):
    """Codes of symbols are followed by those of missing and of unseen ones."""
    symbols = [f"s{i}" for i in range(n_values)]
    encoder = fitted([symbols], (1, 0))
    assert encoder.layout.storage.tolist() == [CODES]
    assert encoder.layout.n_codes.tolist() == [n_values + 3]
    for new in ([*sorted(symbols), "unseen"], [*sorted(symbols), "unseen", None]):
        encoded = encoder.encode(as_sequences([new]))
        expected = [*range(n_values + 1), n_values + 2, n_values + 1]
        assert encoded.codes.ravel().tolist() == expected[: len(new) + 1]
        assert encoded.has_missing.tolist() == [None in new]


def test_more_symbols_are_listed():
    symbols = list(range(254))
    encoder = fitted([symbols], (1, 1))
    assert encoder.layout.storage.tolist() == [LISTS]
    encoded = encoder.encode(as_sequences([[*symbols, -1, 254, None]]))
    assert encoded.codes.ravel().tolist() == [0] + [1] * 257 + [0]
    assert encoded.list_ids.tolist() == [*symbols, 254]


@pytest.mark.parametrize(("n_values", "storage"), [(254, CODES), (255, LISTS)])
def test_categories_of_tables_fit_a_byte(n_values, storage):
    """Unseen categories are stored like absent ones, for which a table has a code anyway."""
    table = np.array([[f"s{i}"] for i in range(n_values)], dtype=object)
    encoder = fitted([table], (1, 0))
    assert encoder.layout.storage.tolist() == [storage]
    new = np.array([["s0"], ["unseen"], [None]], dtype=object)
    encoded = encoder.encode(as_sequences([new], encoder.schema))
    assert encoded.has_missing.all()
    if storage == CODES:
        assert encoded.codes.tolist() == [[0, 0], [1, 1], [1, 0], [1, 255]]
    else:
        assert np.diff(encoded.list_starts).tolist() == [0, 1, 0, 1]


def test_numbers_fit_a_byte():
    encoder = fitted([np.arange(10_000.0)[:, np.newaxis]], (1, 1))
    encoded = encoder.encode(as_sequences([np.array([[-HUGE], [5000.0], [HUGE]])]))
    assert encoded.codes[1:4, 1].tolist() == [0, 127, 254]
    assert encoder.columns[0].n_tests == 254


@pytest.mark.parametrize("window", [(0, 0), (1, 1), (2, 0), (0, 3)])
@pytest.mark.parametrize("kind", STORAGES)
def test_every_column_has_its_tests_at_every_offset(kind, window):
    encoder = fitted(random_sequences(kind, np.random.default_rng(0), [60, 1]), window)
    tests = number_tests(encoder)
    used = tests.columns >= -1
    tested = np.stack([tests.columns, tests.offsets, tests.values], axis=1)[used].tolist()
    offsets = range(-window[0], window[1] + 1)
    expected = {(-1, offset, 0) for offset in offsets if offset}
    for j, column in enumerate(encoder.columns):
        expected |= {(j, offset, v) for offset in offsets for v in range(column.n_tests)}
    assert len(tested) == len(expected)
    assert set(map(tuple, tested)) == expected
    meanings = meaning_of_tests(encoder, *(np.array(list(expected)).reshape(-1, 3).T))
    assert len(set(meanings)) == len(expected)
    in_a_run = np.zeros(tests.n_bins, dtype=bool)
    for start, end in zip(tests.run_starts, tests.run_ends, strict=True):
        assert not in_a_run[start:end].any()
        in_a_run[start:end] = True
    np.testing.assert_array_equal(in_a_run, used)
    assert (np.diff(tests.feature_starts) > 0).all()


@pytest.mark.parametrize("kind", STORAGES)
def test_input_is_encoded_piece_by_piece(kind, monkeypatch):
    sequences = as_sequences(random_sequences(kind, np.random.default_rng(0), [9, 1, 5, 30, 2, 2]))
    encoder = Encoder((2, 1)).fit(sequences)
    whole = encoder.encode(sequences)
    monkeypatch.setattr(treecrf.inputs.sequences, "PIECE_BYTES", 40)
    assert len(list(sequences.pieces())) > 1
    again = Encoder((2, 1)).fit(sequences)
    parts = again.encode(sequences)
    for name in ("row_of_position", "codes", "bits", "list_starts", "list_ids"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


# Bundles


def test_exclusive_columns_share_a_code():
    first, second = np.divmod(np.arange(12 * 14), 14)
    table = sum(np.arange(24) == group[:, np.newaxis] for group in (first, second + 12)) * 2.5
    encoder = fitted([sparse.csr_array(table)], (1, 0))
    encoded = encoder.encode(as_sequences([sparse.csr_array(table)]))
    layout, stored = bundle(encoder.layout, encoded)
    assert (encoder.layout.storage == LISTS).all()
    assert (layout.storage == CODES).all()
    slots = layout.slots
    assert [len(set(part)) for part in (slots[:12], slots[12:24], slots)] == [1, 1, 2]
    assert layout.n_ids == len(stored.list_ids) == 0
    codes = stored.codes[np.ix_(stored.row_of_position, layout.slots)]
    np.testing.assert_array_equal(codes == layout.first_codes, table > 0)
    assert not stored.codes[0].any()  # before the sequence


def test_columns_that_meet_stay_in_lists():
    table = np.arange(20) == np.arange(100)[:, np.newaxis] % 25
    table[0] = True
    encoder = fitted([sparse.csr_array(table)])
    encoded = encoder.encode(as_sequences([sparse.csr_array(table)]))
    layout, stored = bundle(encoder.layout, encoded)
    assert layout is encoder.layout
    assert stored is encoded


def test_depths():
    encoded = fitted(["abc"]).encode(as_sequences(["abca", "b", "cc"]))
    assert encoded.depth_of(2).tolist() == [0, 1, 2, 2, 0, 0, 1]
    assert encoded.depth_of(0).tolist() == [0] * 7


def test_input_of_another_form_is_refused():
    with pytest.raises(TypeError, match="trained on symbols"):
        fitted(["abc"]).encode(as_sequences([np.zeros((2, 1))]))
    with pytest.raises(TypeError, match="trained on table"):
        fitted([np.zeros((2, 1))]).encode(as_sequences(["abc"]))
    with pytest.raises(TypeError, match=r"are integers, but the model was trained on strings"):
        fitted(["abc"]).encode(as_sequences([[1, 2]]))


# The same data in other forms


def assert_same_model(one, other, **parameters):
    np.testing.assert_array_equal(
        fit_and_score(one, **parameters), fit_and_score(other, **parameters)
    )


def test_a_large_number_is_no_worse_than_a_small_one():
    tables = [np.random.default_rng(n).integers(-2, 3, (n, 3)).astype(float) for n in (40, 1, 20)]
    assert_same_model(tables, [t * 0.85e308 for t in tables])
    assert_same_model(tables, [t * 5e-324 for t in tables])


# Sparse tests on negative numbers point the other way, yet they are false beyond the ends of a
# Missing values

NAN = np.nan


def missing_in(encoder, sequences, j):
    """Mark where an encoded column is missing, by its code or its id."""
    encoded, layout = encoder.encode(as_sequences(sequences)), encoder.layout
    if layout.storage[j] == CODES:
        return encoded.codes[encoded.row_of_position, layout.slots[j]] == layout.missing_codes[j]
    lists = np.split(encoded.list_ids, encoded.list_starts[1:-1])
    return np.array([layout.missing_ids[j] in lists[row] for row in encoded.row_of_position])


def with_missing(table, rate, rng):
    table = np.array(table, dtype=float)
    table[rng.uniform(size=table.shape) < rate] = NAN
    return table


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("rate", [0, 0.2])
def test_missing_values_are_marked_in_every_storage(form, rate):
    """Numbers, common and rare columns of one test, with and without missing training values."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=300), rng.random(300) < 0.5, rng.random(300) < 0.05]
    table = np.stack(columns, axis=1).astype(float)
    training, other = with_missing(table, rate, rng), with_missing(table, 0.4, rng)
    encoder = fitted([form(training)], (1, 2))
    assert encoder.layout.has_missing.tolist() == [rate > 0] * 3
    assert encoder.encode(as_sequences([form(other)])).has_missing.all()
    for j in range(3):
        for values in (training, other):
            found = missing_in(encoder, [form(values)], j)
            np.testing.assert_array_equal(found, np.isnan(values[:, j]))


def test_missing_values_change_no_threshold():
    rng = np.random.default_rng(0)
    table = with_missing(rng.integers(0, 9, (200, 1)), 0.3, rng)
    present = table[~np.isnan(table)][:, np.newaxis]
    for form in (np.asarray, sparse.csr_array):
        found = fitted([form(table)]).columns[0].values
        np.testing.assert_array_equal(found, thresholds(present[:, 0]))


def test_columns_without_values_have_no_test():
    table = np.array([[NAN, 1.0, NAN], [NAN, 2.0, 3.0]])
    for form in (np.asarray, sparse.csr_array):
        encoder = fitted([form(table)])
        assert encoder.columns.n_tests.tolist() == [0, 1, 0]
        assert encoder.layout.has_missing.tolist() == [False, False, True]
        assert fitted([form(table[:, :1])]).columns.n_tests.tolist() == [0]


def test_ids_of_missing_training_values_come_first():
    rng = np.random.default_rng(0)
    rare = (rng.random((400, 6)) < 0.05).astype(float)
    rare[5, [1, 4]] = NAN
    layout = fitted([sparse.csr_array(rare)]).layout
    assert (layout.n_ids, layout.n_missing_ids, layout.n_all_ids) == (6, 2, 12)
    assert sorted(layout.missing_ids[[1, 4]]) == [6, 7]
    assert sorted(layout.missing_ids) == list(range(6, 12))


def test_columns_with_missing_values_are_not_bundled():
    rng = np.random.default_rng(0)
    indicators = np.eye(20)[rng.integers(0, 20, 300)]
    indicators[7, 2] = NAN
    sequences = as_sequences([sparse.csr_array(indicators)])
    encoder = Encoder((0, 0)).fit(sequences)
    assert (encoder.layout.storage == LISTS).all()
    layout, encoded = bundle(encoder.layout, encoder.encode(sequences))
    assert np.flatnonzero(layout.storage != CODES).tolist() == [2]
    assert (layout.n_ids, layout.missing_ids[2], layout.n_all_ids, encoded.n_ids) == (1, 1, 2, 2)
    assert np.bincount(encoded.list_ids).tolist() == [np.nansum(indicators[:, 2]), 1]


# Absent values


@pytest.mark.parametrize(
    "X",
    [
        [[{"a": "x"}, {}, {"a": "y"}, {}], [{}]],
        [[{"a": "x", "b": 1}, {"b": 2}, {"a": "y", "b": 3}, {"b": 1}], [{"b": 1}]],
    ],
)
def test_absent_categories_differ_from_boundaries(X):
    y = [["first", "second", "third", "last"], ["last"]]
    crf = TreeCRF(window=1, order=0, max_iter=5, l2_regularization=0.1).fit(X, y)
    encoder = crf._encoder
    encoded = encoder.encode(as_sequences(X, encoder.schema))
    table = number_tests(encoder)
    ends = [t for t in range(table.n_bins) if table.columns[t] == -1]
    assert [table.offsets[t] for t in ends] == [-1, 1]
    rows = encoded.row_of_position
    found = [(encoded.codes[rows + table.offsets[t], table.slots[t]] == table.lows[t]).tolist()
             for t in ends]  # fmt: skip
    assert found == [[True, False, False, False, True], [False, False, False, True, True]]


def test_letters_with_indicators_differ_from_boundaries():
    crf = TreeCRF(window=1, missing="indicator", max_iter=2).fit([["a", None, "b"]], ["xyx"])
    encoder = crf._encoder
    codes = encoder.encode(as_sequences([["a", None, "b"]], encoder.schema)).codes
    assert codes[:, 0].tolist() == [0, 1, 1, 1, 0]


# Threads


@pytest.mark.parametrize("missing", ["weighting", "impute", "indicator"])
@pytest.mark.parametrize("kind", STORAGES)
def test_threads_change_nothing(kind, missing, monkeypatch):
    monkeypatch.setattr(treecrf.inputs.sequences, "PIECE_BYTES", 40)
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 12, 60)
    sequences = as_sequences(random_sequences(kind, rng, lengths))
    encoder = Encoder((1, 1), missing=missing).fit(sequences)
    expected = encoder.encode(sequences)
    with Threads(4) as threads:
        encoded = encoder.encode(sequences, threads)
    for name in ("row_of_position", "codes", "bits", "list_starts", "list_ids", "has_missing"):
        np.testing.assert_array_equal(getattr(encoded, name), getattr(expected, name))
