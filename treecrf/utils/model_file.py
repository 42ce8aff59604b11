"""Model files: saved models with a version and a checksum.

A file holds a line of magic bytes, the SHA-256 of the rest, the version of the format, and a NumPy
archive with the arrays of the model and, as the bytes of a JSON text, its other values. The archive
is read without pickle, and only if the checksum is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

MAGIC = b"treecrf model\n"
VERSION = 1
VERSION_BYTES = 4
CHECKSUM_BYTES = hashlib.sha256().digest_size


class ModelFileError(ValueError):
    """The file is not a saved model, is damaged, or has a newer format."""


def write(path: str | PathLike, values: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write a model file.

    An existing file is replaced only when the new one is complete.

    Parameters
    ----------
    path : path-like
    values : dict
        Values that JSON supports.
    arrays : dict
        Arrays by name; none may be named "json".

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, **arrays, **{"json": text})
    payload = VERSION.to_bytes(VERSION_BYTES, "little") + buffer.getvalue()
    _replace(path, MAGIC + hashlib.sha256(payload).digest() + payload)


def _replace(path: str | PathLike, content: bytes) -> None:
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read(path: str | PathLike) -> tuple[dict, dict[str, np.ndarray]]:
    """Read a file that `write` has written.

    Returns
    -------
    values : dict
    arrays : dict

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged or incomplete, or has a newer format.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    archive = io.BytesIO(_archive_of(path, content))
    with as_model_file_error(path), np.load(archive, allow_pickle=False) as loaded:
        arrays = dict(loaded)
        values = json.loads(arrays.pop("json").tobytes())
        return values, arrays


def _archive_of(path: str | PathLike, content: bytes) -> bytes:
    """Check the head of a model file and return what follows it."""
    if not content.startswith(MAGIC):
        raise ModelFileError(f"{path}: not a treecrf model")
    start = len(MAGIC) + CHECKSUM_BYTES
    checksum, payload = content[len(MAGIC) : start], content[start:]
    if hashlib.sha256(payload).digest() != checksum:
        raise ModelFileError(f"{path}: wrong checksum; the file is damaged or incomplete")
    version = int.from_bytes(payload[:VERSION_BYTES], "little")
    if version > VERSION:
        raise ModelFileError(
            f"{path}: format {version}; this version of treecrf reads formats up to {VERSION}"
        )
    return payload[VERSION_BYTES:]


def section(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return the arrays of one section of a model file, by their names within the section."""
    prefix = f"{name}."
    return {
        full.removeprefix(prefix): array
        for full, array in arrays.items()
        if full.startswith(prefix)
    }


def as_section(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Undo `section`: return arrays by their names in the model file."""
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
        RecursionError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise ModelFileError(f"{path}: the contents are not a valid model: {error}") from error


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
