"""Boosting on samples of the examples.

Most examples, triples of a position, its previous labels and a label, have small residuals once a
few trees have been grown. Trees grow on a sample in which the probability of an example is
proportional to its residual, at most 1 (minimal variance sampling, Ibragimov and Gusev, NeurIPS
2019). Its values are divided by that probability, so that all sums are unbiased. The complete trees
are then added to the scores of all positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from treecrf.chains.objectives import Objective
from treecrf.chains.sampling import Draw, LikelihoodSampler, sample_tables
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.bundling import bundle
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.crew import Crew
from treecrf.trees.forest import Forest
from treecrf.trees.growing._features import Features
from treecrf.trees.growing._list_grower import ListGrower
from treecrf.trees.growing.growth import Growth
from treecrf.trees.growing.window_tests import number_tests
from treecrf.utils.exact import FRACTION_SUM_BITS, MAX_UNITS_LOG2
from treecrf.utils.hashing import mix, smallest
from treecrf.utils.threads import Threads


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
    features : float
        Fraction of the windowed features that a tree may test.
    """

    threshold: float
    max_examples: int | None = None
    features: float = 1.0


class SampledBooster(ABC):
    """Trees of one training run on samples of the examples, and the scores that they add up to.

    Parameters
    ----------
    forest : Forest
        Trees to start from. New trees are appended to it.
    encoder, encoded : Encoder, EncodedSequences
    growth : Growth
    sampling : Sampling
    has_curvature : bool
        Whether the weights of examples are curvature.
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
        threads: Threads,
    ):
        self.forest = forest
        self.encoder = encoder
        self.encoded = encoded
        self.growth = growth
        self.sampling = sampling
        self.has_curvature = has_curvature
        self.threads = threads
        plan, bundled = bundle(encoder, encoded)
        self.table = number_tests(encoder, plan)
        self.surrogates = encoder.missing == "surrogate"
        self.meanings = forest.meanings(self.table)
        self.crew = self._make_crew(bundled)

    def _make_crew(self, encoded: EncodedSequences) -> Crew:
        table, forest, growth = self.table, self.forest, self.growth
        n_threads = self.threads.n_threads
        shared = Features(encoded, table)
        growers = [
            ListGrower(
                shared if i == 0 else Features(encoded, table, shared),
                table,
                growth,
                forest.n_labels,
                forest.order,
                with_counts=self.with_counts,
                has_curvature=self.has_curvature,
                surrogates=self.surrogates,
                max_parts=n_threads,
            )
            for i in range(min(n_threads, forest.n_labels))
        ]
        n_helpers = n_threads if n_threads > 1 else 0
        helpers = [
            growers[0].new_part(Features(encoded, table, shared)) for _ in range(n_helpers)
        ]
        return Crew(growers, helpers, self.threads)

    @property
    def with_counts(self) -> bool:
        """Whether growers need the number of examples in addition to their weights."""
        return (
            self.growth.min_examples > 0
            or self.surrogates
            or (self.has_curvature and self.table.has_missing)
        )

    @abstractmethod
    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""

    @abstractmethod
    def value(self) -> float:
        """Compute the value of the objective at the current scores."""

    def _grow(self, draw: Draw) -> None:
        """Add one tree for each label, grown on its examples."""
        iteration = self.forest.n_iter
        sizes = np.array([len(examples.positions) for examples in draw.labels])

        def begin(grower: ListGrower, k: int) -> None:
            examples = draw.labels[k]
            seed = tree_seed(self.growth.seed, iteration, k)
            grower.begin(*self._listed(examples), seed, self._features_of(seed))

        # Python sorts are stable, so that the order is the same in every run.
        trees = self.crew.grow(np.argsort(-sizes, kind="stable").tolist(), begin)
        for k in range(self.forest.n_labels):
            self.forest.append(trees[k], self.meanings)

    def _listed(self, examples: Examples) -> tuple[np.ndarray, ...]:
        """Return the rows, previous labels, values and counts of examples, as growers read them."""
        labels = self._previous_labels(examples)
        values = np.stack([examples.residuals, examples.weights], axis=1)
        counts = examples.counts if self.with_counts else None
        for column in (values[:, 0], values[:, 1], *([] if counts is None else [counts])):
            self._round(column)
        return self._rows_of(examples), labels, values, counts

    def _round(self, values: np.ndarray) -> None:
        """Round values in place, so that their sums are exact, and those of fractions of them."""
        units = np.abs(values) * (1 / EXAMPLE_UNIT)
        total = int(units.astype(np.int64).sum()) + len(values)
        in_parts = self.table.has_missing and not self.surrogates
        bits = FRACTION_SUM_BITS if in_parts else MAX_UNITS_LOG2
        unit = EXAMPLE_UNIT * 2.0 ** max(0, total.bit_length() - bits)
        np.rint(values / unit, out=values)
        values *= unit

    def _features_of(self, seed: int) -> np.ndarray | None:
        """Choose the features that a tree may test."""
        n, fraction = self.table.n_features, self.sampling.features
        if fraction >= 1:
            return None
        return smallest(mix(seed, np.arange(n)), max(1, ceil(fraction * n))).astype(np.uint8)


class PartsBooster(SampledBooster):
    """Booster of the log-likelihood of chains, with scores in integer parts.

    Parameters
    ----------
    sampler : LikelihoodSampler
    parts : ScoreParts
        Scores to start from, without those of the forest.
    others
        As for `SampledBooster`.
    """

    def __init__(self, sampler: LikelihoodSampler, parts: ScoreParts, *others: object):
        super().__init__(*others)
        self.sampler = sampler
        self.parts = parts
        self.depth = self.encoded.depth_of(self.forest.order)
        self.rows = self.encoded.rows_from_first
        self._add_trees(0)

    def step(self) -> float:
        """Add one iteration of trees; return the value of the objective before it."""
        iteration, sampling = self.forest.n_iter, self.sampling
        draw = self.sampler.draw(
            self.parts, self.growth.seed, iteration, sampling.threshold, sampling.max_examples
        )
        self._grow(draw)
        self._add_trees(iteration)
        return draw.value

    def value(self) -> float:
        """Compute the value of the objective at the current scores."""
        return self.sampler.value(self.parts)

    def _add_trees(self, first: int) -> None:
        add_trees(self.forest, first, self.encoder, self.parts, self.encoded, self.threads)

    def _rows_of(self, examples: Examples) -> np.ndarray:
        return self.rows[examples.positions]

    def _previous_labels(self, examples: Examples) -> np.ndarray:
        return labels_of_contexts(
            examples.contexts, self.depth[examples.positions], self.forest.n_labels,
            self.forest.order,
        )  # fmt: skip


def add_trees(
    forest: Forest,
    first: int,
    encoder: Encoder,
    parts: ScoreParts,
    encoded: EncodedSequences,
    threads: Threads,
) -> None:
    """Add the trees from iteration ``first`` on to the parts of scores."""
    if first < forest.n_iter:
        scorer = forest.scorer(encoder, first, forest.n_iter, False)
        scorer.add_to_parts(parts, encoded, encoded.depth_of(forest.order), threads)


def labels_of_contexts(
    contexts: np.ndarray, depths: np.ndarray, n_labels: int, order: int
) -> np.ndarray:
    """Return the label at each lag of some contexts, ``n_labels`` for none.

    Returns
    -------
    uint8 array (n, order)
    """
    labels = np.full((len(contexts), order), n_labels, dtype=np.uint8)
    for lag in range(order):
        contexts, label = np.divmod(contexts, n_labels)
        np.copyto(labels[:, lag], label, where=depths > lag, casting="unsafe")
    return labels


def tree_seed(seed: int, iteration: int, k: int) -> int:
    """Return the seed of a tree."""
    return int(mix(seed, iteration, k))


class PartsValidation:
    """Validation sequences, and their scores in parts under the trees so far.

    Parameters
    ----------
    encoder, encoded : Encoder, EncodedSequences
    sampler : LikelihoodSampler
    parts : ScoreParts
        Scores to start from, without those of the forest.
    """

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        sampler: LikelihoodSampler,
        parts: ScoreParts,
    ):
        self.encoder = encoder
        self.encoded = encoded
        self.sampler = sampler
        self.parts = parts
        self.n_iter = 0

    def value(self, forest: Forest, threads: Threads) -> float:
        """Compute the value of the objective under the forest; only new trees are evaluated."""
        add_trees(forest, self.n_iter, self.encoder, self.parts, self.encoded, threads)
        self.n_iter = forest.n_iter
        return self.sampler.value(self.parts)
