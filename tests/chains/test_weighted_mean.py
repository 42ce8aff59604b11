"""Means of the values of sequences, weighted by sample weights."""

from __future__ import annotations

import numpy as np
import pytest

from treecrf.chains.weighted_mean import WeightedMean


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_parts_give_the_mean_of_all(weighted):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 50)
    offsets = np.append(0, np.cumsum(lengths))
    weights = rng.uniform(0.01, 40, offsets[-1]) if weighted else None
    values = -rng.exponential(size=50)
    for n_parts in (1, 2, 7):
        sums = []
        for chosen in np.array_split(rng.permutation(50), n_parts):
            positions = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in chosen])
            of_part = WeightedMean(
                weights[positions] if weighted else None, np.append(0, np.cumsum(lengths[chosen]))
            ).of_part(weights.max() if weighted else None)
            sums.append(of_part.sums(values[chosen]))
        total = sums[0]
        for of_part in sums[1:]:
            total += of_part
        assert float(total) == WeightedMean(weights, offsets)(values)
    expected = values.sum() / offsets[-1]
    if weighted:
        means = np.add.reduceat(weights, offsets[:-1]) / lengths
        expected = (means * values).sum() / (means * lengths).sum()
    assert float(total) == pytest.approx(expected)
