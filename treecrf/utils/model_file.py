"""Saved models: one file of numbers and text, with a version and a checksum.

A file is a line of magic bytes, the SHA-256 of what follows, the format's version, and a NumPy
archive: the arrays of the model and, as bytes of JSON, its parameters. The archive is read without
pickle, and only after the checksum has been found right.
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

from treecrf.encoding.columns import CATEGORY, Columns
from treecrf.encoding.encoder import METHODS, Encoder, Plan
from treecrf.encoding.imputation import Imputation
from treecrf.trees.forest import TEST

MAGIC = b"treecrf model\n"
VERSION = 3
CHECKSUM_BYTES = hashlib.sha256().digest_size
COLUMN_ARRAYS = ("kinds", "sizes", "thresholds")
PLAN_ARRAYS = ("storage", "slots", "first_codes", "zeros", "n_codes", "has_missing")


class ModelFileError(ValueError):
    """A file is not a saved model, is damaged, or is of a newer version."""


def write(path: str | PathLike, values: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write a model; a file that exists is replaced only by a complete one."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, **arrays, **{"json": text})
    payload = VERSION.to_bytes(4, "little") + buffer.getvalue()
    checksum = hashlib.sha256(payload).digest()
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(MAGIC + checksum + payload)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read(path: str | PathLike) -> tuple[dict, dict[str, np.ndarray]]:
    """Read what `write` has written.

    Raises
    ------
    ModelFileError
        If the file is anything else, has been altered or cut short, or is of a newer version.
    """
    with open(path, "rb") as file:
        content = file.read()
    if not content.startswith(MAGIC):
        raise ModelFileError(f"{path}: not a treecrf model")
    start = len(MAGIC) + CHECKSUM_BYTES
    checksum, payload = content[len(MAGIC) : start], content[start:]
    if hashlib.sha256(payload).digest() != checksum:
        raise ModelFileError(f"{path}: the checksum is wrong; the file is damaged or incomplete")
    version = int.from_bytes(payload[:4], "little")
    if version > VERSION:
        raise ModelFileError(
            f"{path}: format {version}; this version of treecrf reads formats up to {VERSION}"
        )
    with as_model_file_error(path), np.load(io.BytesIO(payload[4:]), allow_pickle=False) as archive:
        arrays = dict(archive)
        values = json.loads(arrays.pop("json").tobytes())
        if version < 2 and "encoder" in values:
            _add_missing(values["encoder"], arrays)
        if version < 3:
            values["objective"] = "log"  # there was no other
        return values, arrays


def _add_missing(encoder: dict, arrays: dict[str, np.ndarray]) -> None:
    """Say of a model of version 1 what it did not know of: nothing was missing in training."""
    encoder["missing"] = METHODS[0]
    arrays["plan.has_missing"] = np.zeros(len(arrays["columns.kinds"]), dtype=bool)
    n_nodes = len(arrays["forest.leaf"])
    arrays["forest.n_surrogates"] = np.zeros(n_nodes, dtype=np.int32)
    arrays |= {f"forest.surrogate_{name}": np.zeros(0, dtype=np.int32) for name in TEST}
    arrays["forest.reversed"] = np.zeros(0, dtype=bool)
    arrays["forest.share"] = _shares_by_weight(arrays)


def _shares_by_weight(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Of the weight of each node's examples, what passes its test: nearly the share of its rows."""
    sizes = np.diff(arrays["forest.starts"])
    first = np.repeat(arrays["forest.starts"][:-1], sizes)
    inner = (arrays["forest.true_child"] >= 0) & (arrays["forest.weight"] > 0)
    passed = (first + arrays["forest.true_child"])[inner].astype(np.int64)
    shares = np.zeros(len(inner))
    shares[inner] = arrays["forest.weight"][passed] / arrays["forest.weight"][inner]
    return shares


def section(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays of one section of a model file, by their names within it."""
    prefix = f"{name}."
    return {
        full.removeprefix(prefix): array
        for full, array in arrays.items()
        if full.startswith(prefix)
    }


def as_section(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The inverse of `section`: arrays by their names in the model file."""
    return {f"{name}.{inner}": array for inner, array in arrays.items()}


@contextlib.contextmanager
def as_model_file_error(path: str | PathLike) -> Iterator[None]:
    """Turn the errors of content that is no model into a `ModelFileError`."""
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
        raise ModelFileError(f"{path}: the content is not that of a model: {error}") from error


def plain_parameters(parameters: dict) -> dict:
    """Constructor parameters as JSON can hold them."""
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    if hasattr(value, "__array__"):
        return np.asarray(value).tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None  # a random generator: its state is no part of the model


def restored_parameters(parameters: dict) -> dict:
    """The inverse of `plain_parameters`; lists and arrays come back as tuples."""

    def restored(value: Any) -> Any:
        if isinstance(value, dict):
            return {restored(k): restored(v) for k, v in value["pairs"]}
        return tuple(map(restored, value)) if isinstance(value, list) else value

    return {name: restored(value) for name, value in parameters.items()}


def encoder_state(encoder: Encoder) -> tuple[dict, dict[str, np.ndarray]]:
    """What a saved model holds of an encoder."""
    values = {name: getattr(encoder, name) for name in ("max_bins", "form", "missing")}
    values["window"] = list(encoder.window)
    values["names"] = None if encoder.names is None else list(encoder.names)
    columns = encoder.columns
    arrays = {f"columns.{name}": getattr(columns, name) for name in COLUMN_ARRAYS}
    arrays |= {f"columns.categories.{j}": values for j, values in columns.categories.items()}
    plan = encoder.plan
    arrays |= {f"plan.{name}": getattr(plan, name) for name in PLAN_ARRAYS}
    values |= {"n_bits": plan.n_bits, "n_ids": plan.n_ids}
    if encoder.filling is not None:
        arrays |= {"filling.values": encoder.filling.values, "filling.told": encoder.filling.told}
    return values, arrays


def encoder_from_state(values: dict, arrays: dict[str, np.ndarray]) -> Encoder:
    """The inverse of `encoder_state`."""
    kinds, sizes, thresholds = (arrays[f"columns.{name}"] for name in COLUMN_ARRAYS)
    of_categories = np.flatnonzero(kinds == CATEGORY).tolist()
    categories = {j: arrays[f"columns.categories.{j}"] for j in of_categories}
    columns = Columns(kinds, sizes, thresholds, categories)
    parts = {name: arrays[f"plan.{name}"] for name in PLAN_ARRAYS}
    plan = Plan.of(columns, **parts, n_bits=values["n_bits"], n_ids=values["n_ids"])
    names = None if values["names"] is None else tuple(values["names"])
    filling = None
    if "filling.values" in arrays:
        symbols = categories[0] if values["form"] == "symbols" else None
        filling = Imputation(arrays["filling.values"], arrays["filling.told"], symbols)
    encoder = Encoder(tuple(values["window"]), values["max_bins"], values["missing"])
    return encoder.restore(values["form"], names, columns, plan, filling)
