"""Datasets for sequence labeling: published data, synthetic problems, and file readers."""

from treecrf.datasets.conll import (
    fetch_conll2000,
    fetch_conll2002,
    iter_conll,
    iter_conllu,
    read_conll,
    read_conllu,
)
from treecrf.datasets.crfsuite import iter_crfsuite, read_crfsuite
from treecrf.datasets.published import (
    fetch_hyphenation,
    fetch_nettalk,
    fetch_occupancy,
    fetch_protein,
    iter_nettalk,
    iter_protein,
    read_nettalk,
    read_protein,
)
from treecrf.datasets.sparse import iter_sparse, read_sparse
from treecrf.datasets.synthetic import make_block_hmm, make_future_bags, make_ring_hmm

__all__ = [
    "fetch_conll2000",
    "fetch_conll2002",
    "fetch_hyphenation",
    "fetch_nettalk",
    "fetch_occupancy",
    "fetch_protein",
    "iter_conll",
    "iter_conllu",
    "iter_crfsuite",
    "iter_nettalk",
    "iter_protein",
    "iter_sparse",
    "make_block_hmm",
    "make_future_bags",
    "make_ring_hmm",
    "read_conll",
    "read_conllu",
    "read_crfsuite",
    "read_nettalk",
    "read_protein",
    "read_sparse",
]
