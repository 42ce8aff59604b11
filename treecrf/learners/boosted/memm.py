"""Models that are normalized at each position: their decoding, and the one of boosted trees."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

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
from treecrf.learners.boosted.crf import TreeCRF
from treecrf.learners.boosted.spec import LocalKind
from treecrf.learners.parameters import Needs
from treecrf.trees.context_scores import tree_scores
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    CategoricalFeatures,
    ClassWeight,
    CostMatrix,
    EarlyStopping,
    InteractionCst,
    LocalDecoding,
    Missing,
    MonotonicCst,
    RandomState,
    Scoring,
    Transitions,
    Window,
)
from treecrf.utils.validation import Interval, StrOptions, documented_as

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


@documented_as(TreeCRF, without=["init_"])
class TreeMEMM(LocalClassifier):
    """Maximum-entropy Markov model trained by gradient tree boosting.

    The probability of a label, given the input and the previous labels, is a softmax of boosted
    trees. They are trained with the true previous labels, which needs no inference and is therefore
    faster than training a `TreeCRF`. However, evidence at a position cannot change the
    probabilities of earlier labels (the label bias problem), which often costs accuracy.

    Parameters
    ----------
    order : int, default=1
        Number of previous labels that a label depends on.
    second_order : bool, default=True
        Whether to use Newton boosting: leaf values are divided by the curvature of the likelihood
        instead of the number of examples.
    min_samples_leaf : int, default=1
        Minimum number of positions in each child.
    decoding : {"marginal", "viterbi", "minimum_risk", "greedy", "beam"}, default="marginal"
        How `predict` chooses labels: the most probable label of each position (``"marginal"``), the
        most probable label sequence (``"viterbi"``), or the label with the lowest expected cost at
        each position (``"minimum_risk"``); ``"greedy"`` takes the best label at one position after
        another, and ``"beam"`` keeps the ``beam_width`` best label sequences. The last two need not
        score all contexts, so they suit many labels and high orders.
    beam_width : int, default=10
        Number of label sequences that ``decoding="beam"`` keeps.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels. In tree fitting, each position has the weight of its true label; the
        reported likelihoods are unweighted.
    verbose : int, default=0
        Whether to show progress (1) or not (0).

    Attributes
    ----------
    train_score_ : float array of shape ``(n_iter_ + 1,)``
        Mean log-likelihood per training position, before the first and after each iteration.
    validation_score_ : float array
        The same for the validation sequences, or their ``scoring``; empty without them.

    See Also
    --------
    TreeCRF : Probabilities normalized over whole label sequences.
    RecurrentSlidingWindowClassifier : The same model in either direction, or with any estimator.

    References
    ----------
    .. [1] A. McCallum, D. Freitag, F. Pereira, "Maximum entropy Markov models for information
       extraction and segmentation", ICML 2000.
    .. [2] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import TreeMEMM
    >>> X = ["banana", "panama", "cabana"]
    >>> y = ["cvcvcv", "cvcvcv", "cvcvcv"]
    >>> memm = TreeMEMM(window=1, max_iter=10, l2_regularization=1.0).fit(X, y)
    >>> "".join(memm.predict(["bacan"])[0])
    'cvcvc'
    """

    def __init__(
        self,
        *,
        order: int = 1,
        window: Window = 0,
        max_iter: int = 100,
        max_leaf_nodes: int = 64,
        max_depth: int | None = None,
        l2_regularization: float = 20.0,
        learning_rate: float = 0.3,
        second_order: bool = True,
        min_gain: float = 0.0,
        min_samples_leaf: int = 1,
        max_features: float = 1.0,
        max_features_per_tree: float = 1.0,
        subsample: float = 1.0,
        sampling: Literal["auto"] | float | None = "auto",
        max_examples: int | None = 300_000,
        max_bins: int = 255,
        missing: Missing = "weighting",
        categorical_features: CategoricalFeatures = "from_dtype",
        monotonic_cst: MonotonicCst = None,
        interaction_cst: InteractionCst = None,
        decoding: LocalDecoding = "marginal",
        beam_width: int = 10,
        cost_matrix: CostMatrix = None,
        transitions: Transitions = None,
        early_stopping: EarlyStopping = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        scoring: Scoring = "loss",
        warm_start: bool = False,
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.order = order
        self.window = window
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.l2_regularization = l2_regularization
        self.learning_rate = learning_rate
        self.second_order = second_order
        self.min_gain = min_gain
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.subsample = subsample
        self.sampling = sampling
        self.max_examples = max_examples
        self.max_bins = max_bins
        self.missing = missing
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.decoding = decoding
        self.beam_width = beam_width
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
