"""Published data: NETtalk, hyphenation, protein secondary structure, and room occupancy."""

from __future__ import annotations

import csv
import math
import os
import string
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from treecrf.datasets.lines import Lines, TextSource, as_lists
from treecrf.datasets.sources import data_folder, fetching, labeled, locate
from treecrf.datasets.sparse import read_windows
from treecrf.utils.validation import StrOptions

N_WORDS = 1000
# The dictionary of the UCI archive gives one word a single stress mark for nine letters.
INCOMPLETE = "gunpowder"

Word = tuple[str, str, str]


def read_nettalk(file: TextSource) -> tuple[list[str], list[str], list[str]]:
    r"""Read the words of the NETtalk dictionary.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `iter_nettalk`, which also describes the format.

    Returns
    -------
    words, phonemes, stresses : lists of str
        The words, and their phonemes and stresses with one character per letter.

    Raises
    ------
    OSError, ValueError
        As in `iter_nettalk`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_nettalk
    >>> read_nettalk(io.StringIO("aback\txb@k-\t0>1<<\t0\n"))
    (['aback'], ['xb@k-'], ['0>1<<'])
    """
    return as_lists(iter_nettalk(file), 3)


def iter_nettalk(file: TextSource) -> Iterator[Word]:
    r"""Read the NETtalk dictionary, one word at a time.

    The columns of a line, separated by tabs, are the word, its phonemes and its stresses (both with
    one character per letter), and whether the word is regular. The copyright notice before the line
    of dashes is skipped. So is the word ``gunpowder`` if its stresses are incomplete.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.

    Yields
    ------
    word : str
        The word in lowercase letters.
    phonemes : str
        One character per letter, ``-`` for a silent one.
    stresses : str
        One character per letter: 0, 1 or 2 for a vowel (no, primary or secondary stress), and
        otherwise ``<`` or ``>``, which point to the vowel of the syllable.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have this format. The message names the file and the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_nettalk
    >>> list(iter_nettalk(io.StringIO("aback\txb@k-\t0>1<<\t0\n")))
    [('aback', 'xb@k-', '0>1<<')]
    """
    lines = Lines(file)
    for line in _without_notice(lines):
        columns = line.split("\t")
        if columns[0] == INCOMPLETE and len(columns) > 2 and len(columns[2]) == 1:
            continue
        if len(columns) < 3 or len(set(map(len, columns[:3]))) > 1 or not columns[0]:
            raise lines.error(
                f"{line!r}; expected a word, its phonemes, and its stresses, all of the same length"
            )
        yield tuple(columns[:3])


def _without_notice(lines: Lines) -> Iterator[str]:
    notice = None
    for line in lines:
        if notice is None:
            notice = "\t" not in line
        if notice:
            notice = not line.startswith("---")
        elif line.strip():
            yield line


@fetching(task=[StrOptions({"stress", "phoneme", "full"})], subset=[StrOptions({"train", "test"})])
def fetch_nettalk(
    *,
    task: str = "stress",
    subset: str = "train",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[list[str], list]:
    """Load words with the stress, the phoneme, or both for each letter.

    There are 1000 words for training and 1000 for testing, from the dictionary of [1]_.

    Parameters
    ----------
    task : {"stress", "phoneme", "full"}, default="stress"
        The labels:

        - ``"stress"``: one of 5 stresses.
        - ``"phoneme"``: one of about 50 phonemes.
        - ``"full"``: a phoneme with a stress, such as ``"b>"``. There are about 130.
    subset : {"train", "test"}, default="train"
        Training or test words.
    data_home : path-like, optional
        Folder to read ``nettalk/nettalk.data`` from.
        $home

    $returns
        - data : list of str, the words;
        - target : list of str, or of lists of str for the full task, one label per letter;
        - split : ``"published"`` or ``"random"``; see the notes;
        - filename : the path of the dictionary.

    $raises

    Notes
    -----
    Copyright (C) 1988 by T. J. Sejnowski, who permits use for non-commercial research.

    If the folder contains ``nettalk/stress.train.txt`` and ``stress.test.txt`` (one word per line,
    followed by a tab and its stresses), they determine the words, as in the TREECRF papers [2]_.
    One of these training words, *sagittarius*, is not in the dictionary and has only stresses. No
    public copy of these lists is known. Without them, the words are the first and the second
    thousand of ``numpy.random.RandomState(0).permutation(n)`` over the distinct words of the
    dictionary in its order. Accuracies on the two splits are not comparable: check that ``split``
    is the same.

    For a word with several dictionary entries, the first one is used; with the published words, the
    first one with the published stresses.

    References
    ----------
    .. [1] T. J. Sejnowski, C. R. Rosenberg, "Parallel networks that learn to pronounce English
       text", Complex Systems 1, 1987.
    .. [2] T. G. Dietterich, G. Hao, A. Ashenfelter, "Gradient tree boosting for training
       conditional random fields", JMLR 9, 2008.

    Examples
    --------
    >>> from treecrf.datasets import fetch_nettalk
    >>> words = fetch_nettalk(task="full")  # doctest: +SKIP
    >>> words.data[0], words.target[0]  # doctest: +SKIP
    ('to', ['t>', 'x0'])
    """
    path = locate("nettalk/nettalk.data", data_home)
    folder = data_folder(data_home)
    chosen = None
    if folder is not None:
        chosen = folder / "nettalk" / f"stress.{subset}.txt"
    if chosen is not None and chosen.is_file():
        words = _published(chosen, path, task)
        split = "published"
    else:
        words = _random(path, subset)
        split = "random"
    data = [word for word, _, _ in words]
    target = [_labels(phonemes, stresses, task) for _, phonemes, stresses in words]
    return labeled(data, target, return_X_y, split=split, filename=str(path))


def _labels(phonemes: str, stresses: str, task: str) -> str | list[str]:
    if task == "full":
        return list(map("".join, zip(phonemes, stresses, strict=True)))
    if task == "stress":
        return stresses
    return phonemes


def _published(chosen: Path, dictionary: Path, task: str) -> list[Word]:
    """Return the chosen words, without those that have no labels for the task."""
    phonemes: dict[tuple[str, str], str] = {}
    for word, sounds, stresses in iter_nettalk(dictionary):
        phonemes.setdefault((word, stresses), sounds)
    words = []
    for word, stresses in _read_stresses(chosen):
        sounds = phonemes.get((word, stresses), "")
        if sounds or task == "stress":
            words.append((word, sounds, stresses))
    return words


def _read_stresses(path: Path) -> Iterator[list[str]]:
    lines = Lines(path)
    for line in lines:
        columns = line.split("\t")
        if len(columns) != 2 or len(columns[0]) != len(columns[1]) or not columns[0]:
            raise lines.error(f"{line!r}; expected a word and its stresses, of the same length")
        yield columns


def _random(dictionary: Path, subset: str) -> list[Word]:
    words: dict[str, Word] = {}
    for entry in iter_nettalk(dictionary):
        words.setdefault(entry[0], entry)
    if len(words) < 2 * N_WORDS:
        raise ValueError(f"{dictionary} has {len(words)} words; expected at least {2 * N_WORDS}")
    entries = list(words.values())
    order = np.random.RandomState(0).permutation(len(entries))
    start = N_WORDS * (subset == "test")
    return [entries[i] for i in order[start : start + N_WORDS]]


@fetching(subset=[StrOptions({"train", "test"})])
def fetch_hyphenation(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[list[str], list[str]]:
    """Load words with their hyphenation points.

    These are the data of the TREECRF papers [1]_: 1951 words for training and 908 for testing. The
    published features are a window of 2 letters before and 3 after each letter, ``window=(2, 3)``.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Training or test words.
    data_home : path-like, optional
        Folder to read ``hyphen/sparse.hyphen.6.train`` and ``.test`` from.
        $home

    $returns
        - data : list of str, the words;
        - target : list of str, ``1`` for each letter that a hyphen may follow, else ``0``;
        - filename : the path that was read.

    $raises

    Notes
    -----
    The rows of the published files are the positions between letters, so they have no row for the
    last letter of a word. Its label is always ``0`` here, and published accuracies do not count it.

    The files come from the test data of the SMILE library.

    References
    ----------
    .. [1] T. G. Dietterich, G. Hao, A. Ashenfelter, "Gradient tree boosting for training
       conditional random fields", JMLR 9, 2008.

    Examples
    --------
    >>> from treecrf.datasets import fetch_hyphenation
    >>> words = fetch_hyphenation(subset="test")  # doctest: +SKIP
    >>> len(words.data), words.data[2], words.target[2]  # doctest: +SKIP
    (908, 'obtain', '010000')
    """
    path = locate(f"hyphen/sparse.hyphen.6.{subset}", data_home)
    words, labels = read_windows(path, string.ascii_lowercase, left=2)
    target = [text.ljust(len(word), "0") for word, text in zip(words, labels, strict=True)]
    return labeled(words, target, return_X_y, filename=str(path))


AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
# In the order of the papers' label numbers.
STRUCTURES = {"_": "coil", "e": "sheet", "h": "helix"}


def read_protein(file: TextSource) -> tuple[list[str], list[str]]:
    r"""Read the proteins of a file in the format of the UCI archive.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `iter_protein`, which also describes the format.

    Returns
    -------
    X : list of str
        Residues of each protein, one letter per residue.
    y : list of str
        Structures, one letter per residue.

    Raises
    ------
    OSError, ValueError
        As in `iter_protein`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_protein
    >>> read_protein(io.StringIO("<>\nG _\nV e\nend\n<>\nL h\nend\n"))
    (['GV', 'L'], ['_e', 'h'])
    """
    return as_lists(iter_protein(file))


def iter_protein(file: TextSource) -> Iterator[tuple[str, str]]:
    r"""Read proteins in the format of the UCI archive, one at a time.

    A line holds a residue and its structure. ``<>`` starts a protein; ``end`` or ``<end>`` may end
    it. Blank lines and lines that start with ``#`` are ignored.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.

    Yields
    ------
    residues : str
        One letter per residue.
    structures : str
        One letter per residue: ``h`` (helix), ``e`` (sheet) or ``_`` (coil).

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have this format. The message names the file and the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_protein
    >>> list(iter_protein(io.StringIO("<>\nG _\nV e\nend\n<>\nL h\nend\n")))
    [('GV', '_e'), ('L', 'h')]
    """
    lines = Lines(file)
    protein: list[list[str]] | None = None
    for line in lines:
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words in (["<>"], ["end"], ["<end>"]):
            if protein:
                yield tuple(map("".join, zip(*protein, strict=True)))
            protein = [] if words == ["<>"] else None
        elif protein is None:
            raise lines.error(f"{line!r}; expected <>, the start of a protein")
        elif len(words) != 2 or len(words[0]) != 1 or words[1] not in STRUCTURES:
            raise lines.error(f"{line!r}; expected a residue and its structure, one of h, e, _")
        else:
            protein.append(words)
    if protein:
        yield tuple(map("".join, zip(*protein, strict=True)))


@fetching(subset=[StrOptions({"train", "test"})])
def fetch_protein(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[list[str], list[str]]:
    """Load proteins with the structure of each residue.

    These are the data of [1]_ as used in the TREECRF papers: 111 proteins with 18,105 residues for
    training and 17 with 3,520 for testing. The published features are a window of 5 residues on
    each side, ``window=5``.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Training or test proteins.
    data_home : path-like, optional
        Folder to read ``protein/sparse.protein.11.train`` and ``.test`` from.
        $home

    $returns
        - data : list of str, the residues as letters;
        - target : list of str, the structure of each residue: ``_``, ``e`` or ``h``;
        - target_names : dict of these letters to their names;
        - filename : the path that was read.

    $raises

    Notes
    -----
    Copyright (C) 1988 by T. J. Sejnowski, who permits use for non-commercial research. The
    window files come from the test data of the SMILE library; residues are recovered from the
    windows. The labels 0, 1 and 2 of the files are ``_``, ``e`` and ``h`` here.

    References
    ----------
    .. [1] N. Qian, T. J. Sejnowski, "Predicting the secondary structure of globular proteins using
       neural network models", Journal of Molecular Biology 202, 1988.

    Examples
    --------
    >>> from treecrf.datasets import fetch_protein
    >>> proteins = fetch_protein(subset="test")  # doctest: +SKIP
    >>> len(proteins.data), proteins.data[0][:9]  # doctest: +SKIP
    (17, 'ENLKLGFLV')
    """
    path = locate(f"protein/sparse.protein.11.{subset}", data_home)
    residues, numbers = read_windows(path, AMINO_ACIDS, left=5)
    letters = str.maketrans("012", "".join(STRUCTURES))
    target = [text.translate(letters) for text in numbers]
    return labeled(residues, target, return_X_y, target_names=dict(STRUCTURES), filename=str(path))


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

    The data of [1]_ have one sequence of 8143 minutes for training, and two for testing: one of
    2665 minutes (door mostly closed) and one of 9752 (door mostly open).

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
    The authors published the data, which are also in the UCI archive, under CC BY 4.0.

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
        date = np.datetime64(row[1], "s")
        features = list(map(float, row[2:-1]))
    except ValueError as error:
        raise lines.error(str(error)) from None
    if row[-1] not in ("0", "1") or not all(map(math.isfinite, features)):
        raise lines.error("expected numbers, and 0 or 1 last")
    return date, features, int(row[-1])
