"""CSV and Parquet files block by block, so that memory does not grow with the file."""

from __future__ import annotations

import codecs
import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from treecrf.inputs.files.source import Source
from treecrf.inputs.values import is_index

# Parsed text takes several times its size. A block of text must be longer than the longest row.
BLOCK_BYTES = 1 << 18
LINES_IN_BLOCK = 32
BLOCK_ROWS = 1 << 14
PARQUET_BUFFER = 1 << 16
# Maximum length of an error message of the parser, which quotes whole rows.
MAX_MESSAGE = 200


def import_pyarrow() -> ModuleType:
    """Import the library that parses tables.

    Raises
    ------
    ImportError
        If it is not installed; the message contains the command to install it.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('tables require pyarrow: pip install "treecrf[cli]"') from error
    return pyarrow


class TableFile(ABC):
    """A table that can be read more than once.

    Parameters
    ----------
    source : Source

    Attributes
    ----------
    name : str
        Name of the file in messages.
    names : list of str
        Names of the columns.
    is_text : bool
        Whether all values are stored as text, including numbers.
    first_row : int
        Number of the first row of values in error messages.
    """

    is_text: bool
    first_row: int

    def __init__(self, source: Source):
        self.source = source
        self.name = source.name
        self.pa = import_pyarrow()
        with self.problems():
            self.names = self._read_names()
        for name, n in Counter(self.names).most_common(1):
            if n > 1:
                raise ValueError(f"{self.name}: more than one column is named {name!r}")

    @abstractmethod
    def _read_names(self) -> list[str]:
        """Return the names of the columns in the order of the file."""

    @abstractmethod
    def _batches(self, names: Sequence[str], first: int) -> Iterator[Any]:
        """Record batches of some columns, from row ``first`` on."""

    def batches(self, names: Sequence[str], first: int = 0) -> Iterator[Any]:
        """Yield some columns, a few rows at a time, from row ``first`` on, as record batches."""
        with self.problems():
            for batch in self._batches(names, first):
                if batch.num_rows:
                    yield batch

    def blocks(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield some columns, a few rows at a time, as pyarrow arrays by name."""
        for batch in self.batches(names):
            yield {name: batch.column(name) for name in names}

    def problems(self) -> contextlib.AbstractContextManager[None]:
        """Add the name of the file to errors."""
        return naming(self.name)


@contextlib.contextmanager
def naming(file: str) -> Iterator[None]:
    """Add the name of a file to errors of reading it."""
    try:
        yield
    except FileNotFoundError:
        # Its message has the name.
        raise
    except import_pyarrow().ArrowException as error:
        raise ValueError(f"{file}: {_shortened(error)}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except OSError as error:
        raise OSError(f"{file}: {_shortened(error)}") from None


def _shortened(error: Exception) -> str:
    if "straddling" in str(error):
        return "a row is too long; a closing quotation mark may be missing"
    text = " ".join(str(error).split()).removeprefix("CSV parse error: ")
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} ..."


class CsvFile(TableFile):
    """A CSV file, in which all values are text."""

    is_text = True
    first_row = 2

    def __init__(self, source: Source, separator: str = ",", encoding: str = "utf-8"):
        self.separator = separator
        self.encoding = encoding
        self.compression = "gzip" if source.is_gzip() else None
        super().__init__(source)

    def _read_names(self) -> list[str]:
        self.block_bytes = max(BLOCK_BYTES, LINES_IN_BLOCK * self._first_line_bytes())
        with self._open() as reader:
            return reader.schema.names

    def _check_encoding(self, start: bytes) -> None:
        """Raise ValueError for UTF-16, as which some programs export tables, unless expected."""
        is_utf_16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if is_utf_16 and not codecs.lookup(self.encoding).name.startswith("utf-16"):
            raise ValueError(f"the text is encoded in UTF-16; expected {self.encoding}")

    def _first_line_bytes(self) -> int:
        n = 0
        with self._stream() as file:
            while part := file.read(BLOCK_BYTES):
                if n == 0:
                    self._check_encoding(part)
                end = part.find(b"\n")
                if end >= 0:
                    return n + end
                n += len(part)
        return n

    @contextlib.contextmanager
    def _stream(self) -> Iterator[Any]:
        with (
            self.source.open() as file,
            self.pa.input_stream(file, compression=self.compression) as stream,
        ):
            yield stream

    @contextlib.contextmanager
    def _open(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        csv = self.pa.csv
        reading = csv.ReadOptions(
            use_threads=False, block_size=self.block_bytes, encoding=self.encoding
        )
        parsing = csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        types = None if names is None else dict.fromkeys(names, self.pa.string())
        converting = csv.ConvertOptions(
            strings_can_be_null=False, include_columns=names, column_types=types
        )
        # The default allocator does not return the memory of blocks that are no longer used.
        pool = self.pa.system_memory_pool()
        with (
            self._stream() as stream,
            csv.open_csv(stream, reading, parsing, converting, memory_pool=pool) as reader,
        ):
            yield reader

    def _batches(self, names: Sequence[str], first: int) -> Iterator[Any]:
        with self._open(names) as reader:
            yield from _from_row(first, reader)


class ParquetFile(TableFile):
    """A Parquet file, in which columns have types.

    Attributes
    ----------
    schema : pyarrow.Schema
    """

    is_text = False
    first_row = 1

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        # By default, pyarrow reads whole row groups ahead, which are often whole files.
        with (
            self.source.open() as stream,
            self.pa.parquet.ParquetFile(
                stream, buffer_size=PARQUET_BUFFER, pre_buffer=False
            ) as file,
        ):
            yield file

    def _read_names(self) -> list[str]:
        with self._open() as file:
            self.schema = file.schema_arrow
        return [name for name in self.schema.names if not is_index(name)]

    def _batches(self, names: Sequence[str], first: int) -> Iterator[Any]:
        with self._open() as file:
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            i = 0
            while i < len(sizes) and first >= sizes[i]:
                first -= sizes[i]
                i += 1
            batches = file.iter_batches(
                BLOCK_ROWS, range(i, len(sizes)), columns=list(names), use_threads=False
            )
            yield from _from_row(first, batches)


def _from_row(first: int, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        if first < batch.num_rows:
            yield batch.slice(first)
        first = max(0, first - batch.num_rows)
