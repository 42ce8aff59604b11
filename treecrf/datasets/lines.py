"""Text files line by line, and labels in them."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from treecrf.inputs.paths import GZIP_MAGIC, UTF_16_MARKS

TextSource = str | os.PathLike | IO

BYTE_ORDER_MARK = "\ufeff"
# What to do about a file in an encoding in which a line feed is not one byte.
CONVERT = (
    "convert the file to UTF-8, such as with iconv -f {0} -t UTF-8, or pass a file opened as text: "
    'open(path, encoding="{0}")'
)
CONVERT_UTF_16 = CONVERT.format("UTF-16")


class Lines:
    """The lines of a file, without line endings.

    A line ends with a line feed, a carriage return, or both. A file object yields bytes or text and
    stays open. Bytes that start with the gzip magic bytes are decompressed. In the encoding, a line
    feed must be one byte, as in UTF-8 and Latin-1.
    """

    def __init__(self, source: TextSource, encoding: str = "utf-8"):
        self.source = source
        self.encoding = encoding
        is_path = isinstance(source, (str, os.PathLike))
        # Of the file in messages, and of the current line, from 1.
        if is_path:
            self.name = os.fspath(source)
        else:
            self.name = str(getattr(source, "name", "the file"))
        self.number = 0
        # Whether a file that was appended to another one starts at the current line.
        self.is_joint = False

    def __iter__(self) -> Iterator[str]:
        """Read the lines; a byte order mark at the start of a file, or a joined one, is skipped."""
        with self._opened() as file:
            try:
                for line in file:
                    self.number += 1
                    first, *others = self._decoded(line).rstrip("\r\n").split("\r")
                    yield self._checked(first)
                    for text in others:
                        self.number += 1
                        yield self._checked(text)
            except UnicodeDecodeError as error:  # of a file opened as text
                raise ValueError(f"{self.name}, after line {self.number}: {error}") from None
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{self.name}: damaged after line {self.number}: {error}"
                ) from error

    def error(self, message: str) -> ValueError:
        """Make an error that names the current line."""
        return ValueError(f"{self.name}, line {self.number}: {message}")

    def joint(self) -> ValueError:
        """Make an error for a file that begins at the current line, within a sequence."""
        return self.error(
            "the line starts with a byte order mark, so another file begins here; expected a blank "
            "line before it"
        )

    def _decoded(self, line: bytes | str) -> str:
        if isinstance(line, str):
            return line
        if self.number == 1:
            self._check_encoding(line)
        try:
            return line.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self.error(
                f"byte {error.start} is not {self.encoding}: {error.reason}; try another encoding="
            ) from None

    def _check_encoding(self, line: bytes) -> None:
        """Raise ValueError if the first line shows that the encoding is wrong."""
        check_encoding(self.encoding)
        if line.startswith(UTF_16_MARKS):
            raise ValueError(f"{self.name}: the encoding of the file is UTF-16; {CONVERT_UTF_16}")
        is_utf_8 = codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")
        if line.startswith(codecs.BOM_UTF8) and not is_utf_8:
            raise ValueError(
                f"{self.name}: the file starts with the byte order mark of UTF-8, and is not "
                f"{self.encoding}; pass encoding='utf-8'"
            )

    def _checked(self, line: str) -> str:
        """Return a line without a byte order mark; ValueError if it is not text."""
        self.is_joint = False
        if "\0" in line:
            raise self.error(
                f"character {line.index(chr(0))} is NUL, which is not text: the file is damaged, "
                f"or its encoding is UTF-16; in this case {CONVERT_UTF_16}"
            )
        if line[:1] != BYTE_ORDER_MARK:
            return line
        # A mark alone in a column can be a word.
        self.is_joint = self.number > 1 and line[1:2] not in ("\t", " ")
        if self.is_joint or self.number == 1:
            return line[1:]
        return line

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        if not isinstance(self.source, (str, os.PathLike)):
            yield _decompressed(self.source)
            return
        with open(self.source, "rb") as file:
            yield _decompressed(file)


def check_encoding(encoding: str) -> None:
    """Raise ValueError unless text can be decoded line by line."""
    try:
        ends = "\n\n".encode(encoding)  # the first one may follow a byte order mark
    except LookupError as error:
        raise ValueError(f"encoding={encoding!r}: {error}") from None
    if not ends.endswith(b"\n\n"):
        raise ValueError(
            f"encoding={encoding!r}: expected an encoding in which a line feed is one byte, as in "
            f"ASCII; {CONVERT.format(encoding)}"
        )


def _decompressed(file: Any) -> Any:
    """Return the file, decompressed if it is gzip; one that cannot go back is taken as plain."""
    if _head(file) == GZIP_MAGIC:
        return gzip.GzipFile(fileobj=file)
    return file


def _head(file: Any) -> bytes:
    """Return the first two bytes of a file without reading on, if that is possible."""
    if hasattr(file, "peek"):
        return file.peek(2)[:2]
    is_binary = isinstance(file, (io.RawIOBase, io.BufferedIOBase))
    if not is_binary or not file.seekable():
        return b""
    start = file.tell()
    head = file.read(2)
    file.seek(start)
    return head


def as_lists(sequences: Iterable[tuple], n_parts: int = 2) -> tuple[list, ...]:
    """Return a list of the first parts of all tuples, a list of the second parts, and so on."""
    lists = tuple(map(list, zip(*sequences, strict=True)))
    return lists or tuple([] for _ in range(n_parts))


def read_label(text: str) -> str | None:
    """Return a label without blanks around it; None, a missing label, if nothing else is there."""
    return text.strip() or None
