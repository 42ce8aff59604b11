"""Datasets for sequence labeling: published data, synthetic problems, and file readers.

Functions ``read_...`` return lists of all sequences in a file. Functions ``iter_...`` yield one
sequence at a time. ``fetch_...`` load published data, and ``make_...`` sample synthetic data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treecrf.datasets.conll import iter_conll as iter_conll
    from treecrf.datasets.conll import iter_conllu as iter_conllu
    from treecrf.datasets.conll import read_conll as read_conll
    from treecrf.datasets.conll import read_conllu as read_conllu
    from treecrf.datasets.conll_tasks import fetch_conll2000 as fetch_conll2000
    from treecrf.datasets.conll_tasks import fetch_conll2002 as fetch_conll2002
    from treecrf.datasets.crfsuite import iter_crfsuite as iter_crfsuite
    from treecrf.datasets.crfsuite import read_crfsuite as read_crfsuite
    from treecrf.datasets.published import fetch_hyphenation as fetch_hyphenation
    from treecrf.datasets.published import fetch_nettalk as fetch_nettalk
    from treecrf.datasets.published import fetch_occupancy as fetch_occupancy
    from treecrf.datasets.published import fetch_protein as fetch_protein
    from treecrf.datasets.published import iter_nettalk as iter_nettalk
    from treecrf.datasets.published import iter_protein as iter_protein
    from treecrf.datasets.published import read_nettalk as read_nettalk
    from treecrf.datasets.published import read_protein as read_protein
    from treecrf.datasets.sparse import iter_sparse as iter_sparse
    from treecrf.datasets.sparse import read_sparse as read_sparse
    from treecrf.datasets.synthetic import make_block_hmm as make_block_hmm
    from treecrf.datasets.synthetic import make_future_bags as make_future_bags
    from treecrf.datasets.synthetic import make_ring_hmm as make_ring_hmm

# The functions of each module.
_FUNCTIONS = {
    "conll": ("iter_conll", "iter_conllu", "read_conll", "read_conllu"),
    "conll_tasks": ("fetch_conll2000", "fetch_conll2002"),
    "crfsuite": ("iter_crfsuite", "read_crfsuite"),
    "published": (
        "fetch_hyphenation",
        "fetch_nettalk",
        "fetch_occupancy",
        "fetch_protein",
        "iter_nettalk",
        "iter_protein",
        "read_nettalk",
        "read_protein",
    ),
    "sparse": ("iter_sparse", "read_sparse"),
    "synthetic": ("make_block_hmm", "make_future_bags", "make_ring_hmm"),
}
_HOMES = {name: module for module, names in _FUNCTIONS.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
