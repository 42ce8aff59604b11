"""Hyphenation of English words."""

from __future__ import annotations

import os
import string

from sklearn.utils import Bunch

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
