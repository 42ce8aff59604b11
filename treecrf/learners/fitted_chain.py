"""Fitted models of label sequences: scores of labels in context, and the lattices made of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.chains.constraints import Constraints, as_transitions
from treecrf.chains.lattice import Lattice
from treecrf.chains.partial_labels import label_paths
from treecrf.inputs.dataset import as_sequences
from treecrf.inputs.offsets import Segmentation
from treecrf.inputs.sequences import InputSchema, Sequences
from treecrf.utils.threads import Threads


@dataclass(kw_only=True)
class FittedChain(ABC):
    """What a fitted estimator knows of label sequences: scores of labels in contexts.

    Estimators choose the kind of chain by their fitted attributes and their parameters of
    prediction. Subclasses compute the scores, from which all predictions follow.
    """

    schema: InputSchema  # form and features of the training sequences
    classes: np.ndarray
    order: int  # number of previous labels in a context
    transitions: Any  # parameter of the estimator
    is_backward: bool = False  # whether the chain starts at the end of each sequence

    @abstractmethod
    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""

    def scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        return self.scores(sequences, threads)[:, position]

    def normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        """Return scores under constraints in the form that chains sum; may change them in place."""
        return scores

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return 0, 0

    def read(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data."""
        return as_sequences(X, self.schema, segmentation)

    # Lattices

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice; 0 if lattices are never cut."""
        return len(self.classes) ** (self.order + 1)

    def constraints(self, offsets: np.ndarray, masks: np.ndarray | None = None) -> Constraints:
        """Make constraints from the parameter ``transitions`` and from masks, if any."""
        return Constraints.of_parameters(
            self.transitions, self.order, self.classes, offsets, masks, self.is_backward
        )

    def constrained(
        self, scores: np.ndarray, offsets: np.ndarray, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of scores under constraints; the scores change in place."""
        constraints.forbid(scores, offsets)
        return Lattice(scores, offsets, self.order, threads)

    def lattice(self, sequences: Sequences, constraints: Constraints, threads: Threads) -> Lattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        scores = self.scores(sequences, threads)
        return self.constrained(scores, sequences.offsets, constraints, threads)

    def log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute log-probabilities of label sequences, with all data in the chain's direction."""
        constraints = self.constraints(sequences.offsets)
        return self.lattice(sequences, constraints, threads).log_likelihoods(codes)

    def summed_log_likelihoods(
        self, sequences: Sequences, candidates: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute logarithms of the probability that all labels are among the candidates."""
        offsets = sequences.offsets
        rules = as_transitions(self.transitions, self.classes, self.order)
        if rules is not None and self.is_backward:
            rules = rules.reversed()
        codes, found = label_paths(candidates, rules, offsets)
        # Without a path, nothing is excluded, so that there is a lattice.
        masks = candidates | ~np.repeat(found, np.diff(offsets))[:, None]
        every, some = (
            self.lattice(sequences, self.constraints(offsets, allowed), threads).log_likelihoods(
                codes
            )
            for allowed in (None, masks)
        )
        return np.subtract(every, some, where=found, out=np.full(len(found), -np.inf))

    @property
    def searches(self) -> bool:
        """Whether predictions follow those before them, by a method ``search``."""
        return False

    # Short sequences

    def compiled(self, ignored: set[str]) -> Any:
        """Return a `treecrf.learners.linear._compiled.CompiledModel`; None if there is none.

        Data frames may have columns with names in ``ignored``, though not in the training data.
        """
        return None

    def quick_lattice(self, X: list, compiled: Any) -> Lattice | None:
        """Make a lattice of a few short sequences; None if they have to be read like all others."""
        found = compiled.scores(X)
        if found is None:
            return None
        return self.constrained(*found, self.constraints(found[1]), Threads(1))
