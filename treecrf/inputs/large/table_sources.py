"""Tables that are read a few rows at a time: files, which paths name, pipes, and Arrow data."""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import io
import mmap
import os
import re
import stat
import sys
import tempfile
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

from treecrf.inputs.large.scratch import described
from treecrf.inputs.paths import ENDINGS, GZIP_MAGIC, PARQUET, is_dataset
from treecrf.inputs.values import is_index, short_list

EXPECTED_ENDINGS = f"expected a file with one of the endings {', '.join(ENDINGS)}"
# The argument that stands for standard input or output.
STANDARD = "-"
SEPARATORS = {"csv": ",", "tsv": "\t"}
# Number of bytes that determine the format of a file without a known extension.
HEAD_BYTES = 1 << 16
COPY_BYTES = 1 << 20
BATCH_ROWS = 1 << 14
PARQUET_BUFFER = 1 << 16
# Maximum length of an error message of the parser, which quotes whole rows.
MAX_PARSER_MESSAGE = 200
# Characters that separate columns in files named .csv.
OTHER_SEPARATORS = (";", "\t", "|", ",")


# Paths


def find_files(X: Any) -> list[str]:
    """Return the files of a path, a pattern, a folder, or a list of them, sorted by name."""
    files: list[str] = []
    for path in map(os.fspath, X if isinstance(X, (list, tuple)) else [X]):
        if os.path.isdir(path):
            files += _files_in(path)
        elif os.path.exists(path):
            files.append(path)
        elif not glob.has_magic(path):
            raise FileNotFoundError(f"{path}: there is no such file or folder{_hint(path)}")
        else:
            matches = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
            if not matches:
                raise FileNotFoundError(f"{path}: no file matches this pattern")
            files += sorted(matches, key=_in_natural_order)
    for file in files:
        if not file.lower().endswith(ENDINGS):
            raise ValueError(f"{file}: the ending is not that of a table; {EXPECTED_ENDINGS}")
    is_parquet = [file.lower().endswith(PARQUET) for file in files]
    if len(set(is_parquet)) > 1:
        raise ValueError(
            f"{files[is_parquet.index(True)]} is a Parquet file, and "
            f"{files[is_parquet.index(False)]} is a text file; expected files of one format"
        )
    return files


def _hint(path: str) -> str:
    """Return what to do about a path that only other programs understand."""
    if "://" in path:
        return "; a URL is read by the estimators of treecrf.dask, or as a dataset of pyarrow"
    if path.startswith("~"):
        return "; expand ~ with os.path.expanduser"
    return ""


def _files_in(folder: str) -> list[str]:
    inside = [path.relative_to(folder) for path in Path(folder).rglob("*")]
    tables = [
        path
        for path in inside
        if not any(part.startswith(("_", ".")) for part in path.parts)
        and path.name.lower().endswith(ENDINGS)
    ]
    if not tables:
        names = sorted(map(str, inside))
        content = ", and is empty"
        if names:
            content = f"; it contains {short_list(names)}"
        raise ValueError(f"{folder}: the folder holds no tables{content}; {EXPECTED_ENDINGS}")
    for path in tables:
        if any("=" in part for part in path.parts[:-1]):
            raise ValueError(
                f"{folder}: the folder {str(path.parent)!r} holds a value of a column in its name; "
                'pass pyarrow.dataset.dataset(folder, partitioning="hive"), or on a Dask cluster '
                "dask.dataframe.read_parquet(folder)"
            )
    return sorted((str(Path(folder, path)) for path in tables), key=_in_natural_order)


def _in_natural_order(path: str) -> list:
    """Return a key by which part-2 comes before part-10."""
    pieces = re.split(r"(\d+)", path)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


# Tables


def import_pyarrow() -> ModuleType:
    """Import the library that parses tables; ImportError says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('tables require pyarrow: pip install "treecrf[cli]"') from error
    return pyarrow


@contextlib.contextmanager
def naming(file: str) -> Iterator[None]:
    """Add the name of a file to errors of reading it."""
    try:
        yield
    except FileNotFoundError:
        # Its message has the name.
        raise
    except import_pyarrow().ArrowException as error:
        raise ValueError(f"{file}: {short_message(error)}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except OSError as error:
        raise OSError(f"{file}: {short_message(error)}") from None


def short_message(error: Exception | str) -> str:
    """Return the message of an error of pyarrow, which may quote whole rows."""
    if "straddling" in str(error):
        return "a row is too long; a closing quotation mark may be missing"
    text = " ".join(str(error).split()).removeprefix("CSV parse error: ")
    if len(text) <= MAX_PARSER_MESSAGE:
        return text
    return f"{text[:MAX_PARSER_MESSAGE]} ..."


class Source:
    """A file; or a pipe, or standard input ``-``, which are copied to a temporary file."""

    def __init__(self, path: str):
        self.path = path
        self.name = "standard input" if path == STANDARD else path
        self._copy: IO[bytes] | None = None
        if path == STANDARD:
            if sys.stdin is None:
                raise OSError("standard input is closed")
            self._copy_from(sys.stdin.buffer)
            return
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "expected one file, not a folder", path)
        # Missing and unreadable files raise a short error here, a long one in pyarrow.
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._copy_from(file)

    def _copy_from(self, stream: IO[bytes]) -> None:
        self._copy = temporary_file()
        while block := stream.read(COPY_BYTES):
            with temporary_space():
                self._copy.write(block)
                self._copy.flush()
        weakref.finalize(self, self._copy.close)

    def is_gzip(self) -> bool:
        """Return whether the content is compressed."""
        with self.open() as file:
            return file.read(2) == GZIP_MAGIC

    def open(self) -> BinaryIO:
        """Open the file at its start; its attribute ``name`` is the name in messages."""
        if self._copy is None:
            return open(self.path, "rb")
        # The descriptors share one offset: only one of them is in use at a time.
        os.lseek(self._copy.fileno(), 0, os.SEEK_SET)
        raw = io.FileIO(os.dup(self._copy.fileno()))
        raw.name = self.name
        return io.BufferedReader(raw)

    def stream(self) -> Any:
        """Open the file for threads of pyarrow, which abort if they call Python while it exits."""
        path = self.path
        if self._copy is not None:
            path = f"/dev/fd/{self._copy.fileno()}"
            if not os.path.exists(path):
                return self.open()
            os.lseek(self._copy.fileno(), 0, os.SEEK_SET)
        return import_pyarrow().OSFile(path)

    def head(self) -> bytes:
        """Return the first bytes of the content, decompressed."""
        is_gzip = self.is_gzip()
        with self.open() as file:
            try:
                if is_gzip:
                    return gzip.GzipFile(fileobj=file).read(HEAD_BYTES)
                return file.read(HEAD_BYTES)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(f"{self.name}: damaged: {error}") from None


@contextlib.contextmanager
def temporary_space() -> Iterator[None]:
    """Name the temporary files in errors of the system."""
    try:
        yield
    except OSError as error:
        text = f"{error.strerror}; set TMPDIR to another folder"
        where = f"temporary file in {tempfile.gettempdir()}"
        raise OSError(error.errno, text, where) from None


def temporary_file() -> IO[bytes]:
    """Open a file without a name, which disappears when it is closed."""
    with temporary_space():
        return tempfile.TemporaryFile()


@dataclass(frozen=True)
class TableOptions:
    """How to read tables from files; ``drop`` and ``category`` name columns."""

    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()  # those whose whole numbers are categories
    missing: tuple[str, ...] = ()  # in text files, additional texts that mark a missing value
    separator: str | None = None  # by default, that of the ending
    encoding: str = "utf-8"

    # What helps, at the end of error messages.

    def advice_of_separator(self, separator: str) -> str:
        """Return how to read columns with a separator."""
        return f"pass pandas.read_csv(path, sep={separator!r})"

    def advice_of_encoding(self) -> str:
        """Return how to read text in another encoding."""
        return "if the file has another one, pass pandas.read_csv(path, encoding='latin-1')"

    def advice_of_column(self, name: str) -> str:
        """Return how to use a column that is no feature as it is."""
        return f"list {name!r} in categorical_features to use its values as categories"


DEFAULTS = TableOptions()


def separator_hint(names: Sequence[str], options: TableOptions) -> str:
    """Return the end of an error message if the only column holds another separator."""
    if len(names) == 1:
        for separator in OTHER_SEPARATORS:
            if separator in names[0]:
                advice = options.advice_of_separator(separator)
                return f"; the only column is {names[0]!r}; {advice}"
    return ""


class Table(ABC):
    """A table that can be read more than once."""

    name: str  # in messages
    names: list[str]  # of the columns
    schema: Any = None  # of pyarrow; None if all values are text, including numbers
    first_row = 0  # in messages

    @abstractmethod
    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
        """Yield some columns as record batches, some of which may be empty.

        Columns of text files are text. Those in ``numbers`` are parsed as numbers or booleans
        instead, if the first values are, up to a batch in which others are not.
        """

    def _take_schema(self, schema: Any) -> None:
        """Take the columns of a schema other than an index of pandas."""
        pa = import_pyarrow()
        fields = [
            field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field
            for field in schema
        ]
        self.schema = pa.schema(fields)
        self.names = [name for name in schema.names if not is_index(name)]


class ParquetFile(Table):
    """A Parquet file, in which columns have types."""

    first_row = 1

    def __init__(self, source: Source):
        self.name = source.name
        self.source = source
        self.pa = import_pyarrow()
        with naming(self.name), self._open() as file:
            self._take_schema(file.schema_arrow)

    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
        """Yield some columns; see `Table.batches`."""
        with naming(self.name), self._open() as file:
            batches = file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False)
            yield from map(_without_views, batches)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        # By default, pyarrow reads whole row groups ahead, which are often whole files.
        options = {"buffer_size": PARQUET_BUFFER, "pre_buffer": False}
        with self.source.open() as stream, self.pa.parquet.ParquetFile(stream, **options) as file:
            yield file


class ArrowTable(Table):
    """A table of pyarrow in memory, or a dataset."""

    name = "X"

    def __init__(self, table: Any):
        self._take_schema(table.schema)
        self._table = table

    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
        """Yield some columns; see `Table.batches`."""
        if is_dataset(self._table):
            one = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
            batches = self._table.to_batches(columns=list(names), batch_size=BATCH_ROWS, **one)
        else:
            batches = self._table.select(list(names)).to_batches(max_chunksize=BATCH_ROWS)
        yield from map(_without_views, batches)


def _without_views(batch: Any) -> Any:
    """Convert views of strings, for which pyarrow lacks functions, to strings."""
    pa = import_pyarrow()
    if not any(map(pa.types.is_string_view, batch.schema.types)):
        return batch
    columns = [
        array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array
        for array in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


def _copied(reader: Any, folder: str) -> Any:
    """Copy a ``pyarrow.RecordBatchReader`` to a table in a temporary file."""
    pa = import_pyarrow()
    full = None
    n_bytes = 0
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            try:
                with pa.ipc.new_stream(pa.PythonFile(file, "w"), reader.schema) as writer:
                    for batch in reader:
                        n_bytes = batch.nbytes
                        writer.write_batch(batch)
                file.flush()
            except OSError as error:
                # The free space is measured before the file is gone.
                full = described(error, folder, n_bytes)
                raise
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        # Closing a file writes the rest of its buffer again, with an error without numbers.
        raise full or described(error, folder, 0) from None
    # The columns of the table are mapped, not read.
    return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()


def table_of_batches(X: Any, folder: str | None = None) -> Table:
    """Return a table of what `are_batches` accepts; ValueError if batches differ in columns."""
    pa = import_pyarrow()
    if is_dataset(X):
        return ArrowTable(X)
    if hasattr(type(X), "read_next_batch"):
        return ArrowTable(_copied(X, folder or tempfile.gettempdir()))
    batches = [pa.record_batch(item) for item in (X if isinstance(X, (list, tuple)) else [X])]
    for i, batch in enumerate(batches):
        if not batch.schema.equals(batches[0].schema):
            columns = f"{_types_of(batch)}, and {_types_of(batches[0])}"
            raise ValueError(f"batches {i} and 0 have different columns: {columns}")
    return ArrowTable(pa.Table.from_batches(batches))


def _types_of(batch: Any) -> str:
    """List the columns of a record batch and their types."""
    return ", ".join(f"{field.name}: {field.type}" for field in batch.schema)
