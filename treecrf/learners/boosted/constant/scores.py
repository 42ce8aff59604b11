"""Scores of sequences to which trees and constant transitions are added."""

from __future__ import annotations

from treecrf.chains.factored.constant_likelihood import ConstantLikelihood
from treecrf.chains.factored.factored_scores import FactoredScores
from treecrf.chains.factored.lattice import FactoredLattice
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.encoded_part import EncodedPart
from treecrf.learners.boosted.training_scores import TrainingScores
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads


def starting_factors(data: EncodedPart) -> FactoredScores:
    """Return the scores that the trees and transitions are added to."""
    labels = data.labels
    factored = FactoredScores(labels.n_labels, labels.order, labels.offsets, labels.constraints)
    factored.start_from(data.start_state, data.start_transitions)
    return factored


class ConstantScores(TrainingScores):
    """Scores of labels at positions and constant transitions, with the objective at them."""

    def __init__(
        self, encoder: Encoder, data: EncodedPart, objective: ConstantLikelihood, threads: Threads
    ):
        self.encoder = encoder
        self.encoded = data.encoded
        self.objective = objective
        self.threads = threads
        self.factored = starting_factors(data)
        self.n_iter = 0

    @property
    def source(self) -> FactoredScores:
        """The factored scores."""
        return self.factored

    def add_trees(self, forest: Forest) -> None:
        """Add those iterations of the forest that are not in the scores yet."""
        if forest.n_iter > self.n_iter:
            new = (self.n_iter, forest.n_iter)
            state = forest.state_scores(self.encoder, self.encoded, self.threads, new)
            self.factored.add(forest.sum_of_transitions(new), state)
            self.n_iter = forest.n_iter

    def lattice(self, order: int, temperature: float = 1.0) -> FactoredLattice:
        """Return a lattice of the present scores, divided by the temperature."""
        factored = self.factored.divided(temperature)
        return FactoredLattice(factored, factored.offsets, order, self.threads)
