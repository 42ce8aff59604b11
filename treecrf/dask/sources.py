"""Data that `fit` and predictions take: collections of Dask, delayed objects, futures and files."""

from __future__ import annotations

import os
from typing import Any

import dask
import narwhals as nw
from dask import delayed
from dask.delayed import Delayed
from distributed import Future

from treecrf.dask.cluster import Cluster, WorkersLostError
from treecrf.dask.partitions import DaskPartitions
from treecrf.inputs.dataset import RawData, named
from treecrf.inputs.large.table_sources import find_files, import_pyarrow, naming
from treecrf.inputs.paths import TEXT_ENDINGS, are_paths
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.values import closest_name, column_names, require_different_names
from treecrf.utils.partitions import PerPartition

COLLECTIONS = (
    "expected a dask data frame, a bag, a list of delayed objects or futures, or the path of "
    "Parquet files"
)
EXPECTED = (
    "expected a dask data frame, a bag of pairs (X, y), a list of delayed objects or futures of "
    "pairs (X, y), or the path of Parquet files"
)


# Forms of X whose partitions hold data; see `form_of`.
DISTRIBUTED = ("frame", "series", "bag", "parts")


def form_of(X: Any) -> str:
    """Return the form of data of Dask: one of `DISTRIBUTED`, "part" or "other"; "" for all else."""
    if isinstance(X, (Delayed, Future)):  # a delayed object has any attribute
        return "part"
    if isinstance(X, (list, tuple)):
        are_parts = len(X) > 0 and all(isinstance(item, (Delayed, Future)) for item in X)
        return "parts" if are_parts else ""
    if not dask.is_dask_collection(X):
        return ""
    if hasattr(X, "columns"):
        return "series" if X.ndim == 1 else "frame"
    return "bag" if hasattr(X, "map_partitions") and hasattr(X, "to_textfiles") else "other"


def is_path(X: Any) -> bool:
    """Return whether X is the path of files, or a list of such paths."""
    items = X if isinstance(X, (list, tuple)) else [X]
    return len(items) > 0 and all(isinstance(item, (str, os.PathLike)) for item in items)


def is_url(X: Any) -> bool:
    """Return whether X is the path of files on a remote file system, or a list of such paths."""
    items = X if isinstance(X, (list, tuple)) else [X]
    return is_path(X) and any("://" in os.fspath(item) for item in items)


def is_table(X: Any) -> bool:
    """Return whether X is the path of files, instead of sequences in memory."""
    return is_url(X) or are_paths(X, with_strings=True)


def refuse_other_collections(X: Any, name: str = "X") -> None:
    """Raise TypeError for collections of Dask that hold no sequences, such as arrays and series."""
    form = form_of(X)
    if form == "part":
        raise TypeError(f"{name} is {described_type(X)}")
    if form in ("series", "other"):
        raise TypeError(f"{name} is {described_type(X)}; {COLLECTIONS}")


def described_type(X: Any) -> str:
    """Describe an input that is not supported, in an error message."""
    if isinstance(X, (list, tuple)) and not X:
        return f"an empty {type(X).__name__}"
    if form_of(X) == "part":
        return f"a single {type(X).__name__}, which is one partition; pass it in a list"
    return f"of type {type(X).__name__}"


def files_of(X: Any) -> list:
    """Return the Parquet files of paths, patterns and folders, here or on a remote file system."""
    items = [os.fspath(item) for item in (X if isinstance(X, (list, tuple)) else [X])]
    if is_url(items):
        return [file for item in items for file in _files_of_url(item)]
    files = find_files(items)
    for file in files:
        _require_parquet(file)
    return files


def _files_of_url(url: str) -> list:
    """Return the files of a pattern, or of a folder, on any file system."""
    from fsspec import open_files
    from fsspec.core import url_to_fs

    system, path = url_to_fs(url)
    # Whether a page of HTTP is a folder is seen after it is read.
    if "http" not in url.partition("://")[0] and system.isdir(path):
        url = f"{url.rstrip('/')}/**/*.parquet"
    elif url.lower().endswith(TEXT_ENDINGS):
        _require_parquet(url)
    elif not any(character in path for character in "*?[") and not system.exists(path):
        raise FileNotFoundError(f"{url}: there is no such file")
    files = open_files(url, "rb")
    if not files:
        raise FileNotFoundError(f"{url}: no file matches")
    return list(files)


def _require_parquet(file: str) -> None:
    if file.lower().endswith(TEXT_ENDINGS):
        raise ValueError(
            f"{file}: expected Parquet files; pass dask.dataframe.read_csv(path) for CSV"
        )


def read_parquet(file: Any) -> Any:
    """Read a Parquet file, a path or an OpenFile of fsspec, as a pyarrow table."""
    parquet = import_pyarrow().parquet
    with naming(_name_of_file(file)):
        if isinstance(file, str):
            return parquet.read_table(file, use_threads=False, partitioning=None)
        with file as opened:
            return parquet.read_table(opened, use_threads=False)


def _name_of_file(file: Any) -> str:
    """Return the path of a file, or its URL."""
    return file if isinstance(file, str) else file.full_name


def raw_partitions(
    cluster: Cluster,
    X: Any,
    y: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    name: str = "",
    fold_groups: Any = None,
) -> DaskPartitions:
    """Return partitions of `RawData` that are read again each time they are used.

    A string as another argument is the name of a column; otherwise they have the partitions of X.
    Without y, the parts of X are pairs (X, y). The name is a suffix of arguments
    in error messages.
    """
    given = {
        "y": y, "groups": groups, "sample_weight": sample_weight, "fold_groups": fold_groups
    }  # fmt: skip
    is_bag = form_of(X) == "bag"
    if is_bag:
        _check_arguments_of_bag(groups, sample_weight, fold_groups, name)
    columns = {argument: v for argument, v in given.items() if v is None or isinstance(v, str)}
    values, places = _delayed_tables(X, name)
    sources = {"X": values}
    others = tuple(argument for argument in given if argument not in columns)
    for argument in others:
        sources[argument] = _delayed_argument(argument, given[argument], len(places), name)
    _require_columns(X, columns, name)
    arguments = columns, others, is_bag, PerPartition(places)

    def submit() -> list[Future]:
        parts = [_submitted(cluster, values, name) for values in sources.values()]
        return cluster.submit_calls(read_raw, list(zip(*parts, strict=True)), arguments)

    return DaskPartitions(cluster, len(places), submit, keep=False)


def _delayed_tables(X: Any, name: str) -> tuple[list, list[str]]:
    """Return the partitions of X, delayed or as futures, and their names in error messages."""
    if is_path(X):
        files = files_of(X)
        tables = [delayed(read_parquet, pure=False)(file) for file in files]
        return tables, [_name_of_file(file) for file in files]
    form = form_of(X)
    if form not in DISTRIBUTED:
        raise TypeError(f"X{name} is {described_type(X)}; {EXPECTED}")
    tables = _delayed_partitions(X, form)
    return tables, [f"partition {i}" for i in range(len(tables))]


def _delayed_argument(argument: str, value: Any, n_parts: int, name: str) -> list:
    """Return the partitions of another argument than X; an error unless they match those of X."""
    form = form_of(value)
    if form not in DISTRIBUTED:
        several = ""
        if argument == "groups" and is_path(value):  # a list of names
            several = "; join several columns into one"
        raise TypeError(
            f"{argument}{name} is of type {type(value).__name__}; expected the name of one "
            f"column, or a collection of Dask with the partitions of X{several}"
        )
    partitions = _delayed_partitions(value, form)
    if len(partitions) != n_parts:
        raise ValueError(
            f"X{name} has {n_parts} partitions, {argument}{name} has {len(partitions)}"
        )
    return partitions


def _delayed_partitions(collection: Any, form: str) -> list:
    """Return the partitions of a collection, delayed or as futures."""
    if form == "parts":
        return list(collection)
    return list(collection.to_delayed())


def _require_columns(X: Any, columns: dict[str, str | None], name: str) -> None:
    """Raise an error if a table needs the name of a column, or does not have the column."""
    require_different_names({f"{argument}{name}": column for argument, column in columns.items()})
    if form_of(X) not in ("frame", "series") and not is_path(X):
        return
    for argument, content in (("y", "labels"), ("groups", "groups")):
        if columns.get(argument, argument) is None:
            raise TypeError(
                f"{argument}{name} is not given; expected the name of the column of {content}"
            )
    if is_path(X):  # The columns of files are found when they are read.
        return
    for argument, column in columns.items():
        if column is not None:
            require_column(X._meta, column, f"{argument}{name}", f"X{name}")


def _check_arguments_of_bag(groups: Any, sample_weight: Any, fold_groups: Any, name: str) -> None:
    """Raise TypeError for names of columns, and groups of positions, of a bag of sequences."""
    if groups is not None:
        raise TypeError(
            f"groups{name} is given, but X{name} is a bag, of which each item is a sequence; "
            "expected None, or a data frame with the column of groups"
        )
    if isinstance(sample_weight, str):
        raise TypeError(
            f"sample_weight{name}={sample_weight!r} names a column, but X{name} is a bag; expected "
            "a bag of weights, or a bag of triples (X, y, sample_weight)"
        )
    if isinstance(fold_groups, str):
        raise TypeError(
            f"fold_groups={fold_groups!r} names a column, but X is a bag; expected a bag with the "
            "group of each sequence"
        )


def require_column(frame: Any, name: str, argument: str, owner: str = "X") -> None:
    """Raise ValueError if a data frame of pandas, polars or pyarrow has no such column."""
    names = column_names(frame)
    if name in names:
        return
    if name in getattr(getattr(frame, "index", None), "names", ()):
        raise ValueError(
            f"{argument}={name!r} is the index of {owner}, not a column; pass "
            f"{owner}.reset_index(), or set_index({name!r}, drop=False)"
        )
    raise ValueError(f"{argument}={name!r} is not a column of {owner}{closest_name(name, names)}")


def _submitted(cluster: Cluster, values: list, name: str) -> list[Future]:
    for value in values:
        if isinstance(value, Future) and value.status in ("cancelled", "lost"):
            raise WorkersLostError(
                f"a future of X{name} was lost with its worker, or in a restart of the cluster; "
                "pass delayed objects, which can be computed again"
            )
        if isinstance(value, Future) and value.client is not cluster.client:
            raise ValueError(
                f"X{name} holds a future of another client, {value.client}; expected futures of "
                f"{cluster.client}, or that client as the parameter client"
            )
    return cluster.submit_delayed(values)


def read_raw(X: Any, *values: Any) -> RawData:
    """Return the data of a partition as a local `fit` takes them.

    The values are the partitions of other arguments; then the names of columns that stand for
    arguments, the names of the other arguments, whether partitions are lists of sequences instead
    of data for a local fit, and the place of the partition.
    """
    *partitions, columns, others, are_bags, place = values
    given = dict.fromkeys(("y", "groups", "sample_weight", "fold_groups")) | columns
    given |= zip(others, partitions, strict=True)
    if are_bags:
        X = list(X)
        given |= {name: list(given[name]) for name in others}
    with named(place):
        if given["y"] is None:
            X, given = _unpacked(X, given, are_bags)
        weight = given["sample_weight"]
        if isinstance(weight, str):
            require_column(X, weight, "sample_weight")
            frame = nw.from_native(X, eager_only=True)
            X = frame.drop(weight).to_native()
            weight = frame[weight].to_numpy()
        folds = given["fold_groups"]
        if isinstance(folds, str):
            require_column(X, folds, "fold_groups")
    cuts = Segmentation(None, given["groups"])
    return RawData(X, given["y"], cuts, weight, place=place, fold_groups=folds)


def _unpacked(X: Any, given: dict[str, Any], are_bags: bool) -> tuple[Any, dict[str, Any]]:
    """Take pairs (X, y), or triples (X, y, sample_weight), apart."""
    items = X if are_bags else [X]
    if not items:
        return [], given | {"y": []}
    sizes = [len(item) if isinstance(item, tuple) else 0 for item in items]
    if set(sizes) == {2, 3}:
        raise TypeError("X holds both pairs and triples; expected a weight in all items, or none")
    wrong = next((i for i, size in enumerate(sizes) if size not in (2, 3)), None)
    if wrong is not None:
        kind = f"tuple of {sizes[wrong]}" if sizes[wrong] else type(items[wrong]).__name__
        raise TypeError(
            f"X holds an item of type {kind}; without y, expected pairs (X, y) "
            "or triples (X, y, sample_weight)"
        )
    columns = list(map(list, zip(*items, strict=True))) if are_bags else list(X)
    return columns[0], given | dict(zip(("y", "sample_weight"), columns[1:], strict=False))
