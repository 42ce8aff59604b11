"""Sizes of the package: what tests limit, and what is only printed."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import threading
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import dask.dataframe
from sklearn.base import BaseEstimator
from support.dask_data import cut
from support.golden_data import data_of, write
from support.golden_fits import cluster
from support.golden_names import public_objects

import treecrf
from treecrf.dask import DaskTreeCRF

PACKAGE = Path(treecrf.__file__).parent
SOURCES = Path(__file__).parents[2] / "treecrf"
MAX_LINES_PER_FILE = 600
DEFINITION = re.compile(r"^(?:async |cdef )?(?:class|def) ([^\W_]\w*)", flags=re.MULTILINE)
METHODS = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
SHORT = {"max_iter": 2, "early_stopping": False}


def flow() -> dict[str, int]:
    """Distinct functions, files and classes of the package that calls pass, in a second call."""
    data, table = data_of("numbers"), data_of("table")
    lists = data.X, data.y
    crf, sampled = treecrf.TreeCRF(**SHORT), treecrf.TreeCRF(sampling=0.1, **SHORT)
    model = treecrf.TreeCRF(**SHORT).fit(*lists)
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = write(table.X, folder / "data", "csv")
        parts = dask.dataframe.from_map(lambda part: part, cut(table.X, 3), meta=table.X[:0])
        calls = {
            "fit": lambda: crf.fit(*lists),
            "fit by default": lambda: treecrf.TreeCRF(max_iter=2).fit(*lists),
            "fit on samples": lambda: sampled.fit(*lists),
            "fit with scratch": lambda: crf.fit(*lists, scratch=folder),
            "fit on samples with scratch": lambda: sampled.fit(*lists, scratch=folder),
            "fit of CSV files": lambda: crf.fit(path, "tag", groups="doc"),
            "fit on Dask": lambda: _fit_on_dask(parts, None),
            "fit on samples on Dask": lambda: _fit_on_dask(parts, 0.1),
            "predict": lambda: model.predict(data.new),
        }
        found = {}
        for call, function in calls.items():
            function()  # imports what it needs
            with noted() as passed:
                function()
            classes = {(file, name.rpartition(".")[0]) for file, name in passed if "." in name}
            found[f"{call}: functions"] = len(passed)
            found[f"{call}: files"] = len({file for file, _ in passed})
            found[f"{call}: classes"] = len(classes)
    return found


@contextlib.contextmanager
def noted() -> Iterator[set[tuple[str, str]]]:
    """Note the files and names of the package's functions that are called in any thread."""
    passed = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name[0] != "<" and code.co_filename.startswith(str(PACKAGE)):
            passed.add((code.co_filename, code.co_qualname))

    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def _fit_on_dask(parts: dask.dataframe.DataFrame, sampling: float | None) -> None:
    # Threads that run already would not be noted.
    with cluster():
        DaskTreeCRF(sampling=sampling, **SHORT).fit(parts, "tag", groups="doc")


def lines() -> dict[str, int]:
    """Count the lines of all sources, and of each long file."""
    counts = {
        path.relative_to(SOURCES).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for ending in ("py", "pyx", "pxd", "h")
        for path in SOURCES.rglob(f"*.{ending}")
    }
    long = {name: n for name, n in counts.items() if n > MAX_LINES_PER_FILE}
    return {"all files": sum(counts.values())} | dict(sorted(long.items()))


def names_of_two_things() -> dict[str, int]:
    """Count the modules that define each public class or function that several modules define."""
    modules = defaultdict(set)
    for path in SOURCES.rglob("*.py*"):
        if path.suffix in (".py", ".pyx"):
            for name in DEFINITION.findall(path.read_text(encoding="utf-8")):
                modules[name].add(path)
    return {n: len(modules[n]) for n in sorted(modules) if len(modules[n]) > 1}


def methods() -> dict[str, int]:
    """Count the methods and properties of each estimator, with those of its bases in treecrf."""
    return {
        name.rpartition(".")[2]: len({
            key
            for base in estimator.__mro__
            if base.__module__.startswith("treecrf.")
            for key, value in vars(base).items()
            if isinstance(value, METHODS)
        })
        for name, estimator in public_objects().items()
        if inspect.isclass(estimator) and issubclass(estimator, BaseEstimator)
    }  # fmt: skip
