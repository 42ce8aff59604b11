"""NumPy archives whose memory is bounded by the size of the file."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# Bytes that the members of an archive may take together: a constant, and a multiple of its size.
MAX_BYTES, MAX_RATIO = 1 << 27, 100
# The same for the text, whose Python objects take up to 24 times its size.
MAX_TEXT_BYTES, MAX_TEXT_RATIO = 1 << 20, 10
TEXT = "json"

KINDS_OF_TYPES = "biufU"
# Those of NumPy have a few hundred bytes.
MAX_HEADER = 10_000
HEADER = re.compile(
    rf"{{'descr': '([<>|][{KINDS_OF_TYPES}][1-9][0-9]{{0,8}})', 'fortran_order': (True|False), "
    r"'shape': \(([0-9, ]*)\), \}\s*"
)
BLOCK = 1 << 20
ENCRYPTED = 0x1


class Archive(Mapping[str, np.ndarray]):
    """Arrays of an archive by name; each is read and checked when it is used.

    Pickled objects are refused.

    Parameters
    ----------
    content : bytes-like

    Raises
    ------
    ValueError, zipfile.BadZipFile, zlib.error, ...
        If the archive is damaged, or its members would take too much memory. Arrays raise the same
        errors when they are read.
    """

    def __init__(self, content: Any):
        self._file = zipfile.ZipFile(io.BytesIO(content))
        members = self._file.infolist()
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise ValueError("two members have the same name")
        sizes = {name.removesuffix(".npy"): m.file_size for name, m in self._members.items()}
        if not is_within_bounds(sizes, len(content)):
            raise ValueError("the members take too much memory for the size of the file")
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = self._read(self._members[f"{name}.npy"])
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return (name.removesuffix(".npy") for name in self._members)

    def __len__(self) -> int:
        return len(self._members)

    def _read(self, member: zipfile.ZipInfo) -> np.ndarray:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"unsupported compression of {member.filename!r}")
        if member.flag_bits & ENCRYPTED:
            raise ValueError(f"{member.filename!r} is encrypted")
        with self._file.open(member) as file:
            return _read_array(file, member)


def is_within_bounds(sizes: Mapping[str, int], n_bytes: int) -> bool:
    """Return whether members of these sizes may be in an archive of a number of bytes."""
    if sum(sizes.values()) > MAX_BYTES + MAX_RATIO * n_bytes:
        return False
    return sizes.get(TEXT, 0) <= MAX_TEXT_BYTES + MAX_TEXT_RATIO * n_bytes


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the bytes of an archive of arrays, compressed unless `Archive` would refuse it.

    Raises
    ------
    ValueError
        If an array has a type that `Archive` refuses.
    """
    for name, array in arrays.items():
        _check_type(array.dtype, name)
    for save in (np.savez_compressed, np.savez):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        sizes = {name: array.nbytes + MAX_HEADER for name, array in arrays.items()}
        if is_within_bounds(sizes, buffer.tell()):
            break
    return buffer.getvalue()


def _read_array(file: Any, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array without an allocation beyond the size of the member."""
    head = io.BytesIO(file.read(MAX_HEADER))
    shape, in_columns, dtype = _read_header(head, member.filename)
    size = math.prod(shape)
    if size * dtype.itemsize != member.file_size - head.tell():
        raise ValueError(f"{member.filename!r} does not have the size of its array")
    array = np.empty(size, dtype=dtype)
    _fill(memoryview(array.view(np.uint8) if array.nbytes else b""), head.read(), file)
    _check_values(array, member.filename)
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    return array.reshape(shape[::-1]).T if in_columns else array.reshape(shape)


def _read_header(head: io.BytesIO, name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape of an array, whether it is stored column by column, and its type.

    Like `numpy.lib.format`, but without the parser of Python, which may take much memory.
    """
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name!r} has an unsupported format")
    n = int.from_bytes(head.read(2 if version == (1, 0) else 4), "little")
    header = HEADER.fullmatch(head.read(n).decode("latin1"))
    if header is None:
        raise ValueError(f"{name!r} has an unsupported type, or an invalid header")
    dtype, order, sizes = header.groups()
    shape = tuple(int(size) for size in sizes.split(",") if size.strip())
    return shape, order == "True", np.dtype(dtype)


def _fill(memory: memoryview, block: bytes, file: Any) -> None:
    """Copy a block and the rest of a file, up to its end, where its checksum is compared."""
    start = 0
    while block:
        memory[start : start + len(block)] = block
        start += len(block)
        block = file.read(BLOCK)
    if start < len(memory):
        raise ValueError("a member is incomplete")


def _check_type(dtype: np.dtype, name: str) -> None:
    if dtype.kind not in KINDS_OF_TYPES or not dtype.itemsize:
        raise ValueError(f"{name!r} holds values of type {dtype}")


def _check_values(array: np.ndarray, name: str) -> None:
    """Raise ValueError if bytes are not booleans or characters; NumPy trusts them."""
    if array.dtype.kind == "b":
        is_valid = (array.view(np.uint8) <= 1).all()
    elif array.dtype.kind == "U" and array.nbytes:
        codes = array.view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        is_valid = (codes <= 0x10FFFF).all()
    else:
        is_valid = True
    if not is_valid:
        raise ValueError(f"{name!r} holds values that are not of its type")
