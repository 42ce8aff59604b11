"""Boosting with constant transitions: an iteration is trees, and a step of the transitions."""

from __future__ import annotations

import numpy as np

from treecrf.chains.factored.constant_likelihood import ConstantLikelihood
from treecrf.chains.factored.factored_scores import SCORE_UNIT, FactoredScores
from treecrf.chains.likelihood import ExampleTable
from treecrf.encoding.column_layout import ColumnLayout
from treecrf.learners.boosted.booster import Booster, ScoreStorage
from treecrf.learners.boosted.constant.transitions import transition_step
from treecrf.trees.forest import Forest
from treecrf.utils.exact import exact_sum


class ConstantBooster(Booster):
    """Trees that test no previous labels, and transitions, fitted to all examples."""

    objective: ConstantLikelihood
    # Scores of labels at positions, which are copied from ``scores``, and of transitions.
    source: FactoredScores

    @property
    def _tested_labels(self) -> int:
        """Number of previous labels that trees may test."""
        return 0

    def _store_scores(
        self,
        layout: ColumnLayout,
        start: tuple[np.ndarray | None, np.ndarray | None],  # of labels, and of labels after labels
    ) -> ScoreStorage:
        """Add the trees and transitions to start from to the starting scores."""
        forest = self.forest
        offsets = self.whole.offsets
        factored = FactoredScores(
            forest.n_labels, forest.order, offsets, self.objective.constraints
        )
        factored.start_from(*start)
        if forest.n_iter:
            state = forest.state_scores(self.encoder, self.whole, self.threads)
            factored.add(forest.sum_of_transitions((0, forest.n_iter)), state)
        self.objective.total_weight = float(len(self.position_weights))
        if self.weighted:
            self.objective.total_weight = exact_sum(self.position_weights)
        scores = factored.state[:, :, np.newaxis] * SCORE_UNIT
        return ScoreStorage(scores, factored, 0)

    def _grow_iteration(self, examples: ExampleTable, iteration: int) -> list[dict]:
        """Grow the trees of an iteration, and add their values and a step to the scores."""
        trees = super()._grow_iteration(examples, iteration)
        share = self.objective.bound_share
        step = transition_step(self.objective.transition_sums, share, self.tree_settings)
        self.forest.transitions.append(step)
        self.source.add(step)
        self.source.set_state(self.scores[:, :, 0], _largest_values(trees))
        return trees

    def _add_to_scores(self, forest: Forest) -> None:
        """Add the trees and transitions of another forest to the scores."""
        self.scores[:, :, 0] += forest.state_scores(self.encoder, self.whole, self.threads)
        self.source.add(forest.sum_of_transitions((0, forest.n_iter)))
        self.source.set_state(self.scores[:, :, 0], _largest_values(forest.trees))


def _largest_values(trees: list[dict]) -> np.ndarray:
    """Return the largest absolute leaf value for each label."""
    if trees[0]["leaf"].ndim == 2:  # one tree for all labels
        return np.abs(trees[0]["leaf"]).max(axis=0)
    return np.array([np.abs(tree["leaf"]).max() for tree in trees])
