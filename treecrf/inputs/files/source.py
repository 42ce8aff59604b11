"""Files and pipes as sources of data that can be read more than once."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

# The argument that stands for standard input or output.
STANDARD = "-"
GZIP_MAGIC = b"\x1f\x8b"
# Number of bytes that determine the format of a file without a known extension.
HEAD_BYTES = 1 << 16
BLOCK_BYTES = 1 << 20


class Source:
    """A file, a pipe or standard input.

    What cannot be read twice is copied to a temporary file without a name.

    Parameters
    ----------
    path : str
        ``-`` is standard input.

    Attributes
    ----------
    path : str
    name : str
        Name in messages.

    Raises
    ------
    OSError
        If the file cannot be read.
    """

    def __init__(self, path: str):
        self.path = path
        self.name = "standard input" if path == STANDARD else path
        self._copy: IO[bytes] | None = None
        if path == STANDARD:
            if sys.stdin is None:
                raise OSError("standard input is closed")
            self._spool(sys.stdin.buffer)
        else:
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, "expected one file, not a folder", path)
            # Missing and unreadable files raise a short error here, a long one in pyarrow.
            with open(path, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    self._spool(file)

    def _spool(self, stream: IO[bytes]) -> None:
        self._copy = temporary_file()
        while block := stream.read(BLOCK_BYTES):
            with temporary_space():
                self._copy.write(block)
                self._copy.flush()
        weakref.finalize(self, self._copy.close)

    @property
    def suffixes(self) -> list[str]:
        """The extensions of the file name."""
        return Path(self.path).suffixes

    def is_gzip(self) -> bool:
        """Return whether the content is compressed with gzip."""
        with self.open() as file:
            return file.read(2) == GZIP_MAGIC

    def open(self) -> BinaryIO:
        """Open the file at its start; its attribute ``name`` is that in messages."""
        if self._copy is None:
            return open(self.path, "rb")
        # The descriptors share one offset: only one of them is in use at a time.
        os.lseek(self._copy.fileno(), 0, os.SEEK_SET)
        raw = io.FileIO(os.dup(self._copy.fileno()))
        raw.name = self.name
        return io.BufferedReader(raw)

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
