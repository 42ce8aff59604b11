"""Model files: saved models with a version and a checksum.

A file holds a line of magic bytes, the SHA-256 of the rest, the version of the format, and a NumPy
archive with the arrays of the model and, as the bytes of a JSON text, its other values. The archive
is read without pickle, and only if the checksum is right.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

MAGIC = b"treecrf model\n"
VERSION = 1
VERSION_BYTES = 4
CHECKSUM_BYTES = 32
# Shorter contents are hashed in less time than OpenSSL takes to load, which hashes faster.
MANY_BYTES = 1 << 20
# Maximum number of characters of a reason in an error message.
MAX_CHARACTERS = 300

# Bytes that the members of an archive may take together: a constant, and a multiple of its size.
MAX_BYTES = 1 << 27
MAX_RATIO = 100
# The same for the text alone, whose Python objects take up to 24 times its size.
MAX_TEXT_BYTES = 1 << 20
MAX_TEXT_RATIO = 10
TEXT = "json"

KINDS_OF_TYPES = "biufU"
# NumPy's headers have a few hundred bytes.
MAX_HEADER = 10_000
HEADER = re.compile(
    rf"{{'descr': '([<>|][{KINDS_OF_TYPES}][1-9][0-9]{{0,8}})', 'fortran_order': (True|False), "
    r"'shape': \(([0-9, ]*)\), \}\s*"
)
BLOCK = 1 << 20
ENCRYPTED = 0x1
# Characters of a name that its temporary name repeats: names have at most 255 bytes.
MAX_REPEATED = 40


class ModelFileError(ValueError):
    """The file is not a saved model, is damaged or incomplete, or has a newer format version.

    `treecrf.load` and `treecrf.runtime.load` raise it. It is a `ValueError`.
    """


class NeedsEstimator(Exception):
    """The chain of a saved model cannot be restored without its estimator; the message says why."""


def write(
    path: str | PathLike,
    values: dict,
    arrays: dict[str, np.ndarray],
    check: Callable[[dict, dict[str, np.ndarray]], Any] | None = None,
) -> None:
    """Write a model file: values that JSON supports, and arrays, none of which is named "json".

    An existing file is replaced only when the new one is complete. The check is called with the
    values, as they will be read, and the arrays; its errors become a ValueError.
    """
    content = json.dumps(values).encode()
    if check is not None:
        try:
            with as_model_file_error(path):
                check(json.loads(content), arrays)
        except ModelFileError as error:
            raise ValueError(f"the model cannot be saved: {error.__cause__}") from error.__cause__
    text = np.frombuffer(content, dtype=np.uint8)
    payload = VERSION.to_bytes(VERSION_BYTES, "little") + packed({**arrays, TEXT: text})
    replace_file(path, MAGIC + sha256(payload) + payload)


def read(path: str | PathLike) -> tuple[dict, Archive]:
    """Read a file that `write` has written; each array is read only when it is used.

    Use the arrays within `as_model_file_error`.
    """
    with open(path, "rb") as file:
        # Other files may be huge or endless.
        if file.read(len(MAGIC)) != MAGIC:
            raise ModelFileError(f"{path}: not a treecrf model")
        checksum = file.read(CHECKSUM_BYTES)
        payload = memoryview(file.read())
    if sha256(payload) != checksum:
        raise ModelFileError(f"{path}: wrong checksum; the file is damaged or incomplete")
    version = int.from_bytes(payload[:VERSION_BYTES], "little")
    if version > VERSION:
        raise ModelFileError(
            f"{path}: format {version}; this version of treecrf reads formats up to {VERSION}"
        )
    with as_model_file_error(path):
        arrays = Archive(payload[VERSION_BYTES:])
        return json.loads(arrays[TEXT].tobytes()), arrays


def sha256(content: bytes | memoryview) -> bytes:
    """Return the SHA-256 of a content."""
    if len(content) < MANY_BYTES:
        # Like `random` of the standard library, which does without hashlib if it can.
        for name in ("_sha2", "_sha256"):
            with contextlib.suppress(ModuleNotFoundError):
                return importlib.import_module(name).sha256(content).digest()
    import hashlib

    return hashlib.sha256(content).digest()


class Section(Mapping[str, np.ndarray]):
    """The arrays of one section of a model file, by their names within the section."""

    def __init__(self, arrays: Mapping[str, np.ndarray], name: str):
        self._arrays = arrays
        self._prefix = f"{name}."

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        names = (name for name in self._arrays if name.startswith(self._prefix))
        return (name.removeprefix(self._prefix) for name in names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def as_section(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Undo `Section`: return arrays by their names in the model file."""
    return {f"{name}.{inner}": array for inner, array in arrays.items()}


@contextlib.contextmanager
def as_model_file_error(path: str | PathLike) -> Iterator[None]:
    """Turn errors raised by invalid contents into a `ModelFileError`."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        RuntimeError,  # also of zipfile, for features that it does not support
        TypeError,
        ValueError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = shortened(str(error))
        raise ModelFileError(f"{path}: the contents are not a valid model: {reason}") from error


def shortened(text: str) -> str:
    """Cut a long text, such as an error message that repeats the contents of a file."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}..."


# Archives


class Archive(Mapping[str, np.ndarray]):
    """Arrays of a NumPy archive by name; each is read and checked when it is used.

    The memory is bounded by the size of the file, and pickled objects are refused. A damaged
    archive or array raises ValueError, zipfile.BadZipFile, zlib.error, ...
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
    """Return whether an archive of a number of bytes may have members of these sizes."""
    if sum(sizes.values()) > MAX_BYTES + MAX_RATIO * n_bytes:
        return False
    return sizes.get(TEXT, 0) <= MAX_TEXT_BYTES + MAX_TEXT_RATIO * n_bytes


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the bytes of an archive of arrays, compressed unless `Archive` would refuse it."""
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS_OF_TYPES or not array.dtype.itemsize:
            raise ValueError(f"{name!r} holds values of type {array.dtype}")
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
    memory = memoryview(array.view(np.uint8) if array.nbytes else b"")
    start = 0
    block = head.read()
    while block:  # to the end of the file, where zipfile compares the checksum
        memory[start : start + len(block)] = block
        start += len(block)
        block = file.read(BLOCK)
    if start < len(memory):
        raise ValueError("a member is incomplete")
    _check_values(array, member.filename)
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    if in_columns:
        return array.reshape(shape[::-1]).T
    return array.reshape(shape)


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


# Replaced files


def replace_file(path: str | PathLike, content: bytes) -> None:
    """Write a file under a temporary name and rename it.

    A link stays and its target is replaced. The permissions of an existing file remain. Whatever
    happens, the path holds the old or the new content. A device, for example, raises OSError.
    """
    import secrets
    import shutil

    target = os.path.realpath(os.fsdecode(path))
    exists = False
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
        exists = True
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", target)
    # Neither process numbers nor times are unique: containers share folders, threads share numbers.
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f"{name[:MAX_REPEATED]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if exists:
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = target
        raise


# Checks that the parts of a saved model fit together. A checksum reveals a damaged file; these
# checks reveal a forged one. The compiled kernels trust their arguments, so no file may pass that
# could make them read outside the arrays of the model.


def require(condition: bool, what: str) -> None:
    """Raise ValueError unless a condition on some part of a model holds."""
    if not condition:
        raise ValueError(f"invalid {what}")


def check_classes(classes: np.ndarray) -> None:
    """Raise ValueError unless these are sorted, distinct labels."""
    require(classes.dtype.kind in "biuU" and is_ascending(classes), "labels")
    require(len(classes) > 1, "labels")


def check_categories(values: np.ndarray) -> None:
    """Raise ValueError unless these are sorted, distinct integers or strings."""
    require(is_ascending(values) and values.dtype.kind in "iU", "categories")


def check_counts(*counts: int) -> None:
    """Raise ValueError unless these are integers from 0 that an int32 can hold."""
    integers = all(isinstance(n, int) and not isinstance(n, bool) for n in counts)
    require(integers and all(0 <= n < 1 << 31 for n in counts), "numbers")


def check_names(names: tuple[str, ...] | None, n: int) -> None:
    """Raise ValueError unless these are distinct names of n columns, or there are none."""
    if names is not None:
        require(all(isinstance(name, str) for name in names), "names")
        require(len(set(names)) == len(names) == n, "names")


def check_history(n_iter: int, training: np.ndarray, validation: np.ndarray) -> None:
    """Raise ValueError unless each iteration has its scores; validation scores may be absent."""
    require(training.dtype.kind == validation.dtype.kind == "f", "scores")
    require(training.shape == (n_iter + 1,), "scores")
    require(validation.shape in ((0,), training.shape), "scores")


def check_series(array: np.ndarray, n: int, kind: str = "f") -> None:
    """Raise ValueError unless this is an array of n numbers of a kind."""
    require(array.shape == (n,) and array.dtype.kind == kind, "results")


def check_result(value: object) -> None:
    """Raise ValueError unless this is a finite number, or a 1-D array of numbers, none infinite."""
    array = np.asarray(value)
    require(array.ndim <= 1 and array.dtype.kind in "if", "results")
    require(not np.isinf(array).any() and (array.ndim > 0 or not np.isnan(array)), "results")


def check_indices(indices: np.ndarray, n: int, what: str) -> None:
    """Raise ValueError unless this is a 1-D array of indices below n."""
    require(indices.ndim == 1 and indices.dtype.kind == "i", what)
    require(((indices >= 0) & (indices < n)).all(), what)


def is_ascending(values: np.ndarray) -> bool:
    """Return whether a 1-D array is sorted, without duplicates."""
    return values.ndim == 1 and bool((values[1:] > values[:-1]).all())
