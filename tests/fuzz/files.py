"""Random damage to model files by seed: of their bytes, and of their contents with a checksum."""

from __future__ import annotations

import copy
import json
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.models import explained
from sklearn.base import clone
from support.family import BOOSTED, COUNTED, DISCOVERING, LINEAR, STARTED
from support.model_files import read, sealed, sealed_archive

import treecrf
from treecrf import ModelFileError
from treecrf.utils.model_file import CHECKSUM_BYTES, MAGIC, VERSION_BYTES

N_HEAD = len(MAGIC) + CHECKSUM_BYTES + VERSION_BYTES
WORDS = ["banana", "cab", "abcba", "c"]
TAGS = ["xyzyxy", "zxy", "yxzxy", "z"]
TREES = BOOSTED | DISCOVERING | STARTED
MODELS = TREES | LINEAR | COUNTED
NAMES = (*sorted(MODELS), *(f"flat {name}" for name in sorted(TREES)))
VALUES = (None, True, False, -1, 0, 1, 2, 255, 10_000, 2**31 - 1, 2**31, 2**63, -(2**63), 10**400,
          0.5, -1e300, 1e308, float("nan"), float("inf"), "", "x", "linear", "x" * 1000, [], {},
          [[]], [1, 2], {"pairs": []}, {"a": 1})  # fmt: skip
NUMBERS = (0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, -(2**31), 1e308, -1e308, np.nan, np.inf, 5e-324)
TYPES = ("f8", "f4", "i8", "i4", "i1", "u1", "u4", "?", "U1", "U9", ">i4", ">f8", "f2")


def numbers() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    tables = [np.round(rng.normal(size=(len(t), 3)), 1) for t in TAGS]
    for table in tables:
        table[:, 1] = rng.integers(0, 2, len(table))
        table[0, 2] = np.nan
    return tables


@cache
def content(name: str, form: str) -> bytes:
    """File of a small model, fitted to words or to tables with missing values."""
    X = WORDS if form == "words" or "HMM" in name else numbers()
    model = clone(MODELS[name.removeprefix("flat ")]).fit(X, TAGS)
    if name.startswith("flat "):
        model = treecrf.flatten(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.read_bytes()


@cache
def parts(name: str, form: str) -> tuple[dict, dict[str, np.ndarray]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content(name, form))
        return read(path)


# Damage


def with_bytes_changed(rng, data: bytes, n: int) -> bytes:
    out = bytearray(data)
    for at in rng.integers(0, len(out), n):
        out[at] ^= int(rng.integers(1, 256))
    return bytes(out)


def with_block_changed(rng, data: bytes) -> bytes:
    """Overwrite, remove, repeat or insert a block."""
    start, size = int(rng.integers(0, len(data))), int(rng.integers(1, 60))
    block = data[start : start + size]
    change = rng.integers(4)
    new = (rng.bytes(size), b"", block * 3, block + rng.bytes(size))[change]
    return data[:start] + new + data[start + size :]


def change_value(rng, values: dict) -> None:
    """Change a random value in nested dicts and lists, in place."""
    here: Any = values
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = keys[rng.integers(len(keys))]
        if isinstance(here[key], (dict, list)) and here[key] and rng.random() < 0.9:
            here = here[key]
            continue
        if rng.random() < 0.1 and isinstance(here, dict):
            del here[key]
        elif type(here[key]) in (int, float) and rng.random() < 0.6:
            here[key] += int(rng.choice([-1, 1, 2]))
        else:
            here[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        return


def changed_array(rng, array: np.ndarray, others: list[np.ndarray]) -> np.ndarray | None:
    """Return another array in place of one; None to remove it."""
    way = rng.integers(14) - 5
    if way <= 2 and array.size and array.dtype.kind in "biuf":
        array = array.copy()
        with np.errstate(all="ignore"):
            flat, n = array.reshape(-1), 1 + max(0, int(way))
            own = rng.choice(flat, n)
            near = (own + rng.integers(-1, 2, n)) if array.dtype.kind != "b" else ~own
            new = (own, near, np.array(NUMBERS)[rng.integers(0, len(NUMBERS), n)])[rng.integers(3)]
            flat[rng.integers(0, array.size, n)] = new.astype(array.dtype)
        return array
    if way == 3:
        return array[: rng.integers(0, len(array) + 1)] if array.ndim else array[None]
    if way == 4:
        return np.concatenate([array, array[:1]]) if array.ndim else None
    if way == 5:
        return others[rng.integers(len(others))]
    if way == 6 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(TYPES[rng.integers(len(TYPES))])
    if way == 7 and array.ndim:
        return rng.permutation(array)
    return None if way == 8 and rng.random() < 0.3 else array[..., np.newaxis]


def damaged(seed: int) -> tuple[str, bytes]:
    """Draw a model and damage its file; returns its name and the bytes."""
    rng = np.random.default_rng(seed)
    name, form = str(rng.choice(NAMES)), str(rng.choice(["words", "tables"]))
    data = content(name, form)
    way = rng.integers(8)
    if way == 0:
        return name, with_bytes_changed(rng, data, 1)
    if way == 1:
        return name, data[: rng.integers(0, len(data))]
    if way == 2:
        return name, sealed_archive(with_bytes_changed(rng, data[N_HEAD:], int(rng.integers(1, 4))))
    if way == 3:
        return name, sealed_archive(with_block_changed(rng, data[N_HEAD:]))
    values, arrays = parts(name, form)
    values, arrays = copy.deepcopy(values), dict(arrays)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if way <= 5:
            change_value(rng, values)
            continue
        key = str(rng.choice(sorted(arrays)))
        new = changed_array(rng, arrays[key], list(arrays.values()))
        arrays.pop(key) if new is None else arrays.update({key: new})
        if not arrays:
            break
    try:
        return name, sealed(values, arrays)
    except (UnicodeEncodeError, ValueError):
        return name, sealed_archive(json.dumps(values).encode())


def run_file(seed: int) -> str:
    """Load a damaged file and use the model; return "refused" or "loaded".

    Raises
    ------
    AssertionError
        If an error is not documented.
    """
    name, data = damaged(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model"
        path.write_bytes(data)
        try:
            model = treecrf.load(path)
        except ModelFileError as error:
            assert len(str(error)) < 1000, "a long message"
            return "refused"
        except Exception as error:
            raise AssertionError(f"{name}: load raises {error!r}") from error
        use(model, name)
        model_again(model, path)
    return "loaded"


def predictions_of(model: Any, X: list) -> list[Callable[[], Any]]:
    return [
        lambda: model.predict(X),
        lambda: model.predict_proba(X),
        lambda: model.predict_pairwise_proba(X),
        lambda: model.decode(X, n_best=2),
        lambda: model.predict_log_likelihood(X, model.predict(X)),
        lambda: list(model.staged_predict_proba(X)),
    ]


def use(model: Any, name: str) -> None:
    """Predict with a model whose contents are consistent, but may be any."""
    for call in predictions_of(model, WORDS) + predictions_of(model, numbers()):
        try:
            call()
        except AttributeError as error:
            assert "staged_predict_proba" in str(error), f"{name}: {error!r}"
        except Exception as error:
            assert explained(error), f"{name}: not explained: {error!r}"


def model_again(model: Any, path: Path) -> None:
    """A loaded model can be saved and loaded."""
    model.save(path)
    treecrf.load(path)
