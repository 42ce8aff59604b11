"""Base class of the linear sequence classifiers: attributes, weights, scores and saved state."""

from __future__ import annotations

import copy
import numbers
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.constraints import Constraints
from treecrf.chains.contexts import check_order
from treecrf.chains.transitions import as_transitions
from treecrf.encoding.imputation import FILLED
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.learners.base.callbacks import Callback
from treecrf.learners.base.history import Stopping
from treecrf.learners.base.learner import SequenceLearner, names_in
from treecrf.learners.base.opening import FitArguments
from treecrf.learners.base.training_data import (
    LabeledSequences,
    TrainingInput,
    count_labels,
    label_weights,
    multiplied_weights,
)
from treecrf.learners.linear.attributes import Attributes, WindowAttributes
from treecrf.learners.linear.chain import LinearChain
from treecrf.learners.linear.matrix import AttributeMatrix
from treecrf.learners.linear.model import LinearModel, WeightLayout, Weights, are_weights
from treecrf.learners.linear.saved import ORDER, linear_chain, restored_model
from treecrf.learners.linear.scores import TrainingData
from treecrf.learners.linear.training_run import TrainingRun
from treecrf.utils import model_file
from treecrf.utils.messages import Progress
from treecrf.utils.threads import Threads
from treecrf.utils.validation import HasMethods, Interval, Needs, StrOptions


class LinearSequenceClassifier(SequenceLearner):
    """Base of the sequence classifiers whose scores are weighted sums of attributes.

    The score of label v after label u is a sum over the attributes in the window plus the weight of
    the pair (u, v). Each attribute contributes its value times its weight for v or, with
    ``transition_features``, times the sum of its weights for v and for the pair. At first positions
    there are no pairs, and v has a separate weight instead.

    Subclasses implement `_learn`, which finds the weights.
    """

    _parameter_constraints: ClassVar[dict] = {
        **{n: c for n, c in SequenceLearner._parameter_constraints.items() if n != "order"},
        "attributes": [HasMethods(["fit"]), None],
        "transition_features": ["boolean"],
        "min_count": [Interval(numbers.Integral, 1, None, closed="left")],
        "missing": [StrOptions(set(FILLED))],
        "standardize": ["boolean"],
    }

    _needed: ClassVar[dict[str, Needs]] = SequenceLearner._needed | dict.fromkeys(
        ("min_count", "missing", "standardize", "categorical_features"),
        Needs("attributes", (None,)),
    )

    order = ORDER
    _needs_all_labels = True

    _fitted: ClassVar[tuple[str, ...]] = ("_weights", "_attributes")
    # The weights, and what `state_features_` and `transition_features_` made of them.
    _kept_features: tuple[Weights, Mapping, Mapping] | None = None
    # Whether trees start from its scores: weights need not converge, and the penalty grows.
    _is_start = False

    # Results of training that saved models store: numbers and arrays of numbers.
    _results: ClassVar[tuple[str, ...]] = ("n_iter_",)

    @abstractmethod
    def _learn(
        self, data: TrainingData, held_out: TrainingData | None, start: Weights, run: TrainingRun
    ) -> tuple[Weights, dict]:
        """Find the weights; return them and the fitted attributes, which include `_results`.

        ``start`` holds the weights of the previous fit with ``warm_start``, the weights that the
        source of attributes provides, or zeros. They may be changed in place.
        """

    # Training

    def _train(self, arguments: FitArguments) -> dict:
        if arguments.eval_sets:
            raise ValueError(
                f"eval_set: {type(self).__name__} scores one set of validation sequences; pass it "
                "as X_val and y_val"
            )
        # Nothing else holds the sequences, which training drops.
        return self._trained(self._prepare(arguments), arguments.callbacks)

    def _trained(
        self,
        prepared: TrainingInput,
        callbacks: tuple[Callback, ...] = (),
        column_order: np.ndarray | None = None,  # of the attributes of a window
    ) -> dict:
        """Train and return the fitted attributes."""
        classes = prepared.classes
        check_order(len(classes), self.order, "give fewer labels")
        earlier = prepared.earlier
        if earlier:
            attributes = _widened(earlier["_attributes"], prepared.training.sequences)
        else:
            attributes = copy.copy(self._source()).fit(prepared.training.sequences)
            if column_order is not None:
                attributes = attributes.ordered(column_order)
        n_unlabeled = prepared.n_unlabeled
        name = type(self).__name__

        def fitted(weights: Weights, results: dict) -> dict:
            if not are_weights(weights.vector):
                raise ValueError("the weights are not finite; standardize the features")
            schema = attributes.schema
            return names_in(schema.names) | results | {
                "classes_": classes,
                "n_features_in_": schema.n_features,
                "_n_unlabeled": n_unlabeled,
                "_attributes": attributes,
                "_weights": weights,
            }  # fmt: skip

        with (
            Threads(self.n_jobs) as threads,
            Progress(self.verbose, 0, self.max_iter, name) as progress,
        ):
            data = self._training_data(attributes, prepared.training, classes, threads)
            held_out = None
            if prepared.held_out is not None:
                held_out = self._training_data(attributes, prepared.held_out, classes, threads)
            run = TrainingRun(
                estimator=name,
                max_iter=self.max_iter,
                rng=np.random.default_rng(prepared.seed),
                callbacks=callbacks,
                stopping=Stopping(self.n_iter_no_change) if self.early_stopping else None,
                progress=progress,
                model=lambda weights, results: self._fitted_copy(fitted(weights, results)),
            )
            del prepared  # The sequences need as much memory as their attributes.
            start = starting_weights(data, attributes, earlier)
            weights, results = self._learn(data, held_out, start, run)
            return fitted(weights, results)

    def _source(self) -> Attributes:
        """Return the source of attributes, not fitted."""
        window = self._window()
        if self.attributes is None:
            return WindowAttributes(window, self.missing, self.min_count, self.standardize)
        if any(window):
            raise ValueError(
                f"window={self.window!r} has no effect with attributes, which define the "
                "window; expected 0"
            )
        source = self.attributes
        return source._as_attributes() if hasattr(source, "_as_attributes") else source

    def _required_schema(self, earlier: dict) -> InputSchema | None:
        attributes = earlier["_attributes"] if earlier else self._source()
        return attributes.schema

    def _fixed_settings(self) -> dict[str, Any]:
        attributes = self._attributes
        kind = self._source().kind
        if kind != attributes.kind:
            raise ValueError(
                f"warm start: the model has attributes of kind {attributes.kind!r}, which cannot "
                f"change to {kind!r}"
            )
        settings = {"transition_features": self._weights.layout.transition_features}
        if not isinstance(attributes, WindowAttributes):
            return settings
        names = ("missing", "min_count", "standardize")
        settings |= {name: getattr(attributes, name) for name in names}
        return settings | {"window": attributes.max_window}

    def _training_data(
        self, attributes: Attributes, data: LabeledSequences, classes: np.ndarray, threads: Threads
    ) -> TrainingData:
        table = AttributeMatrix.of(attributes, data.sequences)
        class_weights = np.ones(len(classes))
        if self.class_weight is not None:
            counts = count_labels(data, len(classes))
            class_weights = label_weights(self.class_weight, classes, counts)
        position_weights = multiplied_weights(class_weights, data)
        sums = np.add.reduceat(position_weights, table.offsets[:-1])
        rules = as_transitions(self.transitions, classes, self.order)
        return TrainingData(
            table=table,
            layout=WeightLayout(
                table.n_attributes, table.n_offsets, len(classes), self.transition_features
            ),
            threads=threads,
            codes=data.codes,
            classes=classes,
            constraints=Constraints.of(rules, classes, table.offsets, data.allowed),
            weights=sums / np.diff(table.offsets),
            sample_weights=data.weights,
            candidates=data.candidates,
        )

    def _chain(self) -> LinearChain:
        return linear_chain(linear_model(self), self.classes_, self.transitions)

    # Inspection

    def get_attribute_names(self) -> np.ndarray:
        """Return the names of the attributes, in the order of ``state_weights_``.

        Returns
        -------
        array of str of shape ``(n_attributes,)``
            Names of these forms:

            - ``aa[-2] is 'P'``: a category two positions before the labeled one.
            - ``heat[0]``: a number at the labeled position.
            - ``outside[-2]``: whether the position two before the labeled one is outside of the
              sequence.

            If the window is a single position, names have no brackets.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.

        See Also
        --------
        get_feature_names_out : Names of the features of the input, without offsets and values.

        Examples
        --------
        >>> from treecrf import LinearCRF
        >>> crf = LinearCRF(window=(1, 0)).fit(["abab", "ba"], ["xyxy", "yx"])
        >>> names = crf.get_attribute_names()
        >>> names.tolist()[2:]
        ["symbol[-1] is 'b'", "symbol[0] is 'b'", 'outside[-1]']

        The attributes with their weights of "x" and "y":

        >>> for name, weights in zip(names[:2], crf.state_weights_):
        ...     print(name, weights.round(1))
        symbol[-1] is 'a' [-0.2  0.2]
        symbol[0] is 'a' [ 0.3 -0.3]
        """
        check_is_fitted(self, "classes_")
        left, right = self._attributes.window
        offsets = range(-left, right + 1)
        names_at_offsets = [self._attributes.names_at(offset) for offset in offsets]
        names = [name for at_offsets in zip(*names_at_offsets, strict=True) for name in at_offsets]
        names += [f"outside[{offset:+d}]" for offset in offsets if offset]
        return np.array(names, dtype=object)

    @property
    def state_weights_(self) -> np.ndarray:
        """Weights of the labels, one row per attribute."""
        return self._by_name(self._weights.labels)

    @property
    def transition_feature_weights_(self) -> np.ndarray:
        """Weights of the pairs (previous label, label), for each attribute."""
        return self._by_name(self._weights.pairs)

    @property
    def transition_weights_(self) -> np.ndarray:
        """Weights of the pairs (previous label, label), independent of the attributes."""
        return self._weights.transitions[:-1].copy()

    @property
    def start_weights_(self) -> np.ndarray:
        """Weights of the labels at first positions, independent of the attributes."""
        return self._weights.transitions[-1].copy()

    @property
    def state_features_(self) -> Mapping[tuple[str, Any], float]:
        """Weights of the labels other than 0, by attribute and label, as in sklearn-crfsuite."""
        return self._features()[0]

    @property
    def transition_features_(self) -> Mapping[tuple[Any, Any], float]:
        """Weights of labels after labels other than 0, as in sklearn-crfsuite."""
        return self._features()[1]

    def _features(self) -> tuple[Mapping, Mapping]:
        """Return the weights by name, which are made once and cannot be changed."""
        kept = self._kept_features
        if kept is None or kept[0] is not self._weights:
            check_is_fitted(self, "classes_")
            names = self.get_attribute_names().tolist()
            labels = self.classes_.tolist()
            state = _by_names(self.state_weights_, list(map(str, names)), labels)
            transitions = _by_names(self.transition_weights_, labels, labels)
            kept = self._weights, MappingProxyType(state), MappingProxyType(transitions)
            self._kept_features = kept
        return kept[1:]

    def _by_name(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights by attribute and offset, in the order of the names."""
        n_attributes, n_offsets, *block = weights.shape
        rows = weights[:, ::-1].reshape(n_attributes * n_offsets, *block)
        if n_offsets == 1:
            return rows.copy()
        # A position is never outside its own sequence.
        return np.delete(rows, len(rows) - n_offsets + self._attributes.window[0], axis=0)

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        source, arrays = self._attributes.state()
        results = {name: getattr(self, name) for name in self._results}
        values = {
            "order": self.order,
            "attributes": {"kind": self._attributes.kind, **source},
            "transition_features": self._weights.layout.transition_features,
            "results": {n: v for n, v in results.items() if not isinstance(v, np.ndarray)},
        }
        arrays = model_file.as_section(arrays, "attributes")
        series = {n: v for n, v in results.items() if isinstance(v, np.ndarray)}
        arrays |= model_file.as_section(series, "results") | {"weights": self._weights.vector}
        return values, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> LinearSequenceClassifier:
        self._validate_params()
        self.classes_ = arrays["classes"]
        model = restored_model(values, arrays, self.classes_)
        attributes = model.attributes
        self._attributes = attributes
        self._weights = model.weights
        results = ChainMap(values["results"], model_file.Section(arrays, "results"))
        for name in self._results:
            value = results[name]
            model_file.check_result(value)
            setattr(self, name, value)
        self.n_features_in_ = attributes.schema.n_features
        vars(self).update(names_in(attributes.schema.names))
        if isinstance(attributes, WindowAttributes):
            # Files of earlier versions lack the parameter.
            self.standardize = attributes.standardize
        else:
            self.attributes = attributes
        return self


def _by_names(weights: np.ndarray, rows: list, columns: list) -> dict[tuple[Any, Any], float]:
    """Return the weights other than 0 by the names of their rows and columns."""
    i, j = np.nonzero(weights)
    values = weights[i, j].tolist()
    names = zip(
        map(rows.__getitem__, i.tolist()), map(columns.__getitem__, j.tolist()), strict=True
    )
    return dict(zip(names, values, strict=True))


def _widened(attributes: Attributes, sequences: Sequences) -> Attributes:
    """Return the attributes of an earlier fit, with a window that also suits longer sequences."""
    if isinstance(attributes, WindowAttributes):
        return attributes.widened(sequences.longest)
    return attributes


def starting_weights(data: TrainingData, attributes: Attributes, earlier: dict) -> Weights:
    """Return the weights of an earlier fit, of the source of attributes, or zeros."""
    if earlier:
        n_left, n_right = np.subtract(attributes.window, earlier["_attributes"].window)
        return earlier["_weights"].widened(n_left, n_right)
    start = data.layout.weights()
    blocks = attributes.starting_weights(data.classes)
    if blocks is not None:
        start.set_blocks(blocks)
    return start


def linear_model(estimator: LinearSequenceClassifier) -> LinearModel:
    """Return what a linear estimator has learned."""
    return LinearModel(estimator._attributes, estimator._weights)


def with_model(estimator: LinearSequenceClassifier, model: LinearModel) -> LinearSequenceClassifier:
    """Return a copy of a fitted linear estimator that has learned something else."""
    copied = copy.copy(estimator)
    copied._attributes = model.attributes
    copied._weights = model.weights
    return copied
