"""Files of the standard library as labeled sequences of lines."""

from __future__ import annotations

import random
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treecrf.cli.demo.lines import LABELS, feature_table, label_lines, split_lines

# Tests differ between installations or are left out; encodings are tables made by a program.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings"}
SIZES = range(40, 1201)


@dataclass(frozen=True)
class SourceFile:
    """A file of Python source: its lines, what they are and what can be seen of them.

    Attributes
    ----------
    name : str
        Path below the folder it was found in.
    lines : list of str
        The lines, without their ends.
    labels : ndarray of str, shape (n_lines,)
        One of `LABELS` for each line.
    features : ndarray of float64, shape (n_lines, n_features)
        The values of `FEATURES` for each line.
    """

    name: str
    lines: list[str]
    labels: np.ndarray
    features: np.ndarray


def load_files(n_files: int, seed: int = 0, folder: Path | None = None) -> list[SourceFile]:
    """Read files that are chosen by chance.

    Parameters
    ----------
    n_files : int
        Number of files. Fewer come back where there are fewer of moderate size.
    seed : int, default=0
        The same seed gives the same files in the same order.
    folder : Path, optional
        Where to look; the standard library of the running interpreter if not given.

    Returns
    -------
    list of SourceFile

    Raises
    ------
    FileNotFoundError
        If the folder holds less than two files that can be used.
    """
    folder = Path(folder or sysconfig.get_path("stdlib"))
    paths = sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix())
    random.Random(seed).shuffle(paths)
    files: list[SourceFile] = []
    for file in _readable(paths, folder):
        files.append(file)
        if len(files) == n_files:
            break
    if len(files) < 2:
        raise FileNotFoundError(
            f"{folder}: {len(files)} Python files of {SIZES[0]} to {SIZES[-1]} lines, expected 2 "
            "or more"
        )
    return files


def show_case(files: list[SourceFile], max_lines: int = 260) -> SourceFile:
    """Choose the file for the picture, by its true labels alone.

    Docstrings are what needs context, so it is the file with most lines of docstring among those
    that fit the picture and have every label; any file, if there is none of these.
    """
    fitting = [file for file in files if len(file.lines) <= max_lines]
    complete = [file for file in fitting if len(set(file.labels)) == len(LABELS)]
    return max(complete or fitting or files, key=lambda file: np.sum(file.labels == "docstring"))


def _readable(paths: list[Path], folder: Path) -> Iterator[SourceFile]:
    for path in paths:
        name = path.relative_to(folder)
        file = None if SKIPPED.intersection(name.parts) else _read(path, name.as_posix())
        if file is not None:
            yield file


def _read(path: Path, name: str) -> SourceFile | None:
    """Read a file; None if it is too small, too large or no Python of this interpreter."""
    try:
        with tokenize.open(path) as stream:
            source = stream.read()
        lines = split_lines(source)
        if len(lines) not in SIZES:
            return None
        labels = label_lines(source)
    except (SyntaxError, ValueError, tokenize.TokenError, OSError):
        return None
    return SourceFile(name, lines, np.array(labels), feature_table(lines))
