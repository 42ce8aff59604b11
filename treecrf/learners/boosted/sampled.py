"""Boosting on samples of the examples.

Most examples, triples of a position, its previous labels and a label, have small residuals once a
few trees have been grown. Trees grow on a sample in which the probability of an example is
proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and Gusev, NeurIPS
2019). Its values are divided by that probability, so that all sums are unbiased. The complete trees
are then added to the scores of all positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from treecrf.chains.lattice import PartsLattice
from treecrf.chains.objectives import Objective
from treecrf.chains.sampling import (
    EXAMPLE_UNIT,
    Draw,
    ExampleList,
    LikelihoodSampler,
    TableSampler,
)
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.bundling import bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.crew import Crew
from treecrf.learners.boosted.loop import (
    Booster,
    IterationWeights,
    features_of_tree,
    tree_seed,
)
from treecrf.learners.boosted.transitions import TransitionGrowth
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing._list_grower import ListGrower
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import number_tests
from treecrf.trees.scoring.router import Router
from treecrf.utils.exact import FRACTION_SUM_BITS, MAX_UNITS_LOG2, round_to, unit_for
from treecrf.utils.threads import Threads

# Number of examples, triples of a position, its previous labels and a label, from which on
# ``sampling="auto"`` draws samples.
MANY_EXAMPLES = 1 << 20
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
        n_examples: int,
    ) -> Sampling | None:
        """Choose between all examples (None) and samples of them.

        There are two ways to grow trees. `treecrf._tree.TreeGrower` uses all examples, as products
        of sets of positions and sets of contexts. It is the faster one if labels are few and
        residuals large. `ListGrower` uses a list of examples. It is the faster one if nearly all
        examples have small residuals and are not in the sample, as with many labels, and its cost
        does not grow with the number of positions. ``"auto"`` selects it for many examples.
        """
        if sampling is None or (sampling == "auto" and n_examples < MANY_EXAMPLES):
            return None
        return cls(THRESHOLD if sampling == "auto" else sampling, max_examples)


class ListGrowth:
    """Growth of the trees of an iteration on lists of examples.

    Parameters
    ----------
    forest : Forest
        Receives the trees.
    encoder, encoded : Encoder, EncodedSequences
    growth : Growth
    sampling : Sampling
    has_curvature : bool
        Whether the weights of examples are curvature.
    given : uint8 array (order, n_positions) or None
        The label at each lag before each position, if a position has one context only.
    threads : Threads
    """

    def __init__(
        self,
        forest: Forest,
        encoder: Encoder,
        encoded: EncodedSequences,
        growth: Growth,
        sampling: Sampling,
        has_curvature: bool,
        given: np.ndarray | None,
        threads: Threads,
    ):
        self.forest = forest
        self.growth = growth
        self.sampling = sampling
        self.has_curvature = has_curvature
        self.given = given
        self.threads = threads
        plan, bundled = bundle(encoder, encoded)
        self.table = number_tests(encoder, plan)
        self.surrogates = encoder.missing == "surrogate"
        self.row_of_position = encoded.row_of_position
        self.depth = encoded.depth_of(forest.order)
        self._meanings = forest.meanings(self.table)
        features = Features(bundled, self.table)
        self._routed = encoder, bundled, forest.order, plan, features.columns
        self._crew = self._make_crew(bundled, features)

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
        return (
            self.growth.min_examples > 0
            or self.surrogates
            or (self.has_curvature and self.table.has_missing)
        )

    @property
    def learning_rate(self) -> float:
        """Factor of the leaf values of the next trees."""
        return self.growth.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.growth = replace(self.growth, learning_rate=rate)
        self._crew.set_learning_rate(rate)

    @cached_property
    def router(self) -> Router:
        """The sequences, to add trees to their scores."""
        return Router(*self._routed)

    def round(self, draw: Draw) -> None:
        """Round the values of examples in place, so that sums of them or their parts are exact."""
        self.threads.map(self._round_examples, draw.lists)

    def _round_examples(self, examples: ExampleList) -> None:
        weights = examples.curvatures
        if self._joins_contexts and not self.has_curvature:
            # The contexts of a position together have its weight.
            weights /= self.forest.n_labels ** self.depth[examples.positions].astype(float)
        for values in (examples.residuals, weights, examples.counts):
            if values is not None:
                self._round(values)

    def _round(self, values: np.ndarray) -> None:
        in_parts = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if in_parts else MAX_UNITS_LOG2
        round_to(values, max(EXAMPLE_UNIT, unit_for(values, bits=bits)))

    def grow(self, draw: Draw) -> None:
        """Add a tree for each label to the forest, grown on its examples, which are rounded."""
        iteration = self.forest.n_iter
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
        if self.given is not None:
            labels = np.ascontiguousarray(self.given[:, positions].T)
        if self._joins_contexts:
            first = np.flatnonzero(np.diff(positions, prepend=-1))
            positions, labels = positions[first], np.zeros((len(first), 0), dtype=np.uint8)
            values, counts = _sums_of_runs(values, first), _sums_of_runs(counts, first)
        rows = self.row_of_position[positions] - self.row_of_position[0]
        return rows, labels, values, counts

    @property
    def _joins_contexts(self) -> bool:
        """Whether the contexts of a position are one example, because no tree tests labels."""
        return self.forest.transitions is not None


def _sums_of_runs(values: np.ndarray | None, starts: np.ndarray) -> np.ndarray | None:
    """Sum runs of rows, given where they start."""
    return values if values is None or not len(starts) else np.add.reduceat(values, starts)


class TableBooster(Booster):
    """Booster on samples of examples whose residuals are computed in a table.

    Parameters
    ----------
    sampling : Sampling
    others
        As for `Booster`.
    """

    def __init__(self, sampling: Sampling, *others: object):
        self.sampling = sampling
        super().__init__(*others)

    def _make_growers(self) -> None:
        """Make the growers of lists."""
        objective, has_curvature = self.objective, np.isfinite(self.growth.max_leaf_value)
        self._lists = ListGrowth(
            self.forest,
            self.encoder,
            self.whole,
            self.growth,
            self.sampling,
            has_curvature,
            objective.given,
            self.threads,
        )
        self._sampler = TableSampler(
            self.whole.offsets, self.forest.order, self.threads, self.keys, has_curvature
        )

    def _set_learning_rate(self, rate: float) -> None:
        self._lists.learning_rate = rate

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        iteration = self.forest.n_iter
        examples, value = self._weighted_examples(iteration)
        draw = self._sampler.draw(
            examples.residuals,
            examples.curvature,
            examples.weights,
            iteration,
            self.growth.seed,
            self.sampling.threshold,
            self.sampling.max_examples,
            counted=self._lists.with_counts,
        )
        self._lists.round(draw)
        self._lists.grow(draw)
        self.forest.scores(
            self.encoder, self.whole, self.threads, (iteration, iteration + 1), self.scores,
            self.objective.given,
        )  # fmt: skip
        return value


class PartsBooster:
    """Booster of the log-likelihood of chains on samples of examples, with scores in parts.

    Parameters
    ----------
    parts : ScoreParts
        Scores without those of the forest.
    objective : Objective
        The log-likelihood.
    sampler : LikelihoodSampler
    weights : IterationWeights
    lists : ListGrowth
        Its forest has the trees to start from.
    transitions : TransitionGrowth, optional
        For the same forest, if its transitions are constant.
    """

    def __init__(
        self,
        parts: ScoreParts,
        objective: Objective,
        sampler: LikelihoodSampler,
        weights: IterationWeights,
        lists: ListGrowth,
        transitions: TransitionGrowth | None = None,
    ):
        self.forest, self.threads = lists.forest, lists.threads
        self.parts = parts
        self.objective = objective
        self.sampler = sampler
        self.weights = weights
        self.lists = lists
        self.transitions = transitions
        self._add_trees(0)

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
        iteration, sampling = self.forest.n_iter, self.lists.sampling
        weights = self.weights.at(iteration)
        draw = self.sampler.draw(
            self.parts,
            iteration,
            self.lists.growth.seed,
            sampling.threshold,
            weights,
            sampling.max_examples,
            counted=self.lists.with_counts,
        )
        value = self.objective.mean(self.sampler.likelihoods)
        self.lists.round(draw)
        self.lists.grow(draw)
        if self.transitions is not None:
            self.transitions.grow(draw, weights)
        self._add_trees(iteration)
        return value

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        return self.objective.value(self.parts)

    def _add_trees(self, first: int) -> None:
        self.forest.add_to_parts(self.parts, self.lists.router, self.threads, first)


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

    def value(self, forest: Forest, threads: Threads) -> float:
        """Compute the value of the objective under the forest; only new trees are evaluated."""
        forest.add_to_parts(self.parts, self.router, threads, self.n_iter)
        self.n_iter = forest.n_iter
        return self.objective.value(self.parts)

    def lattice(self, order: int, threads: Threads) -> PartsLattice:
        """Return a lattice of the present scores."""
        return PartsLattice(self.parts, self.parts.offsets, order, threads)
