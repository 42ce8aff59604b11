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
            Sequences of the same form and with the same features as the training data. Those
            without positions have empty results.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each position, with columns in the order of ``classes_``; or
            a list with the set of possible labels of each position, or None if all are. Labels that
            are strings may also be in lists. None in place of a sequence means that all labels are
            possible in it. Probabilities are conditional on the labels being allowed. For a long
            table, one array or list of all positions.
        known : list of lists of labels or None, optional
            Labels that are already known, with None, NaN or a masked value at all other positions.
            Known labels are kept, and the other labels are predicted given them. For a long table,
            one list of all positions.
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

        These are the logits of the probabilities of `predict_proba`, in the form that scikit-learn
        expects of classifiers, for example for calibration or ROC curves.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        allowed, known, init_score, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of float arrays of shape (n_positions, n_classes), or (n_positions,) for two labels
            Logarithms of p / (1 - p), with columns in the order of ``classes_``; for two labels,
            those of the second one. All are finite. For a long table, one array of all positions.

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
        >>> (crf.decision_function(["nab"])[0] > 0).tolist()  # v is more probable than c
        [False, True, False]
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
            As in `predict`.
        y : list of array-likes of shape (n_positions,), or one array-like for a long table
            Labels of each sequence, all of them in ``classes_``. Where labels are unknown, as in
            `fit`, the probability is the sum over all label sequences with the known labels. By
            default, the column of a data frame that held the labels in training.
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

        See Also
        --------
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
        >>> labels[0].tolist(), log_probabilities.shape
        (['c', 'v', 'c'], (1,))
        >>> labels, log_probabilities = crf.decode(["nab"], n_best=3)
        >>> ["".join(sequence) for sequence in labels[0]]
        ['cvc', 'cvv', 'ccv']
        """
        predictor = self._predictor()
        return predictor.decode(X, n_best, allowed, known, init_score, lengths, groups)

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
        """Compute the accuracy: the fraction of all labels that are predicted correctly.

        Parameters
        ----------
        X : list of sequences, or one long table
            As in `predict`.
        y : list of array-likes of shape (n_positions,), or one array-like for a long table
            True labels of each sequence. Positions whose label is unknown, as in `fit`, are
            ignored. By default, the column of a data frame that held the labels in training.
        sample_weight : array-like of shape (n_sequences,) or list of array-likes, optional
            Weights of the sequences, or one array of shape (n_positions,) with the weights of its
            positions for each; in other forms, as in `fit`.
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

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model to a file, to be loaded with `treecrf.load`.

        The file contains only numbers and text, with a format version and a checksum. Loading it
        does not execute any code. Functions among the parameters, such as an ``objective`` or a
        ``scoring`` of one's own, are not saved, with a warning: the loaded model makes the same
        predictions, but needs them again for further training. For the command line, the file also
        contains the names of the columns with the labels and the groups, if they had names in
        `fit`.

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
