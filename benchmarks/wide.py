"""CPU seconds of one thread for training on wide tables, by rows, columns, and form.

Each table is a list of sequences of the same length, and the model has one iteration without a
linear start, so that most of the time is spent on reading and encoding. Prediction reads the same
sequences again.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from measure import markdown, seconds

from treecrf import TreeCRF

# Numbers of sequences, rows of each, and columns.
SHAPES = ((2, 40, 500), (2, 40, 2_000), (2, 40, 8_000), (2, 400, 2_000), (20, 10, 20_000))
HEADER = ("sequences", "rows of each", "columns", "form", "fit s", "predict s", "fit / array")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-columns", type=int, default=20_000)
    largest = parser.parse_args().max_columns
    rows: list[tuple] = []
    measured((2, 10, 20))  # imports what is needed
    for shape in SHAPES:
        if shape[2] <= largest:
            rows += measured(shape)
    print(markdown(HEADER, rows))


def measured(shape: tuple[int, int, int]) -> list[tuple]:
    """Measure all forms of the same tables."""
    n_sequences, n_rows, n_columns = shape
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(*shape[:2], n_columns))
    names = [f"column{j}" for j in range(n_columns)]
    y = [[0, 1] * (n_rows // 2)] * n_sequences
    rows, of_arrays = [], 0.0
    for form, make in FORMS.items():
        X = [make(table, names) for table in tables]
        model = TreeCRF(max_iter=1, init="zero", early_stopping=False)
        fit = seconds(lambda model=model, X=X: model.fit(X, y))
        predict = seconds(lambda model=model, X=X: model.predict(X))
        of_arrays = of_arrays or fit
        numbers = f"{n_rows}", f"{n_columns:,}", form
        rows.append(
            (f"{n_sequences}", *numbers, f"{fit:.2f}", f"{predict:.3f}", f"{fit / of_arrays:.1f}")
        )
    return rows


def named_columns(table: np.ndarray, names: list[str]) -> dict[str, np.ndarray]:
    """Return the columns by name."""
    return {name: table[:, j] for j, name in enumerate(names)}


def one_category(table: np.ndarray, names: list[str]) -> Any:
    """Make a data frame of pandas in which one column holds strings."""
    frame = pd.DataFrame(table, columns=names)
    frame[names[0]] = np.where(table[:, 0] > 0, "a", "b")
    return frame


FORMS = {
    "array": lambda table, names: table,
    "pandas": lambda table, names: pd.DataFrame(table, columns=names),
    "pandas, one category": one_category,
    "pandas, nullable": lambda table, names: pd.DataFrame(table, columns=names).astype("Float64"),
    "polars": lambda table, names: pl.DataFrame(named_columns(table, names)),
    "Arrow": lambda table, names: pa.table(named_columns(table, names)),
}

if __name__ == "__main__":
    main()
