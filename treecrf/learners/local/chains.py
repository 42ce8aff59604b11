"""Scores of fitted models that are normalized at each position."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import previous_labels
from treecrf.chains.lattice import Lattice, runs_of_tables
from treecrf.chains.local._search import search_contexts
from treecrf.chains.local.objective import normalize
from treecrf.chains.local.search import searched
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.boosted.chains import ForestChain
from treecrf.trees.contexts.context_scores import tree_scores
from treecrf.utils.threads import Threads

# A function of positions and the labels before each: scores of the labels, label-major.
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Maximum number of contexts for greedy decoding and beam search to score all of them: the fastest
# evaluators of trees take no more.
MAX_CONTEXTS = 64
# Memory of the scores of all contexts at a time.
MAX_BYTES = 1 << 26


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
        codes = []
        log_probabilities = []
        for first, last in runs_of_tables(offsets, len(self.classes), self.order, MAX_BYTES):
            run = sequences
            if (first, last) != (0, sequences.n_sequences):
                run = sequences.take(np.arange(first, last))
            run_constraints = constraints.at(slice(offsets[first], offsets[last]))
            lattice = self.lattice(run, run_constraints, threads)
            run_codes, run_log_probabilities = searched(lattice, width)
            codes.append(run_codes)
            log_probabilities.append(run_log_probabilities)
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
            chosen = replace(encoded, row_of_position=encoded.row_of_position[positions])
            return self.forest.scores(self.encoder, chosen, threads, given=previous)

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
