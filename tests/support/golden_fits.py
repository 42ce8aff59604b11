"""Fits in several ways, and short hashes of their results."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy.optimize import minimize
from sklearn.pipeline import Pipeline
from support.dask_data import cut
from support.golden_data import Data, data_of, write
from support.golden_settings import FITS, FLAT, GIVEN, LIBRARIES, Fit
from support.model_files import read

import treecrf

N_DIGITS = 12
# Largest difference of means of probabilities between machines, for fits that libraries round.
TOLERANCE = 1e-4
# Arguments with an entry for each training sequence.
OF_EACH = ("y", "sample_weight", "allowed", "init_score")


def results(name: str) -> dict[str, dict[str, Any]]:
    """Results of each way to fit a model; those of the first are recorded."""
    fit = FITS[name]
    data, found = data_of(fit.data), {}
    for way in ["memory", *fit.ways.split()]:
        with TemporaryDirectory() as folder:
            model = fitted(fit, data, way, Path(folder))
        found[way] = hashes(model, data.new)
        if name in FLAT:
            flat = hashes(treecrf.flatten(model), data.new)
            found[way] |= {f"flat {part}": value for part, value in flat.items()}
        if is_rounded_by_libraries(name):
            found[way]["means"] = mean_probabilities(model, data.new)
    return found


def is_rounded_by_libraries(name: str) -> bool:
    """Whether the last bits depend on NumPy's exponentials, BLAS, LAPACK or scikit-learn."""
    return name.startswith(LIBRARIES)


def fitted(fit: Fit, data: Data, way: str, folder: Path) -> Any:
    """Fit a copy of the model: in memory, from files, on Dask, or with more threads."""
    model = copy.deepcopy(fit.model)
    if isinstance(model, list):
        return treecrf.average([one.fit(data.X, data.y) for one in model])
    given: dict[str, Any] = {"X": data.X, "y": data.y}
    if fit.data == "table":
        given["groups"] = "doc"
    for name in fit.given.split():
        given |= GIVEN[name](data)
    source, _, scratch = way.partition("+")
    if source.startswith("dask"):
        return _fitted_on_dask(model, given, int(source.removeprefix("dask-")))
    if source in ("csv", "parquet"):
        given |= {
            key: write(given[key], folder / key, source) for key in ("X", "X_val") if key in given
        }
    elif source == "reversed":
        given |= {key: given[key][::-1] for key in ("X", *OF_EACH) if key in given}
    elif source == "threads":
        model.set_params(n_jobs=3)
    if scratch:
        given["scratch"] = folder
    if fit.first:
        usual = {key: getattr(model, key) for key in fit.first}
        model.set_params(**fit.first).fit(**given).set_params(**usual)
    model.fit(**given)
    # Files contain the parameters.
    return model.set_params(n_jobs=None) if source == "threads" else model


def _fitted_on_dask(model: Any, given: dict, n_parts: int) -> Any:
    import dask.dataframe

    import treecrf.dask

    def distributed(table: Any, n: int) -> Any:
        return dask.dataframe.from_map(lambda part: part, cut(table, n + 1), meta=table[:0])

    kind = getattr(treecrf.dask, f"Dask{type(model).__name__}")
    given |= {key: distributed(given[key], n_parts) for key in ("X", "X_val") if key in given}
    return kind(**model.get_params(deep=False)).fit(**given).to_local()


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """Two workers in this process, which Dask estimators find."""
    from distributed import Client

    # Another cluster on this machine may have the default port.
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(processes=False, n_workers=2, **settings):
        yield


# Hashes


def hashes(model: Any, new: Any) -> dict[str, str]:
    """Hash the saved arrays and values, the fitted attributes, and predictions of a model."""
    if isinstance(model, Pipeline):
        model, new = model[-1], model[:-1].transform(new)
    found = {}
    if getattr(model, "estimator", None) is None:
        with TemporaryDirectory() as folder:
            model.save(path := Path(folder) / "model.treecrf")
            values, arrays = read(path)
        found = {"arrays": digest(arrays), "values": digest(values)}
    attributes = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and isinstance(value, np.ndarray | dict | int | float | list)
    }
    pairs = (model.predict_proba(new), model.predict_pairwise_proba(new))
    best = (model.predict(new), *model.decode(new, n_best=2))
    return found | {
        "scores": digest(attributes), "proba": digest(pairs), "labels": digest(best)
    }  # fmt: skip


def mean_probabilities(model: Any, new: Any) -> list[float]:
    """Mean over positions of the probability of each label, and of its square."""
    if isinstance(model, Pipeline):
        model, new = model[-1], model[:-1].transform(new)
    p = np.vstack(model.predict_proba(new))
    means = np.concatenate([p.mean(axis=0), (p**2).mean(axis=0)])
    return means.round(9).tolist()


def digest(value: Any) -> str:
    """Return the first digits of the SHA-256 of nested arrays and values."""
    hashed = hashlib.sha256()
    for piece in _pieces(value):
        hashed.update(len(piece).to_bytes(8, "little") + piece)
    return hashed.hexdigest()[:N_DIGITS]


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield key.encode()
            yield from _pieces(value[key])
    elif isinstance(value, list | tuple):
        yield b"list"
        for item in value:
            yield from _pieces(item)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype.kind}{value.dtype.itemsize} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, np.ndarray):
        yield from _pieces(value.tolist())
    else:
        yield repr(value).encode()


def arithmetic() -> str:
    """Hash the versions and results of the libraries that decide the last bits of all results."""
    x = np.random.default_rng(0).normal(size=(60, 40))
    solved = minimize(
        lambda w: np.logaddexp(0, x @ w).sum() + w @ w, np.ones(40), method="L-BFGS-B"
    )
    values = [
        np.exp(x),
        np.log(np.abs(x)),
        np.log1p(np.exp(x)),
        x.T @ x,
        x[0] @ x[1],
        x.sum(),
        solved.x,
    ]
    versions = [module.__version__ for module in (np, scipy, sklearn)]
    return digest([*versions, platform.machine(), *values])
