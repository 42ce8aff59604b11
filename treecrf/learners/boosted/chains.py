"""Scores of fitted models of boosted trees: in all contexts, factored, in a beam, or local."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order, previous_labels, require_memory
from treecrf.chains.lattice import Lattice, runs_of_tables
from treecrf.chains.local._search import search_contexts
from treecrf.chains.local.objective import normalize
from treecrf.chains.local.search import searched
from treecrf.chains.sampled.factored_scores import SCORE_UNIT, FactoredScores
from treecrf.chains.sampled.lattice import FactoredLattice
from treecrf.encoding.encoder import Encoder
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.predictor import FittedChain
from treecrf.learners.base.short_sequences import short_model
from treecrf.learners.boosted.beams.training import Beam, BeamLattice
from treecrf.learners.boosted.training_scores import starting_parts, table_of_parts
from treecrf.learners.linear.base import linear_model
from treecrf.learners.linear.crf import LinearCRF
from treecrf.trees.contexts.context_scores import tree_scores
from treecrf.trees.forest import Forest
from treecrf.utils.threads import Threads

# A function of positions and the labels before each: scores of the labels, label-major.
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Maximum number of contexts for greedy decoding and beam search to score all of them: the fastest
# evaluators of trees take no more.
MAX_CONTEXTS = 64
# Memory of the scores of all contexts at a time.
MAX_BYTES = 1 << 26


@dataclass(kw_only=True)
class ForestChain(FittedChain):
    """Scores that are sums of trees, in a table of all contexts."""

    forest: Forest
    encoder: Encoder
    start: LinearCRF | None  # model whose scores the trees are added to
    alternative: str  # advice for the case of too many contexts

    def reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        reach = self.encoder.reach
        if reach is None:
            raise ValueError("the model has features of unlimited bags; expected bags of a size")
        if self.start is None:
            return reach
        return tuple(map(max, reach, self.start._chain().reach()))

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        require_table(self, sequences)
        encoded = self.encoder.encode(sequences, threads)
        start = self.start_table(sequences, threads)
        return self.forest.scores(self.encoder, encoded, threads, start=start)

    def scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        encoded = self.encoder.encode(sequences, threads)
        here = slice(position, position + 1)
        start = self.start_table(sequences, threads)
        start = None if start is None else np.ascontiguousarray(start[:, here])
        depth = encoded.depth_of(self.order)[here]
        encoded = replace(encoded, row_of_position=encoded.row_of_position[here])
        scores = self.forest.scores(self.encoder, encoded, threads, start=start, depth=depth)
        return scores[:, 0]

    def start_table(self, sequences: Sequences, threads: Threads) -> np.ndarray | None:
        """Return the scores that the trees are added to; None stands for scores of 0."""
        parts = starting_parts(self.start, sequences, threads)
        return table_of_parts(*parts, sequences.offsets, self.order)

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[Lattice | FactoredLattice | BeamLattice]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        require_table(self, sequences)
        encoded = self.encoder.encode(sequences, threads)
        scores = self.start_table(sequences, threads)
        for iterations in pairwise([0, *ends]):
            scores = self.forest.scores(self.encoder, encoded, threads, iterations, scores)
            yield self.constrained(scores.copy(), sequences.offsets, constraints, threads)

    def short_model(self, ignored: set[str]) -> Any:
        """Return the trees and the linear start in the form for short sequences."""
        if self.is_backward:
            return None
        trees = (self.forest, self.encoder)
        linear = None if self.start is None else linear_model(self.start)
        return short_model(self.schema, len(self.classes), self.order, trees, linear, ignored)


@dataclass(kw_only=True)
class FactoredChain(ForestChain):
    """Scores of labels at positions, and constant scores of labels after labels."""

    @property
    def n_scores(self) -> int:
        """Number of scores of a position in a lattice: 0, because lattices are never cut."""
        return 0

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the scores of labels at positions, and of labels after labels, of order 1."""
        if self.order != 1:
            return None
        parts = self.lattice(sequences, Constraints(self.classes), threads).scores
        first, later = parts.transitions[0, :, :1], parts.transitions[1]
        return SCORE_UNIT * parts.state.T, SCORE_UNIT * np.hstack([later, first]).T

    def lattice(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> FactoredLattice | BeamLattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        return next(self.staged_lattices(sequences, constraints, threads, [self.forest.n_iter]))

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[FactoredLattice | BeamLattice]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        check_order(self.forest.n_labels, self.order, self.alternative)
        require_memory(self.forest.n_labels, 0, sequences.n_positions)
        offsets, encoded = sequences.offsets, self.encoder.encode(sequences, threads)
        parts = FactoredScores(self.forest.n_labels, self.order, offsets, constraints)
        parts.start_from(*starting_parts(self.start, sequences, threads))
        for i, iterations in enumerate(pairwise([0, *ends])):
            if i:
                parts = parts.take(0, len(offsets) - 1)
            state = self.forest.state_scores(self.encoder, encoded, threads, iterations)
            parts.add(self.forest.sum_of_transitions(iterations), state)
            yield FactoredLattice(parts, offsets, self.order, threads)


@dataclass(kw_only=True)
class BeamChain(FactoredChain):
    """Scores of only the best contexts at each position."""

    beam: Beam

    def staged_lattices(
        self, sequences: Sequences, constraints: Constraints, threads: Threads, ends: Iterable[int]
    ) -> Iterator[BeamLattice]:
        """Yield a lattice of the scores after each of these numbers of iterations."""
        forest = self.forest
        needs = "a linear start" if forest.transitions is None else "constant transitions"
        if forest.transitions is not None or self.start is not None:
            raise ValueError(f"a model with {needs} needs all contexts; expected no beam")
        encoded = self.encoder.encode(sequences, threads)
        for n_iter in ends:
            trees = forest if n_iter == forest.n_iter else forest.copy(n_iter)
            yield BeamLattice(trees, self.encoder, encoded, self.beam, threads, constraints)

    def summed_log_likelihoods(
        self, sequences: Sequences, candidates: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Raise ValueError: sums over labels need all contexts."""
        raise ValueError(
            f"beam_width={self.beam.width}: labels in y are unknown, and sums over them need "
            "all contexts; expected no beam"
        )

    def reach(self) -> tuple[int, int]:
        """Raise ValueError: a stream needs all contexts."""
        raise ValueError(
            f"beam_width={self.beam.width}: a stream needs all contexts; expected None"
        )

    def short_model(self, ignored: set[str]) -> None:
        """Return None: the form for short sequences has all contexts."""


@dataclass(kw_only=True)
class LocalChain(FittedChain):
    """Scores that are normalized at each position, given the previous labels."""

    # Number of label sequences that greedy decoding and beam search keep; None for other decoding.
    width: int | None

    @abstractmethod
    def scorer(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return the scores of the labels as a function of positions and their previous labels."""

    def conditionals(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return log P(label | previous labels) as a function of positions and previous labels."""
        constraints = self.constraints(sequences.offsets)
        scorer = self.scorer(sequences, threads)

        def log_p(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            scores = scorer(positions, previous)
            constraints.forbid_given(scores, previous, positions)
            normalize(scores, threads)
            return scores[:, :, 0]

        return log_p

    def normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        """Return log-probabilities under constraints; the scores change in place."""
        normalize(scores, threads)
        return scores

    def constrained(
        self, scores: np.ndarray, offsets: np.ndarray, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of normalized scores under constraints; the scores change in place.

        Transitions are part of the model, so they apply before normalization. Masks apply after
        it, so that a mask at one position also changes the probabilities at earlier positions.
        """
        self.constraints(offsets).forbid(scores, offsets)
        normalize(scores, threads)
        return super().constrained(scores, offsets, constraints, threads)

    def log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute log-probabilities of label sequences, with all data in the chain's direction."""
        every = np.arange(len(codes))
        previous = previous_labels(codes, sequences.offsets, len(self.classes), self.order)
        log_p = self.conditionals(sequences, threads)(every, previous)
        return np.add.reduceat(log_p[codes, every], sequences.offsets[:-1])

    # Greedy decoding and beam search

    @property
    def searches(self) -> bool:
        """Whether predictions follow the labels predicted before, instead of all contexts."""
        return self.width is not None

    def search(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes and log-probabilities of the label sequences that a search finds."""
        n_contexts = len(self.classes) ** self.order
        width = min(self.width, n_contexts)
        is_table = self.scores_table(sequences.offsets, n_contexts, width)
        search = self.search_table if is_table else self.search_contexts
        return search(sequences, constraints, width, threads)

    def scores_table(self, offsets: np.ndarray, n_contexts: int, width: int) -> bool:
        """Return whether a search takes less time with the scores of all contexts in a table."""
        return n_contexts <= MAX_CONTEXTS

    def search_table(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences in tables of the probabilities in all contexts."""
        offsets = sequences.offsets
        shape, found = (len(self.classes), self.order), []
        for first, last in runs_of_tables(offsets, *shape, MAX_BYTES):
            every = (first, last) == (0, sequences.n_sequences)
            part = sequences if every else sequences.take(np.arange(first, last))
            here = constraints.at(slice(offsets[first], offsets[last]))
            found.append(searched(self.lattice(part, here, threads), width))
        codes, log_probabilities = zip(*found, strict=True)
        return np.concatenate(codes), np.concatenate(log_probabilities)

    @abstractmethod
    def search_contexts(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences with the scores of only those contexts that occur."""


@dataclass(kw_only=True)
class LocalForestChain(LocalChain, ForestChain):
    """Sums of trees that are normalized at each position."""

    def scorer(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return the scores of the labels as a function of positions and their previous labels."""
        encoded = self.encoder.encode(sequences, threads)

        def scores(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            some = replace(encoded, row_of_position=encoded.row_of_position[positions])
            return self.forest.scores(self.encoder, some, threads, given=previous)

        return scores

    def search_contexts(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences with the scores of only those contexts that occur."""
        offsets = sequences.offsets
        encoded = self.encoder.encode(sequences, threads)
        scores = tree_scores(self.forest, self.encoder, encoded)
        in_model = self.constraints(offsets)
        scores.constrain(in_model.allowed, in_model.follows)
        codes = np.zeros(sequences.n_positions, dtype=np.int32)
        values = np.zeros(sequences.n_sequences)
        threads.map(
            lambda part: search_contexts(
                scores, constraints.allowed, offsets, *part, width, codes, values
            ),
            threads.parts(offsets),
        )
        return codes, values


def require_table(chain: FittedChain, sequences: Sequences) -> None:
    """Raise MemoryError if the scores of sequences in all contexts would not fit in memory."""
    n_labels = len(chain.classes)
    check_order(n_labels, chain.order, chain.alternative)
    require_memory(n_labels, chain.order, sequences.n_positions)
