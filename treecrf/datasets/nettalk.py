"""NETtalk: pronunciation of English words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from treecrf.datasets.lines import Lines, TextSource, as_lists
from treecrf.datasets.sources import data_folder, fetching, labeled, locate
from treecrf.utils.validation import StrOptions

N_WORDS = 1000
# The dictionary of the UCI archive gives one word a single stress mark for nine letters.
INCOMPLETE = "gunpowder"

Word = tuple[str, str, str]


def read_nettalk(file: TextSource) -> tuple[list[str], list[str], list[str]]:
    r"""Read the words of the NETtalk dictionary.

    Parameters
    ----------
    file
        As in `iter_nettalk`, which also describes the format.

    Returns
    -------
    words, phonemes, stresses : lists of str
        One character per letter.

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
    of dashes is skipped, and so is the word ``gunpowder`` if its stresses are incomplete.

    Parameters
    ----------
    file : path-like or file object
        Files that start with the gzip magic bytes are decompressed.

    Yields
    ------
    word : str
        The word in lowercase letters.
    phonemes : str
        One character per letter; ``-`` for a silent one.
    stresses : str
        One character per letter: 0, 1 or 2 for a vowel (no, primary or secondary stress), else
        ``<`` or ``>``, pointing to the vowel of the syllable.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line does not have this format; the message names the file and the line.

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

    1000 words for training and 1000 for testing, from the dictionary of [1]_.

    Parameters
    ----------
    task : {"stress", "phoneme", "full"}, default="stress"
        The labels: one of 5 stresses; one of about 50 phonemes; or a phoneme with a stress, such as
        ``"b>"``, of which there are about 130.
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
    chosen = None if folder is None else folder / "nettalk" / f"stress.{subset}.txt"
    if chosen is not None and chosen.is_file():
        words, split = _published(chosen, path, task), "published"
    else:
        words, split = _random(path, subset), "random"
    data = [word for word, _, _ in words]
    target = [_labels(phonemes, stresses, task) for _, phonemes, stresses in words]
    return labeled(data, target, return_X_y, split=split, filename=str(path))


def _labels(phonemes: str, stresses: str, task: str) -> str | list[str]:
    if task == "full":
        return list(map("".join, zip(phonemes, stresses, strict=True)))
    return stresses if task == "stress" else phonemes


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
