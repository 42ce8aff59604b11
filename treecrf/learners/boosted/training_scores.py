"""Scores of training and validation sequences under the trees so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from treecrf.chains.lattice import Lattice
from treecrf.chains.likelihood import Objective
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.booster import Validation
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.starting_scores import table_of_starts
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads


class TrainingScores(Validation, Protocol):
    """Scores that trees are added to, with the objective at them."""

    objective: Any

    @property
    def likelihoods(self) -> np.ndarray | None:
        """The latest log-likelihood of each chain; None if the objective is another one."""
        return self.objective.likelihoods

    @property
    def source(self) -> Any:
        """What the objective is computed from."""
        raise NotImplementedError

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        raise NotImplementedError

    def stages(self, grown: Iterable[Forest]) -> Iterator[None]:
        """Add each new iteration of a forest that grows, and pause after it."""
        for forest in grown:
            self.add_trees(forest)
            yield

    def present_value(self) -> float:
        """Compute the objective at the present scores."""
        return self.objective.value(self.source)

    def value(self, forest: Forest) -> float:
        """Compute the objective under the forest; only trees that are new are evaluated."""
        self.add_trees(forest)
        return self.present_value()

    def values(self, grown: Iterable[Forest]) -> Iterator[float]:
        """Compute the objective after each new iteration of a forest that grows."""
        for _ in self.stages(grown):
            yield self.present_value()

    def lattice(self, order: int, temperature: float = 1.0) -> Any:
        """Return a lattice of the present scores, divided by the temperature.

        None if some contexts have no scores.
        """
        raise NotImplementedError


class TableScores(TrainingScores):
    """Scores in a table of all contexts, or of the given one at each position."""

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        objective: Objective,
        threads: Threads,
        start: np.ndarray | None = None,  # starting scores, which are changed
    ):
        self.encoder = encoder
        self.encoded = encoded
        self.objective = objective
        self.threads = threads
        self.scores = start
        self.n_iter: int | None = None  # None until the first trees are added

    @property
    def source(self) -> np.ndarray | None:
        """The table."""
        return self.scores

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        is_first = self.n_iter is None
        new = (self.n_iter or 0, forest.n_iter)
        self.scores = forest.scores(
            self.encoder, self.encoded, self.threads, new, self.scores, self.objective.given
        )
        if is_first:
            self.objective.constrain(self.scores)
        self.n_iter = forest.n_iter

    def stages(self, grown: Iterable[Forest]) -> Iterator[None]:
        """Add each new iteration, and pause after it; all trees are evaluated at once."""
        forests = list(grown)
        if not forests:
            return
        latest = forests[-1]
        added = latest.scores_of_trees(
            self.encoder, self.encoded, self.threads, self.n_iter, self.objective.given
        )
        for scores in added:
            self.scores += scores
            yield
        self.n_iter = latest.n_iter

    def lattice(self, order: int, temperature: float = 1.0) -> Lattice | None:
        """Return a lattice of the present scores, divided by the temperature.

        None if some contexts have no scores.
        """
        if order and self.objective.given is not None:
            return None
        scores = self.scores if temperature == 1 else self.scores / temperature
        return Lattice(scores, self.encoded.offsets, order, self.threads)


# Scores to start from


def starting_table(data: EncodedPart, order: int) -> np.ndarray | None:
    """Return the scores that the trees are added to, in all contexts; None if all are 0."""
    return table_of_starts(data.start_state, data.start_transitions, data.encoded.offsets, order)
