"""Encoders that learn from parts of the sequences are equal to those that learn from all."""

import numpy as np
import pytest
from scipy import sparse
from support.family import assert_equal_arrays

from treecrf.encoding import columns, imputation
from treecrf.encoding.encoder import METHODS, Encoder
from treecrf.encoding.sequence_keys import input_hashes, keys_of
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.sequences import Description
from treecrf.utils.partitions import LocalPartitions, PartitionsView

NAN = np.nan


def inputs():
    """Yield sequences in all forms, some of them twice."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, 24)
    tables = [np.round(rng.normal(size=(n, 4)) * 5) * [1, 1, 1, 0] for n in lengths]
    for table in tables:
        table[:, 1] = rng.random(len(table)) < 0.5
        table[rng.random(table.shape) < 0.2] = NAN
    tables[3], tables[17] = tables[5], tables[5]
    yield "dense", tables
    yield "numbers", [np.nan_to_num(table) for table in tables]
    yield "booleans", [table > 1 for table in tables]
    yield "sparse", [sparse.csr_array(table) for table in tables]
    yield "symbols", ["".join(rng.choice(list("abcdefg"), n)) for n in lengths]
    yield "integers", [rng.integers(0, 300, n) for n in lengths]
    words = ["a", "bb", None, "ccc"]
    yield "missing symbols", [list(rng.choice(words, n)) for n in lengths]
    rows = [[{"x": float(rng.normal()), f"w{rng.integers(9)}": True} for _ in range(n)]
            for n in lengths]  # fmt: skip
    for row in rows[2]:
        row |= {"word": str(rng.choice(list("xyz"))), "gone": None}
    yield "dicts", rows
    objects = [np.stack([rng.choice(words, n), rng.normal(size=n)], axis=1) for n in lengths]
    for table in objects:
        table[:, 1] = table[:, 1].astype(float)
    yield "categories", objects


INPUTS = dict(inputs())


def cuts(n, n_parts, seed):
    rng = np.random.default_rng(seed)
    bounds = np.sort(rng.choice(np.arange(1, n), n_parts - 1, replace=False))
    parts = np.split(np.arange(n), bounds)
    rng.shuffle(parts)
    return parts


@pytest.mark.parametrize("missing", METHODS)
@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("max_samples", [40, 1000])
def test_learns_the_same_from_parts(form, missing, max_samples, monkeypatch):
    monkeypatch.setattr(columns, "MAX_SAMPLES", max_samples)
    monkeypatch.setattr(columns, "MAX_BYTES", 8 * max_samples)
    sequences = as_sequences(INPUTS[form])
    whole = Encoder((1, 1), 7, missing).fit(sequences, 3)
    values, arrays = whole.state()
    for n_parts in (1, 2, 5, 24):
        parts = [sequences.take(chosen) for chosen in cuts(sequences.n_sequences, n_parts, n_parts)]
        encoder = Encoder((1, 1), 7, missing)
        encoder.fit_parts(LocalPartitions(parts), Description.of(sequences), 3)
        other_values, other_arrays = encoder.state()
        assert other_values == values
        assert list(other_arrays) == list(arrays)
        assert_equal_arrays(other_arrays.values(), arrays.values())


@pytest.mark.parametrize("form", ["dense", "symbols"])
def test_keys_of_parts_are_those_of_all(form):
    sequences = as_sequences(INPUTS[form])
    keys = keys_of([input_hashes(sequences)])[0]
    assert len(set(keys.tolist())) == len(keys)
    for n_parts in (2, 5, 24):
        parts = cuts(sequences.n_sequences, n_parts, n_parts)
        partitions = PartitionsView(LocalPartitions(parts), sequences.take)
        found = partitions.derive(input_hashes).reduce(keys_of)
        assert sorted(np.concatenate(found).tolist()) == sorted(keys.tolist())
        assert [len(some) for some in found] == [len(chosen) for chosen in parts]


def test_a_bound_that_is_too_low_is_raised(monkeypatch):
    monkeypatch.setattr(columns, "MAX_SAMPLES", 40)
    sequences = as_sequences(INPUTS["numbers"])
    expected = Encoder((0, 0), 7).fit(sequences).columns.thresholds
    monkeypatch.setattr(columns, "likely_bound", lambda n, n_items: 1 << 50)
    assert np.array_equal(Encoder((0, 0), 7).fit(sequences).columns.thresholds, expected)


def test_means_of_very_many_values(monkeypatch):
    sequences = as_sequences(INPUTS["dense"])
    parts = LocalPartitions(
        [sequences.take(chosen) for chosen in cuts(sequences.n_sequences, 5, 0)]
    )
    expected = imputation.means_of(LocalPartitions([sequences]))
    assert np.array_equal(imputation.means_of(parts), expected)
    monkeypatch.setattr(imputation, "MAX_VALUES", 1)
    assert np.array_equal(imputation.means_of(parts), expected)
