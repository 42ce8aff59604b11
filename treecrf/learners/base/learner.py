"""Base class of the classifiers that are trained step by step: `fit` and its preparation."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from treecrf.encoding.encoded import MAX_WINDOW
from treecrf.inputs.dataset import RawData
from treecrf.inputs.frames import segmentation_of
from treecrf.inputs.schema import InputSchema
from treecrf.learners.base.callbacks import as_callbacks
from treecrf.learners.base.classifier import KEPT, SequenceClassifier, refuse_metrics_of_rows
from treecrf.learners.base.label_rules import LabelRules
from treecrf.learners.base.opening import (
    FitArguments,
    open_arguments,
    read_eval_set,
    validation_data,
)
from treecrf.learners.base.reading import ReadingRules, read_training
from treecrf.learners.base.training_data import TrainingInput
from treecrf.utils.typing import (
    GroupsLike,
    LabelsLike,
    LengthsLike,
    MasksLike,
    ScoresLike,
    TablesLike,
    WeightsLike,
)
from treecrf.utils.validation import Interval, Needs, StrOptions, warn_without_effect


class SequenceLearner(SequenceClassifier):
    """Base of the classifiers with a window whose training is iterative.

    Subclasses implement `_train`.

    Several estimators share these parameters and attributes.

    Parameters
    ----------
    order : int, default=1
        Number of previous labels that a label depends on. With 0, each position is labeled
        independently.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns of tables are categorical:

        - ``"from_dtype"``: those with strings or a categorical dtype.
        - A list of column names or indices, or a boolean mask of the columns.
        - None: no columns.
    decoding : {"marginal", "viterbi", "minimum_risk"}, default="marginal"
        How `predict` chooses labels:

        - ``"marginal"``: the most probable label of each position.
        - ``"viterbi"``: the most probable label sequence.
        - ``"minimum_risk"``: the label with the lowest expected cost at each position.
    cost_matrix : array-like of shape (n_classes, n_classes), dict or None, default=None
        Costs of errors for ``decoding="minimum_risk"``. An entry of the matrix is the cost of
        predicting a label (column) when another is true (row), in the order of ``classes_``. A dict
        has the costs of some pairs (true, predicted). All other errors then cost 1. With None, all
        errors cost 1.
    transitions : str, dict, bool array-like or None, default=None
        Which labels may follow each other, in training and in decoding:

        - A string: the rules of a tagging scheme for tags like ``B-X``, ``I-X``, and ``O``.
          Schemes are ``"bio"`` (or ``"iob2"``), ``"iob1"``, ``"ioe2"``, ``"bioes"`` (or
          ``"iobes"``), and ``"bilou"`` (or ``"biluo"``), in any case.
        - A dict: for each label, the list of labels that may follow it; for the key None, the
          labels that may come first. Labels that are no keys may be followed by all labels.
        - A matrix of shape (n_classes, n_classes): a row for each previous label, in the order of
          ``classes_``. An optional last row marks the labels that may come first.
    validation_fraction : float, default=0.1
        Fraction of the training sequences held out for early stopping.
    scoring : str or callable, default="loss"
        Score of the validation sequences (``validation_score_``) for early stopping. Higher is
        better.

        - ``"loss"``: the objective of training.
        - ``"log_likelihood"``: the log-likelihood of the sequences, per position.
        - ``"neg_log_loss"``: the mean logarithm of the marginal probability of the true label.
        - ``"accuracy"``, or another name in `treecrf.metrics.SCORERS`.
        - A scorer of `treecrf.metrics`, or a function of the lists of true and predicted label
          sequences. Labels are predicted as by `predict`.
    n_jobs : int or None, default=None
        Number of threads. None is one thread, and -1 uses all processors. The result does not
        depend on it.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features; 1 for symbols.
    feature_names_in_ : array of shape ``(n_features_in_,)``
        Names of the features, if the sequences are data frames or dicts.
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceClassifier._parameter_constraints,
        "window": [numbers.Integral, tuple, list],
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "random_state": ["random_state"],
    }

    _needed: ClassVar[dict[str, Needs]] = SequenceClassifier._needed | {
        "validation_fraction": Needs("early_stopping", (True,)),
        "n_iter_no_change": Needs("early_stopping", (True, "auto")),
        "scoring": Needs("early_stopping", (True, "auto"), or_validation=True),
        "refit": Needs("early_stopping", (True,), or_validation=True),
    }

    # Attributes that fit sets in addition to those that end with an underscore. The first one
    # holds what training has learned.
    _fitted: ClassVar[tuple[str, ...]]
    # Whether training needs all labels.
    _needs_all_labels = False
    # Whether parts of the data need not be joined for training.
    _takes_parts = False

    # Not every estimator has all of these parameters; where the constructor does not take one of
    # them, this is its value.
    direction: str = "left-to-right"
    transitions: Any = None
    class_weight: Any = None
    early_stopping: bool = False
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def fit(
        self,
        X: TablesLike,
        y: LabelsLike,
        X_val: TablesLike | None = None,
        y_val: LabelsLike | None = None,
        *,
        sample_weight: WeightsLike = None,
        init_score: ScoresLike = None,
        allowed: MasksLike = None,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
        fold_groups: GroupsLike = None,
        sample_weight_val: WeightsLike = None,
        init_score_val: ScoresLike = None,
        lengths_val: LengthsLike = None,
        groups_val: GroupsLike = None,
        eval_set: Sequence[tuple[Any, ...]] | None = None,
        callbacks: Iterable[Callable[..., Any]] | None = None,
        scratch: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit the model to labeled sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            The sequences, in one of three forms (:doc:`/guide/inputs`). NaN, None and masked values
            are missing.

            - A list of sequences, all of the same form: 2-D arrays of shape (n_positions,
              n_features) with booleans, integers, floats or strings; scipy sparse matrices of that
              shape; data frames; lists of dicts or of lists of attributes; strings; or 1-D arrays
              or lists of symbols (strings or integers). Data frames grouped by pandas are such a
              list.
            - A long table, which holds all sequences one after another. It needs ``lengths`` or
              ``groups``.
            - Parquet and CSV files, which are read in pieces: a path, a pattern such as
              ``"data/*.parquet"``, a folder, or a list of paths; or a reader or a dataset of
              pyarrow, or a list of its record batches. They need ``groups``, and the names of
              columns in the other arguments.
        y : list of array-likes of shape (n_positions,), one array-like or str
            Labels of each sequence: strings, integers or booleans. A string stands for its
            characters. For a long table, pass one array-like. For data frames, one string names the
            column of the labels, which is then not used as a feature.

            None, NaN and masked values stand for unknown labels. A set of labels stands for one of
            them (:doc:`/guide/partial_labels`). None in place of the labels of a sequence means
            that all are unknown.
        X_val, y_val : optional
            Validation sequences and their labels, in the same form as X and y. The score of the
            model on them is recorded after each iteration. With ``early_stopping``, they replace
            the held-out part of the training sequences.
        sample_weight : array-like of shape (n_sequences,) or list of array-likes, optional
            Weight of each training sequence, or for each sequence an array of shape (n_positions,)
            with the weights of its positions. A sequence of weight 2 counts as two equal sequences,
            and one of weight 0 is left out. The reported scores are weighted as well.

            For a long table, pass one array with a weight per sequence or per position. For data
            frames, a string names the column with the weights of positions, which is then not used
            as a feature.
        init_score : list of array-likes of shape (n_positions, n_classes), optional
            Scores of the labels at each training position, to which the trees are added. Columns
            are in the order of the sorted labels. Only for `TreeCRF`. For a long table, pass one
            array of all positions.
        allowed : list of bool arrays of shape (n_positions, n_classes) or None, optional
            Labels that are possible at each training position, with columns in the order of the
            sorted labels; or their names, as in `predict`. None in the list means that all labels
            are possible in that sequence. For a long table, pass one array of all positions.

            Probabilities are conditional on the labels being allowed, in training as in `predict`.
            If several labels may be the true one, pass sets in ``y`` instead.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,), str or list of str, optional
            Sequence that each position of a long table belongs to. For data frames, pass the name
            of the column with this information, which is then not used as a feature; or a list of
            the names of several columns or levels of a pandas index. The positions of a sequence
            must be consecutive.
        fold_groups : array-like of shape (n_sequences,) or str, optional
            Group of each training sequence, such as the person it is from. Sequences of a group are
            held out together, so that the model is chosen for new groups. This affects the folds of
            ``early_stopping="auto"`` and the validation sequences of ``early_stopping=True``.

            For a long table, pass one array with a value per sequence or per position. For data
            frames and files, pass the name of a column, which is then not used as a feature unless
            it is one of the columns of ``groups``.
        sample_weight_val, init_score_val, lengths_val, groups_val : optional
            The same for ``X_val`` and ``y_val``. For a data frame or files, the default of
            ``groups_val`` is ``groups`` if that is the name of a column.
        eval_set : list of tuples (X, y) or (X, y, sample_weight), optional
            Further sets of sequences whose scores ``evals_result_`` records. Without ``X_val``, the
            first of them is also the validation set. Only for boosted trees.
        callbacks : list of callables, optional
            Functions that are called after each iteration with a `treecrf.callbacks.IterationInfo`.
            Training stops when one of them returns True.
        scratch : str or path-like, optional
            Folder for temporary files, which hold the data and the scores during training instead
            of memory. They are removed when training ends. Only for `TreeCRF`, `TreeMEMM` and
            `SlidingWindowClassifier`.

        Returns
        -------
        self : object
            The fitted estimator. If fitting fails or is interrupted, it remains unchanged.

        Raises
        ------
        ValueError, TypeError
            If a parameter, a sequence or a label sequence is invalid. The message names it, with
            the index of the sequence and the position.
        MemoryError
            If the scores of all labels in all contexts do not fit in memory.
        OSError
            If a file cannot be read, or the disk has too little space for temporary files.

        See Also
        --------
        predict : Label new sequences.
        treecrf.callbacks : Functions for ``callbacks``.
        treecrf.datasets : Readers of file formats, and datasets.

        Examples
        --------
        Sequences are strings here, and their positions are characters:

        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.n_iter_, crf.classes_.tolist()
        (5, ['c', 'v'])

        A data frame with a row for each position, and columns for the label and the sequence:

        >>> import pandas as pd
        >>> table = pd.DataFrame({
        ...     "word": ["a", "dog", "runs", "it", "runs"],
        ...     "tag": ["D", "N", "V", "P", "V"],
        ...     "text": [1, 1, 1, 2, 2],
        ... })
        >>> crf = crf.fit(table, "tag", groups="text")
        >>> crf.feature_names_in_.tolist()
        ['word']
        >>> crf.predict(table).tolist()
        ['D', 'N', 'V', 'P', 'V']
        """
        self._validate_params()
        refuse_metrics_of_rows(X)
        cuts = segmentation_of(X, lengths, groups)
        raw = RawData(X, y, cuts, sample_weight, init_score, allowed, fold_groups=fold_groups)
        columns = raw.columns
        eval_sets = ()
        validation = validation_data(
            X_val, y_val, sample_weight_val, init_score_val, lengths_val, groups_val, columns.group
        )
        if eval_set is not None:
            eval_sets = read_eval_set(eval_set, columns.group)
        scored = validation or next(iter(eval_sets), None)
        warn_without_effect(self, self._needed, scored is not None)
        arguments = open_arguments(
            raw,
            validation,
            eval_sets,
            as_callbacks(callbacks),
            scratch,
            self.categorical_features,
            self._takes_parts,
        )
        if scored is not None and (raw.init_score is None) != (scored.init_score is None):
            raise ValueError(
                "init_score and init_score_val: one is given without the other; pass both with "
                "X_val, and no eval_set without X_val"
            )
        fitted = self._train(arguments) | {"_columns": columns}
        # A single assignment: an interrupt leaves either the old results or all of the new ones.
        self.__dict__ = vars(self._fitted_copy(fitted))
        return self

    def _fitted_copy(self, fitted: dict) -> SequenceLearner:
        """Return a copy with other fitted attributes."""
        # Results of `fit` without an underscore at the end are among them.
        others = {*self._fitted, *KEPT, "_n_unlabeled"}
        copied = object.__new__(type(self))
        copied.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not (name.endswith("_") or name in others)
        } | fitted
        return copied

    @abstractmethod
    def _train(self, arguments: FitArguments) -> dict:
        """Train and return the fitted attributes; the estimator itself does not change."""

    # Reading the training data

    def _prepare(self, arguments: FitArguments) -> TrainingInput:
        """Read and check everything that training starts from."""
        return read_training(
            reading_rules(self), arguments.training, arguments.validation, arguments.eval_sets
        )

    def _label_rules(self) -> LabelRules:
        """Return what training expects of labels."""
        error = f"{type(self).__name__} needs all labels in training"
        return LabelRules(
            order=self.order,
            transitions=self.transitions,
            cost_matrix=self.cost_matrix,
            unknown_error=error if self._needs_all_labels else None,
            init_score_error=self._init_score_error,
            is_backward=self.direction == "right-to-left",
        )

    @abstractmethod
    def _required_schema(self, earlier: dict) -> InputSchema | None:
        """Return the schema that the training sequences must match, if it is fixed in advance."""

    # Warm start and early stopping

    def _earlier_fit(self) -> dict:
        """Return fitted attributes that a warm start continues from; empty if there are none."""
        if not hasattr(self, self._fitted[0]):
            return {}
        for name, trained in self._fixed_settings().items():
            now = self._window() if name == "window" else getattr(self, name)
            if now != trained:
                raise ValueError(
                    f"warm start: the model has {name}={trained!r}, which cannot change to {now!r}"
                )
        return {name: value for name, value in vars(self).items() if name not in KEPT}

    def _fixed_settings(self) -> dict[str, Any]:
        """Return the parameters that a warm start cannot change, with their fitted values."""
        return {}

    def _window(self) -> tuple[int, int]:
        """Return the number of positions before and after one, in the chain's direction."""
        window = self.window
        sides = (window, window) if isinstance(window, numbers.Integral) else tuple(window)
        if len(sides) != 2 or not all(
            isinstance(w, numbers.Integral) and 0 <= w <= MAX_WINDOW for w in sides
        ):
            raise ValueError(
                f"window={window!r}; expected an integer or a pair (left, right) of integers "
                f"from 0 to {MAX_WINDOW}"
            )
        left, right = map(int, sides)
        return (right, left) if self.direction == "right-to-left" else (left, right)


def reading_rules(learner: SequenceLearner) -> ReadingRules:
    """Return the rules by which the training data of an estimator are read."""
    earlier = learner._earlier_fit() if learner.warm_start else {}
    holds_out = learner.early_stopping not in (False, "auto")
    return ReadingRules(
        name=type(learner).__name__,
        verbose=learner.verbose,
        labels=learner._label_rules(),
        earlier=earlier,
        schema=learner._required_schema(earlier),
        categorical_features=learner.categorical_features,
        random_state=learner.random_state,
        validation_fraction=learner.validation_fraction if holds_out else None,
    )


def names_in(names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    """Return the fitted attribute ``feature_names_in_``, if the features have names."""
    return {} if names is None else {"feature_names_in_": np.array(names, dtype=object)}
