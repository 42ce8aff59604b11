"""Conjunctions of a flat model as attributes of linear learners."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.learners.flat.model import FlatModel


class FlatAttributes:
    """A source of attributes for linear learners: the conjunctions of a flat model.

    Parameters
    ----------
    flat : FlatModel
    """

    kind: ClassVar[str] = "flat"

    # The tests of the conjunctions contain the window.
    window = (0, 0)

    def __init__(self, flat: FlatModel):
        self.flat = flat

    @property
    def schema(self) -> InputSchema:
        """Description of the training data, which all other data must match."""
        return self.flat._schema

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return self.flat.n_conjunctions_

    def fit(self, sequences: Sequences) -> FlatAttributes:
        """Do nothing; the conjunctions are those of the flat model."""
        return self

    def rows(self, sequences: Sequences) -> sparse.csr_array:
        """Compute the attributes of all positions; float64 array (n_positions, n_attributes)."""
        return self.flat.matrix(sequences)

    def names_at(self, offset: int) -> list[str]:
        """Return the names of the conjunctions."""
        return self.flat.get_feature_names_out().tolist()

    def starting_weights(self, classes: np.ndarray) -> np.ndarray | None:
        """Return the weights of the flat model, or None if they do not fit these labels.

        They fit if the flat model has the same labels, reads from left to right, has order 0 or 1
        and no linear start.
        """
        flat = self.flat
        if flat._trained_order > 1 or flat._trained_backward or flat._model._start is not None:
            return None
        return flat.weights() if np.array_equal(flat.classes_, classes) else None

    def state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""
        values, arrays = self.flat._state()
        return values, arrays | {"classes": self.flat.classes_}

    @classmethod
    def from_state(cls, values: dict, arrays: dict[str, np.ndarray]) -> FlatAttributes:
        """Restore an object from its `state`; raises ValueError if the state is invalid."""
        return cls(FlatModel()._restore(values, arrays))
