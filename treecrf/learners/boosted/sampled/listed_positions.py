"""What trees test at the positions of examples that are listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoded import EncodedSequences


@dataclass(frozen=True)
class ListedPositions:
    """Positions of examples: what trees test at them."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8 (n_positions,): number of labels that define the context
    # uint8 (order, n_positions): the label at each lag, if a position has one context only.
    given: np.ndarray | None
