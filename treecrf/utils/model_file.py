"""Model files: saved models with a version and a checksum.

A file holds a line of magic bytes, the SHA-256 of the rest, the version of the format, and a NumPy
archive with the arrays of the model and, as the bytes of a JSON text, its other values. The archive
is read without pickle, and only if the checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from treecrf.utils.archive import TEXT, Archive, packed
from treecrf.utils.replaced_file import replace_file

MAGIC = b"treecrf model\n"
VERSION = 1
VERSION_BYTES = 4
CHECKSUM_BYTES = hashlib.sha256().digest_size
# Maximum number of characters of a reason in an error message.
MAX_CHARACTERS = 300


class ModelFileError(ValueError):
    """The file is not a saved model, is damaged, or has a newer format."""


def write(
    path: str | PathLike,
    values: dict,
    arrays: dict[str, np.ndarray],
    check: Callable[[dict, dict[str, np.ndarray]], Any] | None = None,
) -> None:
    """Write a model file.

    An existing file is replaced only when the new one is complete.

    Parameters
    ----------
    path : path-like
    values : dict
        Values that JSON supports.
    arrays : dict
        Arrays by name; none may be named "json".
    check : callable, optional
        Called with the values, as they will be read, and the arrays; it raises an error if they are
        not a valid model.

    Raises
    ------
    ValueError
        If the check fails.
    OSError
        If the file cannot be written.
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
    replace_file(path, MAGIC + hashlib.sha256(payload).digest() + payload)


def read(path: str | PathLike) -> tuple[dict, Archive]:
    """Read a file that `write` has written.

    Returns
    -------
    values : dict
    arrays : Archive
        Each array is read when it is used, within `as_model_file_error`.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged or incomplete, has a newer format, or would take
        too much memory.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        # Of other files, which may be huge or endless, nothing else is read.
        if file.read(len(MAGIC)) != MAGIC:
            raise ModelFileError(f"{path}: not a treecrf model")
        payload = _archive_of(path, file.read())
    with as_model_file_error(path):
        arrays = Archive(payload)
        return json.loads(arrays[TEXT].tobytes()), arrays


def _archive_of(path: str | PathLike, content: bytes) -> memoryview:
    """Check the checksum and the version of a model file, and return what follows them."""
    checksum, payload = content[:CHECKSUM_BYTES], memoryview(content)[CHECKSUM_BYTES:]
    if hashlib.sha256(payload).digest() != checksum:
        raise ModelFileError(f"{path}: wrong checksum; the file is damaged or incomplete")
    version = int.from_bytes(payload[:VERSION_BYTES], "little")
    if version > VERSION:
        raise ModelFileError(
            f"{path}: format {version}; this version of treecrf reads formats up to {VERSION}"
        )
    return payload[VERSION_BYTES:]


class Section(Mapping[str, np.ndarray]):
    """The arrays of one section of a model file, by their names within the section.

    Parameters
    ----------
    arrays : mapping of arrays
        All arrays of the file, which are read when they are used.
    name : str
    """

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
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def plain_parameters(parameters: dict) -> dict:
    """Return the constructor parameters as values that JSON supports.

    Random generators become None: their state is not part of a model.
    """
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None  # a random generator


def restored_parameters(parameters: dict) -> dict:
    """Undo `plain_parameters`, except that lists and arrays become tuples."""

    def restored(value: Any) -> Any:
        if isinstance(value, dict):
            return {restored(k): restored(v) for k, v in value["pairs"]}
        return tuple(map(restored, value)) if isinstance(value, list) else value

    return {name: restored(value) for name, value in parameters.items()}
