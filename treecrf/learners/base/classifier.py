"""Base class of all sequence classifiers, with their public methods."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import InputTags, Tags, TargetTags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from treecrf.inputs.column_names import NO_NAMES
from treecrf.inputs.dataset import RawData
from treecrf.inputs.forms import is_frame
from treecrf.inputs.schemes import SCHEME_NAMES
from treecrf.learners.base import saving
from treecrf.learners.base.chain import FittedChain
from treecrf.learners.base.predictor import Predictor, accuracy_of
from treecrf.learners.base.stream import Stream
from treecrf.utils.messages import warn
from treecrf.utils.typing import (
    FloatArray,
    GroupsLike,
    HasColumns,
    LabelArray,
    LabelsLike,
    LengthsLike,
    MasksLike,
    OfList,
    OfTable,
    ScoresLike,
    SequencesLike,
    WeightsLike,
)
from treecrf.utils.validation import (
    CaselessOptions,
    DocumentationLink,
    Interval,
    Needs,
    StrOptions,
    calling_metric,
    check_parameters,
)

if TYPE_CHECKING:

    class BaseEstimator:
        """The class of scikit-learn, which has no types, for checkers of constructors."""

        def __getattr__(self, name: str) -> Any: ...

else:
    from sklearn.base import BaseEstimator

# Attributes that follow from others, and are made when they are first needed.
KEPT = ("_kept_predictor", "_kept_features")
# Parameters of prediction, which can be set after training.
PREDICTION_PARAMETERS = ("decoding", "beam_width", "cost_matrix", "transitions", "n_jobs")


class SequenceClassifier(DocumentationLink, BaseEstimator):
    """Base class of all sequence classifiers: parameters, documentation and public methods.

    Subclasses implement `fit`, and choose the kind of a fitted chain. All predictions follow from
    its scores.
    """

    _parameter_constraints: ClassVar[dict] = {
        "order": [Interval(numbers.Integral, 0, None, closed="left")],
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk"})],
        "cost_matrix": ["array-like", dict, None],
        "transitions": [CaselessOptions(set(SCHEME_NAMES)), dict, "array-like", None],
        "n_jobs": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Integral, None, -1, closed="right"),
            None,
        ],
        "verbose": ["verbose"],
    }

    # Names of the columns of the labels and the groups in training, set by `fit`.
    _columns = NO_NAMES
    # The number of training positions without a label, set by `fit`.
    _n_unlabeled = 0
    # Name of the objective that training maximized; see `treecrf.chains.objectives`.
    _trained_objective = "log"
    # The latest predictor, and the parameters that it was made of.
    _kept_predictor: tuple[Any, ...] | None = None

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
    _needed: ClassVar[dict[str, Needs]] = {"cost_matrix": Needs("decoding", ("minimum_risk",))}

    # What an estimator is made of

    @abstractmethod
    def _chain(self) -> FittedChain:
        """Return what the fitted model knows of label sequences."""

    def _predictor(self) -> Predictor:
        """Return the fitted model with its parameters of prediction."""
        if self._kept_predictor is not None:
            predictor, decoding, beam_width, cost_matrix, transitions, n_jobs = self._kept_predictor
            if (
                decoding is self.decoding
                and beam_width is vars(self).get("beam_width")
                and cost_matrix is self.cost_matrix
                and transitions is self.transitions
                and n_jobs is self.n_jobs
            ):
                return predictor
        check_is_fitted(self, "classes_")
        check_parameters(self, PREDICTION_PARAMETERS)
        predictor = Predictor(
            chain=self._chain(),
            name=type(self).__name__,
            decoding=self.decoding,
            cost_matrix=self.cost_matrix,
            n_jobs=self.n_jobs,
            columns=self._columns,
            init_score_error=self._init_score_error,
        )
        self._kept_predictor = predictor, *map(vars(self).get, PREDICTION_PARAMETERS)
        return predictor

    @property
    def _init_score_error(self) -> str | None:
        """Message of the error for initial scores, which only some models support."""
        return f"init_score: {type(self).__name__} does not support it; TreeCRF does"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what is made when it is first needed."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in KEPT}

    # Predictions

    @overload
    def predict(self, X: HasColumns, **options: Unpack[OfTable]) -> LabelArray: ...
    @overload
    def predict(self, X: SequencesLike, **options: Unpack[OfList]) -> list[LabelArray]: ...
    @overload
    def predict(self, X: SequencesLike, **options: Unpack[OfTable]) -> LabelArray: ...
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
            Sequences to label, in one of the forms that `fit` accepts, with the features of the
            training data. A sequence without positions has an empty result.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position. All results are conditional on them. The
            entry of a sequence is one of these:

            - A boolean array, with columns in the order of ``classes_``.
            - A list with the set of possible labels of each position, or None if all are possible.
              Labels that are strings may also be in lists.
            - None: all labels are possible in the whole sequence.

            For a long table, pass one array or list of all positions.
        known : list of lists of labels or None, optional
            Labels that are already known, with None, NaN or a masked value at all other positions.
            Known labels are kept, and the other labels are predicted given them. For a long table,
            pass one list of all positions.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores of the labels at each position, which are added to those of the model. Only for a
            `TreeCRF` that was fitted with such scores. For a long table, pass one array of all
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
            Labels of each sequence, with the dtype of ``classes_``. The parameter ``decoding`` says
            how they are chosen. For a long table, one array of all positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, or no label sequence is possible. The message
            names the sequence and the reason.

        See Also
        --------
        predict_proba : Probabilities of all labels at each position.
        decode : The most probable label sequences, and their log-probabilities.
        stream : Label a sequence while it is still arriving.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict(["nab"])[0].tolist()
        ['c', 'v', 'c']

        The last label is known, or labels are excluded:

        >>> crf.predict(["nab"], known=[[None, None, "v"]])[0].tolist()
        ['c', 'v', 'v']
        >>> crf.predict(["nab"], allowed=[[{"c"}, {"c", "v"}, {"v"}]])[0].tolist()
        ['c', 'v', 'v']
        """
        predictor = self._predictor()
        refuse_metrics_of_rows(X)
        return predictor.predict(X, allowed, known, init_score, lengths, groups)

    @overload
    def predict_proba(self, X: HasColumns, **options: Unpack[OfTable]) -> FloatArray: ...
    @overload
    def predict_proba(self, X: SequencesLike, **options: Unpack[OfList]) -> list[FloatArray]: ...
    @overload
    def predict_proba(self, X: SequencesLike, **options: Unpack[OfTable]) -> FloatArray: ...
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
            Sequences to label, as in `predict`.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, as in `predict`.
        known : list of lists of labels or None, optional
            Labels that are already known, as in `predict`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_classes)
            Marginal probabilities, with columns in the order of ``classes_``. Each row sums to 1.
            For a long table, one array of all positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        See Also
        --------
        predict_pairwise_proba : Joint probabilities of neighboring labels.
        decision_function : The same as log-odds.
        staged_predict_proba : Probabilities after each iteration, for boosted trees.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.classes_.tolist()
        ['c', 'v']
        >>> crf.predict_proba(["nab"])[0].round(2)
        array([[0.95, 0.05],
               [0.08, 0.92],
               [0.8 , 0.2 ]])
        """
        predictor = self._predictor()
        refuse_metrics_of_rows(X)
        return predictor.predict_proba(X, allowed, known, init_score, lengths, groups)

    def decision_function(
        self,
        X: SequencesLike,
        *,
        allowed: MasksLike = None,
        known: MasksLike = None,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Compute the log-odds of every label at every position, given the whole sequence.

        These are the logits of the probabilities of `predict_proba`, in the form that classifiers
        of scikit-learn return. Use them for calibration or ROC curves, for example.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, as in `predict`.
        known : list of lists of labels or None, optional
            Labels that are already known, as in `predict`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_classes), or (n_positions,) for two labels
            Natural logarithms of p / (1 - p), with columns in the order of ``classes_``. For two
            labels, those of the second one. All are finite. For a long table, one array of all
            positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        See Also
        --------
        predict_proba : The same as probabilities.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])

        Where the log-odds of the second label are positive, it is the more probable one:

        >>> crf.decision_function(["nab"])[0].round(1).tolist()
        [-3.0, 2.4, -1.4]
        >>> crf.predict(["nab"])[0].tolist()
        ['c', 'v', 'c']
        """
        proba = SequenceClassifier.predict_proba(
            self,
            X,
            allowed=allowed,
            known=known,
            init_score=init_score,
            lengths=lengths,
            groups=groups,
        )
        return list(map(log_odds, proba)) if isinstance(proba, list) else log_odds(proba)

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
        """Predict the joint probability of each pair of labels at neighboring positions.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, as in `predict`.
        known : list of lists of labels or None, optional
            Labels that are already known, as in `predict`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions - 1, n_classes, n_classes)
            One array for each sequence, for a long table as well. Entry ``[t, u, v]`` is the
            probability of label u at position t and label v at position t + 1, given the whole
            sequence; u and v are indices in ``classes_``. The array of a sequence with fewer than
            two positions is empty.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`.

        See Also
        --------
        predict_proba : Probabilities of single labels.
        treecrf.inspection.find_spans : Spans of tags, with their probabilities.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> pairs = crf.predict_pairwise_proba(["nab"])[0]
        >>> pairs.shape
        (2, 2, 2)

        The first two labels are "c" and "v" with a probability of 0.89:

        >>> pairs[0].round(2)
        array([[0.07, 0.89],
               [0.02, 0.03]])
        """
        predictor = self._predictor()
        if allowed is known is init_score is lengths is groups is None and type(X) is list:
            pairs = predictor.quick_results(X, predictor.pairwise_in)
            if pairs is not None:
                return pairs
        segmentation = predictor.segmentation(X, lengths, groups)
        sequences, masks = predictor.read(X, segmentation, allowed, known, init_score)
        empty = np.zeros((0, len(self.classes_), len(self.classes_)))
        return predictor.results(sequences, masks, predictor.pairwise_in, empty)

    def predict_log_likelihood(
        self,
        X: SequencesLike,
        y: LabelsLike = None,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> FloatArray:
        """Compute the log-probability of given label sequences, log P(y | X).

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        y : list of array-likes of shape (n_positions,), one array-like or str, optional
            Labels of each sequence, all of them in ``classes_``, or one array-like for a long
            table. Some may be unknown, as in `fit`: the probability is then the sum over all label
            sequences that agree with the known labels. The default is the column of a data frame
            that held the labels in training.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        float array of shape (n_sequences,)
            Natural logarithms. They are minus infinity for labels that ``transitions`` forbids, and
            0 for empty sequences.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, or y does not match X. The message names the
            sequence and the reason.

        See Also
        --------
        decode : The most probable label sequences, and their log-probabilities.
        score : Accuracy.
        treecrf.metrics : Other scores.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict_log_likelihood(["nab", "nab"], ["cvc", "vcv"]).round(1)
        array([-0.3, -4.7])

        The log-probability that the first label is "c", whatever the others are:

        >>> crf.predict_log_likelihood(["nab"], [["c", None, None]]).round(2)
        array([-0.05])
        """
        predictor = self._predictor()
        segmentation = predictor.segmentation(X, lengths, groups)
        labels = predictor.labels_of(X, y)
        return predictor.log_likelihoods(RawData(X, labels, segmentation, init_score=init_score))

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

        The labels may differ from those of `predict`, which by default chooses the most probable
        label of each position by itself.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        n_best : int, default=1
            Number of label sequences to return for each sequence.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, as in `predict`.
        known : list of lists of labels or None, optional
            Labels that are already known, as in `predict`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        labels : list of arrays of shape (n_positions,)
            The most probable label sequence of each sequence. For a long table, one array of all
            positions.

            If ``n_best`` is greater than 1, there is a list of arrays for each sequence, for a long
            table as well. The most probable label sequence comes first. The list is shorter than
            ``n_best`` if fewer label sequences are possible.
        log_probabilities : float array of shape (n_sequences,)
            Natural logarithms of the probabilities of these label sequences, given X. If ``n_best``
            is greater than 1, a list of arrays, one for each sequence.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            As in `predict`, and if ``n_best`` is not a positive integer.
        MemoryError
            If ``n_best`` label sequences do not fit in memory.

        See Also
        --------
        predict : The label of each position, as chosen by the parameter ``decoding``.
        predict_log_likelihood : Log-probabilities of label sequences that you give.
        treecrf.inspection.sequence_margin : How far the best label sequence is ahead of the next.
        treecrf.inspection.sequence_entropy : Entropy of the distribution over label sequences.
        treecrf.inspection.sequence_scores : Scores as arrays, for decoders of your own.
        treecrf.inspection.find_spans : Spans of tags, with their probabilities.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> labels, log_probabilities = crf.decode(["nab"])
        >>> labels[0].tolist(), log_probabilities.round(2)
        (['c', 'v', 'c'], array([-0.31]))

        The three best label sequences, and their probabilities:

        >>> import numpy as np
        >>> labels, log_probabilities = crf.decode(["nab"], n_best=3)
        >>> ["".join(sequence) for sequence in labels[0]]
        ['cvc', 'cvv', 'ccv']
        >>> np.exp(log_probabilities[0]).round(2)
        array([0.74, 0.15, 0.04])
        """
        predictor = self._predictor()
        return predictor.decode(X, n_best, allowed, known, init_score, lengths, groups)

    def stream(self, lag: int = 0) -> Stream:
        """Label a sequence online, while it is still arriving.

        Parameters
        ----------
        lag : int, default=0
            Number of further positions to wait for before a position is labeled. A larger lag
            delays the results and makes them more accurate.

        Returns
        -------
        Stream
            Its method ``push`` takes the next position of the sequence. It returns the label
            probabilities of the position ``delay`` steps before, or None at the start of the
            sequence. The delay is ``lag`` plus the number of positions to the right in the window.
            ``finish`` returns the probabilities of the remaining positions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If ``lag`` is not a nonnegative integer, or the model needs whole sequences: it labels
            them from their end, keeps a beam of contexts, or has features of unlimited bags.
        TypeError
            If a linear model has ``attributes`` whose window is unknown.

        See Also
        --------
        Stream : The object that is returned.
        treecrf.stream : Label with a pipeline while a sequence is still arriving.
        predict_proba : Probabilities given the whole sequence.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> stream = crf.stream()

        The window reaches one position to the right, so the label of "n" is predicted when "a" has
        arrived:

        >>> stream.push("n") is None
        True
        >>> stream.push("a").round(2)  # probabilities of "c" and "v" for "n"
        array([0.83, 0.17])
        >>> [p.round(2).tolist() for p in stream.finish()]  # for "a"
        [[0.17, 0.83]]
        """
        return Stream(self, lag)

    def score(
        self,
        X: SequencesLike,
        y: LabelsLike = None,
        sample_weight: WeightsLike = None,
        *,
        init_score: ScoresLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> float:
        """Compute the accuracy: the fraction of labels that are predicted correctly.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences to label, as in `predict`.
        y : list of array-likes of shape (n_positions,), one array-like or str, optional
            True labels of each sequence, or one array-like for a long table. Positions whose label
            is unknown, as in `fit`, are ignored. The default is the column of a data frame that
            held the labels in training.
        sample_weight : array-like of shape (n_sequences,) or list of array-likes, optional
            Weight of each sequence, or for each sequence an array of shape (n_positions,) with the
            weights of its positions. Other forms are those of `fit`.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores that are added to those of a `TreeCRF`, as in `predict`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        float
            Number of correct labels divided by the number of known labels, from 0 to 1. With
            weights, the total weight of the correct positions divided by that of all positions
            whose label is known.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError, TypeError
            If X does not match the training data, y does not match X, or the weights are invalid.
            The message names the sequence and the reason.

        See Also
        --------
        predict_log_likelihood : Log-probability of the true labels of each sequence.
        treecrf.metrics : Other scores, such as the F1 score of spans.
        treecrf.metrics.get_scorer : Scores for model selection.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.score(["nab", "nan"], ["cvc", "cvv"])
        0.8333333333333334
        """
        predictor = self._predictor()
        segmentation = predictor.segmentation(X, lengths, groups)
        labels = predictor.labels_of(X, y)
        raw = RawData(X, labels, segmentation, sample_weight, init_score)
        return accuracy_of([predictor.count_correct(raw)])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the features, in the order of ``feature_importances_``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names to use if the training data had none.

        Returns
        -------
        array of str of shape ``(n_features_in_,)``
            ``feature_names_in_`` if the model has it; otherwise ``input_features`` if you pass
            them; otherwise ``"x0"``, ``"x1"``, and so on.

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

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model to a file, to be loaded with `treecrf.load`.

        The file contains only numbers and text, with a format version and a checksum. Loading it
        does not execute any code.

        Functions among the parameters, such as your own ``objective`` or ``scoring``, are not
        saved, and a warning says so. The loaded model makes the same predictions, but you need to
        set the functions again before you train it further.

        The file also contains the names of the columns with the labels and the groups, if they had
        names in `fit`. The command line uses them.

        Parameters
        ----------
        path : path-like
            File to write, conventionally with the extension ``.treecrf``. An existing file is
            replaced only once the new one is complete, and keeps its permissions.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        ValueError
            If `treecrf.load` would refuse the file, for example because a parameter was set to an
            invalid value after `fit`.
        TypeError
            If the class of the model is not one of this package.
        OSError
            If the file cannot be written.

        See Also
        --------
        treecrf.load : Load a saved model.

        Examples
        --------
        >>> import os, tempfile
        >>> import treecrf
        >>> X, y = ["banana", "cabana"], ["cvcvcv", "cvcvcv"]
        >>> crf = treecrf.TreeCRF(window=1, max_iter=5, l2_regularization=1.0).fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "vowels.treecrf")
        ...     crf.save(path)
        ...     loaded = treecrf.load(path)
        >>> loaded.predict(["nab"])[0].tolist()
        ['c', 'v', 'c']
        """
        check_is_fitted(self, "classes_")
        saving.save(self, path)
        for name, value in self.get_params(deep=False).items():
            if callable(value):
                warn(
                    f"{name} is a function, which the file does not contain; set it again after "
                    "loading the model, before training it further"
                )

    @abstractmethod
    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""

    @abstractmethod
    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> SequenceClassifier:
        """Set the fitted attributes from a saved model and return self.

        Raises ValueError, or another error of `model_file.as_model_file_error`, if the parts of the
        model do not fit together.
        """


def refuse_metrics_of_rows(X: Any) -> None:
    """Raise ValueError if a metric of scikit-learn would compare predicted sequences as rows.

    It would read label sequences of equal length as sets of labels.
    """
    metric = calling_metric()
    if metric is not None and not is_frame(X):
        raise ValueError(
            f"scoring by scikit-learn's {metric} compares labels of rows, but X is no data frame; "
            "for sequences, pass a scorer of this package, such as "
            "scoring=treecrf.metrics.get_scorer('token_f1_macro')"
        )


def log_odds(proba: FloatArray) -> FloatArray:
    """Return the logits of probabilities (n, n_labels); for two labels, of the second, (n,)."""
    n_labels = proba.shape[1]
    # The sum of the others is more precise than the difference from 1.
    others = proba @ (1.0 - np.eye(n_labels))
    tiny = np.finfo(np.float64).tiny
    odds = np.log(np.maximum(proba, tiny)) - np.log(np.maximum(others, tiny))
    return odds[:, 1] if n_labels == 2 else odds
