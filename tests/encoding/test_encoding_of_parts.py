"""Thresholds and means of parts are those of all the sequences, whatever the limits of memory."""

import numpy as np
import pytest

from treecrf.encoding import imputation, learned_columns
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.large.local_partitions import LocalPartitions


@pytest.fixture
def gaps():
    """Tables with missing values."""
    rng = np.random.default_rng(0)
    tables = [np.round(rng.normal(size=(n, 4)) * 5) for n in rng.integers(1, 12, 24)]
    return [np.where(rng.random(table.shape) < 0.2, np.nan, table) for table in tables]


def test_a_bound_that_is_too_low_is_raised(gaps, monkeypatch):
    monkeypatch.setattr(learned_columns, "MAX_SAMPLES", 40)
    sequences = as_sequences(list(map(np.nan_to_num, gaps)))
    expected = Encoder((0, 0), 7).fit(sequences).columns.thresholds
    monkeypatch.setattr(learned_columns, "likely_bound", lambda n, n_items: 1 << 50)
    assert np.array_equal(Encoder((0, 0), 7).fit(sequences).columns.thresholds, expected)


def test_means_of_very_many_values(gaps, monkeypatch):
    sequences = as_sequences(gaps)
    parts = LocalPartitions([sequences.take(part) for part in np.split(np.arange(24), [3, 4, 19])])
    expected = imputation.means_of(LocalPartitions([sequences]))
    assert np.array_equal(imputation.means_of(parts), expected)
    monkeypatch.setattr(imputation, "MAX_VALUES", 1)
    assert np.array_equal(imputation.means_of(parts), expected)
