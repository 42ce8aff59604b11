"""Keys of sequences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf.encoding.sequence_keys import Content, keys_in, sequence_keys
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.large.local_partitions import LocalPartitions

LENGTHS = [1, 3, 2, 5, 5, 1, 4, 2, 5]


def symbols(rng):
    return ["".join(rng.choice(list("abcäß"), n)) for n in LENGTHS]


def words(rng):
    return [rng.choice(["a", "bb", "a long word"], n).astype("U11") for n in LENGTHS]


def numbers(rng):
    tables = [rng.normal(size=(n, 3)) for n in LENGTHS]
    tables[1][0, 0] = np.nan
    return tables


def sparse_tables(rng):
    tables = [np.where(rng.random((n, 30)) < 0.2, rng.random((n, 30)), 0) for n in LENGTHS]
    return list(map(sparse.csr_array, tables))


def dicts(rng):
    return [
        [{f"f{rng.integers(4)}": 1.5, "word": str(rng.choice(["x", "yy"]))} for _ in range(n)]
        for n in LENGTHS
    ]


def booleans(rng):
    return [rng.random((n, 20)) < 0.5 for n in LENGTHS]


KINDS = [symbols, words, numbers, sparse_tables, dicts, booleans]


def keys_for(X, codes, **others):
    content = Content(as_sequences(X), np.concatenate(codes).astype(np.int32), **others)
    return sequence_keys(content).tolist()


def labels(rng):
    return [rng.integers(3, size=n) for n in LENGTHS]


@pytest.mark.parametrize("make", KINDS)
def test_keys_follow_their_sequences(make):
    rng = np.random.default_rng(1)
    X, codes = make(rng), labels(rng)
    # Two identical sequences, and one with other labels.
    X, codes = [*X, X[3], X[3]], [*codes, codes[3], (codes[3] + 1) % 3]
    keys = keys_for(X, codes)
    assert len(set(keys)) == len(keys)
    order = [9, 5, 10, 1, 0, 8, 7, 2, 3, 6, 4]
    others = keys_for([X[i] for i in order], [codes[i] for i in order])
    expected = [keys[i] for i in order]
    # The first of identical sequences has the rank 0.
    expected[0], expected[8] = expected[8], expected[0]
    assert others == expected


@pytest.mark.parametrize("make", KINDS)
def test_keys_do_not_depend_on_numbers_of_labels(make):
    rng = np.random.default_rng(5)
    X, codes = make(rng), labels(rng)
    renamed = [np.array([2, 0, 1])[of_sequence] for of_sequence in codes]
    assert keys_for(X, renamed) == keys_for(X, codes)
    other = [of_sequence.copy() for of_sequence in codes]
    other[4][2] = (other[4][2] + 1) % 3
    assert keys_for(X, other) != keys_for(X, codes)


def permuted_columns(X, rng):
    """Sequences with the columns of tables in another order, or with other names in others."""
    if isinstance(X[0], str):
        return ["".join(map(dict(zip("abcäß", "ßxbay", strict=True)).get, x)) for x in X]
    if isinstance(X[0], list):
        names = {"f0": "z", "f1": "y", "f2": "a", "f3": "b", "word": "m"}
        words = {"x": "yy", "yy": "abc"}
        return [[{names[k]: words.get(v, v) for k, v in row.items()} for row in x] for x in X]
    if X[0].ndim == 1:
        words = {"a": "zz", "bb": "a", "a long word": "b"}
        return [np.array([words[symbol] for symbol in x.tolist()]) for x in X]
    order = rng.permutation(X[0].shape[1])
    return [x[:, order] for x in X]


@pytest.mark.parametrize("make", KINDS)
def test_keys_do_not_depend_on_the_order_of_columns(make):
    rng = np.random.default_rng(6)
    X, codes = make(rng), labels(rng)
    assert keys_for(permuted_columns(X, rng), codes) == keys_for(X, codes)


def test_short_sequences_of_indicators_have_different_keys():
    # Each hash of a row alone would be the same for any column.
    X = [np.eye(12)[[i]] for i in range(12) for _ in range(i + 1)]
    codes = [np.zeros(1) for _ in X]
    keys = keys_for(X, codes)
    assert len(set(keys)) == len(X)
    order = np.random.default_rng(0).permutation(12)
    assert keys_for([x[:, order] for x in X], codes) == keys


def test_columns_that_are_alike_are_ordered_by_number():
    # These sequences differ in the names of two columns only, and in nothing else.
    X, codes = [np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]])], [np.zeros(1), np.zeros(1)]
    first, second = keys_for(X, codes)
    assert first != second
    assert keys_for(X[::-1], codes) == [second, first]


@pytest.mark.parametrize("make", KINDS)
def test_each_value_matters(make):
    rng = np.random.default_rng(2)
    X = make(rng)
    X = [*X, X[3], X[3][::-1], X[4], X[4][::-1]]
    codes = [np.zeros(len(x) if isinstance(x, str | list) else x.shape[0]) for x in X]
    assert len(set(keys_for(X, codes))) == len(X)


def test_parts_have_the_keys_of_all_sequences():
    rng = np.random.default_rng(7)
    for make in (numbers, sparse_tables, booleans, symbols, words):
        X, codes = make(rng), labels(rng)
        parts = [
            Content(as_sequences(X[i:j]), np.concatenate(codes[i:j]).astype(np.int32))
            for i, j in ((0, 2), (2, 3), (3, 9))
        ]
        keys = keys_in(LocalPartitions(parts))
        assert np.concatenate(keys).tolist() == keys_for(X, codes)


def test_keys_do_not_depend_on_storage():
    rng = np.random.default_rng(3)
    X, codes = sparse_tables(rng), labels(rng)
    dense = [x.toarray() for x in X]
    unsorted = [sparse.csr_array(x.tocsc().tocoo()) for x in X]
    for x in unsorted:
        x.indices[:], x.data[:] = x.indices[::-1].copy(), x.data[::-1].copy()
        x.indptr[:] = x.indptr[-1] - x.indptr[::-1].copy()
    expected = keys_for([x[::-1] for x in dense], [of[::-1] for of in codes])
    assert keys_for(unsorted, [of[::-1] for of in codes]) == expected
    whole = [np.where(x == 0, -0.0, x) for x in dense]
    assert keys_for(whole, codes) == keys_for(dense, codes) == keys_for(X, codes)
    fortran = [np.asfortranarray(x) for x in dense]
    assert keys_for(fortran, codes) == keys_for(dense, codes)
    flags = booleans(rng)
    assert keys_for([x.astype(float) for x in flags], codes) == keys_for(flags, codes)


def test_missing_symbols_are_symbols():
    codes = [np.zeros(3), np.zeros(3)]
    keys = keys_for([["a", None, "b"], ["a", "b", None]], codes)
    assert keys == keys_for([["x", "é", "k"], ["x", "k", "é"]], codes)
    assert keys != keys_for([["a", "b", "b"], ["a", "b", None]], codes)


def test_possible_labels_are_part_of_a_key():
    sequences, codes = as_sequences(["ab", "ab"]), np.zeros(4, dtype=np.int32)
    mask = np.ones((4, 2), dtype=bool)
    mask[3, 1] = False
    for name in ("allowed", "candidates"):
        keys = sequence_keys(Content(sequences, codes, **{name: mask}))
        swapped = sequence_keys(Content(sequences, codes, **{name: mask[[2, 3, 0, 1]]}))
        assert keys.tolist() == swapped[::-1].tolist()
        renamed = Content(sequences, 1 - codes, **{name: mask[:, ::-1]})
        assert sequence_keys(renamed).tolist() == keys.tolist()


def test_known_labels_and_no_constraints_change_nothing():
    rng = np.random.default_rng(8)
    X, codes = numbers(rng), labels(rng)
    eye = np.eye(3, dtype=bool)[np.concatenate(codes)]
    assert keys_for(X, codes, candidates=eye) == keys_for(X, codes)
    assert keys_for(X, codes, allowed=np.ones_like(eye)) == keys_for(X, codes)


def test_weights_order_sequences_of_equal_content():
    X, codes = [np.ones((2, 1))] * 3, [np.array([0, 1])] * 3
    weights = np.array([1.0, 1, 2, 2, 3, 3])
    keys = keys_for(X, codes, weights=weights)
    assert sorted(keys) == sorted(keys_for(X, codes))
    assert keys_for(X, codes, weights=weights[::-1].copy()) == keys[::-1]


def test_many_runs_of_sequences():
    rng = np.random.default_rng(4)
    X = [rng.integers(5, size=200) for _ in range(300)]
    codes = [rng.integers(2, size=200) for _ in X]
    order = rng.permutation(300)
    keys = keys_for(X, codes)
    others = keys_for([X[i] for i in order], [codes[i] for i in order])
    assert others == [keys[i] for i in order]
