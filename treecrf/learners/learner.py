"""The face that all learners share which are trained step by step: reading, windows, `fit`."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from treecrf.chains.constraints import check_labels
from treecrf.inputs.labels import RawData, encode_labels
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.costs import cost_table
from treecrf.learners.stopping import Stopping
from treecrf.learners.training_data import Labeled
from treecrf.utils.validation import Interval, StrOptions

# Codes of a window are counted for every position.
MAX_WINDOW = 10_000


class SequenceLearner(SequenceClassifier):
    """Base of the sequence classifiers that see windows, and may be watched while they train.

    A subclass says how it is trained (`_train`).
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

    # What fit sets beside the attributes that end with an underscore.
    _fitted: ClassVar[tuple[str, ...]]

    def fit(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        *,
        allowed: Any = None,
        lengths: Any = None,
        groups: Any = None,
        lengths_val: Any = None,
        groups_val: Any = None,
    ) -> SequenceLearner:
        """Train on label sequences.

        Parameters
        ----------
        X : list of sequences, or one long table of all
            A sequence is a 2-D array (n_positions, n_features) of booleans, integers, floats or
            strings, a scipy sparse matrix of that shape, a data frame, a list of dicts, a string,
            or a 1-D array or list of symbols (strings or integers). All sequences have the same
            form. NaN, None and masked values are missing.
        y : list of array-likes of shape (n_positions,), or one of all positions
            The labels of each sequence: strings (a string counts as its characters), integers or
            booleans.
        X_val, y_val : optional
            Held-out sequences and labels, whose likelihood, or what else is maximized, is followed
            in ``validation_score_``.
            With ``early_stopping`` they take the place of a share of the training data.
        allowed : list of bool arrays (n_positions, n_classes) or None, optional
            Which labels are possible at each training position, columns in the order of the sorted
            labels; None for a sequence that is free. For a long table one array of all positions.
        lengths : array-like of shape (n_sequences,), optional
            X is one long table of all sequences, and y one array: the number of positions of each
            sequence.
        groups : array-like of shape (n_positions,) or str, optional
            X is one long table of all sequences, and y one array: what sequence each position
            belongs to, or the column of a data frame that says so, which is no feature then. The
            positions of a group follow each other.
        lengths_val, groups_val : optional
            The same for ``X_val`` and ``y_val``.

        Returns
        -------
        self : object
            The fitted estimator. A fit that fails or is interrupted leaves it as it was.

        Raises
        ------
        ValueError, TypeError
            If a parameter, a sequence or a label sequence is not as described; the message says
            which and where.
        MemoryError
            If the scores of all labels after all contexts cannot be held in memory.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
        >>> crf.n_iter_
        5
        """
        self._validate_params()
        training = RawData(X, y, Segmentation(lengths, groups))
        fitted = self._train(
            training, RawData(X_val, y_val, Segmentation(lengths_val, groups_val)), allowed
        )
        # What an earlier fit has left must not pass for results of this one.
        left = {name for name in vars(self) if name.endswith("_") or name in self._fitted}
        self.__dict__ = {n: v for n, v in vars(self).items() if n not in left} | fitted
        return self

    @abstractmethod
    def _train(self, given: RawData, validation: RawData, allowed: Any) -> dict:
        """The fitted attributes; nothing of the estimator changes."""

    def _labeled(
        self,
        sequences: Sequences,
        labels: list[np.ndarray],
        classes: np.ndarray,
        masks: np.ndarray | None = None,
    ) -> Labeled:
        """Training data in the direction of the chain, if parameters and labels go together."""
        offsets, codes = sequences.offsets, encode_labels(labels, classes)
        cost_table(self.cost_matrix, classes)
        check_labels(self.transitions, self.order, classes, codes, offsets, masks)
        labeled = Labeled(sequences, codes, masks)
        return labeled.reversed() if self._is_backward() else labeled

    def _is_backward(self) -> bool:
        """Whether training begins at the end of the sequences."""
        return False

    def _stopping(self) -> Stopping | None:
        """The rule of early stopping, if it is wanted."""
        return Stopping(self.n_iter_no_change) if self.early_stopping else None

    def _window(self) -> tuple[int, int]:
        window = self.window
        sides = (window, window) if isinstance(window, numbers.Integral) else tuple(window)
        if len(sides) != 2 or not all(
            isinstance(w, numbers.Integral) and 0 <= w <= MAX_WINDOW for w in sides
        ):
            raise ValueError(
                f"window={self.window!r}; expected an integer or a pair (left, right) of integers "
                f"from 0 to {MAX_WINDOW}"
            )
        return int(sides[0]), int(sides[1])
