"""CSV files, whose values are text that is parsed as numbers while it is one."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from treecrf.inputs.large.arrow_values import MISSING
from treecrf.inputs.large.table_sources import (
    DEFAULTS,
    OTHER_SEPARATORS,
    Source,
    Table,
    TableOptions,
    import_pyarrow,
    naming,
    short_message,
)
from treecrf.inputs.paths import UTF_16_MARKS
from treecrf.inputs.values import short_list, short_repr

# Parsed text takes several times its size. A block of text must be longer than the longest row,
# and conversion is fast if it holds many of them.
BLOCK_BYTES = 1 << 20
LINES_IN_BLOCK = 32
WIDE_BLOCK_BYTES = 1 << 22
LINES_IN_WIDE_BLOCK = 1024
TRUE = ("true", "True", "TRUE")
FALSE = ("false", "False", "FALSE")
# Number of columns whose values may turn out not to fit, after which all are read as text.
MAX_MISFITS = 4
# Errors of the parser about a value of a column, and about the number of fields of a row.
COLUMN_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", re.DOTALL)
ROW_ERROR = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


class CsvFile(Table):
    """A CSV file, in which all values are text."""

    first_row = 2

    def __init__(self, source: Source, separator: str = ",", options: TableOptions = DEFAULTS):
        self.name = source.name
        self.source = source
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
        n_batches = 0
        n_misfits = 0
        last = None  # batch with rows
        while True:
            try:
                with naming(self.name), self._open(names, types) as reader:
                    # The batches before one that did not fit are read again.
                    for batch in itertools.islice(reader, n_batches, None):
                        n_batches += 1
                        if len(batch):
                            last = batch
                        yield batch
                with naming(self.name):
                    self._refuse_open_quotes(last)
                return
            except MisfitError as misfit:
                n_misfits += 1
                known = misfit.column in types and n_misfits <= MAX_MISFITS
                types = {name: types[name] for name in types if known and name != misfit.column}

    def _refuse_open_quotes(self, batch: Any) -> None:
        """Raise ValueError if the last field of the file took in the rows after it.

        The parser ends a field that no quotation mark closes at the end of the file.
        """
        if batch is None or self.names[-1] not in batch.schema.names:
            return
        field = batch.column(self.names[-1])[-1].as_py()
        if isinstance(field, str) and "\n" in field and not self._ends_with_quotes():
            raise ValueError(
                f"the last field of the file is {short_repr(field)}; a closing quotation mark is "
                "missing"
            )

    def _ends_with_quotes(self) -> bool:
        """Return whether the last character other than white space is a quotation mark."""
        last = b""
        with (
            self.source.stream() as raw,
            self.pa.input_stream(raw, compression=self.compression) as file,
        ):
            while part := file.read(BLOCK_BYTES):
                last = part.rstrip()[-1:] or last
        return last == b'"'

    def _read_header(self) -> None:
        start = self._start()
        if not start.strip():
            content = "holds no names of columns" if start else "is empty"
            raise ValueError(f"the file {content}; expected a line with the names of the columns")
        # Some programs export tables as UTF-16.
        encoding = self.options.encoding
        is_utf_16 = start.startswith(UTF_16_MARKS)
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
            reading.column_names = self.renamed
            reading.skip_rows = self.header_lines
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
            column = COLUMN_ERROR.match(str(error))
            if types and column is not None:
                raise MisfitError(self.names[int(column[1])]) from None
            raise ValueError(self._described(error)) from None

    def _described(self, error: Exception) -> str:
        """Describe an error of the parser, and what helps."""
        text = str(error)
        row = ROW_ERROR.search(text)
        if column := COLUMN_ERROR.match(text):
            where = ""
            if column[2]:
                where = f"row {column[2]}, "
            text = f"{where}column {self.names[int(column[1])]!r}: {column[3]}"
        if "invalid UTF8" in text:
            return f"{text}; {self.options.advice_of_encoding()}"
        if row is None:
            return short_message(text)
        n_expected = int(row[2])
        n_fields = int(row[3])
        row_text = row[4]
        text = (
            f"row {row[1]} has {_fields(n_fields)}: {short_repr(row_text)}; the first line, which "
            f"names the columns, has {_fields(n_expected)}: {short_list(self.header)}"
        )
        for separator in OTHER_SEPARATORS:
            n_names = self.separator.join(self.header).count(separator)
            n_values = row_text.partition("\n")[0].count(separator)
            if separator != self.separator and 0 < n_names == n_values:
                return f"{text}; {self.options.advice_of_separator(separator)}"
        if "\n" in row_text:
            return f"{text}; a closing quotation mark may be missing"
        if int(row[1]) == self.first_row and n_fields > n_expected:
            return f"{text}; remove lines above the names of the columns, such as comments"
        if n_fields > n_expected:
            return f"{text}; quotation marks must enclose a field that holds {self.separator!r}"
        return text


class MisfitError(Exception):
    """A value of a column of text does not have the type of the values before."""

    def __init__(self, column: str):
        super().__init__(f"column {column!r}")
        self.column = column


def _numbered(names: list[str]) -> list[str]:
    """Number the columns without a name, as pandas does."""
    numbered = []
    for j, name in enumerate(names):
        name = name or f"Unnamed: {j}"
        k = 0
        while not names[j] and name in names:
            k += 1
            name = f"Unnamed: {j}.{k}"
        numbered.append(name)
    return numbered


def _fields(n: int) -> str:
    if n == 1:
        return "1 field"
    return f"{n} fields"


def _block_bytes(start: bytes) -> int:
    """Return the size of blocks of a file, given its first bytes."""
    n_bytes = max(map(len, start.split(b"\n", LINES_IN_BLOCK)[:LINES_IN_BLOCK]))
    wide = min(WIDE_BLOCK_BYTES, LINES_IN_WIDE_BLOCK * n_bytes)
    return max(BLOCK_BYTES, LINES_IN_BLOCK * n_bytes, wide)
