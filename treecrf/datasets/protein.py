"""Data of the TREECRF papers: hyphenation of English words, and protein secondary structure."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator

from sklearn.utils import Bunch

from treecrf.datasets.lines import Lines, TextSource, as_lists
from treecrf.datasets.sources import fetching, labeled, locate
from treecrf.datasets.sparse_rows import read_windows
from treecrf.utils.validation import StrOptions


@fetching(subset=[StrOptions({"train", "test"})])
def fetch_hyphenation(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[list[str], list[str]]:
    """Load words with their hyphenation points.

    The data of the TREECRF papers [1]_: 1951 words for training and 908 for testing. The published
    features are a window of 2 letters before and 3 after each letter, ``window=(2, 3)``.

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
    file
        As in `iter_protein`, which also describes the format.

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
        Files that start with the gzip magic bytes are decompressed.

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
        If a line does not have this format; the message names the file and the line.

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

    The data of [1]_ as used in the TREECRF papers: 111 proteins with 18,105 residues for training
    and 17 with 3,520 for testing. The published features are a window of 5 residues on each side,
    ``window=5``.

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
