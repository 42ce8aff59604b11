"""Model files with a correct checksum and any content."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np

from treecrf.utils import model_file
from treecrf.utils.model_file import MAGIC, VERSION


def read(path) -> tuple[dict, dict[str, np.ndarray]]:
    """Read all contents of a model file."""
    values, arrays = model_file.read(path)
    return values, {name: arrays[name] for name in arrays if name != "json"}


def sealed(values: object, arrays: dict[str, np.ndarray], version: int = VERSION) -> bytes:
    """Bytes of a file with the given content."""
    text = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
    archive = io.BytesIO()
    np.savez(archive, **arrays, json=text)
    return sealed_archive(archive.getvalue(), version)


def sealed_archive(archive: bytes, version: int = VERSION) -> bytes:
    """Bytes of a file with the given archive."""
    payload = version.to_bytes(4, "little") + archive
    return MAGIC + hashlib.sha256(payload).digest() + payload


def npy(array: np.ndarray) -> bytes:
    """Bytes of an array in NumPy's format; those of objects are pickled."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zipped(members: list[tuple[str, bytes]], **options) -> bytes:
    """Bytes of an archive of files, given by name and content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as target:
        for name, content in members:
            target.writestr(name, content)
    return file.getvalue()
