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
    """Which examples trees are fitted to.

    Attributes
    ----------
    threshold : float
        Examples with at least this absolute residual are always kept, smaller ones with a
        probability proportional to it.
    max_examples : int or None
        Maximum expected number of examples per iteration; the threshold rises if necessary.
    """

    threshold: float
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

        There are two ways to grow trees. `treecrf._tree.TreeGrower` uses all examples, as products
        of sets of positions and sets of contexts. It is the faster one if labels are few and
        residuals large. `ListGrower` uses a list of examples. It is the faster one if nearly all
        examples have small residuals and are not in the sample, as with many labels, and its cost
        does not grow with the number of positions. ``"auto"`` selects it for many examples, of
        which each of ``n_positions`` has ``n_scores``.
        """
        is_few = n_positions * n_scores < MANY_EXAMPLES and n_scores < MANY_AT_A_POSITION
        if sampling is None or (sampling == "auto" and is_few):
            return None
        return cls(THRESHOLD if sampling == "auto" else sampling, max_examples)


@dataclass(frozen=True)
class ListedPositions:
    """Positions of examples: what trees test at them.

    Attributes
    ----------
    encoded : EncodedSequences
    depth : uint8 array (n_positions,)
        Number of labels before each position that define its context.
    given : uint8 array (order, n_positions) or None
        The label at each lag before each position, if a position has one context only.
    """

    encoded: EncodedSequences
    depth: np.ndarray
    given: np.ndarray | None
