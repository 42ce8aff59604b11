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

# Tests differ between installations or are missing; encodings are generated tables.
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings"}
SIZES = range(40, 1201)


@dataclass(frozen=True)
class SourceFile:
    """A file of Python source with the labels and features of its lines.

    Attributes
    ----------
    name : str
        Path relative to the library folder.
    lines : list of str
        The lines without line endings.
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
    """Read randomly selected files.

    Parameters
    ----------
    n_files : int
        Maximum number of files. Very short and very long files are skipped.
    seed : int, default=0
        Seed of the selection, which is the same for the same seed.
    folder : Path, optional
        Folder to search; the standard library of the running interpreter by default.

    Returns
    -------
    list of SourceFile

    Raises
    ------
    FileNotFoundError
        If the folder contains fewer than two usable files.
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
            f"{folder}: {len(files)} Python files of {SIZES[0]} to {SIZES[-1]} lines; expected at "
            "least 2"
        )
    return files


def show_case(files: list[SourceFile], max_lines: int = 260) -> SourceFile:
    """Select the file for the picture, by its true labels only.

    Docstrings need context, so it is the file with the largest number of docstring lines, among
    those that fit the picture and have all labels if possible.
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
    """Read a file; None if it is too short, too long or not valid Python of this version."""
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
