"""Tables that are read a few rows at a time: files, which paths name, pipes, and Arrow data."""

from __future__ import annotations

import codecs
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

import numpy as np

from treecrf.inputs.forms import ENDINGS, PARQUET, is_dataset
from treecrf.inputs.values import is_index, short_list
from treecrf.utils.scratch import described

EXPECTED_ENDINGS = f"expected a file with one of the endings {', '.join(ENDINGS)}"
# The argument that stands for standard input or output.
STANDARD = "-"
SEPARATORS = {"csv": ",", "tsv": "\t"}
GZIP_MAGIC = b"\x1f\x8b"
# Number of bytes that determine the format of a file without a known extension.
HEAD_BYTES = 1 << 16
COPY_BYTES = 1 << 20
# Parsed text takes several times its size. A block of text must be longer than the longest row.
BLOCK_BYTES = 1 << 18
LINES_IN_BLOCK = 32
BATCH_ROWS = 1 << 14
PARQUET_BUFFER = 1 << 16
# Texts that stand for a missing number or boolean. Among categories, only the empty text does: "NA"
# and "None" may be values.
MISSING = ("", "?", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
MAX_WHOLE = np.iinfo(np.int64).max
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"
# Whole numbers and text are categories, of integers and of strings.
AS_BOOLEAN, AS_NUMBER, AS_WHOLE, AS_TEXT = "boolean", "number", "whole", "text"
# A column gets the first kind that fits all of its values.
FEATURE_KINDS = (AS_BOOLEAN, AS_NUMBER, AS_TEXT)
CATEGORY_KINDS = (AS_WHOLE, AS_TEXT)
# Maximum length of an error message of the parser, which quotes whole rows.
MAX_PARSER_MESSAGE = 200
# What helps if the message contains a text.
HINTS = {
    "columns, got": " (if columns have another separator: treecrf train --separator ';')",
    "invalid UTF8": " (if the file has another encoding: treecrf train --encoding latin-1)",
}


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
    return "; expand ~ with os.path.expanduser" if path.startswith("~") else ""


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
        content = f"; it contains {short_list(names)}" if names else ", and is empty"
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
        raise ValueError(f"{file}: {_shortened(error)}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except OSError as error:
        raise OSError(f"{file}: {_shortened(error)}") from None


def _shortened(error: Exception) -> str:
    if "straddling" in str(error):
        return "a row is too long; a closing quotation mark may be missing"
    text = " ".join(str(error).split()).removeprefix("CSV parse error: ")
    text = text if len(text) <= MAX_PARSER_MESSAGE else f"{text[:MAX_PARSER_MESSAGE]} ..."
    return text + next((hint for part, hint in HINTS.items() if part in text), "")


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
                return (gzip.GzipFile(fileobj=file) if is_gzip else file).read(HEAD_BYTES)
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


class Table(ABC):
    """A table that can be read more than once."""

    name: str  # in messages
    names: list[str]  # of the columns
    schema: Any = None  # of pyarrow; None if all values are text, including numbers
    first_row = 0  # in messages

    @abstractmethod
    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns as record batches, some of which may be empty."""

    def _take_schema(self, schema: Any) -> None:
        """Take the columns of a schema other than an index of pandas."""
        self.schema = schema
        self.names = [name for name in schema.names if not is_index(name)]


class CsvFile(Table):
    """A CSV file, in which all values are text."""

    first_row = 2

    def __init__(self, source: Source, separator: str = ",", encoding: str = "utf-8"):
        self.name, self.source = source.name, source
        self.pa = import_pyarrow()
        self.separator = separator
        self.encoding = encoding
        self.compression = "gzip" if source.is_gzip() else None
        with naming(self.name):
            self._read_header()

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns of text; see `Table.batches`."""
        with naming(self.name), self._open(names) as reader:
            yield from reader

    def _read_header(self) -> None:
        n_bytes = 0  # of the first line
        with (
            self.source.stream() as raw,
            self.pa.input_stream(raw, compression=self.compression) as file,
        ):
            start = part = file.read(BLOCK_BYTES)
            while part and b"\n" not in part:
                n_bytes += len(part)
                part = file.read(BLOCK_BYTES)
            n_bytes += max(0, part.find(b"\n"))
        # Some programs export tables as UTF-16.
        is_utf_16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if is_utf_16 and not codecs.lookup(self.encoding).name.startswith("utf-16"):
            raise ValueError(f"the text is encoded in UTF-16; expected {self.encoding}")
        self.block_bytes = max(BLOCK_BYTES, LINES_IN_BLOCK * n_bytes)
        with self._open() as reader:
            self.names = reader.schema.names

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
            self.source.stream() as file,
            self.pa.input_stream(file, compression=self.compression) as stream,
            csv.open_csv(stream, reading, parsing, converting, memory_pool=pool) as reader,
        ):
            yield reader


class ParquetFile(Table):
    """A Parquet file, in which columns have types."""

    first_row = 1

    def __init__(self, source: Source):
        self.name, self.source = source.name, source
        self.pa = import_pyarrow()
        with naming(self.name), self._open() as file:
            self._take_schema(file.schema_arrow)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns; see `Table.batches`."""
        with naming(self.name), self._open() as file:
            yield from file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False)

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

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns; see `Table.batches`."""
        if is_dataset(self._table):
            one = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
            batches = self._table.to_batches(columns=list(names), batch_size=BATCH_ROWS, **one)
        else:
            batches = self._table.select(list(names)).to_batches(max_chunksize=BATCH_ROWS)
        yield from batches


def _copied(reader: Any, folder: str) -> Any:
    """Copy a ``pyarrow.RecordBatchReader`` to a table in a temporary file."""
    pa, full, n_bytes = import_pyarrow(), None, 0
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
            found, expected = (
                ", ".join(f"{field.name}: {field.type}" for field in each.schema)
                for each in (batch, batches[0])
            )
            raise ValueError(f"batches {i} and 0 have different columns: {found}, and {expected}")
    return ArrowTable(pa.Table.from_batches(batches))


# Types of columns, and conversion of Arrow arrays to NumPy


class ArrowConverter:
    """Converter of pyarrow arrays, typed or text, to NumPy; texts in ``missing`` are missing."""

    def __init__(self, missing: tuple[str, ...] = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.missing = self.pa.array(["", *missing])
        self.missing_number = self.pa.array([*MISSING, *missing])

    def numbers(self, array: Any) -> np.ndarray:
        """Convert to floats, NaN if missing; ValueError if a value is not a number."""
        if self.is_text(array.type):
            array = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
        elif not self.is_number(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def booleans(self, array: Any) -> np.ndarray:
        """Convert to floats 0 and 1, NaN if missing; ValueError if a value is not a boolean."""
        if self.is_text(array.type):
            text = self._present(self.pc.utf8_trim_whitespace(array), self.missing_number)
            text = self.pc.utf8_lower(text)
            array, others = self.pc.equal(text, "true"), self.pc.not_equal(text, "false")
            if self.pc.any(self.pc.and_not(others, array)).as_py():
                raise ValueError("neither true nor false")
        elif not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64()).to_numpy(zero_copy_only=False)

    def categories(self, array: Any) -> tuple[list, np.ndarray]:
        """Return the distinct values of an array, and the index of each value, -1 if missing."""
        encoded = self.pc.dictionary_encode(self.plain(array))
        indices = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices

    def are_whole(self, array: Any) -> bool:
        """Return whether all values are integers of 64 bits, texts of integers, or missing."""
        array = self.plain(array)
        if not self.is_text(array.type):
            is_whole = self.pa.types.is_integer(array.type)
            largest = self.pc.max(array).as_py() if is_whole else None
            return is_whole and (largest is None or largest <= MAX_WHOLE)
        fits = self.pc.match_substring_regex(array, WHOLE_NUMBER)
        return self.pc.all(fits).as_py() is not False

    def copied(self, array: Any) -> list[str]:
        """Return values of any type as text for an output, empty if missing."""
        if not self.is_text(array.type):
            with contextlib.suppress(NotImplementedError, ValueError):
                array = self.pc.cast(array, self.pa.string())
        return ["" if value is None else str(value) for value in array.to_pylist()]

    def plain(self, array: Any) -> Any:
        """Return the values of a category: text, null if missing, or integers."""
        types = self.pa.types
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if types.is_boolean(array.type):
            array = self.pc.cast(array, self.pa.string())
        return self._present(array, self.missing) if self.is_text(array.type) else array

    def text(self, array: Any) -> Any:
        """Convert values of any type to text."""
        array = self.plain(array)
        return array if self.is_text(array.type) else self.pc.cast(array, self.pa.string())

    def is_text(self, array_type: Any) -> bool:
        """Return whether a type is a string type."""
        return self.pa.types.is_string(array_type) or self.pa.types.is_large_string(array_type)

    def is_number(self, array_type: Any) -> bool:
        """Return whether a type is numeric, or the null type of a column without values."""
        types = self.pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        return any(is_numeric(array_type) for is_numeric in numeric)

    def _present(self, array: Any, missing: Any) -> Any:
        # PyArrow before version 24 returns wrong text for slices if if_else gets a null.
        are_missing = self.pc.is_in(array, value_set=missing)
        return self.pc.replace_with_mask(array, are_missing, self.pa.scalar(None, array.type))


def find_kinds(
    converter: ArrowConverter,
    features: Iterable[str],
    categories: Sequence[str],
    batches: Iterable[tuple[Table, Any]],
) -> dict[str, str]:
    """Return the first kind of each column that fits all of its values, in batches of tables.

    TypeError if a type is not supported.
    """
    possible = dict.fromkeys(features, FEATURE_KINDS) | dict.fromkeys(categories, CATEGORY_KINDS)
    for table, batch in batches:
        for name in possible:
            array = batch.column(name)
            while not _fits(converter, possible[name][0], array, table.schema is None):
                possible[name] = possible[name][1:]
                if not possible[name]:
                    numbers, hint = "numbers", f"; --drop {name} leaves it out"
                    if name in categories:
                        numbers, hint = "whole numbers", ""
                    raise TypeError(
                        f"{table.name}: column {name!r} is of type {array.type}; expected "
                        f"{numbers}, booleans or strings{hint}"
                    )
    return {name: kinds[0] for name, kinds in possible.items()}


def _fits(converter: ArrowConverter, kind: str, array: Any, is_text: bool) -> bool:
    if kind == AS_WHOLE:
        is_whole = converter.pa.types.is_integer(converter.plain(array).type)
        return converter.are_whole(array) if is_text else is_whole
    if kind == AS_TEXT:
        return converter.is_text(converter.plain(array).type)
    if converter.is_text(array.type) and not is_text:
        return False
    with contextlib.suppress(ValueError):
        (converter.booleans if kind == AS_BOOLEAN else converter.numbers)(array)
        return True
    return False


def typed_text(
    converter: ArrowConverter, kinds: Mapping[str, str], categories: frozenset[str], batch: Any
) -> Any:
    """Convert a record batch of text to the kinds of its columns; ``categories`` become coded."""
    pa, columns = converter.pa, {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = kinds[name]
        if kind == AS_BOOLEAN:
            values = converter.booleans(array)
            columns[name] = pa.array(values == 1, mask=np.isnan(values))
        elif kind == AS_NUMBER:
            columns[name] = pa.array(converter.numbers(array))
        else:
            array = converter.plain(array)
            array = array if kind == AS_TEXT else array.cast(pa.int64())
            columns[name] = array.dictionary_encode() if name in categories else array
    return pa.record_batch(columns)
