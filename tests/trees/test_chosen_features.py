"""Trees that test some features only are those of an exhaustive search among these."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.cases import STORAGES, STORAGES_WITH_MISSING, random_with_missing
from support.growing import LENGTHS, WINDOWS, Positions, Setting, random_positions
from support.sweeps import pairs
from test_list_grower import grow, list_examples, list_grower

# Of the features at a node: nodes have histograms of their own, or differences of those of others.
FRACTIONS = [1.0, 0.8, 0.3, 0.05]
# With the seeds of fast tests.
FAST = [(0.3, 0), (0.05, 1), (0.8, 2), (0.3, 3), (1.0, 0), (0.8, 1), (0.05, 2), (1.0, 3)]


def assert_searches_chosen(positions, rng):
    """Compare trees of both growers with those of an exhaustive search."""
    setting, grower, growing = positions.setting, positions.grower(), list_grower(positions, 3)
    for fraction in (0.4, None, 1.0, 0.1):
        chosen, seed = None, int(rng.integers(2**63))
        if fraction is not None:
            chosen = (rng.random(positions.table.n_features) < fraction).astype(np.uint8)
        examples = positions.draw_examples(rng)
        expected = positions.check(grower, rng, examples, chosen, seed)
        grown = grow(growing, list_examples(positions, *examples), seed=seed, chosen=chosen)
        for name, values in expected.items():
            # Positions do not have weights there.
            if name != "share" or not (setting.weighted and setting.second_order):
                np.testing.assert_array_equal(grown[name], values, err_msg=name)


@pytest.mark.parametrize(
    ("max_features", "seed"),
    pairs(product(FRACTIONS, range(24)), lambda fraction, seed: (fraction, seed) in FAST),
)
@pytest.mark.parametrize("kind", STORAGES)
def test_chosen_features(kind, max_features, seed):
    rng = np.random.default_rng(seed)
    positions = random_positions(
        kind,
        rng,
        lengths=LENGTHS[seed % 5 if kind == "words" else seed % 6],
        order=seed % 3,
        window=WINDOWS[seed % 4],
        max_leaf_nodes=20,
        l2=0.0,
        max_features=max_features,
        min_samples_leaf=1 + seed % 2,
        second_order=seed % 4 > 1,
        weighted=seed % 3 > 0,
        monotonic=seed % 5 == 4,
    )
    assert_searches_chosen(positions, rng)


@pytest.mark.parametrize(
    ("missing", "max_features", "seed"),
    pairs(
        product(["weighting", "surrogate"], FRACTIONS, range(12)),
        lambda missing, fraction, seed: (
            (fraction, seed) == FAST[0] or ((fraction, seed) == FAST[1] and missing == "surrogate")
        ),
    ),
)
@pytest.mark.parametrize("kind", STORAGES_WITH_MISSING)
def test_chosen_features_with_missing_values(kind, max_features, missing, seed):
    rng = np.random.default_rng(seed)
    settings = {"max_features": max_features, "second_order": seed % 2 > 0, "order": seed % 3}
    setting = Setting(missing=missing, unit=2.0**-12, max_leaf_nodes=20, **settings)
    positions = Positions(random_with_missing(kind, rng, (9, 1, 14, 30), 0.3), rng, setting)
    assert_searches_chosen(positions, rng)
