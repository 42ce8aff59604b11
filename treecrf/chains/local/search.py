"""Greedy decoding and beam search in tables of scores."""

from __future__ import annotations

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.chains.local import _search


def searched(lattice: Lattice, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes and log-probabilities of the label sequences that a beam search finds.

    The scores of the lattice must be logarithms of the probabilities of the labels in each context.
    """
    codes = np.zeros(lattice.n_positions, dtype=np.int32)
    values = np.zeros(len(lattice.offsets) - 1)
    lattice.threads.map(
        lambda run: _search.search_table(
            lattice.scores, lattice.offsets, *run, lattice.order, width, codes, values
        ),
        lattice.threads.parts(lattice.offsets),
    )
    return codes, values
