"""Statistics over windows, compared with a computation for each window alone."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest

from treecrf.preprocessing import RollingFeatures

WINDOWED = ["difference", "zscore", "mean", "std", "min", "max", "range", "slope", "sum", "count"]
EVENTS = ["since_true", "since_change"]


def window_of(x: np.ndarray, t: int, length: int, centered: bool) -> np.ndarray:
    """Return the positions of a window."""
    n_after = (length - 1) // 2 if centered else 0
    return np.arange(max(0, t + n_after - length + 1), min(len(x), t + n_after + 1))


def statistic(name: str, x: np.ndarray, t: int, positions: np.ndarray) -> float:
    """Compute a statistic of the values at some positions, with extended precision."""
    positions = positions[~np.isnan(x[positions])]
    values = x[positions].astype(np.longdouble)
    if name == "count":
        return len(values)
    if not len(values):
        return np.nan
    # Around 1e9, even these numbers would lose digits without differences.
    centered = values - values[0]
    mean = centered.mean()
    difference = x[t] - values[0] - mean
    centered -= mean
    deviation = np.sqrt((centered**2).mean())
    if name == "zscore":
        return difference / deviation if deviation else difference * 0
    if name == "slope":
        if len(values) < 2:
            return np.nan
        t = positions - positions.mean(dtype=np.longdouble)
        return (t * centered).sum() / (t**2).sum()
    simple = {
        "difference": difference,
        "mean": values[0] + mean,
        "std": deviation,
        "min": values.min(),
        "max": values.max(),
        "range": values.max() - values.min(),
        "sum": (values[0] + mean) * len(values),
    }
    return simple[name]


def with_scale(name: str, x: np.ndarray, t: int, positions: np.ndarray) -> tuple[float, float]:
    """Return a statistic, and the size of which rounding errors are a small part."""
    value = float(statistic(name, x, t, positions))
    values = x[positions][~np.isnan(x[positions])]
    if not len(values) or name in ("zscore", "count"):
        return value, 1 + abs(np.nan_to_num(value))
    if name in ("mean", "sum"):
        return value, np.abs(values).max() * len(values)
    return value, np.ptp(values) + np.abs(np.nan_to_num(x[t]) - values[0])


def since(name: str, x: np.ndarray) -> list[float]:
    """Count the positions since an event, from the events before each position."""
    known = [t for t in range(len(x)) if not np.isnan(x[t])]
    events = [t for t in known if x[t] != 0]
    if name == "since_change":
        events = [after for before, after in itertools.pairwise(known) if x[before] != x[after]]
    return [t - max(e for e in events if e <= t) if events and events[0] <= t else np.nan
            for t in range(len(x))]  # fmt: skip


def sequences(seed: int) -> list[np.ndarray]:
    """Make short sequences of several kinds, with gaps."""
    rng = np.random.default_rng(seed)
    found = [np.array([3.5]), np.full(7, np.nan), np.full(9, 0.1), np.array([np.nan, -2.0])]
    for n in rng.integers(2, 40, size=6):
        kinds = [
            rng.normal(size=n), 1e9 + rng.normal(size=n), rng.integers(0, 2, n).astype(float),
            np.cumsum(rng.normal(size=n)) * 1e-8, 10.0 ** rng.uniform(-12, 12, n),
            np.repeat(rng.normal(size=n), 3)[:n],
        ]  # fmt: skip
        x = kinds[rng.integers(len(kinds))]
        x[rng.random(n) < rng.choice([0, 0.3, 0.9])] = np.nan
        found.append(x)
    return found


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_statistics_are_those_of_each_window(seed, centered):
    X = sequences(seed)
    windows = [2, 3, 4, 7, 100]
    rolling = RollingFeatures(windows, [*WINDOWED, *EVENTS], centered=centered, keep=False)
    found = rolling.fit_transform([x[:, None] for x in X])
    names = rolling.get_feature_names_out().tolist()
    for x, table in zip(X, found, strict=True):
        for length, name in itertools.product(windows, WINDOWED):
            column = table[:, names.index(f"x0_{name}_{length}")]
            expected, scales = np.transpose([
                with_scale(name, x, t, window_of(x, t, length, centered)) for t in range(len(x))
            ])  # fmt: skip
            assert (np.isnan(column) == np.isnan(expected)).all(), (name, length)
            assert not (np.abs(column - expected) > 1e-12 * scales).any(), (name, length)
        for name in EVENTS:
            np.testing.assert_array_equal(table[:, names.index(f"x0_{name}")], since(name, x))


def test_long_sequences_do_not_drift():
    """At 1e9, the statistics are those of the noise, with all digits that it has."""
    rng = np.random.default_rng(0)
    noise = rng.integers(-(2**20), 2**20, size=100_000) * 2.0**-23
    statistics = ["difference", "mean", "std", "slope", "min", "range"]
    rolling = RollingFeatures([5, 45, 10_000], statistics, keep=False)
    of_noise = rolling.fit_transform([noise[:, None]])[0]
    found = rolling.transform([1e9 + noise[:, None]])[0]
    shift = [1e9 if name.split("_")[1] in ("mean", "min") else 0
             for name in rolling.get_feature_names_out()]  # fmt: skip
    np.testing.assert_allclose(found, of_noise + shift, rtol=1e-11, atol=1e-15)


def test_a_value_that_has_left_the_window_leaves_nothing_behind():
    """Running sums would remember 1e17 for ever."""
    x = np.ones(60)
    x[3] = 1e17
    statistics = ["difference", "mean", "std", "slope"]
    found = RollingFeatures(5, statistics, centered=False, keep=False).fit_transform([x[:, None]])
    np.testing.assert_array_equal(found[0][8:], np.tile([0, 1, 0, 0], (52, 1)))


def test_equal_windows_have_equal_statistics():
    """Windows at any place relative to the blocks, of whole numbers."""
    rng = np.random.default_rng(0)
    x = np.tile(rng.integers(-50, 50, size=13).astype(float), 60)
    rolling = RollingFeatures([4, 5, 7, 10], WINDOWED, centered=False, keep=False)
    table = rolling.fit_transform([x[:, None]])[0][13:]
    np.testing.assert_array_equal(table, np.tile(table[:13], (59, 1)))


def test_means_and_differences_are_rounded_once():
    """Of decimal fractions of similar size, whose differences are exact."""
    x = np.array([23.4, 23.1, 23.2, 22.9, 23.3, 17.7, 23.1, 23.1])
    rolling = RollingFeatures(3, ["mean", "difference"], centered=False, keep=False)
    table = rolling.fit_transform([x[:, None]])[0]
    for t in range(2, 8):
        mean = sum(map(Fraction, x[t - 2 : t + 1])) / 3
        assert table[t, 0] == float(mean)
        assert table[t, 1] == float(Fraction(x[t]) - mean)


def test_windows_stay_in_their_sequence():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (3, 1, 20, 4)]
    rolling = RollingFeatures([3, 8], [*WINDOWED, *EVENTS])
    together = rolling.fit_transform(X)
    for x, table in zip(X, together, strict=True):
        np.testing.assert_array_equal(rolling.transform([x])[0], table)


def test_centered_windows_are_those_of_pandas():
    pd = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=30)
    for length in (2, 5, 6):
        for centered in (True, False):
            found = RollingFeatures(length, "mean", centered=centered, keep=False)
            rolled = pd.Series(x).rolling(length, min_periods=1, center=centered).mean()
            np.testing.assert_allclose(found.fit_transform([x[:, None]])[0][:, 0], rolled)


def test_large_numbers():
    rolling = RollingFeatures(3, WINDOWED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = rolling.fit_transform([np.array([[1e140], [-1e140], [1e-300]])])[0]
    assert np.isfinite(table).all()
    with pytest.raises(
        ValueError, match=r"sequence 1, position 1, feature 0: -2e\+140 is too larg"
    ):
        rolling.transform([[[1.0]], [[1.0], [-2e140]]])
    with pytest.raises(ValueError, match="sequence 0, position 1, feature 0: inf is infinite"):
        rolling.transform([[[1.0], [np.inf]]])
