"""Predictions in Parquet files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from treecrf.inputs.large.table_sources import import_pyarrow

# Number of rows that are written at a time, if no columns of the input are.
ROWS = 1 << 16
# Of each sequence: the labels, and the probabilities of all labels or None.
Results = Iterator[tuple[np.ndarray, np.ndarray | None]]


class ResultRows:
    """Predicted labels and probabilities of sequences, taken a number of rows at a time."""

    def __init__(self, results: Results):
        self._results = results
        self._rest: list[list[np.ndarray]] = []  # columns of rows that have not been taken

    def take(self, n: int) -> list[np.ndarray]:
        """Return the columns of the next n rows, or of all that are left; [] if none are."""
        n_rows = sum(len(columns[0]) for columns in self._rest)
        while n_rows < n and (result := next(self._results, None)) is not None:
            labels, probabilities = result
            self._rest.append([labels, *([] if probabilities is None else probabilities.T)])
            n_rows += len(labels)
        joined = [np.concatenate(parts) for parts in zip(*self._rest, strict=True)]
        self._rest = []
        if n_rows > n:
            self._rest = [[column[n:] for column in joined]]
        return [column[:n] for column in joined]


def write_parquet(
    path: str,
    names: Sequence[str],
    typed_rows: Callable[[Sequence[str]], Iterator[Any]],
    added: dict[str, np.dtype],
    results: Results,
) -> None:
    """Write named columns of a table, from record batches, and the columns that are added."""
    pa = import_pyarrow()
    types = {name: _type_of(kind) for name, kind in added.items()}
    with contextlib.ExitStack() as stack:
        writer = None
        for columns, result_columns in _blocks(names, typed_rows, ResultRows(results)):
            for (name, kind), values in zip(types.items(), result_columns, strict=True):
                columns[name] = pa.array(values, kind)
            batch = pa.record_batch(columns)
            if writer is None:
                writer = stack.enter_context(pa.parquet.ParquetWriter(path, batch.schema))
            writer.write_batch(batch)
    if writer is None:  # the table has no rows
        schema = pa.schema([*((name, pa.string()) for name in names), *types.items()])
        pa.parquet.write_table(schema.empty_table(), path)


def _blocks(
    names: Sequence[str], typed_rows: Callable[[Sequence[str]], Iterator[Any]], rows: ResultRows
) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """Yield columns of the table, by name, and of the results of the same rows."""
    if not names:
        while result_columns := rows.take(ROWS):
            yield {}, result_columns
        return
    for batch in typed_rows(names):
        if batch.num_rows:
            yield dict(zip(names, batch.columns, strict=True)), rows.take(batch.num_rows)


def _type_of(kind: np.dtype) -> Any:
    pa = import_pyarrow()
    if kind.kind == "U":
        return pa.string()
    return pa.from_numpy_dtype(kind)
