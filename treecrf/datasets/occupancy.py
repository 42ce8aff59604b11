"""Room occupancy from sensor measurements."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from treecrf.datasets.lines import Lines
from treecrf.datasets.sources import fetching, labeled, locate
from treecrf.utils.validation import StrOptions

FEATURES = ("Temperature", "Humidity", "Light", "CO2", "HumidityRatio")
COLUMNS = ("date", *FEATURES, "Occupancy")
FILES = {"train": ["datatraining.txt"], "test": ["datatest.txt", "datatest2.txt"]}


@fetching(subset=[StrOptions(set(FILES))], as_frame=["boolean"])
def fetch_occupancy(
    *,
    subset: str = "train",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple[list, list]:
    """Load sensor measurements of a room, minute by minute, and its occupancy.

    The data of [1]_: one sequence of 8143 minutes for training, and two for testing, one of 2665
    minutes (door mostly closed) and one of 9752 (door mostly open).

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Training or test sequences.
    data_home : path-like, optional
        Folder to read ``occupancy/datatraining.txt``, ``datatest.txt`` and ``datatest2.txt`` from.
        $home
    as_frame : bool, default=False
        Whether to return the data as pandas data frames with the dates as index.

    $returns
        - data : list of float arrays or data frames of shape (n_minutes, 5): temperature (°C),
          relative humidity (%), light (lux), CO2 (ppm), humidity ratio (mass of water per mass of
          air);
        - target : list of int arrays (n_minutes,), 1 if the room is occupied, else 0;
        - feature_names : list of str;
        - dates : list of datetime64 arrays (n_minutes,);
        - filenames : the paths that were read.

    $raises

    Notes
    -----
    Published by the authors; also in the UCI archive, under CC BY 4.0.

    References
    ----------
    .. [1] L. M. Candanedo, V. Feldheim, "Accurate occupancy detection of an office room from
       light, temperature, humidity and CO2 measurements using statistical learning models",
       Energy and Buildings 112, 2016.

    Examples
    --------
    >>> from treecrf.datasets import fetch_occupancy
    >>> room = fetch_occupancy(subset="test")  # doctest: +SKIP
    >>> [table.shape for table in room.data]  # doctest: +SKIP
    [(2665, 5), (9752, 5)]
    """
    paths = [locate(f"occupancy/{name}", data_home) for name in FILES[subset]]
    dates, data, target = zip(*map(_read, paths), strict=True)
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("as_frame=True needs pandas: pip install pandas") from error
        data = [
            pd.DataFrame(table, columns=FEATURES, index=pd.DatetimeIndex(times, name="date"))
            for table, times in zip(data, dates, strict=True)
        ]
    return labeled(
        list(data),
        list(target),
        return_X_y,
        feature_names=list(FEATURES),
        dates=list(dates),
        filenames=list(map(str, paths)),
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the dates, features, and labels of a file."""
    lines = Lines(path)
    rows = csv.reader(lines)
    # The column of row numbers has a name in the files of the archive, but not in the authors'.
    if tuple(next(rows, []))[-len(COLUMNS) :] != COLUMNS:
        raise lines.error(f"expected the columns {', '.join(COLUMNS)}")
    parsed = [_parse(row, lines) for row in rows if row]
    if not parsed:
        raise lines.error("the file ends after its header")
    dates, features, labels = zip(*parsed, strict=True)
    return np.array(dates), np.array(features), np.array(labels)


def _parse(row: list[str], lines: Lines) -> tuple[np.datetime64, list[float], int]:
    if len(row) != len(COLUMNS) + 1:
        raise lines.error(f"{len(row)} columns; expected {len(COLUMNS) + 1}")
    try:
        date, features = np.datetime64(row[1], "s"), list(map(float, row[2:-1]))
    except ValueError as error:
        raise lines.error(str(error)) from None
    if row[-1] not in ("0", "1") or not all(map(math.isfinite, features)):
        raise lines.error("expected numbers, and 0 or 1 last")
    return date, features, int(row[-1])
