"""CPU time of training on CSV files by their path, and of pandas.read_csv and training.

Tables have numbers only, and training has two iterations, so that reading takes most of the time.
The methods take turns, in one thread; each time is the least of all turns.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from measure import markdown

from treecrf import TreeCRF

SHAPES = [(200, 100), (200, 400), (200, 800), (200, 3200)]
SHAPES += [(2_000, 100), (20_000, 100), (40_000, 100), (20_000, 5), (200_000, 5), (1_000_000, 5)]
LENGTH = 20
HEADER = ("rows", "columns", "path s", "pandas.read_csv s", "read_csv and fit s", "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n_rows, n_columns in SHAPES:
            path = Path(folder, "table.csv")
            write_csv(path, n_rows, n_columns)
            times = [measure(path) for _ in range(arguments.repeats)]
            by_path, read, by_pandas = np.min(times, axis=0)
            numbers = [f"{seconds:.2f}" for seconds in (by_path, read, by_pandas)]
            rows.append([f"{n_rows:,}", f"{n_columns:,}", *numbers, f"{by_path / by_pandas:.1f}"])
    print(markdown(HEADER, rows))


def write_csv(path: Path, n_rows: int, n_columns: int) -> None:
    rng = np.random.default_rng(0)
    columns = {"g": np.arange(n_rows) // LENGTH, "y": rng.integers(0, 2, n_rows)}
    columns |= {f"c{j}": rng.normal(size=n_rows) for j in range(n_columns)}
    pd.DataFrame(columns).to_csv(path, index=False)


def measure(path: Path) -> list[float]:
    """Seconds of training by the path, of reading with pandas, and of reading and training."""
    times = []
    for method in (fit, pd.read_csv, lambda path: fit(pd.read_csv(path))):
        started = time.process_time()
        method(path)
        times.append(time.process_time() - started)
    return times


def fit(X: Path | pd.DataFrame) -> None:
    crf = TreeCRF(max_iter=2, init="zero", early_stopping=False, random_state=0, n_jobs=1)
    crf.fit(X, "y", groups="g")


if __name__ == "__main__":
    main()
