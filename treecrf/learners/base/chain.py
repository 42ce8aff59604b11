"""What a fitted estimator knows of label sequences: scores of labels in context, and lattices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.constraints import Constraints, Transitions
from treecrf.chains.lattice import Lattice
from treecrf.inputs.schema import InputSchema
from treecrf.utils.threads import Threads

if TYPE_CHECKING:
    from treecrf.inputs.segmentation import Segmentation
    from treecrf.inputs.sequences import Sequences


@dataclass(kw_only=True)
class FittedChain(ABC):
    """What a fitted estimator knows of label sequences: scores of labels in contexts.

    Estimators choose the kind of chain by their fitted attributes and their parameters of
    prediction. Subclasses compute the scores, from which all predictions follow.
    """

    # Form and features of the training sequences.
    schema: InputSchema
    # The labels, sorted.
    classes: np.ndarray
    # Number of previous labels in a context.
    order: int
    # Which labels may follow each other: the parameter of the estimator.
    transitions: Any
    # Whether the chain starts at the end of each sequence.
    is_backward: bool = False

    @abstractmethod
    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""

    def scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        return self.scores(sequences, threads)[:, position]

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the scores as sums of two terms; None if they are not, or of a higher order.

        The terms are scores of labels, (n_positions, n_labels), and of labels after labels,
        (n_labels + 1, n_labels), with a last row for first positions.
        """
        return None

    def normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        """Return scores under constraints in the form that chains sum; may change them in place."""
        return scores

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return 0, 0

    def read(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data."""
        from treecrf.inputs.dataset import as_sequences

        return as_sequences(X, self.schema, segmentation)

    # Lattices

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice; 0 if lattices are never cut."""
        return len(self.classes) ** (self.order + 1)

    @property
    def rules(self) -> Transitions | None:
        """The labels that may follow each other; None without the parameter ``transitions``."""
        if self.transitions is None:
            return None
        from treecrf.chains.transitions import as_transitions

        return as_transitions(self.transitions, self.classes, self.order)

    def constraints(self, offsets: np.ndarray, masks: np.ndarray | None = None) -> Constraints:
        """Make constraints from the parameter ``transitions`` and from masks, if any."""
        rules = self.rules
        return Constraints.of(rules, self.classes, offsets, masks, self.is_backward)

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
        from treecrf.chains.partial_labels import label_paths

        offsets = sequences.offsets
        rules = self.rules
        if rules is not None and self.is_backward:
            rules = rules.reversed()
        codes, has_path = label_paths(candidates, rules, offsets)
        # Without a path, nothing is excluded, so that there is a lattice.
        masks = candidates | ~np.repeat(has_path, np.diff(offsets))[:, None]
        # Both log-probabilities of a path have its score. Their difference is the logarithm of the
        # probability of all paths that the masks leave.
        free = self.constraints(offsets)
        restricted = self.constraints(offsets, masks)
        log_p = self.lattice(sequences, free, threads).log_likelihoods(codes)
        conditional = self.lattice(sequences, restricted, threads).log_likelihoods(codes)
        impossible = np.full(len(has_path), -np.inf)
        return np.subtract(log_p, conditional, where=has_path, out=impossible)

    @property
    def searches(self) -> bool:
        """Whether predictions follow those before them, by a method ``search``."""
        return False

    # Short sequences

    def short_model(self, ignored: set[str]) -> Any:
        """Return the model in the form for short sequences; None if it has none.

        Data frames may have columns with names in ``ignored``, though not in the training data.
        """
        return None

    def quick_lattice(self, X: list, short_model: Any, max_positions: int) -> Lattice | None:
        """Make a lattice of a few positions; None if they have to be read like large batches."""
        scores_and_offsets = short_model.scores(X, max_positions)
        if scores_and_offsets is None:
            return None
        scores, offsets = scores_and_offsets
        return self.constrained(scores, offsets, self.constraints(offsets), Threads(1))
