"""The face that all sequence classifiers share: prediction from chain scores, and saving."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from treecrf.chains.constraints import Constraints, as_allowed, check_labels
from treecrf.chains.lattice import Lattice
from treecrf.inputs.labels import RawData, as_label_arrays, check_kind, encode_labels
from treecrf.inputs.reading import as_sequences
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import InputSchema, Sequences, reversed_positions, split
from treecrf.learners.costs import cost_table
from treecrf.utils import model_file
from treecrf.utils.threads import Threads
from treecrf.utils.validation import Interval, StrOptions


class SequenceClassifier(BaseEstimator):
    """Base of all classifiers of sequences.

    A subclass trains, and gives every label a score at every position in every context of
    previous labels (`_scores_of`); what can be asked of a model follows from these scores.
    """

    _parameter_constraints: ClassVar[dict] = {
        "order": [Interval(numbers.Integral, 0, None, closed="left")],
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk"})],
        "cost_matrix": ["array-like", dict, None],
        "transitions": [StrOptions({"bio", "bioes"}), "array-like", None],
        "n_jobs": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Integral, None, -1, closed="right"),
            None,
        ],
        "verbose": ["verbose"],
    }

    # The objective that training maximized; see `treecrf.chains.objectives`.
    _trained_objective = "log"

    # What a subclass provides

    @property
    @abstractmethod
    def _schema(self) -> InputSchema:
        """What sequences must be like."""

    @property
    @abstractmethod
    def _trained_order(self) -> int:
        """Number of previous labels in a context."""

    @property
    def _trained_backward(self) -> bool:
        """Whether the chain begins at the end of the sequences."""
        return False

    @abstractmethod
    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Score of each label at each position in each context, class-major."""

    # Prediction

    def predict(
        self,
        X: Any,
        *,
        allowed: Any = None,
        known: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> Any:
        """Label every position.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        allowed : list of bool arrays (n_positions, n_classes) or None, optional
            Which labels are possible at each position, columns in the order of ``classes_``; None
            for a sequence that is free. Probabilities are those given that the labels are allowed.
            For a long table one array of all positions.
        known : list of lists of labels or None, optional
            Labels that are known beforehand, None where they are not. They are kept, and the
            others decoded around them. For a long table one list of all positions.
        lengths : array-like of shape (n_sequences,), optional
            X is one long table of all sequences: the number of positions of each.
        groups : array-like of shape (n_positions,) or str, optional
            X is one long table of all sequences: what sequence each position belongs to, or the
            column of a data frame that says so, which is no feature then. The positions of a group
            follow each other.

        Returns
        -------
        list of arrays (n_positions,)
            Labels, by ``decoding``. For a long table one array of all positions.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data, or allows no label sequence; the message says
            which sequence and why.

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
        segmentation = Segmentation(lengths, groups)
        return segmentation.join(self._labels(*self._read(X, allowed, known, segmentation)))

    def _labels(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        """Labels of what has been read, by ``decoding``."""
        if self.decoding == "viterbi":
            return self._decoded(sequences, masks)[0]
        with Threads(self.n_jobs) as threads:
            lattice = self._lattice(sequences, masks, threads)
            marginals = lattice.marginals()
        if self.decoding == "minimum_risk":
            costs = cost_table(self.cost_matrix, self.classes_)
            parts = split(marginals, lattice.offsets)
            codes = np.concatenate([(p @ costs).argmin(axis=1) for p in parts])
        else:
            codes = marginals.argmax(axis=1)
        return self._as_read(split(self.classes_[codes], lattice.offsets))

    def predict_proba(
        self,
        X: Any,
        *,
        allowed: Any = None,
        known: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> Any:
        """Probability of every label at every position, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        allowed, known, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of float arrays (n_positions, n_classes)
            Columns in the order of ``classes_``. For a long table one array of all positions.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            As `predict`.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> crf.predict_proba(["nab"])[0].shape
        (3, 2)
        """
        segmentation = Segmentation(lengths, groups)
        return segmentation.join(self._proba(*self._read(X, allowed, known, segmentation)))

    def _proba(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        """Probabilities of what has been read."""
        with Threads(self.n_jobs) as threads:
            lattice = self._lattice(sequences, masks, threads)
            return self._as_read(split(lattice.marginals(), lattice.offsets))

    def predict_pairwise_proba(
        self,
        X: Any,
        *,
        allowed: Any = None,
        known: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> list[np.ndarray]:
        """Probability of every two labels at neighboring positions, given the whole sequence.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        allowed, known, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of float arrays (n_positions - 1, n_classes, n_classes)
            One for each sequence, of a long table too. Entry ``[t, u, v]`` is the probability of
            label u at position t and v at t + 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            As `predict`.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> pairs = crf.predict_pairwise_proba(["nab"])[0]
        >>> pairs.shape, bool(pairs[0, 0, 1] > 0.5)
        ((2, 2, 2), True)
        """
        asked = self._read(X, allowed, known, Segmentation(lengths, groups))
        with Threads(self.n_jobs) as threads:
            lattice = self._lattice(*asked, threads)
            pairs = split(lattice.pairwise(), lattice.offsets)
        # The first position of a chain has no label before it.
        pairs = self._as_read([table[1:] for table in pairs])
        return [table.transpose(0, 2, 1) for table in pairs] if self._trained_backward else pairs

    def predict_log_likelihood(
        self, X: Any, y: Any, *, lengths: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Logarithm of the probability of whole label sequences, log P(y | X).

        Parameters
        ----------
        X : list of sequences, or one long table of all
        y : list of array-likes of shape (n_positions,), or one of all positions
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        float array (n_sequences,)
            Minus infinity for labels that ``transitions`` forbids.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data, or y does not fit X; the message says which
            sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> crf = crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"])
        >>> log_p = crf.predict_log_likelihood(["nab", "nab"], ["cvc", "vcv"])
        >>> bool(log_p[0] > log_p[1])
        True
        """
        sequences, labels = self._read_labeled(RawData(X, y, Segmentation(lengths, groups)))
        codes = encode_labels(labels, self.classes_)
        if self._trained_backward:
            sequences, codes = sequences.reversed(), codes[reversed_positions(sequences.offsets)]
        with Threads(self.n_jobs) as threads:
            return self._log_likelihoods(sequences, codes, threads)

    def decode(
        self,
        X: Any,
        n_best: int = 1,
        *,
        allowed: Any = None,
        known: Any = None,
        lengths: Any = None,
        groups: Any = None,
    ) -> tuple[Any, Any]:
        """Most probable label sequences and their log-probabilities.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        n_best : int, default=1
            Number of label sequences wanted for each sequence.
        allowed, known, lengths, groups : optional
            As in `predict`.

        Returns
        -------
        labels : list of arrays (n_positions,)
            For a long table one array of all positions. With ``n_best`` above 1 always a list of
            lists of arrays, the best first; fewer where fewer are possible.
        log_probabilities : float array (n_sequences,)
            With ``n_best`` above 1 a list of arrays.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            As `predict`, and if ``n_best`` is not a positive integer.

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
        segmentation = Segmentation(lengths, groups)
        asked = self._read(X, allowed, known, segmentation)
        if n_best == 1:
            labels, log_probabilities = self._decoded(*asked)
            return segmentation.join(labels), log_probabilities
        with Threads(self.n_jobs) as threads:
            found = self._lattice(*asked, threads).n_best(int(n_best))
        labels = [self._as_read([self.classes_[codes] for codes in paths]) for paths, _ in found]
        return labels, [log_probabilities for _, log_probabilities in found]

    def _decoded(
        self, sequences: Sequences, masks: np.ndarray | None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Most probable label sequences of what has been read, and their log-probabilities."""
        with Threads(self.n_jobs) as threads:
            lattice = self._lattice(sequences, masks, threads)
            codes, log_probabilities = lattice.best()
        return self._as_read(split(self.classes_[codes], lattice.offsets)), log_probabilities

    def score(self, X: Any, y: Any, *, lengths: Any = None, groups: Any = None) -> float:
        """Share of the labels that are predicted right.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        y : list of array-likes of shape (n_positions,), or one of all positions
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        float

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X is not like the training data, or y does not fit X; the message says which
            sequence and why.
        """
        sequences, labels = self._read_labeled(RawData(X, y, Segmentation(lengths, groups)))
        check_kind(labels, self.classes_)
        predicted = self._labels(*self._read(sequences))
        return float(np.mean(np.concatenate(predicted) == np.concatenate(labels)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, in the order of ``feature_importances_``.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names for features that have none.

        Returns
        -------
        array of str of shape ``(n_features_in_,)``
            ``feature_names_in_``, or else ``input_features``, or else x0, x1, ...

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If ``input_features`` are others than ``feature_names_in_``, or another number.

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
        """The attribute ``feature_names_in_``, if there are names."""
        return {} if names is None else {"feature_names_in_": np.array(names, dtype=object)}

    # Reading

    def _sequences(self, X: Any, segmentation: Segmentation) -> Sequences:
        """Checked sequences, like those of training."""
        check_is_fitted(self, "classes_")
        return as_sequences(X, self._schema, segmentation)

    def _read_labeled(self, raw: RawData) -> tuple[Sequences, list[np.ndarray]]:
        """Checked sequences and their labels, in the direction of the input."""
        sequences = self._sequences(raw.X, raw.segmentation)
        return sequences, as_label_arrays(raw.y, sequences.offsets, raw.segmentation)

    def _read(
        self,
        X: Any,
        allowed: Any = None,
        known: Any = None,
        segmentation: Segmentation | None = None,
    ) -> tuple[Sequences, np.ndarray | None]:
        """Checked sequences and masks of possible labels, in the direction of the chain."""
        segmentation = segmentation or Segmentation()
        sequences = self._sequences(X, segmentation)
        masks = as_allowed(allowed, known, self.classes_, sequences.offsets, segmentation)
        if self._trained_backward:
            sequences = sequences.reversed()
            masks = None if masks is None else masks[reversed_positions(sequences.offsets)]
        return sequences, masks

    def _as_read(self, items: list[np.ndarray]) -> list[np.ndarray]:
        """Results of sequences, turned from the direction of the chain to that of the input."""
        return [item[::-1] for item in items] if self._trained_backward else items

    def _lattice(self, sequences: Sequences, masks: np.ndarray | None, threads: Threads) -> Lattice:
        return self._lattice_of(sequences, self._constraints(sequences.offsets, masks), threads)

    def _lattice_of(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> Lattice:
        """Scores of checked sequences under constraints."""
        scores = self._scores_of(sequences, threads)
        return self._constrained(scores, sequences.offsets, constraints, threads)

    def _constraints(self, offsets: np.ndarray, masks: np.ndarray | None = None) -> Constraints:
        """What is possible by the parameters, and by masks if given."""
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
        """Scores under constraints; changed in place."""
        constraints.forbid(scores, offsets)
        return Lattice(scores, offsets, self._trained_order, threads)

    def _log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        """Logarithms of the probabilities of label sequences, all in the chain's direction."""
        constraints = self._constraints(sequences.offsets)
        return self._lattice_of(sequences, constraints, threads).log_likelihoods(codes)

    def _checked_codes(
        self,
        labels: list[np.ndarray],
        classes: np.ndarray,
        offsets: np.ndarray,
        masks: np.ndarray | None = None,
    ) -> np.ndarray:
        """Codes of training labels, checked against the parameters and the masks."""
        codes = encode_labels(labels, classes)
        cost_table(self.cost_matrix, classes)
        check_labels(self.transitions, self.order, classes, codes, offsets, masks)
        return codes

    # Saved models

    def save(self, path: str | PathLike) -> None:
        """Write the fitted model to one file, which `treecrf.load` reads.

        The file holds numbers and text, with a version and a checksum; nothing in it is executed.

        Parameters
        ----------
        path : path-like
            Any file name; ``.treecrf`` is customary. A file that exists is replaced by a complete
            one or not at all.

        Raises
        ------
        NotFittedError
            Before `fit`.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, "classes_")
        values, arrays = self._state()
        described = {
            "class": type(self).__name__,
            "parameters": model_file.plain_parameters(self.get_params(deep=False)),
        }
        model_file.write(path, described | values, {"classes": self.classes_} | arrays)

    @abstractmethod
    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """What a saved model holds: values for JSON, and arrays."""

    @abstractmethod
    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> SequenceClassifier:
        """Take over the state of a saved model, if its parts fit together."""
