"""Callbacks of training: how they are called, and what they receive."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from treecrf.learners.base.history import History

Callback = Callable[["IterationInfo"], Any]

# Larger leaf values leave too few digits for differences between scores.
MAX_LEARNING_RATE = 1e6


class IterationInfo:
    """State of training after an iteration, as callbacks receive it.

    An iteration of boosting computes the objective before it. ``train_scores`` therefore does not
    include the value after the latest iteration.

    Attributes
    ----------
    estimator : str
        Name of the class of the estimator.
    n_iter : int
        Number of iterations of the model so far.
    max_iter : int
        Number of iterations at which training ends.
    train_scores : list of float
        Objective on the training data, as in ``train_score_``.
    validation_scores : list of float
        Scores of the validation sequences, as in ``validation_score_``. Empty without them.
    evals_result : dict of dict of list of float
        Scores of the sets in ``eval_set``, as in ``evals_result_``.
    learning_rate : float
        Learning rate of the following iterations of boosting. Callbacks may set it.

    See Also
    --------
    treecrf.TreeCRF.fit : Takes callbacks.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> def show(info):
    ...     score = round(info.train_scores[-1], 2)
    ...     print(info.estimator, info.n_iter, "of", info.max_iter, score)
    >>> X, y = ["banana", "cabana"], ["cvcvcv", "cvcvcv"]
    >>> crf = TreeCRF(max_iter=3, l2_regularization=1.0).fit(X, y, callbacks=[show])
    TreeCRF 1 of 3 -0.69
    TreeCRF 2 of 3 -0.36
    TreeCRF 3 of 3 -0.21
    """

    def __init__(
        self,
        estimator: str,
        n_iter: int,
        max_iter: int,
        history: History,
        make_model: Callable[[], Any],
        booster: Any = None,
    ):
        self.estimator = estimator
        self.n_iter = n_iter
        self.max_iter = max_iter
        self._history = history
        self._make_model = make_model
        self._booster = booster

    @property
    def train_scores(self) -> list[float]:
        """Objective on the training data, as in ``train_score_``.

        An iteration of boosting computes the value before it. The value after the latest iteration
        is therefore not included.
        """
        return list(self._history.train)

    @property
    def validation_scores(self) -> list[float]:
        """Scores of the validation sequences, as in ``validation_score_``. Empty without them."""
        return list(self._history.validation)

    @property
    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Scores of the sets in ``eval_set``, as in ``evals_result_``."""
        return {
            name: {metric: list(scores) for metric, scores in metrics.items()}
            for name, metrics in self._history.evals.items()
        }

    @property
    def learning_rate(self) -> float:
        """Learning rate of the following iterations of boosting, which callbacks may set."""
        return self._require_booster().learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        if not isinstance(rate, numbers.Real) or not 0 < rate <= MAX_LEARNING_RATE:
            raise ValueError(
                f"learning_rate={rate!r}; expected a positive number up to {MAX_LEARNING_RATE:g}"
            )
        self._require_booster().learning_rate = float(rate)

    def _require_booster(self) -> Any:
        """Return the booster; raises ValueError if the estimator is trained in another way."""
        if self._booster is None:
            raise ValueError(f"learning_rate: {self.estimator} has none")
        return self._booster

    def model(self) -> Any:
        """Return a fitted copy of the estimator with the iterations so far.

        This takes as much time as one evaluation of the training data.

        Returns
        -------
        estimator
            The fitted copy.
        """
        return self._make_model()

    def __repr__(self) -> str:
        return f"<{self.estimator}: iteration {self.n_iter} of {self.max_iter}>"


def as_callbacks(callbacks: Any) -> tuple[Callback, ...]:
    """Return the callbacks of a training run; TypeError if they are not callables."""
    if callbacks is None:
        return ()
    if not isinstance(callbacks, Iterable) or isinstance(callbacks, (str, dict)):
        raise TypeError(
            f"callbacks is of type {type(callbacks).__name__}; expected a list of callables"
        )
    callbacks = tuple(callbacks)
    for i, callback in enumerate(callbacks):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}] is of type {type(callback).__name__}; expected a callable"
            )
    return callbacks


def start_callbacks(callbacks: tuple[Callback, ...], info: IterationInfo) -> None:
    """Call the ``start`` methods, before the first iteration."""
    for callback in callbacks:
        if hasattr(callback, "start"):
            callback.start(info)


def call_all(callbacks: tuple[Callback, ...], info: IterationInfo) -> bool:
    """Call the callbacks after an iteration; return whether one of them stops training."""
    results = [callback(info) for callback in callbacks]
    return any(isinstance(result, (bool, np.bool_)) and bool(result) for result in results)
