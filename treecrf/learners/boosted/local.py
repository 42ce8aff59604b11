"""Base class of the models that are normalized at each position, and their decoding."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from treecrf.chains._beam_search import search_contexts
from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import previous_labels
from treecrf.chains.lattice import Lattice, runs_of_tables
from treecrf.chains.objectives import normalize
from treecrf.inputs.labels import Labels
from treecrf.inputs.offsets import split_sequences
from treecrf.inputs.sequences import Sequences
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.boosted.spec import LocalKind
from treecrf.learners.parameters import Needs
from treecrf.trees.context_scores import tree_scores
from treecrf.utils.threads import Threads
from treecrf.utils.validation import Interval, StrOptions

# A function of positions and the labels before each: scores of the labels, label-major.
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Values of ``decoding`` that follow predictions.
SEARCHES = ("greedy", "beam")
# Maximum number of contexts for greedy decoding and beam search to score all of them: the fastest
# evaluators of trees take no more.
MAX_CONTEXTS = 64
# Memory of the scores of all contexts at a time.
MAX_BYTES = 1 << 26


class LocalClassifier(BoostedSequenceClassifier):
    """Base of the models of P(label | input, previous labels), normalized at each position.

    Training uses the true previous labels and needs no inference. Positions whose label or previous
    labels are not known have weight 0 in it. Prediction either sums over the previous labels or
    follows its own predictions.
    """

    _alternative: ClassVar[str] = "lower the order, or predict with decoding='greedy' or 'beam'"
    _parameter_constraints: ClassVar[dict] = {
        **BoostedSequenceClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk", "greedy", "beam"})],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    _needed: ClassVar[dict[str, Needs]] = BoostedSequenceClassifier._needed | {
        "beam_width": Needs("decoding", ("beam",))
    }

    def _kind(self) -> LocalKind:
        return LocalKind(
            name=type(self).__name__,
            order=self.order,
            transitions=self.transitions,
            has_curvature=bool(self.second_order),
            is_backward=self._is_backward(),
        )

    _trains_on_known_examples = True

    def _check_unknown(self, labels: Labels) -> None:
        pass

    def _constrained(
        self, scores: np.ndarray, offsets: np.ndarray, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of normalized scores under constraints; the scores change in place.

        Transitions are part of the model, so they apply before normalization. Masks apply after
        it, so that a mask at one position also changes the probabilities at earlier positions.
        """
        self._constraints(offsets).forbid(scores, offsets)
        normalize(scores, threads)
        return super()._constrained(scores, offsets, constraints, threads)

    def _normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        normalize(scores, threads)
        return scores

    def _log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        every = np.arange(len(codes))
        previous = previous_labels(
            codes, sequences.offsets, len(self.classes_), self._trained_order
        )
        log_p = self._conditionals(sequences, threads)(every, previous)
        return np.add.reduceat(log_p[codes, every], sequences.offsets[:-1])

    def _conditionals(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return log P(label | previous labels) as a function of positions and previous labels."""
        constraints = self._constraints(sequences.offsets)
        scorer = self._scorer(sequences, threads)

        def log_p(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            scores = scorer(positions, previous)
            constraints.forbid_given(scores, previous, positions)
            normalize(scores, threads)
            return scores[:, :, 0]

        return log_p

    def _quick_lattice(self, X: list) -> Lattice | None:
        return None if self.decoding in SEARCHES else super()._quick_lattice(X)

    def _labels(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        if self.decoding in SEARCHES:
            return self._decoded(sequences, masks)[0]
        return super()._labels(sequences, masks)

    def _decoded(
        self, sequences: Sequences, masks: np.ndarray | None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Find the most probable label sequences and their log-probabilities.

        With greedy or beam ``decoding`` the sequences found need not be the most probable. Their
        log-probabilities are as from `predict_log_likelihood`, which ``allowed`` and ``known`` do
        not change.
        """
        if self.decoding not in SEARCHES:
            return super()._decoded(sequences, masks)
        constraints = self._constraints(sequences.offsets, masks)
        n_contexts = len(self.classes_) ** self._trained_order
        width = min(self.beam_width, n_contexts) if self.decoding == "beam" else 1
        is_table = self._scores_table(sequences.offsets, n_contexts, width)
        search = self._search_table if is_table else self._search_contexts
        with Threads(self.n_jobs) as threads:
            codes, log_probabilities = search(sequences, constraints, width, threads)
        labels = split_sequences(self.classes_[codes], sequences.offsets)
        return self._as_read(labels), log_probabilities

    def _scores_table(self, offsets: np.ndarray, n_contexts: int, width: int) -> bool:
        """Return whether a search takes less time with the scores of all contexts in a table."""
        return n_contexts <= MAX_CONTEXTS

    def _search_table(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences in tables of the probabilities in all contexts."""
        offsets = sequences.offsets
        shape, found = (len(self.classes_), self._trained_order), []
        for first, last in runs_of_tables(offsets, *shape, MAX_BYTES):
            every = (first, last) == (0, sequences.n_sequences)
            part = sequences if every else sequences.take(np.arange(first, last))
            here = constraints.at(slice(offsets[first], offsets[last]))
            found.append(self._lattice_of(part, here, threads).searched(width))
        codes, log_probabilities = zip(*found, strict=True)
        return np.concatenate(codes), np.concatenate(log_probabilities)

    def _search_contexts(
        self, sequences: Sequences, constraints: Constraints, width: int, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search label sequences with the scores of only those contexts that occur."""
        offsets = sequences.offsets
        encoded = self._encoder.encode(sequences, threads)
        scores = tree_scores(self._forest, self._encoder, encoded)
        in_model = self._constraints(offsets)
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

    def _scorer(self, sequences: Sequences, threads: Threads) -> Scorer:
        """Return the scores of the labels as a function of positions and their previous labels."""
        encoded = self._encoder.encode(sequences, threads)

        def scores(positions: np.ndarray, previous: np.ndarray) -> np.ndarray:
            some = replace(encoded, row_of_position=encoded.row_of_position[positions])
            return self._forest.scores(self._encoder, some, threads, given=previous)

        return scores
