"""Tables that are read twice, and the copy of what was parsed at first."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from treecrf.inputs.large.table_sources import Table, import_pyarrow

# Size of the batches that are in memory between the first reading and the second.
MAX_KEPT_BYTES = 1 << 24


class BatchCopy:
    """A copy of record batches: in memory while they are small, else in a temporary file.

    There is none if the disk is too full, or columns change their types.
    """

    def __init__(self, folder: str | None):
        self.is_whole = True
        self._folder = folder
        self._batches: list[Any] = []
        self._n_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._mapped: Any = None

    def append(self, batch: Any) -> None:
        """Add a batch."""
        if not self.is_whole:
            return
        self._n_bytes += batch.nbytes
        try:
            if self._writer is None and self._n_bytes > MAX_KEPT_BYTES:
                self._open(batch.schema)
            self._write(batch)
        except (OSError, ValueError):
            self.discard()

    def __iter__(self) -> Iterator[Any]:
        if self._mapped is None:
            return iter(self._batches)
        pa = import_pyarrow()
        return iter(pa.ipc.open_stream(pa.py_buffer(self._mapped)))

    def close(self) -> None:
        """Write the rest of the file, and discard the copy if this fails."""
        if not self.is_whole or self._writer is None:
            return
        try:
            self._writer.close()
            self._file.flush()
            self._mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._file.close()
        except (OSError, ValueError):
            self.discard()
        self._writer = self._file = None

    def discard(self) -> None:
        """Delete the copy."""
        self.is_whole = False
        self._batches = []
        self._mapped = None
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.close()

    def _open(self, schema: Any) -> None:
        pa = import_pyarrow()
        self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        self._batches = []

    def _write(self, batch: Any) -> None:
        if self._writer is not None:
            self._writer.write_batch(batch)
        elif self._batches and batch.schema != self._batches[0].schema:
            self.discard()
        else:
            self._batches.append(batch)


class ScannedTables:
    """Tables that are read twice: to find the types of columns of text, and for their values.

    What was parsed at first is not parsed again. ``numbers`` are the columns that may be parsed,
    see `Table.batches`.
    """

    def __init__(self, tables: Sequence[Table], numbers: Sequence[str], folder: str | None = None):
        self._tables = tables
        self._numbers = list(numbers)
        self._copy = BatchCopy(folder)
        self._copied: set[str] = set()

    def scan(self, table: Table, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns of a table for the first time, as record batches."""
        self._copied = {*names}
        if table.schema is not None:
            self._copy.discard()
        for batch in table.batches(names, self._numbers):
            self._copy.append(batch)
            yield batch

    def finish(self, texts: Iterable[str] = ()) -> None:
        """End the first reading; some columns are text even where all values are numbers."""
        self._copy.close()
        texts = {*texts}
        are_text = import_pyarrow().types.is_string
        self._numbers = [name for name in self._numbers if name not in texts]
        for batch in self._copy if self._copy.is_whole else ():
            if any(not are_text(batch.schema.field(name).type) for name in texts):
                self._copy.discard()
            break

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns of all tables as record batches."""
        if self._copy.is_whole and self._copied.issuperset(names):
            for batch in self._copy:
                yield batch.select(names)
            return
        for table in self._tables:
            yield from table.batches(names, self._numbers)
