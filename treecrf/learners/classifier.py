"""Base class of all sequence classifiers, with their public methods."""

from __future__ import annotations

import numbers
import sys
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import InputTags, Tags, TargetTags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from treecrf.inputs.data_warnings import warn_of_unlabeled
from treecrf.inputs.dataset import RawData
from treecrf.inputs.labels import SCHEME_NAMES, check_kind
from treecrf.inputs.offsets import reversed_positions
from treecrf.inputs.sequences import Sequences
from treecrf.learners.chain_model import ChainModel, of_each
from treecrf.learners.parameters import OF_ALL, Needs
from treecrf.learners.stream import Stream
from treecrf.utils.threads import Threads
from treecrf.utils.typing import (
    FloatArray,
    GroupsLike,
    HasColumns,
    LabelArray,
    LabelsLike,
    LengthsLike,
    MasksLike,
    ScoresLike,
    SequencesLike,
    WeightsLike,
)
from treecrf.utils.validation import DocumentationLink, Interval, StrOptions


class SequenceClassifier(DocumentationLink, ChainModel):
    """Base class of all sequence classifiers.

    Subclasses implement `fit`, and the scores of a `ChainModel`.
    """

    _parameter_constraints: ClassVar[dict] = {
        "order": [Interval(numbers.Integral, 0, None, closed="left")],
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk"})],
        "cost_matrix": ["array-like", dict, None],
        "transitions": [StrOptions(set(SCHEME_NAMES)), "array-like", None],
        "n_jobs": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Integral, None, -1, closed="right"),
            None,
        ],
        "verbose": ["verbose"],
    }

    # Not a classifier to scikit-learn, whose classifiers label rows independently. For them, an
    # integer as ``cv`` stratifies the rows, which would cut the sequences of a long table, and
    # ensembles and displays call ``predict`` without ``groups``.
    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A long table may be a 1-D array of symbols, and a list of sequences a 3-D array.
        tags.input_tags = InputTags(
            one_d_array=True,
            two_d_array=True,
            three_d_array=True,
            sparse=True,
            categorical=True,
            string=True,
            dict=True,
            allow_nan=True,
        )
        # Labels of a long table are 1-D; labels of a list of sequences may be a 2-D array.
        tags.target_tags = TargetTags(required=True, one_d_labels=True, two_d_labels=True)
        return tags

    # What some parameters need to have an effect; a warning names those that have none.
    _needed: ClassVar[dict[str, Needs]] = OF_ALL

    @overload
    def predict(
        self,
        X: HasColumns,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: LengthsLike = ...,
        groups: GroupsLike = ...,
    ) -> LabelArray: ...

    @overload
    def predict(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: None = ...,
        groups: None = ...,
    ) -> list[LabelArray]: ...

    @overload
    def predict(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: LengthsLike = ...,
        groups: GroupsLike = ...,
    ) -> LabelArray: ...

    def predict(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Predict the label of every position.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data. Those
            without positions have empty results.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, with columns in the order of ``classes_``.
            None in the list means that all labels are possible in that sequence. Probabilities are
            conditional on the labels being allowed. For a long table, one array of all positions.
        known : list of lists of labels or None, optional
            Labels that are already known, with None at all other positions. Known labels are kept,
            and the other labels are predicted given them. For a long table, one list of all
            positions.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores of the labels at each position, which are added to those of the model, for a
            `TreeCRF` that was fitted with such scores. For a long table, one array of all
            positions.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, or the name of the data frame
            column with this information. The positions of a sequence must be consecutive. If X is
            one data frame, the default is the name that was passed to `fit`.

        Returns
        -------
        list of arrays of shape (n_positions,)
            Labels chosen by the parameter ``decoding``. For a long table, one array of all
            positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, or no label sequence is possible. The message
            names the sequence and the reason.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict(["nab"])[0].tolist()
        ['c', 'v', 'c']
        >>> crf.predict(["nab"], known=[[None, None, "v"]])[0].tolist()
        ['c', 'v', 'v']
        """
        labels = self._quick_results(
            X, self._labels_in, allowed, known, init_score, lengths, groups
        )
        if labels is not None:
            return labels
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        sequences, masks = self._read(X, allowed, known, segmentation, init_score)
        empty = self.classes_[:0]
        labels = of_each(sequences, lambda some: self._labels(some, masks), empty)
        return segmentation.join(labels, empty)

    @overload
    def predict_proba(
        self,
        X: HasColumns,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: LengthsLike = ...,
        groups: GroupsLike = ...,
    ) -> FloatArray: ...

    @overload
    def predict_proba(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: None = ...,
        groups: None = ...,
    ) -> list[FloatArray]: ...

    @overload
    def predict_proba(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = ...,
        known: MasksLike = ...,
        init_score: ScoresLike = ...,
        lengths: LengthsLike = ...,
        groups: GroupsLike = ...,
    ) -> FloatArray: ...

    def predict_proba(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Predict the probability of every label at every position, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        allowed, known, init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_classes)
            Marginal probabilities, with columns in the order of ``classes_``. For a long table, one
            array of all positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict_proba(["nab"])[0].shape
        (3, 2)
        """
        proba = self._quick_results(X, self._proba_in, allowed, known, init_score, lengths, groups)
        if proba is not None:
            return proba
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        sequences, masks = self._read(X, allowed, known, segmentation, init_score)
        empty = np.zeros((0, len(self.classes_)))
        proba = of_each(sequences, lambda some: self._in_runs(some, masks, self._proba_in), empty)
        return segmentation.join(proba, empty)

    def predict_pairwise_proba(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> list[FloatArray]:
        """Predict the joint probability of every two labels at neighboring positions.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        allowed, known, init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions - 1, n_classes, n_classes)
            One array per sequence, for a long table too; empty for a sequence with fewer than two
            positions. Entry ``[t, u, v]`` is the probability of
            label u at position t and label v at position t + 1, given the whole sequence.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> pairs = crf.predict_pairwise_proba(["nab"])[0]
        >>> pairs.shape, bool(pairs[0, 0, 1] > 0.5)
        ((2, 2, 2), True)
        """
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        sequences, masks = self._read(X, allowed, known, segmentation, init_score)
        empty = np.zeros((0, len(self.classes_), len(self.classes_)))
        return of_each(sequences, lambda some: self._pairwise(some, masks), empty)

    def predict_log_likelihood(
        self,
        X: SequencesLike,
        y: LabelsLike,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> FloatArray:
        """Compute the log-probability of given label sequences, log P(y | X).

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        y : list of array-likes of shape (n_positions,), or one array-like for a long table
            Labels of each sequence, all of them in ``classes_``. Where labels are unknown, as in
            `fit`, the probability is the sum over all label sequences with the known labels.
        init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        float array of shape (n_sequences,)
            Natural logarithms. Minus infinity for labels that ``transitions`` forbids, and 0 for
            empty sequences.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, or y does not match X. The message names the
            sequence and the reason.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> log_p = crf.predict_log_likelihood(["nab", "nab"], ["cvc", "vcv"])
        >>> bool(log_p[0] > log_p[1])
        True
        """
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        raw = RawData(X, y, segmentation, init_score=init_score)
        sequences, labels = self._read_labeled(raw)
        if not sequences.n_positions:
            return np.zeros(sequences.n_sequences)
        codes, candidates = labels.encoded(self.classes_)
        if self._trained_backward:
            positions = reversed_positions(sequences.offsets)
            sequences, codes = sequences.reversed(), codes[positions]
            candidates = None if candidates is None else candidates[positions]
        with Threads(self.n_jobs) as threads:

            def log_p(some: Sequences) -> np.ndarray:
                if candidates is not None:
                    return self._summed_log_likelihoods(some, candidates, threads)
                return self._log_likelihoods(some, codes, threads)

            return np.asarray(of_each(sequences, log_p, 0.0))

    def decode(
        self,
        X: SequencesLike,
        n_best: int = 1,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> tuple[Any, Any]:
        """Find the most probable label sequences and their log-probabilities.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        n_best : int, default=1
            Number of label sequences to return for each sequence.
        allowed, known, init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        labels : list of arrays of shape (n_positions,)
            The most probable label sequence of each sequence. For a long table, one array of all
            positions. If ``n_best`` is greater than 1, always a list with a list of arrays for each
            sequence, the most probable first; it is shorter if fewer label sequences are possible.
        log_probabilities : float array of shape (n_sequences,)
            Log-probabilities of these label sequences. If ``n_best`` is greater than 1, a list of
            arrays.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`, and if ``n_best`` is not a positive integer.
        MemoryError
            If so many label sequences do not fit in memory.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> labels, log_probabilities = crf.decode(["nab"])
        >>> labels[0].tolist(), log_probabilities.shape
        (['c', 'v', 'c'], (1,))
        >>> labels, log_probabilities = crf.decode(["nab"], n_best=3)
        >>> ["".join(sequence) for sequence in labels[0]]
        ['cvc', 'cvv', 'ccv']
        """
        if not isinstance(n_best, numbers.Integral) or n_best < 1:
            raise ValueError(f"n_best={n_best!r}; expected a positive integer")
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        sequences, masks = self._read(X, allowed, known, segmentation, init_score)
        empty = self.classes_[:0]

        def best(some: Sequences) -> list[tuple]:
            if n_best == 1:
                return list(zip(*self._decoded(some, masks), strict=True))
            found = self._in_runs(some, masks, lambda lattice, _: lattice.n_best(int(n_best)))
            return [(self._as_read([self.classes_[c] for c in paths]), p) for paths, p in found]

        # The only label sequence of an empty sequence has probability 1.
        found = of_each(sequences, best, (empty, 0.0) if n_best == 1 else ([empty], np.zeros(1)))
        labels, log_p = ([pair[i] for pair in found] for i in range(2))
        if n_best > 1:
            return labels, log_p
        return segmentation.join(labels, empty), np.array(log_p)

    def stream(self, lag: int = 0) -> Stream:
        """Label a sequence online, while it is still arriving.

        Parameters
        ----------
        lag : int, default=0
            Number of further positions that the probabilities of a position depend on.

        Returns
        -------
        Stream
            Its method ``push`` takes the next position, and returns the probabilities of the labels
            of the position ``lag`` steps back as soon as they are known. ``finish`` returns those
            of the remaining positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If ``lag`` is not a nonnegative integer, or the model needs whole sequences: it labels
            them from their end, keeps a beam of contexts, or has features of unlimited bags.
        TypeError
            If the attributes of a linear model come from elsewhere.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> stream = crf.stream()
        >>> crf.classes_[[stream.push(symbol).argmax() for symbol in "nab"]].tolist()
        ['c', 'v', 'c']
        """
        check_is_fitted(self, "classes_")
        return Stream(self, lag)

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike,
        sample_weight: WeightsLike = None,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> float:
        """Compute the accuracy: the fraction of all labels that are predicted correctly.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        y : list of array-likes of shape (n_positions,), or one array-like for a long table
            True labels of each sequence. Positions whose label is unknown, as in `fit`, are
            ignored.
        sample_weight : array-like of shape (n_sequences,) or list of array-likes, optional
            Weights of the sequences, or one array of shape (n_positions,) with the weights of its
            positions for each. For a long table, one array with a weight per sequence or per
            position.
        init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        float
            Number of correct labels divided by the number of known labels; with weights, the weight
            of the correct positions divided by that of all whose label is known.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, y does not match X, or the weights are invalid.
            The message names the sequence and the reason.
        """
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        raw = RawData(X, y, segmentation, sample_weight, init_score)
        sequences, labels = self._read_labeled(raw)
        known = slice(None) if labels.are_complete else labels.known
        true = labels.values[known]
        if not len(true):
            raise ValueError("y holds no known labels")
        check_kind(true, self.classes_)
        warn_of_unlabeled(labels.n_unlabeled, sequences.n_positions, "the score counts")
        weights = raw.weights(sequences.offsets)
        if weights is not None:
            weights = weights[known]
            if not weights.any():
                raise ValueError("sample_weight is 0 at all known labels")
        predicted = np.concatenate(self._labels(*self._read(sequences.without_empty())))
        return float(np.average(predicted[known] == true, weights=weights))

    def _note_unlabeled(self, n_unlabeled: int, n_positions: int) -> None:
        """Say how many training positions have no label, and warn if these are most of them."""
        if n_unlabeled and getattr(self, "verbose", 0):
            name = type(self).__name__
            print(
                f"{name}: {n_unlabeled:,} of {n_positions:,} positions have no label",
                file=sys.stderr,
            )
        warn_of_unlabeled(n_unlabeled, n_positions, "training uses")

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the features, in the order of ``feature_importances_``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use if the training data had none.

        Returns
        -------
        array of str of shape ``(n_features_in_,)``
            ``feature_names_in_`` if it exists, otherwise ``input_features`` if given, otherwise
            x0, x1, ...

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If ``input_features`` differ from ``feature_names_in_``, or their number is not
            ``n_features_in_``.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5).fit([[[1, 0], [0, 1]], [[0, 1]]], ["xy", "y"])
        >>> crf.get_feature_names_out().tolist()
        ['x0', 'x1']
        """
        check_is_fitted(self, "classes_")
        return _check_feature_names_in(self, input_features)

    @staticmethod
    def _feature_names(names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
        """Return the fitted attribute ``feature_names_in_``, if the features have names."""
        return {} if names is None else {"feature_names_in_": np.array(names, dtype=object)}
