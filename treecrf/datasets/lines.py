"""Text files line by line, from paths or open files, with errors that name the line."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

TextSource = str | os.PathLike | IO


class Lines:
    """The lines of a file, without line endings.

    A file object yields bytes or text and stays open. Bytes that start with the gzip magic bytes
    are decompressed. In the encoding, a line feed must be one byte, as in UTF-8 and Latin-1.
    """

    def __init__(self, source: TextSource, encoding: str = "utf-8"):
        self.source = source
        self.encoding = encoding
        is_path = isinstance(source, (str, os.PathLike))
        # Of the file in messages, and of the current line, from 1.
        self.name = os.fspath(source) if is_path else str(getattr(source, "name", "the file"))
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Read the lines; a byte order mark at the start is skipped."""
        with self._opened() as file:
            try:
                for line in file:
                    self.number += 1
                    text = line if isinstance(line, str) else self._decoded(line)
                    yield text.rstrip("\r\n")
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{self.name}: damaged after line {self.number}: {error}"
                ) from error

    def error(self, message: str) -> ValueError:
        """Make an error that names the current line."""
        return ValueError(f"{self.name}, line {self.number}: {message}")

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self.error(
                f"byte {error.start} is not {self.encoding}: {error.reason}; try another encoding="
            ) from None
        return text.removeprefix("\ufeff") if self.number == 1 else text

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        if not isinstance(self.source, (str, os.PathLike)):
            yield _decompressed(self.source)
            return
        with open(self.source, "rb") as file:
            yield _decompressed(file)


def _decompressed(file: Any) -> Any:
    """Return the file, decompressed if it is gzip; streams that cannot peek are taken as plain."""
    is_gzip = hasattr(file, "peek") and file.peek(2)[:2] == b"\x1f\x8b"
    return gzip.GzipFile(fileobj=file) if is_gzip else file


def as_lists(sequences: Iterable[tuple], n_parts: int = 2) -> tuple[list, ...]:
    """Return a list of the first parts of all tuples, a list of the second parts, and so on."""
    lists = tuple(map(list, zip(*sequences, strict=True)))
    return lists or tuple([] for _ in range(n_parts))
