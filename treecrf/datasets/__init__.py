"""Data to try sequence labelling on: synthetic problems from the literature."""

from treecrf.datasets.future_bags import make_future_bags
from treecrf.datasets.hidden_markov import make_block_hmm, make_ring_hmm

__all__ = ["make_block_hmm", "make_future_bags", "make_ring_hmm"]
