"""Settings of a beam."""

from __future__ import annotations

from dataclasses import dataclass

# Indices of contexts must fit into 64 bits.
MAX_CONTEXTS = 2**62


@dataclass(frozen=True)
class Beam:
    """Settings of a beam."""

    width: int  # maximum number of contexts at each position
    # Training omits the backward pass, and uses probabilities given the positions so far.
    forward_only: bool = False

    def width_for(self, n_labels: int, order: int) -> int:
        """Return the number of contexts at each position; ValueError for order 0 or too many."""
        if order < 1:
            raise ValueError(
                "order=0 has only one context per position; use a beam with order 1 or higher"
            )
        if n_labels**order > MAX_CONTEXTS:
            raise ValueError(
                f"order={order} with {n_labels} labels gives {n_labels}**{order} contexts; a beam "
                "supports at most 2**62"
            )
        return min(self.width, n_labels**order)
