"""Data of shared tasks of the Conference on Natural Language Learning."""

from __future__ import annotations

import os

from sklearn.utils import Bunch

from treecrf.datasets.conll import Sentences, read_conll
from treecrf.datasets.sources import fetching, labeled, locate
from treecrf.utils.validation import StrOptions

# Columns and files of the shared tasks.
TASK_NAMES = ("word", "tag")
FILES_2002 = {"train": "esp.train", "validation": "esp.testa", "test": "esp.testb"}


@fetching(subset=[StrOptions({"train", "test"})])
def fetch_conll2000(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[Sentences, list[list[str]]]:
    """Load sentences with their chunks.

    These are the data of the shared task of [1]_: 8936 sentences with 211,727 words for training,
    and 2012 with 47,377 for testing. They are from the Wall Street Journal, with part-of-speech
    tags from the Brill tagger.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Part of the data.
    data_home : path-like, optional
        Folder to read ``conll2000/train.txt`` and ``test.txt`` from.
        $home

    $returns
        - data : list of lists of dicts, the ``word`` and ``tag`` of each word;
        - target : list of lists of str, the label of each word: ``B-NP``, ``I-NP``, ..., or ``O``;
        - feature_names : list of str, ``["word", "tag"]``;
        - filename : the path that was read.

    $raises

    Notes
    -----
    The text is from the Penn Treebank, licensed by the Linguistic Data Consortium. The task was
    published for research.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, S. Buchholz, "Introduction to the CoNLL-2000 shared task:
       Chunking", CoNLL 2000.

    Examples
    --------
    >>> from treecrf.datasets import fetch_conll2000
    >>> sentences = fetch_conll2000()  # doctest: +SKIP
    >>> sentences.data[0][0], sentences.target[0][0]  # doctest: +SKIP
    ({'word': 'Confidence', 'tag': 'NN'}, 'B-NP')
    """
    return _fetch(f"conll2000/{subset}.txt", data_home, return_X_y)


@fetching(subset=[StrOptions(set(FILES_2002))])
def fetch_conll2002(
    *, subset: str = "train", data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Bunch | tuple[Sentences, list[list[str]]]:
    """Load Spanish sentences with their named entities.

    These are the data of the shared task of [1]_: 8323 sentences with 264,715 words for training,
    1915 with 52,923 for validation (``esp.testa``), and 1517 with 51,533 for testing
    (``esp.testb``). They are from EFE news.

    Parameters
    ----------
    subset : {"train", "validation", "test"}, default="train"
        Part of the data.
    data_home : path-like, optional
        Folder to read ``conll2002/esp.train``, ``esp.testa`` and ``esp.testb`` from, in UTF-8.
        $home

    $returns
        - data : list of lists of dicts, the ``word`` and ``tag`` of each word;
        - target : list of lists of str, the label of each word: ``O``, or ``B-`` or ``I-`` followed
          by ``LOC``, ``MISC``, ``ORG`` or ``PER``;
        - feature_names : list of str, ``["word", "tag"]``;
        - filename : the path that was read.

    $raises

    Notes
    -----
    The task was published for research; the text is copyright of the EFE news agency.

    References
    ----------
    .. [1] E. F. Tjong Kim Sang, "Introduction to the CoNLL-2002 shared task: Language-independent
       named entity recognition", CoNLL 2002.

    Examples
    --------
    >>> from treecrf.datasets import fetch_conll2002
    >>> sentences = fetch_conll2002()  # doctest: +SKIP
    >>> sentences.data[0][0], sentences.target[0][0]  # doctest: +SKIP
    ({'word': 'Melbourne', 'tag': 'NP'}, 'B-LOC')
    """
    return _fetch(f"conll2002/{FILES_2002[subset]}", data_home, return_X_y)


def _fetch(name: str, data_home: str | os.PathLike | None, return_X_y: bool) -> Bunch | tuple:
    path = locate(name, data_home)
    data, target = read_conll(path, names=TASK_NAMES)
    return labeled(data, target, return_X_y, feature_names=list(TASK_NAMES), filename=str(path))
