"""Hyphenation of English words."""

from __future__ import annotations

import os
import string

from sklearn.utils import Bunch

from treecrf.datasets.sources import checked, labeled, locate
from treecrf.datasets.windows import read_windows
from treecrf.utils.validation import StrOptions


@checked(subset=[StrOptions({"train", "test"})])
def fetch_hyphenation(
    *,
    subset: str = "train",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[list[str], list[str]]:
    """Load words with the places where a hyphen may stand.

    The data of the papers on TREECRF [1]_: 1951 words for training, 908 for testing. The published
    features are a window of 2 letters before a letter and 3 after it, ``window=(2, 3)``.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Which words.
    data_home : path-like, optional
        Folder to read ``hyphen/sparse.hyphen.6.train`` and ``.test`` from; if not given, the
        folder that the environment variable ``TREECRF_DATA`` names. Without either, the file is
        downloaded, once, and kept in a cache: ``pip install "treecrf[datasets]"``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)``.

    Returns
    -------
    Bunch, or (list, list)
        With these attributes:

        - data : list of str, the words;
        - target : list of str, for each letter ``1`` if a hyphen may follow it, else ``0``;
        - filename : the path that was read.

    Raises
    ------
    OSError
        If the file is not in the folder, or cannot be downloaded; the message says what to do.
    ImportError
        If pooch is needed and not installed.

    Notes
    -----
    The rows of the published files are the gaps between letters: there is none for the last letter
    of a word, which is always ``0`` here. Published accuracies do not count it.

    The files are those that the SMILE library has among its tests.

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
