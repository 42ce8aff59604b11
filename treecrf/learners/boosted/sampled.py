"""Boosting on samples of the examples.

Most examples, triples of a position, its previous labels and a label, have small residuals once a
few trees have been grown. Trees grow on a sample in which the probability of an example is
proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and Gusev, NeurIPS
2019). Its values are divided by that probability, so that all sums are unbiased. The complete trees
are then added to the scores of all positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf.encoding.encoded import EncodedSequences

# Number of examples, triples of a position, its previous labels and a label, from which on
# ``sampling="auto"`` draws samples: in all, and at each position.
MANY_EXAMPLES = 1 << 20
MANY_AT_A_POSITION = 100
# Threshold of ``sampling="auto"``.
THRESHOLD = 0.1


@dataclass(frozen=True)
class Sampling:
    """Which examples trees are fitted to."""

    # Absolute residuals of at least this size are always kept, smaller ones with a probability
    # proportional to them.
    threshold: float
    # Maximum expected number of examples per iteration; the threshold rises if necessary.
    max_examples: int | None = None

    @classmethod
    def of_parameters(
        cls,
        sampling: float | str | None,
        max_examples: int | None,
        n_positions: int,
        n_scores: int,
    ) -> Sampling | None:
        """Choose between all examples (None) and samples of them.

        There are two ways to grow trees. `TreeGrower` uses all examples, as products of sets of
        positions and sets of contexts. It is faster if labels are few and residuals large.
        `ListGrower` uses a list of examples. It is faster if nearly all examples have small
        residuals and are not in the sample, as with many labels, and its cost does not grow with
        the number of positions. ``"auto"`` selects it for many examples: ``n_scores`` at each of
        ``n_positions``.
        """
        is_few = n_positions * n_scores < MANY_EXAMPLES and n_scores < MANY_AT_A_POSITION
        if sampling is None or (sampling == "auto" and is_few):
            return None
        return cls(THRESHOLD if sampling == "auto" else sampling, max_examples)


@dataclass(frozen=True)
class ListedPositions:
    """Positions of examples: what trees test at them."""

    encoded: EncodedSequences
    depth: np.ndarray  # uint8 (n_positions,): number of labels that define the context
    # uint8 (order, n_positions): the label at each lag, if a position has one context only.
    given: np.ndarray | None
