"""Trees of the instance score: one example for each position, weighted by the bags it is in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treecrf._tree import TreeGrower
from treecrf.encoding.bundling import bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.forest import Forest
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.exact import leave_room, rounded_leaves


@dataclass(frozen=True)
class InstanceTree:
    """A tree, as `TreeGrower.grow` returns it, and its value at every position."""

    nodes: dict[str, np.ndarray]
    values: np.ndarray

    def scaled(self, factor: float) -> InstanceTree:
        """Return the tree with its leaf values multiplied by a factor."""
        leaf, values = (
            rounded_leaves(factor * array) for array in (self.nodes["leaf"], self.values)
        )
        return InstanceTree(self.nodes | {"leaf": leaf}, values)


class InstanceGrower:
    """Grower of trees of the instance score; positions are weighted by their number of bags.

    Parameters
    ----------
    encoder, encoded : Encoder, EncodedSequences
        The positions. Trees can test the window of an instance.
    max_leaf_nodes : int
    l2_regularization : float
        Number of imaginary bags in each leaf on which an instance has no effect.
    """

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        max_leaf_nodes: int,
        l2_regularization: float,
    ):
        plan, encoded = bundle(encoder, encoded)
        table = number_tests(encoder, plan)
        self.n_positions = encoded.n_positions
        self.meanings = Forest(1, 0).meanings(table)
        self._grower = TreeGrower(
            encoded,
            table,
            Growth(min(max_leaf_nodes, max(2, encoded.n_positions)), l2_regularization),
            n_labels=1,
            order=0,
            weighted=True,
            surrogates=encoder.missing == "surrogate",
        )

    def grow(self, gradient: np.ndarray, n_holders: np.ndarray) -> InstanceTree | None:
        """Fit a tree to the gradient, with 1 as its largest absolute leaf value.

        Parameters
        ----------
        gradient : float64 array (n_positions,)
            Summed over the bags that contain a position.
        n_holders : int array (n_positions,)
            Number of these bags.

        Returns
        -------
        InstanceTree or None
            None if the gradient is 0 or not finite.
        """
        largest = np.abs(gradient).max()
        if not 0 < largest < np.inf:
            return None
        # Gradients are tiny at first; without scaling, rounding would lose them.
        targets = np.ldexp(gradient, -math.frexp(largest)[1])
        leave_room(targets)
        values = np.zeros((self.n_positions, 1))
        weights = n_holders.astype(np.float64)[:, None]
        grown = self._grower.grow(targets[:, None], weights, None, 0, values)
        tree = InstanceTree(grown, values[:, 0])
        largest = np.abs(grown["leaf"]).max()
        return tree.scaled(1 / largest) if largest > 0 else None
