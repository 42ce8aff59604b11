"""What the functions on fitted models share: checks, the data of the user, and the trees."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.names import (
    Test,
    Thresholds,
    conjunction,
    name_of_label_test,
    name_of_labels,
    name_of_test,
    short_thresholds,
)
from treecrf.inputs.dataset import RawData
from treecrf.inputs.frames import column_of
from treecrf.inputs.labels import encode_labels
from treecrf.inputs.offsets import reversed_positions, split_sequences
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import as_list
from treecrf.learners.base.classifier import SequenceClassifier
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.boosted.chains import ForestChain
from treecrf.learners.linear.base import LinearSequenceClassifier
from treecrf.trees.explain.conjunctions import Condition
from treecrf.trees.forest import LABEL, Forest
from treecrf.utils.messages import warn
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike


def check_model(model: Any, name: str = "model") -> None:
    """Raise NotFittedError or TypeError unless the model is a fitted sequence classifier."""
    if not isinstance(model, SequenceClassifier):
        raise TypeError(
            f"{name} is of type {type(model).__name__}; expected a fitted classifier of treecrf, "
            "such as TreeCRF. Pass the last step of a pipeline with transformed data, "
            "best_estimator_ of a search, or estimator_ of crfsuite.CRF"
        )
    check_is_fitted(model, "classes_")


def has_trees(model: Any) -> bool:
    """Return whether a fitted classifier has boosted trees."""
    is_boosted = isinstance(model, BoostedSequenceClassifier)
    return is_boosted and isinstance(fitted_model(model).chain, ForestChain)


def group_values(X: Any, segmentation: Segmentation) -> list:
    """Return the group of each position of a long table."""
    if segmentation.column is not None:
        return column_of(X, segmentation.column)
    return as_list(segmentation.groups, "groups", "groups")


def code_of(classes: np.ndarray, label: Any) -> int:
    """Return the index of a label; raises ValueError if the model does not have it."""
    labels = classes.tolist()
    if label not in labels:
        raise ValueError(f"label={label!r}; expected one of {', '.join(map(repr, labels))}")
    return labels.index(label)


def quoted_label(classes: np.ndarray, label: Any) -> str:
    """Write a label of the model as Python does, whether it was passed from Python or NumPy."""
    return repr(classes[code_of(classes, label)].item())


def feature_index(feature: Any, names: np.ndarray, argument: str) -> int:
    """Return the index of a feature, given by its name or its index; raises ValueError."""
    if isinstance(feature, str) and feature in names:
        return int(np.flatnonzero(names == feature)[-1])
    is_index = isinstance(feature, numbers.Integral) and not isinstance(feature, bool)
    if is_index and 0 <= feature < len(names):
        return int(feature)
    last = len(names) - 1
    raise ValueError(
        f"{argument}{feature!r}; expected the name of a feature or an index from 0 to {last}"
    )


def integer_between(name: str, value: Any, low: int, high: int, what: str) -> int:
    """Return an argument that is an integer from low to high; raises ValueError."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:
        raise ValueError(f"{name}={value!r}; expected an integer from {low} to {high}{what}")
    return int(value)


def window_of(model: SequenceClassifier) -> tuple[int, int]:
    """Return the window of a model, including a linear start; raises TypeError if it has none."""
    if isinstance(model, LinearSequenceClassifier):
        return tuple(fitted_model(model).chain.attributes.window)
    chain = fitted_model(model).chain
    if not isinstance(chain, ForestChain):
        raise TypeError(
            f"{type(model).__name__} has neither boosted trees nor weights; expected a model such "
            "as TreeCRF or LinearCRF"
        )
    left, right = chain.encoder.window
    if chain.start is not None:
        start_left, start_right = chain.start.attributes.window
        left = max(left, start_left)
        right = max(right, start_right)
    return (right, left) if chain.is_backward else (left, right)


@dataclass(frozen=True)
class CheckedData:
    """The user's sequences, and labels if given, checked against a fitted model."""

    model: SequenceClassifier
    sequences: Sequences  # in the direction of the input
    labels: list[np.ndarray] | None
    segmentation: Segmentation

    @classmethod
    def of(
        cls,
        model: SequenceClassifier,
        X: SequencesLike,
        y: LabelsLike | None,
        lengths: LengthsLike,
        groups: GroupsLike,
        may_be_empty: bool = False,
    ) -> CheckedData:
        """Read the data as the model's ``predict`` or ``score`` does."""
        predictor = fitted_model(model).predictor
        segmentation = predictor.segmentation(X, lengths, groups, may_be_empty)
        if y is None:
            return cls(model, predictor.sequences(X, segmentation), None, segmentation)
        sequences, labels = predictor.read_labeled(RawData(X, y, segmentation).resolved())
        return cls(model, sequences, labels.complete(), segmentation)

    def sequence(self, i: int) -> CheckedData:
        """Return the data of one sequence."""
        labels = None
        if self.labels is not None:
            labels = [self.labels[i]]
        return replace(self, sequences=self.sequences.take(np.array([i])), labels=labels)

    def chain_sequences(self) -> Sequences:
        """Return the sequences in the direction of the chain."""
        is_backward = fitted_model(self.model).chain.is_backward
        if is_backward:
            return self.sequences.reversed()
        return self.sequences

    def chain_codes(self) -> np.ndarray:
        """Return the codes of the labels, which are predicted if not given, in this direction."""
        labels = self.labels
        if labels is None:
            labels = self.model.predict(self.sequences)
        codes = encode_labels(labels, self.model.classes_)
        if fitted_model(self.model).chain.is_backward:
            codes = codes[reversed_positions(self.sequences.offsets)]
        return codes


@dataclass(frozen=True)
class FittedTrees:
    """The trees of a fitted model, and the names of their tests."""

    forest: Forest
    encoder: Encoder
    classes: np.ndarray
    # Whether the chain starts at the end of the sequences.
    backward: bool
    # Short texts of some thresholds; None without.
    shown: Thresholds | None = None

    @classmethod
    def of(cls, model: Any) -> FittedTrees:
        """Take the trees of a model; raises NotFittedError, or TypeError if it has none."""
        check_model(model)
        if not has_trees(model):
            wrapped = getattr(model, "estimator_", None)
            what = type(model).__name__ + (f" around {type(wrapped).__name__}" if wrapped else "")
            others = "permutation_importance and transition_scores support all models"
            if isinstance(model, LinearSequenceClassifier):
                others = (
                    "strongest_weights and plot_weights show the weights of linear models, and "
                    "permutation_importance their importance"
                )
            raise TypeError(
                f"{what} has no boosted trees; expected a model such as TreeCRF or TreeMEMM. "
                f"{others}"
            )
        chain = fitted_model(model).chain
        return cls(chain.forest, chain.encoder, model.classes_, chain.is_backward)

    @property
    def offsets(self) -> np.ndarray:
        """The offsets in the window, from left to right."""
        left, right = self.encoder.window
        if self.backward:
            return np.arange(-right, left + 1)
        return np.arange(-left, right + 1)

    def shortened(self, tests: Iterable[Test]) -> FittedTrees:
        """Describe some tests with few digits, for people who look at them together."""
        return replace(self, shown=short_thresholds(self.encoder, tests))

    def name_of_test(self, column: int, offset: int, value: int) -> str:
        """Describe the test of a node."""
        if column == LABEL:
            return name_of_label_test(self.classes, offset, value, backward=self.backward)
        test = (column, offset, value)
        return name_of_test(self.encoder, *test, backward=self.backward, shown=self.shown)

    def name_of_condition(self, condition: Condition) -> str:
        """Describe the condition under which a leaf is reached."""
        all_labels = (1 << len(self.classes) + 1) - 1
        tests = [
            name_of_labels(self.classes, lag, mask, backward=self.backward)
            for lag, mask in enumerate(condition.labels, 1)
            if mask != all_labels
        ]
        if condition.window or not tests:
            style = {"backward": self.backward, "shown": self.shown}
            tests.append(conjunction(self.encoder, condition.window, **style))
        return " and ".join(tests)


def warn_of_linear_start(model: Any, what: str) -> None:
    """Warn that numbers, such as "gains describe the trees", leave out a linear start."""
    chain = fitted_model(model).chain
    if chain.start is not None:
        warn(
            f"the model adds the trees of {chain.forest.n_iter} iterations to a linear model, "
            f"init_, and {what} without it; permutation_importance, explain and "
            "partial_dependence include it, and strongest_weights(model.init_) lists its weights"
        )


# Sequences with the values of one feature replaced


@dataclass(frozen=True, kw_only=True)
class ReplacedSequences(Sequences):
    """Sequences with replaced values in one column."""

    base: Sequences
    # Index of the column.
    column: int
    # Symbols, or values for the column of the tables of ``base``; array (n_positions,).
    values: np.ndarray

    @classmethod
    def of(cls, base: Sequences, column: int, values: np.ndarray) -> ReplacedSequences:
        """Replace the values of a column."""
        description = {field.name: getattr(base, field.name) for field in fields(Sequences)}
        return cls(**description, base=base, column=column, values=values)

    def rows(self, first: int, last: int) -> Any:
        """Return the rows of sequences first to last - 1."""
        values = self.values[self.offsets[first] : self.offsets[last]]
        if self.form == "symbols":
            return values
        piece = self.base.rows(first, last)
        if sparse.issparse(piece):
            return _with_sparse_column(piece, self.column, values)
        piece = piece.astype(np.result_type(piece, values))
        piece[:, self.column] = values
        return piece

    def _taken(self, indices: np.ndarray) -> dict[str, Any]:
        by_sequence = split_sequences(self.values, self.offsets)
        values = np.concatenate([by_sequence[i] for i in indices])
        return {"base": self.base.take(indices), "values": values}

    def _reversed(self) -> dict[str, Any]:
        values = self.values[reversed_positions(self.offsets)]
        return {"base": self.base.reversed(), "values": values}


def _with_sparse_column(piece: Any, column: int, values: np.ndarray) -> sparse.csr_array:
    entries = piece.tocoo()
    is_other = entries.col != column
    new_rows = np.flatnonzero(values)
    data = np.concatenate([entries.data[is_other], values[new_rows]])
    rows = np.concatenate([entries.row[is_other], new_rows])
    columns = np.concatenate([entries.col[is_other], np.full(len(new_rows), column)])
    return sparse.csr_array((data, (rows, columns)), shape=piece.shape)


def column_values(sequences: Sequences, j: int) -> np.ndarray:
    """Return the values of a column at all positions."""
    columns = []
    for _, _, piece in sequences.pieces():
        column = piece if piece.ndim == 1 else piece[:, [j]]
        if sparse.issparse(column):
            column = column.toarray()
        columns.append(column.ravel())
    return np.concatenate(columns)


def category_counts(
    sequences: Sequences, j: int, categories: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the categories of the training data that occur in a column, and how often."""
    distinct, counts = np.unique(column_values(sequences, j), return_counts=True)
    if sequences.form != "symbols":
        # Categories are counted from 1; 0 stands for unknown ones.
        known = distinct > 0
        counts = counts[known]
        distinct = categories[distinct[known].astype(np.intp) - 1]
    in_training = np.isin(distinct, categories)
    return distinct[in_training], counts[in_training]
