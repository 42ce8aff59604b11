"""Time of features over windows: per value and window, compared with pandas, and per row online.

Sequences are random numbers. A value is one number of a column; times are CPU nanoseconds, those of
the fastest of several repeats. Online, a row is eight numbers, with the default windows and
statistics of the past, in microseconds.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from measure import markdown, seconds

from treecrf.preprocessing import RollingFeatures

WINDOWS = (5, 45, 1_000, 30_000)
STATISTICS = {
    "mean": ["mean"],
    "std": ["std"],
    "difference, std": ["difference", "std"],
    "six": ["difference", "mean", "std", "min", "max", "slope"],
}
N_ROWS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--positions", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    values = np.random.default_rng(0).normal(size=arguments.positions)
    header = ["window", *STATISTICS, "pandas: mean", "pandas: std"]
    rows = [[f"{window:,}", *nanoseconds(values, window, arguments.repeats)] for window in WINDOWS]
    print(markdown(header, rows))
    print(f"\na row online: {microseconds_of_rows(arguments.repeats):.0f} microseconds")


def nanoseconds(values: np.ndarray, window: int, repeats: int) -> list[str]:
    """Measure the time per value of our statistics, and of those of pandas."""
    X = [values[:, np.newaxis]]
    calls = []
    for statistics in STATISTICS.values():
        rolling = RollingFeatures(window, statistics, keep=False).fit(X)
        calls.append(lambda rolling=rolling: rolling.transform(X))
    rolled = pd.Series(values).rolling(window, min_periods=1, center=True)
    calls += [rolled.mean, lambda: rolled.std(ddof=0)]
    fastest = [min(seconds(call) for _ in range(repeats)) for call in calls]
    return [f"{time / len(values) * 1e9:.0f}" for time in fastest]


def microseconds_of_rows(repeats: int) -> float:
    """Measure the time of a row of eight numbers."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, 8))
    stream = RollingFeatures(centered=False).fit([rows]).stream()
    return min(seconds(lambda: list(map(stream.push, rows))) for _ in range(repeats)) / N_ROWS * 1e6


if __name__ == "__main__":
    main()
