"""What all boosted sequence classifiers share: training, prediction, saving."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from treecrf import integrity, io
from treecrf.boosting import (
    Booster,
    Growth,
    History,
    Objective,
    Stopping,
    Validation,
    boost,
)
from treecrf.contexts import check_order
from treecrf.encoding import EncodedSequences, Encoder
from treecrf.forest import Forest
from treecrf.labels import as_label_arrays, check_kind, encode_labels, find_classes
from treecrf.progress import Progress
from treecrf.sequences import Sequences, Trained, as_sequences
from treecrf.threads import Threads
from treecrf.weights import label_weights

# Codes of a window are counted for every position.
LARGEST_WINDOW = 10_000

# Second-order leaves can be far off where there is little curvature.
MOST_NEWTON_STEP = 4.0

# Sequences and the codes of their labels, one sequence after another.
Labeled = tuple[Sequences, np.ndarray]


class BoostedSequenceClassifier(BaseEstimator):
    """Base of the sequence classifiers whose scores are sums of regression trees.

    A subclass says what is maximized (`_objective`) and how scores become predictions.
    """

    _parameter_constraints: ClassVar[dict] = {
        "order": [Interval(numbers.Integral, 0, None, closed="left")],
        "window": [numbers.Integral, tuple, list],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left")],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
        "second_order": ["boolean"],
        "min_gain": [Interval(numbers.Real, 0, None, closed="left")],
        "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left")],
        "max_features": [Interval(numbers.Real, 0, 1, closed="right")],
        "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "warm_start": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": [
            Interval(numbers.Integral, 1, None, closed="left"),
            Interval(numbers.Integral, None, -1, closed="right"),
            None,
        ],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # Training

    def fit(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None
    ) -> BoostedSequenceClassifier:
        """Train on label sequences.

        Parameters
        ----------
        X : list of sequences
            A sequence is a 2-D array (n_positions, n_features) of booleans, integers or floats, a
            scipy sparse matrix of that shape, a string, or a 1-D array or list of symbols
            (strings or integers). All sequences have the same form.
        y : list of array-likes of shape (n_positions,)
            The labels of each sequence: strings (a string counts as its characters), integers or
            booleans.
        X_val, y_val : optional
            Held-out sequences and labels, whose likelihood is followed in ``validation_score_``.
            With ``early_stopping`` they take the place of a share of the training data.

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
        fitted = self._train(X, y, X_val, y_val)
        # What an earlier fit has left must not pass for results of this one.
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | fitted
        return self

    def _train(self, X: Any, y: Any, X_val: Any, y_val: Any) -> dict:
        """The fitted attributes; nothing of the estimator changes."""
        earlier = self._fitted_before()
        trained_on = earlier["_encoder"].trained_on if earlier else None
        sequences, labels = _checked(X, y, trained_on)
        rng = check_random_state(self.random_state)
        seed = earlier.get("_seed", int(rng.randint(np.iinfo(np.int32).max)))
        classes = earlier["classes_"] if earlier else find_classes(labels)
        check_order(len(classes), self.order)
        training = sequences, encode_labels(labels, classes)
        held_out = _given_validation(X_val, y_val, trained_on or sequences.like, classes)
        if held_out is None and self.early_stopping:
            training, held_out = self._hold_out(*training, seed)
        require_memory(len(classes), self.order, training[0].n_positions, 2 + self.second_order)
        if earlier:
            encoder, forest = earlier["_encoder"], earlier["_forest"].copy()
        else:
            encoder = Encoder(self._window(), self.max_bins)
            encoder.fit(training[0], np.random.default_rng(seed))
            forest = Forest(len(classes), self.order)
        history = self._boost(encoder, forest, classes, training, held_out, seed)
        return self._summary(encoder, forest, classes, history, earlier, seed)

    def _fitted_before(self) -> dict:
        """State that a warm start goes on from; empty for a fresh start."""
        if not self.warm_start or not hasattr(self, "_forest"):
            return {}
        if (self._forest.order, self._encoder.window) != (self.order, self._window()):
            raise ValueError(
                f"warm start: the model has order {self._forest.order} and window "
                f"{self._encoder.window}; order and window cannot change to {self.order} and "
                f"{self._window()}"
            )
        if self.max_iter < self.n_iter_:
            raise ValueError(
                f"warm start: max_iter={self.max_iter} is less than the {self.n_iter_} iterations "
                "of the model"
            )
        return self.__dict__

    def _hold_out(
        self, sequences: Sequences, codes: np.ndarray, seed: int
    ) -> tuple[Labeled, Labeled]:
        """Split the training data in two, of which the second part is for validation."""
        n = sequences.n_sequences
        n_held_out = max(1, round(self.validation_fraction * n))
        if n_held_out >= n:
            raise ValueError(
                f"early stopping holds out {n_held_out} of {n} sequences and leaves none to train "
                "on; give X_val and y_val or more sequences"
            )
        shuffled = np.random.default_rng([seed, 0]).permutation(n)
        held_out, kept = np.sort(shuffled[:n_held_out]), np.sort(shuffled[n_held_out:])
        pieces = split(codes, sequences.offsets)
        return tuple(
            (sequences.take(chosen), np.concatenate([pieces[i] for i in chosen]))
            for chosen in (kept, held_out)
        )

    def _boost(
        self,
        encoder: Encoder,
        forest: Forest,
        classes: np.ndarray,
        training: Labeled,
        held_out: Labeled | None,
        seed: int,
    ) -> History:
        """Add trees to the forest."""
        sequences, codes = training
        weights = label_weights(self.class_weight, classes, codes)
        with (
            Threads(self.n_jobs) as threads,
            Progress(self.verbose, forest.n_iter, self.max_iter, type(self).__name__) as progress,
        ):
            booster = Booster(
                forest,
                encoder,
                encoder.encode(sequences),
                self._objective(sequences.offsets, codes, len(classes), threads),
                self._growth(seed),
                weights[codes],
                threads,
            )
            validation = None
            if held_out is not None:
                validation = self._validation(encoder, len(classes), held_out, threads)
            stopping = None
            if self.early_stopping:
                stopping = Stopping(self.n_iter_no_change, self.tol)

            def report(n_iter: int, history: History) -> None:
                values = {"log-likelihood": history.train[-1]}
                if history.validation:
                    values["validation"] = history.validation[-1]
                progress.update(n_iter, values)

            return boost(booster, self.max_iter, validation, stopping, report)

    def _validation(
        self, encoder: Encoder, n_labels: int, held_out: Labeled, threads: Threads
    ) -> Validation:
        sequences, codes = held_out
        objective = self._objective(sequences.offsets, codes, n_labels, threads)
        return Validation(encoder, encoder.encode(sequences), objective)

    def _growth(self, seed: int) -> Growth:
        return Growth(
            max_leaf_nodes=self.max_leaf_nodes,
            l2_regularization=self.l2_regularization,
            learning_rate=self.learning_rate,
            min_gain=self.min_gain,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            subsample=self.subsample,
            max_leaf_value=MOST_NEWTON_STEP if self.second_order else np.inf,
            seed=seed,
        )

    def _summary(
        self,
        encoder: Encoder,
        forest: Forest,
        classes: np.ndarray,
        history: History,
        earlier: dict,
        seed: int,
    ) -> dict:
        """Fitted attributes, after an early stop those of the best iteration."""
        n_new = len(history.train) - 1
        if self.early_stopping:
            n_new = int(np.argmax(history.validation))
        n_iter = forest.n_iter - (len(history.train) - 1) + n_new
        forest = forest.copy(n_iter)
        before = earlier.get("train_score_", np.zeros(1))[:-1]
        validation = np.zeros(0)
        if history.validation:
            validation = np.append(
                self._validation_before(earlier, before), history.validation[: n_new + 1]
            )
        gains = forest.gains(encoder.n_features)
        names = {} if encoder.names is None else {"feature_names_in_": np.array(encoder.names)}
        return names | {
            "classes_": classes,
            "n_features_in_": encoder.n_features,
            "n_iter_": n_iter,
            "train_score_": np.append(before, history.train[: n_new + 1]),
            "validation_score_": validation,
            "feature_importances_": gains / max(gains.sum(), np.finfo(float).tiny),
            "_encoder": encoder,
            "_forest": forest,
            "_seed": seed,
        }

    @staticmethod
    def _validation_before(earlier: dict, train_before: np.ndarray) -> np.ndarray:
        """Validation scores before a warm start; NaN where none were taken."""
        if not earlier:
            return np.zeros(0)
        scores = earlier["validation_score_"][:-1]
        return scores if len(scores) else np.full(len(train_before), np.nan)

    def _window(self) -> tuple[int, int]:
        window = self.window
        sides = (window, window) if isinstance(window, numbers.Integral) else tuple(window)
        if len(sides) != 2 or not all(
            isinstance(w, numbers.Integral) and 0 <= w <= LARGEST_WINDOW for w in sides
        ):
            raise ValueError(
                f"window={self.window!r}; expected an integer or a pair (left, right) of integers "
                f"from 0 to {LARGEST_WINDOW}"
            )
        return int(sides[0]), int(sides[1])

    @abstractmethod
    def _objective(
        self, offsets: np.ndarray, codes: np.ndarray, n_labels: int, threads: Threads
    ) -> Objective:
        """What is maximized on the given sequences."""

    # Prediction

    def _encoded(self, X: Any) -> EncodedSequences:
        check_is_fitted(self, "_forest")
        return self._encoder.encode(as_sequences(X, self._encoder.trained_on))

    def _scores(self, X: Any, threads: Threads) -> tuple[np.ndarray, np.ndarray]:
        """Scores of all positions and the offsets of the sequences."""
        encoded = self._encoded(X)
        return self._scores_of(encoded, threads), encoded.offsets

    def _scores_and_codes(
        self, X: Any, y: Any, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        check_is_fitted(self, "_forest")
        sequences, labels = _checked(X, y, self._encoder.trained_on)
        codes = encode_labels(labels, self.classes_)
        encoded = self._encoder.encode(sequences)
        return self._scores_of(encoded, threads), encoded.offsets, codes

    def _scores_of(self, encoded: EncodedSequences, threads: Threads) -> np.ndarray:
        require_memory(self._forest.n_labels, self._forest.order, encoded.n_positions)
        return self._forest.scores(self._encoder, encoded, threads)

    def score(self, X: Any, y: Any) -> float:
        """Share of the labels that are predicted right.

        Parameters
        ----------
        X : list of sequences
        y : list of array-likes of shape (n_positions,)

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
        check_is_fitted(self, "_forest")
        X = list(X) if isinstance(X, Iterator) else X
        _, labels = _checked(X, y, self._encoder.trained_on)
        check_kind(labels, self.classes_)
        return float(np.mean(np.concatenate(self.predict(X)) == np.concatenate(labels)))

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
        check_is_fitted(self, "_forest")
        io.write(path, *self._state())

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        """What a saved model holds: values for JSON, and arrays."""
        encoder_values, encoder_arrays = io.encoder_state(self._encoder)
        values = {
            "class": type(self).__name__,
            "parameters": io.plain_parameters(self.get_params(deep=False)),
            "encoder": encoder_values,
            "n_iter": self.n_iter_,
            "seed": self._seed,
            "order": self._forest.order,
        }
        arrays = {
            "classes": self.classes_,
            "train_score": self.train_score_,
            "validation_score": self.validation_score_,
            "feature_importances": self.feature_importances_,
        }
        forest = {f"forest.{name}": array for name, array in self._forest.pack().items()}
        return values, arrays | encoder_arrays | forest

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> BoostedSequenceClassifier:
        """Take over the state of a saved model, if its parts fit together."""
        self._validate_params()
        packed = {
            name.removeprefix("forest."): array
            for name, array in arrays.items()
            if name.startswith("forest.")
        }
        self.classes_ = arrays["classes"]
        self._encoder = io.encoder_from_state(values["encoder"], arrays)
        self.n_iter_, self._seed, order = (int(values[key]) for key in ("n_iter", "seed", "order"))
        integrity.check_classes(self.classes_)
        check_order(len(self.classes_), order)
        integrity.check_encoder(self._encoder)
        integrity.check_forest(packed, self.n_iter_, len(self.classes_), order, self._encoder)
        self._forest = Forest.unpack(len(self.classes_), order, packed)
        self.train_score_ = arrays["train_score"]
        self.validation_score_ = arrays["validation_score"]
        self.feature_importances_ = arrays["feature_importances"]
        self.n_features_in_ = self._encoder.n_features
        if self._encoder.names is not None:
            self.feature_names_in_ = np.array(self._encoder.names)
        return self


def _given_validation(X: Any, y: Any, like: Trained, classes: np.ndarray) -> Labeled | None:
    """The validation data that a user gives, if any."""
    if (X is None) != (y is None):
        given, missing = ("y_val", "X_val") if X is None else ("X_val", "y_val")
        raise ValueError(f"{given} is given without {missing}")
    if X is None:
        return None
    try:
        sequences, labels = _checked(X, y, like)
        return sequences, encode_labels(labels, classes)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"validation data: {error}") from error


def _checked(X: Any, y: Any, trained_on: Trained | None) -> tuple[Sequences, list[np.ndarray]]:
    sequences = as_sequences(X, trained_on)
    return sequences, as_label_arrays(y, np.diff(sequences.offsets))


def require_memory(n_labels: int, order: int, n_positions: int, n_arrays: int = 1) -> None:
    """Ask the system for the memory of scores, and residuals like them, before any work on them.

    Raises
    ------
    MemoryError
        If it refuses.
    """
    n_bytes = n_arrays * n_positions * n_labels ** (order + 1) * np.dtype(np.float64).itemsize
    try:
        np.empty(n_bytes, dtype=np.uint8)
    except MemoryError:
        raise MemoryError(
            f"order={order} with {n_labels} labels and {n_positions} positions needs "
            f"{n_bytes / 1e9:.0f} GB: lower the order, or give fewer labels or fewer sequences"
        ) from None


def split(values: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    """One array per sequence, views of ``values``."""
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())]


def staged_scores(
    forest: Forest, encoder: Encoder, encoded: EncodedSequences, threads: Threads
) -> Iterator[np.ndarray]:
    """Scores after each iteration; every array is the same memory."""
    require_memory(forest.n_labels, forest.order, encoded.n_positions)
    scores = None
    for i in range(forest.n_iter):
        scores = forest.scores(encoder, encoded, threads, (i, i + 1), scores)
        yield scores
