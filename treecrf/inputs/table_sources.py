"""Tables that are read a few rows at a time: files, which paths name, pipes, and Arrow data."""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import glob
import gzip
import io
import itertools
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
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO

import numpy as np

from treecrf.inputs.forms import ENDINGS, PARQUET, is_dataset
from treecrf.inputs.values import is_index, short_list, short_repr
from treecrf.utils.scratch import described

EXPECTED_ENDINGS = f"expected a file with one of the endings {', '.join(ENDINGS)}"
# The argument that stands for standard input or output.
STANDARD = "-"
SEPARATORS = {"csv": ",", "tsv": "\t"}
GZIP_MAGIC = b"\x1f\x8b"
# Number of bytes that determine the format of a file without a known extension.
HEAD_BYTES = 1 << 16
COPY_BYTES = 1 << 20
# Parsed text takes several times its size. A block of text must be longer than the longest row,
# and conversion is fast if it holds many of them.
BLOCK_BYTES = 1 << 18
LINES_IN_BLOCK = 32
WIDE_BLOCK_BYTES = 1 << 22
LINES_IN_WIDE_BLOCK = 256
BATCH_ROWS = 1 << 14
PARQUET_BUFFER = 1 << 16
# Texts in text files that stand for a missing value in any column: these are not words.
MARKS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "<NA>")
# Texts that stand for a missing number or boolean. Among categories, they may be values.
MISSING = (
    *MARKS, "-NaN", "-nan", "?", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"
)  # fmt: skip
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
MAX_WHOLE = np.iinfo(np.int64).max
# Texts of numbers that are not codes: without zeros before the digits.
NUMERAL = r"^[+-]?(0|[1-9][0-9]*|)(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^[+-]?(0|[1-9][0-9]*)$"
# Dates, times and durations, as programs export columns that hold nothing else.
_DATE = r"([0-9]{4}([-/.])[0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/][0-9]{1,2}[-/][0-9]{2,4})"
_TIME = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?[AaPp][Mm])?"
_ZONE = r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
TIME = rf"^({_DATE}([T ]{_TIME}{_ZONE})?|{_TIME}{_ZONE}|-?[0-9]+ days( [+-]?{_TIME})?)$"
# Whole numbers and text are categories, of integers and of strings; fractions are none.
AS_BOOLEAN, AS_NUMBER, AS_WHOLE, AS_TEXT = "boolean", "number", "whole", "text"
# A column gets the first kind that fits all of its values.
FEATURE_KINDS = (AS_BOOLEAN, AS_NUMBER, AS_TEXT)
CATEGORY_KINDS = (AS_BOOLEAN, AS_WHOLE, AS_NUMBER, AS_TEXT)
# Maximum length of an error message of the parser, which quotes whole rows.
MAX_PARSER_MESSAGE = 200
# Number of columns whose values may turn out not to fit, after which all are read as text.
MAX_MISFITS = 4
OF_COLUMN = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", re.DOTALL)
OF_ROW = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
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
    except (FileNotFoundError, MisfitError):
        # The message has the name, or nobody reads it.
        raise
    except import_pyarrow().ArrowException as error:
        raise ValueError(f"{file}: {_shortened(error)}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    except OSError as error:
        raise OSError(f"{file}: {_shortened(error)}") from None


def _shortened(error: Exception | str) -> str:
    if "straddling" in str(error):
        return "a row is too long; a closing quotation mark may be missing"
    text = " ".join(str(error).split()).removeprefix("CSV parse error: ")
    return text if len(text) <= MAX_PARSER_MESSAGE else f"{text[:MAX_PARSER_MESSAGE]} ..."


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
        self.schema = schema
        self.names = [name for name in schema.names if not is_index(name)]


class CsvFile(Table):
    """A CSV file, in which all values are text."""

    first_row = 2

    def __init__(self, source: Source, separator: str = ",", options: TableOptions = DEFAULTS):
        self.name, self.source = source.name, source
        self.pa = import_pyarrow()
        self.separator = separator
        self.options = options
        self.compression = "gzip" if source.is_gzip() else None
        self.renamed: list[str] | None = None  # the columns, if some have no name in the file
        with naming(self.name):
            self._read_header()

    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
        """Yield some columns; see `Table.batches`."""
        parsed = {*names}.intersection(numbers)
        types = {name: kind for name, kind in self.types.items() if name in parsed}
        n_batches, n_misfits = 0, 0
        while True:
            try:
                with naming(self.name), self._open(names, types) as reader:
                    # The batches before one that did not fit are read again.
                    for batch in itertools.islice(reader, n_batches, None):
                        n_batches += 1
                        yield batch
                return
            except MisfitError as misfit:
                n_misfits += 1
                known = misfit.column in types and n_misfits <= MAX_MISFITS
                types = {name: types[name] for name in types if known and name != misfit.column}

    def _read_header(self) -> None:
        start = self._start()
        if not start.strip():
            content = "holds no names of columns" if start else "is empty"
            raise ValueError(f"the file {content}; expected a line with the names of the columns")
        # Some programs export tables as UTF-16.
        encoding = self.options.encoding
        is_utf_16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if is_utf_16 and not codecs.lookup(encoding).name.startswith("utf-16"):
            raise ValueError(f"the text is encoded in UTF-16; expected {encoding}")
        lines = io.StringIO(start.decode(encoding, "replace").removeprefix("\ufeff"), newline="")
        rows = csv.reader(lines, delimiter=self.separator)
        self.header = next(filter(None, rows))
        self.block_bytes = _block_bytes(start)
        if "" in self.header:
            self.renamed = _numbered(self.header)
            self.header_lines = rows.line_num
        with self._open() as reader:
            self.names = reader.schema.names
            self.types = {
                field.name: field.type if self._is_boolean(field.type) else self.pa.float64()
                for field in reader.schema
                if self._is_boolean(field.type) or self._is_number(field.type)
            }

    def _start(self) -> bytes:
        """Return the first bytes of the content, with the first line at least."""
        with (
            self.source.stream() as raw,
            self.pa.input_stream(raw, compression=self.compression) as file,
        ):
            start = part = file.read(BLOCK_BYTES)
            while part and b"\n" not in part:
                part = file.read(BLOCK_BYTES)
                start += part
        return start

    def _is_boolean(self, array_type: Any) -> bool:
        return self.pa.types.is_boolean(array_type)

    def _is_number(self, array_type: Any) -> bool:
        types = self.pa.types
        kinds = (types.is_null, types.is_integer, types.is_floating)
        return any(is_kind(array_type) for is_kind in kinds)

    @contextlib.contextmanager
    def _open(
        self, names: Sequence[str] | None = None, types: Mapping[str, Any] | None = None
    ) -> Iterator[Any]:
        """Open the file; without types, they are guessed, and columns without a type are text."""
        pa = self.pa
        reading = pa.csv.ReadOptions(
            use_threads=False, block_size=self.block_bytes, encoding=self.options.encoding
        )
        if self.renamed is not None:
            reading.column_names, reading.skip_rows = self.renamed, self.header_lines
        parsing = pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        converting = pa.csv.ConvertOptions(
            strings_can_be_null=False,
            include_columns=names,
            column_types=None if types is None else dict.fromkeys(names, pa.string()) | types,
            null_values=[*MISSING, *self.options.missing],
            true_values=TRUE,
            false_values=FALSE,
        )
        # The default allocator does not return the memory of blocks that are no longer used.
        pool = pa.system_memory_pool()
        try:
            with (
                self.source.stream() as file,
                pa.input_stream(file, compression=self.compression) as stream,
                pa.csv.open_csv(stream, reading, parsing, converting, memory_pool=pool) as reader,
            ):
                yield reader
        except pa.ArrowInvalid as error:
            column = OF_COLUMN.match(str(error))
            if types and column is not None:
                raise MisfitError(self.names[int(column[1])]) from None
            raise ValueError(self._described(error)) from None

    def _described(self, error: Exception) -> str:
        """Describe an error of the parser, and what helps."""
        text, row = str(error), OF_ROW.search(str(error))
        if column := OF_COLUMN.match(text):
            where = f"row {column[2]}, " if column[2] else ""
            text = f"{where}column {self.names[int(column[1])]!r}: {column[3]}"
        if "invalid UTF8" in text:
            return f"{text}; {self.options.advice_of_encoding()}"
        if row is None:
            return _shortened(text)
        n_expected, n_found, found = int(row[2]), int(row[3]), row[4]
        text = (
            f"row {row[1]} has {_fields(n_found)}: {short_repr(found)}; the first line, which "
            f"names the columns, has {_fields(n_expected)}: {short_list(self.header)}"
        )
        for separator in OTHER_SEPARATORS:
            lines = self.separator.join(self.header), found.partition("\n")[0]
            n_names, n_values = (line.count(separator) for line in lines)
            if separator != self.separator and 0 < n_names == n_values:
                return f"{text}; {self.options.advice_of_separator(separator)}"
        if "\n" in found:
            return f"{text}; a closing quotation mark may be missing"
        if int(row[1]) == self.first_row and n_found > n_expected:
            return f"{text}; remove lines above the names of the columns, such as comments"
        if n_found > n_expected:
            return f"{text}; quotation marks must enclose a field that holds {self.separator!r}"
        return text


class MisfitError(ValueError):
    """A value of a column of text does not have the type of the values before."""

    def __init__(self, column: str):
        super().__init__(f"column {column!r}")
        self.column = column


def _numbered(names: list[str]) -> list[str]:
    """Number the columns without a name, as pandas does."""
    numbered = []
    for j, name in enumerate(names):
        name, k = name or f"Unnamed: {j}", 0
        while not names[j] and name in names:
            k += 1
            name = f"Unnamed: {j}.{k}"
        numbered.append(name)
    return numbered


def _fields(n: int) -> str:
    return "1 field" if n == 1 else f"{n} fields"


def _block_bytes(start: bytes) -> int:
    """Return the size of blocks of a file, given its first bytes."""
    n_bytes = max(map(len, start.split(b"\n", LINES_IN_BLOCK)[:LINES_IN_BLOCK]))
    wide = min(WIDE_BLOCK_BYTES, LINES_IN_WIDE_BLOCK * n_bytes)
    return max(BLOCK_BYTES, LINES_IN_BLOCK * n_bytes, wide)


class ParquetFile(Table):
    """A Parquet file, in which columns have types."""

    first_row = 1

    def __init__(self, source: Source):
        self.name, self.source = source.name, source
        self.pa = import_pyarrow()
        with naming(self.name), self._open() as file:
            self._take_schema(file.schema_arrow)

    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
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

    def batches(self, names: Sequence[str], numbers: Iterable[str] = ()) -> Iterator[Any]:
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
    """Converter of pyarrow arrays to NumPy.

    In text files, texts in ``missing``, and those that mark missing values in any table, are
    missing; elsewhere, pass None.
    """

    def __init__(self, missing: tuple[str, ...] | None = ()):
        self.pa = import_pyarrow()
        self.pc = self.pa.compute
        self.is_of_text = missing is not None
        self.missing = None if missing is None else self.pa.array([*MARKS, *missing])
        self.missing_number = self.pa.array([*MISSING, *(missing or ())])

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
        elif array.null_count == len(array):
            return np.full(len(array), np.nan)
        elif not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return self.pc.cast(array, self.pa.float64()).to_numpy(zero_copy_only=False)

    def whole(self, array: Any) -> Any:
        """Convert to an array of int64, null if missing; ValueError if a value is not whole.

        Texts must be numerals, which have no zeros before their digits.
        """
        pc, int64 = self.pc, self.pa.int64()
        array = self.plain(array)
        if self.is_text(array.type):
            encoded = array.dictionary_encode()
            return self._whole_texts(encoded.dictionary).take(encoded.indices)
        if self.pa.types.is_floating(array.type):
            values = array.to_numpy(zero_copy_only=False)
            return self.pa.array(values, int64, mask=np.isnan(values), safe=True)
        if not self.is_number(array.type) and not self.pa.types.is_boolean(array.type):
            raise ValueError(f"of type {array.type}")
        return pc.cast(array, int64)

    def _whole_texts(self, array: Any) -> Any:
        pc, int64 = self.pc, self.pa.int64()
        text = self.numerals(array)
        is_plain = pc.fill_null(pc.match_substring_regex(text, WHOLE_NUMBER), True)
        text = pc.replace_substring_regex(text, r"^\+", "")
        others = pc.cast(self._masked(text, is_plain), self.pa.float64())
        exact = pc.cast(self._masked(text, pc.invert(is_plain)), int64)
        return pc.coalesce(exact, pc.cast(others, int64))

    def flags(self, array: Any) -> Any:
        """Return an array of booleans; ValueError if a value is none, or a word for a missing one.

        Other than in `booleans`, words such as NA are values.
        """
        array = self.plain(array)
        if self.is_text(array.type):
            text = self.pc.utf8_lower(self.pc.utf8_trim_whitespace(array.unique()))
            is_flag = self.pc.is_in(text, value_set=self.pa.array(["true", "false", None]))
            if not self.pc.all(is_flag).as_py():
                raise ValueError("neither true nor false")
        values = self.booleans(array)
        return self.pa.array(values == 1, mask=np.isnan(values))

    def numerals(self, array: Any) -> Any:
        """Return trimmed texts of numbers; ValueError if a text is none, or begins with zeros."""
        text = self.pc.utf8_trim_whitespace(array)
        if self.pc.all(self.pc.match_substring_regex(text, NUMERAL)).as_py() is False:
            raise ValueError("not a numeral")
        return text

    def categories(self, array: Any) -> tuple[list, np.ndarray]:
        """Return the distinct values of an array, and the index of each value, -1 if missing."""
        if self.pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        encoded = self.pc.dictionary_encode(array)
        values = encoded.dictionary
        is_marked = self.missing is not None and self.is_text(values.type)
        if is_marked and self.pc.any(self.pc.is_in(values, value_set=self.missing)).as_py():
            encoded = self.pc.dictionary_encode(self.plain(array))
        indices = self.pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), indices

    def copied(self, array: Any) -> list[str]:
        """Return values of any type as text for an output, empty if missing."""
        if not self.is_text(array.type):
            with contextlib.suppress(NotImplementedError, ValueError):
                array = self.pc.cast(array, self.pa.string())
        return ["" if value is None else str(value) for value in array.to_pylist()]

    def plain(self, array: Any) -> Any:
        """Return the values of a category: text, numbers or booleans, null if missing."""
        if self.pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        is_marked = self.missing is not None and self.is_text(array.type)
        return self._present(array, self.missing) if is_marked else array

    def text(self, array: Any) -> Any:
        """Convert values of any type to text."""
        array = self.plain(array)
        return array if self.is_text(array.type) else self.pc.cast(array, self.pa.string())

    def is_text(self, array_type: Any) -> bool:
        """Return whether a type is a string type."""
        types = self.pa.types
        kinds = (types.is_string, types.is_large_string, types.is_string_view)
        return any(is_kind(array_type) for is_kind in kinds)

    def is_number(self, array_type: Any) -> bool:
        """Return whether a type is numeric, or the null type of a column without values."""
        types = self.pa.types
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
        return any(is_numeric(array_type) for is_numeric in numeric)

    def _present(self, array: Any, missing: Any) -> Any:
        return self._masked(array, self.pc.is_in(array, value_set=missing))

    def _masked(self, array: Any, mask: Any) -> Any:
        # PyArrow before version 24 returns wrong text for slices if if_else gets a null.
        return self.pc.replace_with_mask(array, mask, self.pa.scalar(None, array.type))


@dataclass
class ColumnKind:
    """The kinds that fit the values of a column so far, batch by batch."""

    converter: ArrowConverter
    is_category: bool  # whether it holds labels, or was chosen as a category
    kinds: tuple[str, ...] = ()  # the first one is that of the column
    has_booleans: bool = False
    may_be_time: bool = True
    example: Any = None  # a date, a time, or a number that is not whole

    def __post_init__(self) -> None:
        self.kinds = CATEGORY_KINDS if self.is_category else FEATURE_KINDS

    def add(self, array: Any) -> None:
        """Leave out the kinds that do not fit an array; TypeError if none is left."""
        types, is_of_text = self.converter.pa.types, self.converter.is_of_text
        if array.null_count == len(array) and (is_of_text or types.is_null(array.type)):
            return
        if is_of_text:
            if self.kinds[0] == AS_NUMBER and types.is_floating(array.type):
                return
            array = array.unique()
        if types.is_dictionary(array.type) and not self.is_category:
            self.is_category, self.kinds = True, CATEGORY_KINDS
        while not self._fits(array):
            # Where a value was a boolean, no number fits.
            self.kinds = self.kinds[-1:] if self.has_booleans else self.kinds[1:]
            self.has_booleans = False
            if not self.kinds:
                raise TypeError(f"of type {array.type}")
        self._find_time(array)

    def _fits(self, array: Any) -> bool:
        kind, converter = self.kinds[0], self.converter
        is_text = converter.is_text(converter.plain(array).type)
        if kind == AS_TEXT:
            return is_text
        if is_text and not converter.is_of_text:
            return False
        try:
            if kind == AS_BOOLEAN:
                self._read_booleans(array)
            elif kind == AS_WHOLE:
                converter.whole(array)
            else:
                self._read_numbers(array)
        except ValueError:
            return False
        return True

    def _read_booleans(self, array: Any) -> None:
        if self.is_category:
            flags = self.converter.flags(array)
            self.has_booleans |= flags.null_count < len(flags)
        else:
            self.has_booleans |= not np.isnan(self.converter.booleans(array)).all()

    def _read_numbers(self, array: Any) -> None:
        """Find a number that is not whole among categories; ValueError if one is not a number."""
        converter = self.converter
        if self.is_category:
            array = converter.plain(array)
            array = converter.numerals(array) if converter.is_of_text else array
        numbers = converter.numbers(array)
        if self.is_category and self.example is None:
            self.example = next((x for x in numbers.tolist() if x % 1 != 0 and x == x), None)

    def _find_time(self, array: Any) -> None:
        if self.kinds[0] != AS_TEXT or self.is_category or not self.may_be_time:
            return
        pc, text = self.converter.pc, self.converter.plain(array)
        self.may_be_time = pc.all(pc.match_substring_regex(text, TIME)).as_py() is not False
        present = text.drop_null()
        self.example = present[0].as_py() if len(present) else self.example

    def found(self) -> str:
        """Return the kind of the column; TypeError or ValueError if it cannot be used."""
        kind, is_of_text = self.kinds[0], self.converter.is_of_text
        if kind == AS_BOOLEAN and not self.has_booleans:
            # All values are missing.
            return AS_WHOLE if self.is_category else AS_NUMBER
        if self.is_category and kind == AS_NUMBER:
            # Numbers that are whole, but too large, are names, or are refused when they are read.
            if self.example is None:
                return AS_TEXT if is_of_text else AS_WHOLE
            raise ValueError(f"{self.example} is not a whole number")
        if kind == AS_TEXT and not self.is_category and self.may_be_time and self.example:
            raise TypeError(f"dates or times, such as {self.example!r}")
        return kind


def find_kinds(
    converter: ArrowConverter,
    features: Iterable[str],
    categories: Sequence[str],
    batches: Iterable[tuple[Table, Any]],
    options: TableOptions = DEFAULTS,
) -> dict[str, str]:
    """Return the first kind of each column that fits all of its values, in batches of tables.

    TypeError if a type is not supported, or a column of text holds times. ValueError if numbers of
    a category are not whole.
    """
    is_category = dict.fromkeys(features, False) | dict.fromkeys(categories, True)
    columns = {name: ColumnKind(converter, chosen) for name, chosen in is_category.items()}
    for table, batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name not in columns:
                continue
            try:
                columns[name].add(array)
            except TypeError as error:
                numbers, hint = "numbers", f"; {options.advice_of_column(name)}"
                if is_category[name]:
                    numbers, hint = "whole numbers", ""
                raise TypeError(
                    f"{table.name}: column {name!r} is {error}; expected {numbers}, booleans or "
                    f"strings{hint}"
                ) from None
    kinds = {}
    for name, column in columns.items():
        try:
            kinds[name] = column.found()
        except TypeError as error:
            raise TypeError(
                f"{table.name}: column {name!r} holds {error}; add the parts that matter as "
                "numbers or categories, such as the hour or the weekday; "
                f"{options.advice_of_column(name)}"
            ) from None
        except ValueError as error:
            raise ValueError(
                f"{table.name}: column {name!r}: {error}; expected whole numbers, booleans or text"
            ) from None
    return kinds


def typed_text(
    converter: ArrowConverter, kinds: Mapping[str, str], categories: frozenset[str], batch: Any
) -> Any:
    """Convert a record batch of text to the kinds of its columns; ``categories`` become coded."""
    columns = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        array = _typed(converter, kinds[name], array)
        if name in categories:
            is_boolean = converter.pa.types.is_boolean(array.type)
            array = array.cast(converter.pa.int64()) if is_boolean else array
            array = array.dictionary_encode()
        columns[name] = array
    return converter.pa.record_batch(columns)


def _typed(converter: ArrowConverter, kind: str, array: Any) -> Any:
    """Convert an array, of text if its values were not parsed, to a kind."""
    pa = converter.pa
    if kind == AS_BOOLEAN:
        values = converter.booleans(array)
        return pa.array(values == 1, mask=np.isnan(values))
    if kind == AS_NUMBER:
        is_parsed = pa.types.is_floating(array.type)
        return array if is_parsed else pa.array(converter.numbers(array))
    return converter.whole(array) if kind == AS_WHOLE else converter.plain(array)
