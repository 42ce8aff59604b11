"""Boosting on samples of the examples.

Most examples, triples of a position, its previous labels and a label, have small residuals once a
few trees have been grown. Trees grow on a sample in which the probability of an example is
proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and Gusev, NeurIPS
2019). Its values are divided by that probability, so that all sums are unbiased. The complete trees
are then added to the scores of all positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treecrf.chains.lattice import PartsLattice
from treecrf.chains.objectives import Objective
from treecrf.chains.sampling import (
    EXAMPLE_UNIT,
    Draw,
    ExampleList,
)
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.crew import Crew
from treecrf.learners.boosted.loop import (
    features_of_tree,
    tree_seed,
)
from treecrf.learners.boosted.training_scores import TrainingScores
from treecrf.learners.boosted.transitions import TransitionGrowth
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing._list_grower import ListGrower
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import TestTable, number_tests
from treecrf.trees.scoring.router import Router
from treecrf.utils.exact import FRACTION_SUM_BITS, MAX_UNITS_LOG2, round_to, unit_for
from treecrf.utils.scratch import Allocate
from treecrf.utils.threads import Threads

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


class ListGrowth:
    """Growth of the trees of an iteration on lists of examples.

    Parameters
    ----------
    forest : Forest
        Receives the trees.
    encoder : Encoder
    positions : ListedPositions
    growth : Growth
    has_curvature : bool
        Whether the weights of examples are curvature.
    threads : Threads
    first : int, default=0
        Number of iterations before those in the forest.
    table : TestTable, optional
        That of the encoder, if there is one already.
    """

    def __init__(
        self,
        forest: Forest,
        encoder: Encoder,
        positions: ListedPositions,
        growth: Growth,
        has_curvature: bool,
        threads: Threads,
        first: int = 0,
        table: TestTable | None = None,
    ):
        self.forest = forest
        self.positions = positions
        self.growth = growth
        self.has_curvature = has_curvature
        self.threads = threads
        self.first = first
        self.table = number_tests(encoder) if table is None else table
        self.surrogates = encoder.missing == "surrogate"
        self._rows = positions.encoded.rows_from_first
        self._meanings = forest.meanings(self.table)
        features = Features(positions.encoded, self.table)
        self.columns = features.columns
        self._crew = self._make_crew(positions.encoded, features)

    def _make_crew(self, encoded: EncodedSequences, features: Features) -> Crew:
        table, n_threads = self.table, self.threads.n_threads
        growers = [
            ListGrower(
                features if i == 0 else Features(encoded, table, features),
                table,
                self.growth,
                self.forest.n_labels,
                0 if self._joins_contexts else self.forest.order,
                with_counts=self.with_counts,
                has_curvature=self.has_curvature,
                surrogates=self.surrogates,
                max_parts=n_threads,
            )
            for i in range(min(n_threads, self.forest.n_labels))
        ]
        n_helpers = n_threads if n_threads > 1 else 0
        parts = [growers[0].new_part(Features(encoded, table, features)) for _ in range(n_helpers)]
        return Crew(growers, parts, self.threads)

    @property
    def with_counts(self) -> bool:
        """Whether growers need the number of examples in addition to their weights."""
        return self.growth.min_examples > 0 or self.surrogates or self.has_curvature

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self.growth.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.growth = replace(self.growth, learning_rate=rate)
        self._crew.set_learning_rate(rate)

    def round(self, draw: Draw) -> None:
        """Round the values of examples in place, so that sums of them or their parts are exact."""
        self.threads.map(self._round_examples, draw.lists)

    def _round_examples(self, examples: ExampleList) -> None:
        weights = examples.curvatures
        if self._joins_contexts and not self.has_curvature:
            # The contexts of a position together have its weight.
            depth = self.positions.depth[examples.positions]
            weights /= self.forest.n_labels ** depth.astype(float)
        for values in (examples.residuals, weights, examples.counts):
            if values is not None:
                self._round(values)

    def _round(self, values: np.ndarray) -> None:
        in_parts = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if in_parts else MAX_UNITS_LOG2
        round_to(values, max(EXAMPLE_UNIT, unit_for(values, bits=bits)))

    def grow(self, draw: Draw) -> None:
        """Add a tree for each label to the forest, grown on its examples, which are rounded."""
        iteration = self.first + self.forest.n_iter
        sizes = np.array([len(examples.positions) for examples in draw.lists])

        def begin(grower: ListGrower, k: int) -> None:
            seed = tree_seed(self.growth.seed, iteration, k)
            chosen = features_of_tree(self.growth, seed, self.table.n_features)
            grower.begin(*self._listed(draw.lists[k]), seed, chosen, k)

        trees = self._crew.grow(np.argsort(-sizes, kind="stable").tolist(), begin)
        for k in range(self.forest.n_labels):
            self.forest.append(trees[k], self._meanings)

    def _listed(self, examples: ExampleList) -> tuple[np.ndarray | None, ...]:
        """Return the rows, previous labels, values and counts of examples, as growers read them."""
        values, labels, positions = examples.values, examples.labels, examples.positions
        counts = examples.counts if self.with_counts else None
        if self.positions.given is not None:
            labels = np.ascontiguousarray(self.positions.given[:, positions].T)
        if self._joins_contexts:
            first = np.flatnonzero(np.diff(positions, prepend=-1))
            positions, labels = positions[first], np.zeros((len(first), 0), dtype=np.uint8)
            values, counts = _sums_of_runs(values, first), _sums_of_runs(counts, first)
        return self._rows[positions], labels, values, counts

    @property
    def _joins_contexts(self) -> bool:
        """Whether the contexts of a position are one example, because no tree tests labels."""
        return self.forest.transitions is not None


def _sums_of_runs(values: np.ndarray | None, starts: np.ndarray) -> np.ndarray | None:
    """Sum runs of rows, given where they start."""
    return values if values is None or not len(starts) else np.add.reduceat(values, starts)


class SampledBooster:
    """Trees and scores of a training run on samples of the examples.

    Parameters
    ----------
    scores : TrainingScores
        Without those of the forest.
    lists : ListGrowth
        Its forest has the trees to start from.
    sampling : Sampling
    transitions : TransitionGrowth, optional
        For the same forest, if its transitions are constant.
    """

    def __init__(
        self,
        scores: TrainingScores,
        lists: ListGrowth,
        sampling: Sampling,
        transitions: TransitionGrowth | None = None,
    ):
        self.forest, self.threads = lists.forest, lists.threads
        self.scores = scores
        self.lists = lists
        self.sampling = sampling
        self.transitions = transitions
        scores.add_trees(self.forest)

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self.lists.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.lists.learning_rate = rate
        if self.transitions is not None:
            self.transitions.learning_rate = rate

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        iteration = self.forest.n_iter
        draw = self.scores.draw(
            iteration,
            self.lists.growth.seed,
            self.sampling.threshold,
            self.sampling.max_examples,
            self.lists.with_counts,
        )
        grow_iteration(draw, self.lists, self.transitions, self.scores.of_contexts(iteration))
        self.scores.add_trees(self.forest)
        return draw.value

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        return self.scores.value()


def grow_iteration(
    draw: Draw,
    lists: ListGrowth,
    transitions: TransitionGrowth | None,
    of_contexts: np.ndarray | None,
) -> None:
    """Add the trees of an iteration, and a step of constant transitions, to the forest."""
    lists.round(draw)
    lists.grow(draw)
    if transitions is not None:
        transitions.grow(draw, lists.positions.depth, of_contexts)


class PartsValidation:
    """Validation sequences, and their scores in parts under the trees so far.

    Parameters
    ----------
    router : Router
        The validation sequences.
    objective : Objective
        The log-likelihood.
    parts : ScoreParts
        Scores to start from, without those of the forest.
    """

    def __init__(self, router: Router, objective: Objective, parts: ScoreParts):
        self.router = router
        self.objective = objective
        self.parts = parts
        self.n_iter = 0

    def keep_in(self, allocate: Allocate) -> None:
        """Move large arrays to arrays from a function such as `Scratch.allocate`."""
        self.parts.keep_in(allocate)
        self.router.keep_in(allocate)

    def value(self, forest: Forest, threads: Threads) -> float:
        """Compute the value of the objective under the forest; only new trees are evaluated."""
        forest.add_to_parts(self.parts, self.router, threads, self.n_iter)
        self.n_iter = forest.n_iter
        return self.objective.value(self.parts)

    def lattice(self, order: int, threads: Threads) -> PartsLattice:
        """Return a lattice of the present scores."""
        return PartsLattice(self.parts, self.parts.offsets, order, threads)
