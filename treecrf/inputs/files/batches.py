"""Tables of pyarrow in memory, datasets, and batches that can be read only once."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from treecrf.inputs.files.blocks import import_pyarrow
from treecrf.inputs.values import is_index
from treecrf.utils.scratch import described

# Number of rows that are read at a time.
BATCH_ROWS = 1 << 14


def are_batches(X: Any) -> bool:
    """Return whether X is a source of record batches of Arrow, other than a table in memory."""
    if isinstance(X, (list, tuple)):
        return bool(X) and all(map(_is_batch, X))
    return hasattr(type(X), "read_next_batch") or _is_batch(X) or _is_dataset(X)


def _is_batch(X: Any) -> bool:
    return hasattr(type(X), "__arrow_c_array__") and hasattr(type(X), "num_columns")


def _is_dataset(X: Any) -> bool:
    of_pyarrow = type(X).__module__.startswith("pyarrow")
    return of_pyarrow and hasattr(X, "to_batches") and hasattr(X, "scanner")


class BatchTable:
    """A table of which the batches are read from the first one on, as often as needed.

    Attributes
    ----------
    name : str
        Name of the table in messages.
    names : list of str
        Names of the columns.
    schema : pyarrow.Schema
    first_row : int
        Number of the first row in messages.
    """

    first_row = 0

    def __init__(self, name: str, schema: Any):
        self.name = name
        self.schema = schema
        self.names = [name for name in schema.names if not is_index(name)]

    def batches(self, names: Sequence[str], first: int = 0) -> Iterator[Any]:
        """Yield some columns, from row ``first`` on, as record batches."""
        for batch in self._batches(list(names)):
            if first < batch.num_rows:
                yield batch.select(list(names)).slice(first)
            first = max(0, first - batch.num_rows)

    def _batches(self, names: list[str]) -> Iterable[Any]:
        raise NotImplementedError


class ArrowTable(BatchTable):
    """A table in memory."""

    def __init__(self, table: Any, name: str = "X"):
        super().__init__(name, table.schema)
        self._table = table

    def _batches(self, names: list[str]) -> Iterable[Any]:
        return self._table.select(names).to_batches(max_chunksize=BATCH_ROWS)


class DatasetTable(BatchTable):
    """A dataset of pyarrow."""

    def __init__(self, dataset: Any):
        super().__init__("X", dataset.schema)
        self._dataset = dataset

    def _batches(self, names: list[str]) -> Iterable[Any]:
        return self._dataset.to_batches(
            columns=names,
            batch_size=BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )


class SpooledTable(BatchTable):
    """A copy of batches in a temporary file.

    Parameters
    ----------
    reader : pyarrow.RecordBatchReader
    folder : str, optional
        Folder of the temporary file.

    Raises
    ------
    OSError
        If the disk has too little space.
    """

    def __init__(self, reader: Any, folder: str | None = None):
        super().__init__("X", reader.schema)
        pa = self._pa = import_pyarrow()
        folder = folder or tempfile.gettempdir()
        self._full: OSError | None = None
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                self._write(reader, file, folder)
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            # Closing a file writes the rest of its buffer again, with an error without numbers.
            raise self._full or described(error, folder, 0) from None
        self._content = pa.py_buffer(mapped)

    def _write(self, reader: Any, file: IO[bytes], folder: str) -> None:
        n_bytes = 0
        try:
            with self._pa.ipc.new_stream(self._pa.PythonFile(file, "w"), reader.schema) as writer:
                for batch in reader:
                    n_bytes = batch.nbytes
                    writer.write_batch(batch)
            file.flush()
        except OSError as error:
            # The free space is measured before the file is gone.
            self._full = described(error, folder, n_bytes)
            raise

    def _batches(self, names: list[str]) -> Iterable[Any]:
        with self._pa.ipc.open_stream(self._content) as reader:
            yield from reader


def table_of_batches(X: Any, folder: str | None = None) -> BatchTable:
    """Return a table that can be read more than once.

    Raises
    ------
    ValueError
        If batches have different columns.
    """
    pa = import_pyarrow()
    if _is_dataset(X):
        return DatasetTable(X)
    if isinstance(X, (list, tuple)) or _is_batch(X):
        batches = [pa.record_batch(item) for item in (X if isinstance(X, (list, tuple)) else [X])]
        for i, batch in enumerate(batches):
            if not batch.schema.equals(batches[0].schema):
                raise ValueError(
                    f"batches {i} and 0 have different columns: {_described(batch.schema)}, and "
                    f"{_described(batches[0].schema)}"
                )
        return ArrowTable(pa.Table.from_batches(batches))
    return SpooledTable(X, folder)


def _described(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
