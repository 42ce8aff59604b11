"""The hidden Markov model with the labels as states, trained by counting."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from sklearn.utils import Tags

from treecrf.chains.contexts import check_order, true_contexts
from treecrf.chains.partial_labels import known_examples
from treecrf.inputs.data_warnings import warn_of_padding
from treecrf.inputs.dataset import RawData
from treecrf.inputs.frames import segmentation_of
from treecrf.inputs.labels import find_classes
from treecrf.learners.base.classifier import SequenceClassifier, refuse_metrics_of_rows
from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.base.learner import SequenceLearner
from treecrf.learners.base.predictor import Predictor
from treecrf.learners.base.reading import note_unlabeled
from treecrf.learners.base.training_data import LabeledSequences
from treecrf.learners.hmm_chain import HMMChain, SymbolTables, restored_tables, symbol_codes
from treecrf.utils.exact import unit_for
from treecrf.utils.typing import (
    CostMatrix,
    Decoding,
    GroupsLike,
    LabelsLike,
    LengthsLike,
    SequencesLike,
    Transitions,
    WeightsLike,
)
from treecrf.utils.validation import Interval, documented_as, warn_without_effect


@documented_as(SequenceLearner, without=["feature_names_in_"])
@dataclass(kw_only=True, eq=False, repr=False)
class HMMClassifier(SequenceClassifier):
    """Hidden Markov model of symbols and labels, trained by counting.

    The labels form a Markov chain, and each label emits a symbol that depends on this label alone:
    P(X, Y) is the product over the positions of P(label | the ``order`` previous labels) and
    P(symbol | label). These probabilities are relative frequencies in the training data with
    additive smoothing, so training takes a single pass.

    Use this model as a baseline. It has one symbol per position and no window.

    Parameters
    ----------
    laplace : float, default=1.0
        Additive smoothing (Laplace): the number that is added to the count of each label after each
        context, and to the count of each symbol under each label. It is positive, so that no event
        has probability 0.

    Attributes
    ----------
    symbols_ : array (n_symbols,)
        The symbols of the training data, sorted.
    emission_log_prob_ : float array of shape ``(n_classes, n_symbols + 1)``
        ``[v, i]`` is log P(symbol i | label v). The last column stands for all symbols that do not
        occur in training. They are treated as one symbol with count 0, so its probabilities are
        ``laplace / (count of v + laplace * (n_symbols + 1))``.
    transition_log_prob_ : list of ``order + 1`` float arrays
        With order 1, the log-probabilities of the first label, of shape (n_classes,), and those of
        a label (column) after another one (row).

        In general, array d has d + 1 axes of length n_classes: ``[d][u, ..., v]`` is
        log P(label v | the d preceding labels u, ..., in order). The last array applies to all
        positions with ``order`` preceding labels. Each array d before it applies to position d of a
        sequence only, counted from 0.
    n_features_in_ : int
        Always 1: the symbols.

    See Also
    --------
    TreeCRF : Uses windows of any form of input.
    treecrf.load : Load a saved model.

    Notes
    -----
    Prediction is exact. It uses the recursions of the conditional random fields, with
    log P(label | context) + log P(symbol | label) as the score of a label in a context.

    References
    ----------
    .. [1] L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proceedings of the IEEE 77, 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from treecrf import HMMClassifier
    >>> hmm = HMMClassifier().fit(["aab", "bbb"], ["xxy", "yyy"])
    >>> hmm.predict(["abb"])[0].tolist()
    ['x', 'y', 'y']
    >>> hmm.classes_.tolist(), hmm.symbols_.tolist()
    (['x', 'y'], ['a', 'b'])

    Probabilities of a label (column) after another one (row), and of the symbols "a", "b" and all
    others under each label:

    >>> np.exp(hmm.transition_log_prob_[1]).round(2)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    >>> np.exp(hmm.emission_log_prob_).round(2)
    array([[0.6 , 0.2 , 0.2 ],
           [0.14, 0.71, 0.14]])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceClassifier._parameter_constraints,
        "laplace": [Interval(numbers.Real, 0, None, closed="neither")],
    }

    order: int = 1
    laplace: float = 1.0
    decoding: Decoding = "marginal"
    cost_matrix: CostMatrix = None
    transitions: Transitions = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # One symbol per position.
        for name in ("two_d_array", "three_d_array", "sparse", "dict"):
            setattr(tags.input_tags, name, False)
        return tags

    def fit(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        sample_weight: WeightsLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Self:
        """Fit the model to labeled sequences by counting labels and symbols.

        Parameters
        ----------
        X : list of sequences, or one long sequence
            Each sequence is a string, or a 1-D array or list of symbols (strings or integers).
            Missing symbols (None and NaN) are not counted. A long sequence holds all sequences one
            after another. It needs ``lengths`` or ``groups``.
        y : list of array-likes of shape (n_positions,), or one array-like for a long sequence
            Labels of each sequence: strings, integers or booleans. A string stands for its
            characters. None, NaN and masked values stand for unknown labels, and a set of labels
            for one of them. Where labels are unknown, nothing is counted.
        sample_weight : array-like of shape (n_sequences,) or list of array-likes, optional
            Weight of each sequence, or for each sequence an array of shape (n_positions,) with the
            weights of its positions. Each position counts as much as its weight. A sequence of
            weight 0 is left out. For a long sequence, pass one array with a weight per sequence or
            per position.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long one.
        groups : array-like of shape (n_positions,), optional
            Sequence that each position of a long one belongs to. The positions of a sequence must
            be consecutive.

        Returns
        -------
        self : object
            The fitted estimator. If fitting fails, it remains unchanged.

        Raises
        ------
        ValueError, TypeError
            If a parameter, a sequence or a label sequence is invalid. The message names it, with
            the index of the sequence and the position.

        Examples
        --------
        >>> from treecrf import HMMClassifier
        >>> hmm = HMMClassifier(order=2).fit(["aab", "bb"], ["xxy", "yy"])
        >>> hmm.symbols_.tolist()
        ['a', 'b']
        >>> hmm.predict(["aabb"])[0].tolist()
        ['x', 'x', 'y', 'y']
        """
        self._validate_params()
        refuse_metrics_of_rows(X)
        warn_without_effect(self, self._needed)
        raw = RawData(X, y, segmentation_of(X, lengths, groups), sample_weight).resolved()
        sequences, labels = raw.read()
        note_unlabeled(type(self).__name__, 0, labels.n_unlabeled, sequences.n_positions)
        if sequences.schema.form != "symbols":
            raise TypeError(
                "X holds tables; HMMClassifier expects sequences of symbols: strings, or 1-D "
                "arrays or lists of symbols"
            )
        classes = find_classes(labels.present())
        warn_of_padding(labels.padding(classes))
        check_order(len(classes), self.order)
        rules = LabelRules(
            classes=classes,
            order=self.order,
            transitions=self.transitions,
            cost_matrix=self.cost_matrix,
        )
        data = rules.label(raw, sequences, labels)
        symbols = data.sequences.symbols()
        transitions = count_transitions(data, len(classes), self.order)
        emissions = count_emissions(data, len(classes), symbols)
        self.classes_ = classes
        self.symbols_ = symbols
        self.n_features_in_ = 1
        self.transition_log_prob_ = [
            _log_frequencies(counts, self.laplace) for counts in transitions
        ]
        self.emission_log_prob_ = _log_frequencies(emissions, self.laplace)
        self._columns = raw.columns
        self._n_unlabeled = labels.n_unlabeled
        return self

    def _predictor(self) -> Predictor:
        # The tables are public, and may have been replaced.
        if self._kept_predictor is not None:
            chain = self._kept_predictor[0].chain
            is_same = (
                chain.label_log_p is self.transition_log_prob_
                and chain.symbol_log_p is self.emission_log_prob_
            )
            if not is_same:
                self._kept_predictor = None
        return super()._predictor()

    def _chain(self) -> HMMChain:
        tables = SymbolTables(self.symbols_, self.emission_log_prob_, self.transition_log_prob_)
        return tables.chain(self.classes_, self.transitions)

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        arrays = {"symbols": self.symbols_, "emissions": self.emission_log_prob_}
        tables = enumerate(self.transition_log_prob_)
        arrays |= {f"transitions.{depth}": table for depth, table in tables}
        return {"order": len(self.transition_log_prob_) - 1}, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> HMMClassifier:
        self._validate_params()
        tables = restored_tables(values, arrays)
        self.classes_ = arrays["classes"]
        self.symbols_ = tables.symbols
        self.emission_log_prob_ = tables.emissions
        self.transition_log_prob_ = tables.transitions
        self.n_features_in_ = 1
        return self


def count_transitions(data: LabeledSequences, n_labels: int, order: int) -> list[np.ndarray]:
    """Count how often each label follows each context.

    Array d has d + 1 axes: the d previous labels, in reading order, and the label. Arrays of fewer
    than ``order`` previous labels only count position d of each sequence.
    """
    codes = data.codes
    weights = _known_weights(data, order)
    depths, contexts = true_contexts(data.sequences.offsets, codes, n_labels, order)
    tables = []
    for depth in range(order + 1):
        positions = np.flatnonzero(depths == depth)
        own_weights = None if weights is None else weights[positions]
        counts = count_pairs(
            contexts[positions], codes[positions], (n_labels**depth, n_labels), own_weights
        )
        # The label at lag 1 is the lowest digit of a context, and therefore its last axis.
        tables.append(counts.reshape((n_labels,) * (depth + 1)))
    return tables


def count_emissions(data: LabeledSequences, n_labels: int, symbols: np.ndarray) -> np.ndarray:
    """Count how often each symbol occurs with each label; the last column is for unseen symbols."""
    codes = symbol_codes(symbols, data.sequences)
    shape = (n_labels, len(symbols) + 2)
    counts = count_pairs(data.codes, codes, shape, _known_weights(data, 0))
    # The last column counts missing symbols.
    return counts[:, :-1]


def _known_weights(data: LabeledSequences, order: int) -> np.ndarray | None:
    """Return the weights of positions, 0 unless their label and previous labels are known."""
    if data.candidates is None:
        return data.weights
    is_known = known_examples(data.candidates, data.sequences.offsets, order)
    weights = 1.0 if data.weights is None else data.weights
    return is_known * weights


def count_pairs(
    first: np.ndarray, second: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> np.ndarray:
    """Count how often each pair of codes occurs; an array of the given shape.

    Weights are rounded, so that the order of the pairs does not matter.
    """
    pairs = first.astype(np.int64) * shape[1] + second
    if weights is not None:
        unit = unit_for(weights)
        weights = np.rint(weights / unit) * unit
    return np.bincount(pairs, weights, minlength=shape[0] * shape[1]).reshape(shape)


def _log_frequencies(counts: np.ndarray, laplace: float) -> np.ndarray:
    """Compute the logarithms of the smoothed relative frequencies along the last axis."""
    corrected = counts + float(laplace)
    return np.log(corrected) - np.log(corrected.sum(axis=-1, keepdims=True))
