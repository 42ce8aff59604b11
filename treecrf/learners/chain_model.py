"""Fitted models of label sequences: how they read sequences, predict from scores, and are saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.constraints import Constraints, as_allowed, as_transitions, check_labels
from treecrf.chains.lattice import Lattice
from treecrf.chains.partial_labels import completed, label_paths
from treecrf.inputs.data_warnings import warn_of_names, warn_of_unknown
from treecrf.inputs.dataset import NO_NAMES, ColumnNames, RawData, as_init_scores, as_sequences
from treecrf.inputs.frames import index_levels, segmentation_of, without_columns
from treecrf.inputs.labels import Labels, as_labels
from treecrf.inputs.offsets import Segmentation, reversed_positions, runs, split_sequences
from treecrf.inputs.schema import InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import column_names, is_frame
from treecrf.learners.parameters import cost_table
from treecrf.utils import checks, model_file
from treecrf.utils.threads import Threads

# Lattices with larger scores are computed run by run, with scores of about the second size.
MAX_BYTES, RUN_BYTES = 1 << 26, 3 << 23
# Minimum number of positions of a run for a thread, and runs for each. Each run takes a millisecond
# longer than its positions.
MIN_RUN, RUNS_PER_THREAD = 1 << 11, 2
# Maximum number of positions for which reading takes longer than the work on their values.
MAX_SHORT = 64


def of_each(sequences: Sequences, compute: Callable[[Sequences], Any], empty: Any) -> Any:
    """Return the results of ``compute``, one for each sequence, and ``empty`` for empty sequences.

    Chains and encoders have no empty sequences.
    """
    present = sequences.offsets[1:] > sequences.offsets[:-1]
    if np.count_nonzero(present) == len(present) > 0:  # faster than `all`
        return compute(sequences)
    found = iter(compute(sequences.without_empty()) if present.any() else ())
    return [next(found) if here else empty for here in present.tolist()]


def _is_one_group(X: Any, name: Any) -> bool:
    """Return whether X is a short data frame with one group in the column of this name."""
    if not isinstance(name, str) or len(X) > MAX_SHORT or name not in column_names(X):
        return False
    if not hasattr(X[name], "to_list"):
        return False
    groups = X[name].to_list()
    return groups.count(groups[0]) == len(groups) if groups else False


def runs_for_threads(offsets: np.ndarray, n_bytes: int, threads: Threads) -> list[tuple[int, int]]:
    """Group sequences into runs, the first one and the one after the last of each.

    ``n_bytes`` is the memory of a position; if it is 0, all sequences are one run.
    """
    size = int(offsets[-1])
    if size * n_bytes > MAX_BYTES:
        size = RUN_BYTES // n_bytes
    if threads.n_threads > 1 and n_bytes:
        size = min(size, max(MIN_RUN, int(offsets[-1]) // (RUNS_PER_THREAD * threads.n_threads)))
    return list(runs(offsets, max(1, size)))


class ChainModel(BaseEstimator):
    """Base of the models that score labels at each position in contexts of previous labels.

    Subclasses compute the scores (`_scores_of`). All predictions follow from them.
    """

    # Names of the columns of the labels and the groups in training, set by `fit`.
    _columns = NO_NAMES
    # The number of training positions without a label, set by `fit`.
    _n_unlabeled = 0
    # The objective that training maximized; see `treecrf.chains.objectives`.
    _trained_objective = "log"
    # The model in the form for short sequences, which the first of them makes; None if it has none.
    _compiled: Any = False

    # To be implemented by subclasses

    @property
    @abstractmethod
    def _schema(self) -> InputSchema:
        """Form and features of the training sequences, which all other sequences must have."""

    @property
    @abstractmethod
    def _trained_order(self) -> int:
        """Number of previous labels in a context."""

    @property
    def _trained_backward(self) -> bool:
        """Whether the chain starts at the end of each sequence."""
        return False

    @abstractmethod
    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""

    def _reach(self) -> tuple[int, int]:
        """Return the number of positions to the left and to the right that scores depend on."""
        return 0, 0

    def _scores_at(self, sequences: Sequences, position: int, threads: Threads) -> np.ndarray:
        """Compute the scores of one position, float64 array (n_labels, n_contexts)."""
        return self._scores_of(sequences, threads)[:, position]

    def _normalized(self, scores: np.ndarray, threads: Threads) -> np.ndarray:
        """Return scores under constraints in the form that chains sum; may change them in place."""
        return scores

    # Short sequences

    def _compile(self) -> Any:
        """Return the model as a `treecrf.learners.linear._compiled.CompiledModel`, if possible."""
        return None

    def _compiled_form(self) -> Any:
        """Return what `_compile` returned when it was first needed."""
        if self._compiled is False:
            self._compiled = self._compile()
        return self._compiled

    def _quick_results(self, X: Any, results_of: Callable[[Lattice], list], *options: Any) -> Any:
        """Return the results of a few short sequences, or of one in a data frame.

        None if they have to be read like all others, or options of prediction are given.
        """
        if not all(option is None for option in options) or not hasattr(self, "classes_"):
            return None
        is_list = type(X) is list
        if not (len(X) <= MAX_SHORT if is_list else _is_one_group(X, self._group_column(X))):
            return None
        lattice = self._quick_lattice(X if is_list else [X])
        if lattice is None:
            return None
        results = results_of(lattice)
        return results if is_list else results[0]

    def _quick_lattice(self, X: list) -> Lattice | None:
        """Make a lattice of a few short sequences; None if they have to be read like all others."""
        compiled = self._compiled_form()
        found = None if compiled is None else compiled.scores(X)
        if found is None:
            return None
        return self._constrained(*found, self._constraints(found[1]), Threads(1))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what the first prediction makes."""
        state = super().__getstate__()
        state.pop("_compiled", None)
        return state

    # Reading

    def _sequences(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data, and warn of what is probably not meant."""
        sequences = self._as_sequences(X, segmentation)
        if not isinstance(X, Sequences) and sequences.n_positions:
            schema = self._schema
            warn_of_names(sequences.names, schema.names, type(self).__name__)
            warn_of_unknown(sequences, schema, X, segmentation.is_long)
        return sequences

    def _as_sequences(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Check sequences against the training data."""
        if not hasattr(self, "classes_"):  # the function takes longer, even if it need not raise
            check_is_fitted(self, "classes_")
        schema = self._schema
        # Tables often keep the columns of the labels and the groups.
        left_out = self._columns.names - segmentation.group_columns
        if left_out and schema.names is not None:
            X = without_columns(X, left_out.difference(schema.names))
        return as_sequences(X, schema, segmentation)

    def _segmentation(
        self, X: Any, lengths: Any, groups: Any, may_be_empty: bool = False
    ) -> Segmentation:
        """Return the sequences of X, by default from the column of groups in training."""
        if lengths is None and groups is None:
            groups = self._group_column(X)
        return segmentation_of(X, lengths, groups, may_be_empty)

    def _group_column(self, X: Any) -> str | tuple[str, ...] | None:
        """Return the names of the groups in training, if X is one data frame with all of them."""
        groups = self._columns.group
        if groups is None or not is_frame(X):
            return None
        names = {groups} if isinstance(groups, str) else set(groups)
        return groups if names <= {*column_names(X), *index_levels(X)} else None

    def _read_labeled(self, raw: RawData) -> tuple[Sequences, Labels]:
        """Check sequences and their labels, in the direction of the input."""
        raw = raw.resolved()
        sequences = self._sequences(raw.X, raw.segmentation)
        sequences = self._with_init_score(
            sequences, raw.init_score, len(self.classes_), raw.segmentation
        )
        return sequences, as_labels(raw.y, sequences.offsets, raw.segmentation)

    def _read(
        self,
        X: Any,
        allowed: Any = None,
        known: Any = None,
        segmentation: Segmentation | None = None,
        init_score: Any = None,
    ) -> tuple[Sequences, np.ndarray | None]:
        """Check sequences and masks of possible labels; return them in the chain's direction."""
        segmentation = segmentation or Segmentation()
        sequences = self._sequences(X, segmentation)
        sequences = self._with_init_score(sequences, init_score, len(self.classes_), segmentation)
        masks = as_allowed(allowed, known, self.classes_, sequences.offsets, segmentation)
        if self._trained_backward:
            sequences = sequences.reversed()
            masks = None if masks is None else masks[reversed_positions(sequences.offsets)]
        return sequences, masks

    def _with_init_score(
        self, sequences: Sequences, init_score: Any, n_labels: int, segmentation: Segmentation
    ) -> Sequences:
        """Add initial scores, if any, to the sequences."""
        if init_score is None:
            return sequences
        self._check_init_score()
        scores = as_init_scores(init_score, n_labels, sequences.offsets, segmentation)
        return replace(sequences, init_scores=scores)

    def _check_init_score(self) -> None:
        """Raise ValueError unless the model can be added to given scores."""
        raise ValueError(f"init_score: {type(self).__name__} does not support it; TreeCRF does")

    def _as_read(self, items: list[np.ndarray]) -> list[np.ndarray]:
        """Convert results per sequence from the chain's direction to the direction of the input."""
        return [item[::-1] for item in items] if self._trained_backward else items

    # Predictions

    def _labels(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        """Predict the labels of checked sequences, as chosen by ``decoding``."""
        return self._in_runs(sequences, masks, self._labels_in)

    def _labels_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the labels that ``decoding`` chooses."""
        codes = self._best_codes(lattice, masks)
        return self._as_read(split_sequences(self.classes_[codes], lattice.offsets))

    def _best_codes(self, lattice: Lattice, masks: np.ndarray | None = None) -> np.ndarray:
        """Return the codes of the labels that ``decoding`` chooses; only those in the masks."""
        if self.decoding == "viterbi":
            return lattice.best_codes()
        marginals = lattice.marginals()
        if self.decoding != "minimum_risk":
            return marginals.argmax(axis=1)
        costs = cost_table(self.cost_matrix, self.classes_)
        risks = np.concatenate([p @ costs for p in split_sequences(marginals, lattice.offsets)])
        if masks is not None:
            # A label that is not allowed may have the least expected cost.
            risks[~masks] = np.inf
        return risks.argmin(axis=1)

    def _proba_in(self, lattice: Lattice, masks: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the marginal probabilities of each sequence."""
        return self._as_read(split_sequences(lattice.marginals(), lattice.offsets))

    def _pairwise(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        """Predict the joint probabilities of neighboring labels of checked sequences."""
        pairs = self._in_runs(
            sequences,
            masks,
            lambda lattice, _: split_sequences(lattice.pairwise(), lattice.offsets),
        )
        # The first position of a chain has no label before it.
        pairs = self._as_read([table[1:] for table in pairs])
        return [table.transpose(0, 2, 1) for table in pairs] if self._trained_backward else pairs

    def _decoded(
        self, sequences: Sequences, masks: np.ndarray | None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Find the most probable label sequences of checked sequences, and log-probabilities."""

        def best_in(lattice: Lattice, _: Any) -> list[tuple[np.ndarray, float]]:
            codes, values = lattice.best()
            labels = self._as_read(split_sequences(self.classes_[codes], lattice.offsets))
            return list(zip(labels, values, strict=True))

        labels, log_probabilities = zip(*self._in_runs(sequences, masks, best_in), strict=True)
        return list(labels), np.array(log_probabilities)

    def _in_runs(
        self,
        sequences: Sequences,
        masks: np.ndarray | None,
        results_of: Callable[[Lattice, np.ndarray | None], list],
    ) -> list:
        """Return the results of all sequences, from lattices of runs of them.

        Threads share the runs. The scores of a run take memory that the next run uses again: the
        system takes longer to find new memory than trees take to fill it.
        """
        offsets = sequences.offsets
        with Threads(self.n_jobs) as threads:
            parts = runs_for_threads(offsets, 8 * self._n_scores(), threads)
            if len(parts) == 1:
                return results_of(self._lattice(sequences, masks, threads), masks)

            def results_of_run(run: tuple[int, int]) -> list:
                part = sequences.take(np.arange(*run))
                here = None if masks is None else masks[offsets[run[0]] : offsets[run[1]]]
                return results_of(self._lattice(part, here, Threads(1)), here)

            return list(chain.from_iterable(threads.map(results_of_run, parts)))

    def _n_scores(self) -> int:
        """Return the number of scores of a position in a lattice; 0 if it is never cut."""
        return len(self.classes_) ** (self._trained_order + 1)

    # Lattices

    def _lattice(self, sequences: Sequences, masks: np.ndarray | None, threads: Threads) -> Lattice:
        return self._lattice_of(sequences, self._constraints(sequences.offsets, masks), threads)

    def _lattice_of(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of the scores of checked sequences under constraints."""
        scores = self._scores_of(sequences, threads)
        return self._constrained(scores, sequences.offsets, constraints, threads)

    def _constraints(self, offsets: np.ndarray, masks: np.ndarray | None = None) -> Constraints:
        """Make constraints from the parameter ``transitions`` and from masks, if any."""
        return Constraints.of_parameters(
            self.transitions,
            self._trained_order,
            self.classes_,
            offsets,
            masks,
            self._trained_backward,
        )

    def _constrained(
        self, scores: np.ndarray, offsets: np.ndarray, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Make a lattice of scores under constraints; the scores change in place."""
        constraints.forbid(scores, offsets)
        return Lattice(scores, offsets, self._trained_order, threads)

    def _log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute log-probabilities of label sequences, with all data in the chain's direction."""
        constraints = self._constraints(sequences.offsets)
        return self._lattice_of(sequences, constraints, threads).log_likelihoods(codes)

    def _summed_log_likelihoods(
        self, sequences: Sequences, candidates: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Compute logarithms of the probability that all labels are among the candidates."""
        offsets = sequences.offsets
        rules = as_transitions(self.transitions, self.classes_, self._trained_order)
        if rules is not None and self._trained_backward:
            rules = rules.reversed()
        codes, found = label_paths(candidates, rules, offsets)
        # Without a path, nothing is excluded, so that there is a lattice.
        masks = candidates | ~np.repeat(found, np.diff(offsets))[:, None]
        every, some = (
            self._lattice(sequences, allowed, threads).log_likelihoods(codes)
            for allowed in (None, masks)
        )
        return np.subtract(every, some, where=found, out=np.full(len(found), -np.inf))

    # Labels of training

    def _checked_codes(
        self,
        labels: Labels,
        classes: np.ndarray,
        offsets: np.ndarray,
        masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Encode training labels, and check them against the parameters and the masks.

        Return ``codes``, where unknown labels are completed to a possible sequence, and
        ``candidates``.
        """
        codes, candidates = labels.encoded(classes)
        cost_table(self.cost_matrix, classes)
        if candidates is None:
            check_labels(self.transitions, self.order, classes, codes, offsets, masks)
            return codes, None
        self._check_unknown(labels)
        rules = as_transitions(self.transitions, classes, self.order)
        return completed(candidates, masks, rules, classes, offsets)

    def _check_unknown(self, labels: Labels) -> None:
        """Raise ValueError if some labels are unknown, and training needs all of them."""
        labels.refuse_unknown(f"{type(self).__name__} needs all labels in training")

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted model to a file, to be loaded with `treecrf.load`.

        The file contains only numbers and text, with a format version and a checksum. Loading it
        does not execute any code. For the command line, it also contains the names of the columns
        with the labels and the groups, if they had names in `fit`.

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
        kind = type(self)
        if not kind.__module__.startswith("treecrf."):
            raise TypeError(
                f"the model is a {kind.__module__}.{kind.__name__}; expected a class of treecrf, "
                "because load supports no other; pickle does"
            )
        values, arrays = self._state()
        parameters = model_file.plain_parameters(self.get_params(deep=False))
        columns = asdict(self._columns)
        values = {"class": kind.__name__, "parameters": parameters, "columns": columns} | values
        if self._n_unlabeled:
            values["n_unlabeled"] = self._n_unlabeled
        arrays = {"classes": self.classes_} | arrays
        model_file.write(path, values, arrays, kind._restored)

    @classmethod
    def _restored(cls, values: dict, arrays: Mapping[str, np.ndarray]) -> ChainModel:
        """Return the model with the contents of a file; raises errors as `_restore`."""
        parameters = model_file.restored_parameters(values["parameters"])
        model = cls(**parameters)._restore(values, arrays)
        model._columns = ColumnNames.of_values(values.get("columns", {}))
        model._n_unlabeled = values.get("n_unlabeled", 0)
        checks.check_counts(model._n_unlabeled)
        return model

    @abstractmethod
    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """Return the contents of a saved model: values for JSON, and arrays."""

    @abstractmethod
    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> ChainModel:
        """Set the fitted attributes from a saved model and return self.

        Raises ValueError, or another error of `model_file.as_model_file_error`, if the parts of the
        model do not fit together.
        """
