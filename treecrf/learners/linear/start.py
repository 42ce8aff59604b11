"""Linear models as the start of boosting."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.constraints import as_transitions, check_labels
from treecrf.chains.partial_labels import completed
from treecrf.encoding.layout import rows_of_positions, widest
from treecrf.inputs.sequences import Sequences
from treecrf.learners.linear.attributes import WindowAttributes
from treecrf.learners.linear.standardization import Standardization
from treecrf.learners.linear.weights import Weights
from treecrf.learners.training_data import LabeledSequences, TrainingInput, hold_out
from treecrf.utils.exact import rounded_leaves
from treecrf.utils.threads import Threads


class LinearStartMixin:
    """Mixin of `LinearCRF`: the methods that `treecrf.learners.boosted.start` calls."""

    def _fitted_to(self, data: TrainingInput, n_jobs: int | None) -> LinearStartMixin:
        """Return a copy that is fitted to data which another estimator has read."""
        copied = clone(self)
        copied._is_start = self._is_start
        copied._validate_params()
        training, held_out, seed = data.training, None, data.seed
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        training = self._checked(training, data.classes)
        if self.solver == "lbfgs":  # It sums over the sequences in their order.
            training = training.take(np.argsort(training.hashes(0)))
        if self.early_stopping:
            training, held_out = hold_out(training, self.validation_fraction, seed)
        copied.n_jobs = n_jobs if self.n_jobs is None else self.n_jobs
        fitted = copied._trained(TrainingInput(data.classes, training, held_out, seed, {}))
        copied.n_jobs = self.n_jobs
        vars(copied).update(fitted)
        return copied

    def _checked(self, data: LabeledSequences, classes: np.ndarray) -> LabeledSequences:
        """Check the labels against the parameter ``transitions``."""
        offsets = data.sequences.offsets
        if data.candidates is None:
            check_labels(self.transitions, self.order, classes, data.codes, offsets)
            return data
        rules = as_transitions(self.transitions, classes, self.order)
        codes, candidates = completed(data.candidates, data.allowed, rules, classes, offsets)
        return replace(data, codes=codes, candidates=candidates)

    def _rounded(self, share: float = 1.0) -> LinearStartMixin:
        """Return a copy with this share of the weights, rounded to multiples of ``LEAF_UNIT``."""
        check_is_fitted(self, "classes_")
        copied = copy.copy(self)
        weights = self._weights
        copied._weights = Weights(weights.layout, rounded_leaves(share * weights.vector))
        return copied

    def _mean_with(self, others: list[LinearStartMixin]) -> LinearStartMixin:
        """Return a copy with the mean weights of this and other models, rounded."""
        models = _equally_wide([self, *others])
        names, scales = models[0].get_attribute_names(), _scales_of(self)
        for other in models[1:]:
            if not np.array_equal(other.get_attribute_names(), names):
                raise ValueError("init_: the linear models have different attributes")
            if not _are_equal(_scales_of(other), scales):
                raise ValueError("init_: the linear models standardize numbers differently")
        vectors = [model._weights.vector for model in models]
        copied = copy.copy(models[0])
        copied._weights = Weights(copied._weights.layout, sum(vectors) / len(vectors))
        return copied._rounded()

    def _score_parts(self, sequences: Sequences, threads: Threads) -> tuple[np.ndarray, np.ndarray]:
        """Compute scores of labels, (n_labels, n_positions), and of labels after labels.

        The latter have shape (n_labels + 1, n_labels), with a last row for first positions. Scores
        of labels are rounded to multiples of ``LEAF_UNIT``.
        """
        linear, weights = self._linear_scores(sequences, threads), self._weights
        table, state = linear.table, np.empty((weights.layout.n_labels, sequences.n_positions))

        def fill(part: tuple[int, int]) -> None:
            positions = slice(*table.offsets[list(part)])
            rows = linear.part_rows(weights, *part)
            of_positions = rows_of_positions(*table.within(*part))
            state[:, positions] = rounded_leaves(rows[of_positions]).T

        threads.map(fill, table.parts)
        return state, weights.transitions.copy()


def _equally_wide(models: list[LinearStartMixin]) -> list[LinearStartMixin]:
    """Return copies of models with one window, if theirs are cut to different sequences."""
    sources = [model._attributes for model in models]
    if not all(isinstance(source, WindowAttributes) for source in sources):
        return models
    if len({source.max_window for source in sources}) > 1:
        return models
    window, copies = widest(*(source.window for source in sources)), [*map(copy.copy, models)]
    for model, source in zip(copies, sources, strict=True):
        model._attributes = source.with_window(window)
        model._weights = model._weights.widened(*np.subtract(window, source.window))
    return copies


def _are_equal(one: Standardization | None, other: Standardization | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _scales_of(model: LinearStartMixin) -> Standardization | None:
    return getattr(model._attributes, "standardization", None)
