"""Keys of sequences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.sequence_keys import input_hashes, keys_of, sequence_keys
from treecrf.inputs.dataset import as_sequences

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


def input_keys(*args):
    return keys_of([input_hashes(*args)])[0]


def both_keys(X, codes):
    """Keys of encoded sequences and of sequences that are not encoded yet."""
    sequences = as_sequences(X)
    encoded = Encoder((1, 1)).fit(sequences).encode(sequences)
    codes = np.concatenate(codes).astype(np.int32)
    return sequence_keys(encoded, codes), input_keys(sequences, codes)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("which", [0, 1])
def test_keys_follow_their_sequences(make, which):
    rng = np.random.default_rng(1)
    X, codes = make(rng), [rng.integers(3, size=n) for n in LENGTHS]
    # Two identical sequences, and one with other labels.
    X, codes = [*X, X[3], X[3]], [*codes, codes[3], (codes[3] + 1) % 3]
    keys = both_keys(X, codes)[which]
    assert len(np.unique(keys)) == len(keys)
    order = np.array([9, 5, 10, 1, 0, 8, 7, 2, 3, 6, 4])
    others = both_keys([X[i] for i in order], [codes[i] for i in order])[which]
    expected = keys[order]
    # The first of identical sequences has the rank 0.
    expected[[0, 8]] = expected[[8, 0]]
    assert others.tolist() == expected.tolist()


@pytest.mark.parametrize("make", KINDS)
def test_each_value_matters(make):
    rng = np.random.default_rng(2)
    X, codes = make(rng), [np.zeros(n) for n in LENGTHS]
    reverse = [x[::-1] for x in X]
    first, second = both_keys(X, codes), both_keys(reverse, codes)
    unchanged = {n for n, length in enumerate(LENGTHS) if length == 1}
    for a, b in zip(first, second, strict=True):
        assert unchanged <= set(np.flatnonzero(a == b).tolist())
        assert (a == b).mean() < 0.7


def test_input_keys_do_not_depend_on_storage():
    rng = np.random.default_rng(3)
    X = sparse_tables(rng)
    dense = [x.toarray() for x in X]
    unsorted = [sparse.csr_array(x.tocsc().tocoo()) for x in X]
    for x in unsorted:
        x.indices[:], x.data[:] = x.indices[::-1].copy(), x.data[::-1].copy()
        x.indptr[:] = x.indptr[-1] - x.indptr[::-1].copy()
    expected = input_keys(as_sequences(dense)).tolist()
    assert input_keys(as_sequences(X)).tolist() == expected
    whole = as_sequences([np.where(x == 0, -0.0, x) for x in dense])
    assert input_keys(whole).tolist() == expected


def test_possible_labels_are_part_of_a_key():
    sequences = as_sequences(["ab", "ab"])
    encoded = Encoder((0, 0)).fit(sequences).encode(sequences)
    codes, allowed = np.zeros(4, dtype=np.int32), np.ones((4, 2), dtype=bool)
    allowed[3, 1] = False
    for keys_for, data in ((sequence_keys, encoded), (input_keys, sequences)):
        keys = keys_for(data, codes, allowed)
        swapped = keys_for(data, codes, allowed[[2, 3, 0, 1]])
        assert keys.tolist() == swapped[::-1].tolist()


def test_many_runs_of_sequences():
    rng = np.random.default_rng(4)
    X = [rng.integers(5, size=200) for _ in range(300)]
    codes = [rng.integers(2, size=200) for _ in X]
    parts = both_keys(X[:100], codes[:100]), both_keys(X, codes)
    for some, every in zip(*parts, strict=True):
        assert some.tolist() == every[:100].tolist()
