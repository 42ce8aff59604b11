"""Callbacks for ``fit``, which are called after each iteration of training.

A callback is any callable that takes an `IterationInfo`. Training stops when it returns True. An
object may also have a method ``start``, which is called before the first iteration. If a callback
raises an error, ``fit`` raises it and leaves the estimator unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import TextIO

from treecrf.learners.base.callbacks import IterationInfo
from treecrf.learners.base.history import Stopping
from treecrf.utils.validation import check_positive

__all__ = ["Checkpoint", "EarlyStop", "IterationInfo", "LearningRateSchedule", "Log"]


class EarlyStop:
    """Stop training when a score no longer improves.

    The model keeps all iterations up to this point. The parameter ``early_stopping`` of the
    estimators, in contrast, keeps those up to the best one only.

    Parameters
    ----------
    n_iter_no_change : int, default=10
        Number of iterations without improvement before training stops.
    tol : float, default=0.0
        Minimum increase of the score that counts as an improvement.
    score : callable, optional
        Function of an `IterationInfo` that returns the score. Higher is better. The default is the
        latest score of the validation sequences.

    See Also
    --------
    treecrf.TreeCRF.truncated : Keep the first iterations of a fitted model only.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.callbacks import EarlyStop
    >>> stop = EarlyStop(2, tol=0.1, score=lambda info: info.train_scores[-1])
    >>> crf = TreeCRF(max_iter=50).fit(["abab", "ba"], ["xyxy", "yx"], callbacks=[stop])
    >>> crf.n_iter_ < 50
    True
    """

    def __init__(
        self,
        n_iter_no_change: int = 10,
        tol: float = 0.0,
        score: Callable[[IterationInfo], float] | None = None,
    ):
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.score = score
        self._scores: list[float] = []

    def start(self, info: IterationInfo) -> None:
        """Forget earlier training runs."""
        self._scores = info.validation_scores[-1:] if self.score is None else []

    def __call__(self, info: IterationInfo) -> bool:
        """Return whether to stop."""
        if self.score is not None:
            self._scores.append(self.score(info))
        elif info.validation_scores:
            self._scores.append(info.validation_scores[-1])
        else:
            raise ValueError("EarlyStop needs validation sequences: pass X_val and y_val to fit")
        return Stopping(self.n_iter_no_change, self.tol).is_reached(self._scores)


class Checkpoint:
    """Save the model to a file every few iterations.

    An existing file is replaced only once the new one is complete. Use `treecrf.load` to load the
    model, and ``fit`` with ``warm_start=True`` to continue its training.

    Parameters
    ----------
    path : path-like
        File to write. If it contains ``{n_iter}``, this stands for the number of iterations, and
        each checkpoint has its own file.
    every : int, default=1
        Number of iterations from one checkpoint to the next.

    See Also
    --------
    treecrf.load : Load a saved model.

    Examples
    --------
    >>> import pathlib, tempfile, treecrf
    >>> from treecrf.callbacks import Checkpoint
    >>> X, y = ["abab", "ba"], ["xyxy", "yx"]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.treecrf"
    >>> whole = treecrf.TreeCRF(max_iter=6).fit(X, y, callbacks=[Checkpoint(path, every=4)])
    >>> resumed = treecrf.load(path)
    >>> resumed.n_iter_
    4
    >>> resumed.set_params(warm_start=True).fit(X, y).n_iter_
    6
    """

    def __init__(self, path: str | PathLike, every: int = 1):
        check_positive("every", every)
        self.path = path
        self.every = every

    def start(self, info: IterationInfo) -> None:
        """Raise FileNotFoundError before training if the folder does not exist."""
        folder = Path(fspath(self.path)).parent
        if not folder.is_dir():
            raise FileNotFoundError(f"{self.path}: the folder {folder} does not exist")

    def __call__(self, info: IterationInfo) -> None:
        """Save the model if it is time."""
        if info.n_iter % self.every == 0:
            info.model().save(fspath(self.path).replace("{n_iter}", str(info.n_iter)))


class Log:
    """Write a line with the latest scores every few iterations.

    Parameters
    ----------
    every : int, default=1
        Number of iterations from one line to the next.
    file : text file, optional
        File to write to. The default is the standard error stream.

    Examples
    --------
    >>> import sys
    >>> from treecrf import TreeCRF
    >>> from treecrf.callbacks import Log
    >>> X, y = ["abab", "ba"], ["xyxy", "yx"]
    >>> log = Log(every=2, file=sys.stdout)
    >>> crf = TreeCRF(max_iter=4).fit(X, y, callbacks=[log])  # doctest: +ELLIPSIS
    TreeCRF: iteration 2 of 4, training -0...
    TreeCRF: iteration 4 of 4, training -0...
    """

    def __init__(self, every: int = 1, file: TextIO | None = None):
        check_positive("every", every)
        self.every = every
        self.file = file

    def __call__(self, info: IterationInfo) -> None:
        """Write a line if it is time."""
        if info.n_iter % self.every:
            return
        line = f"{info.estimator}: iteration {info.n_iter} of {info.max_iter}"
        for name, scores in (
            ("training", info.train_scores),
            ("validation", info.validation_scores),
        ):
            if scores:
                line += f", {name} {scores[-1]:.4f}"
        for name, metrics in info.evals_result.items():
            for metric, scores in metrics.items():
                line += f", {name} {metric} {scores[-1]:.4f}"
        print(line, file=sys.stderr if self.file is None else self.file, flush=True)


class LearningRateSchedule:
    """Set the learning rate of each iteration of boosting.

    Parameters
    ----------
    rate : callable
        Function of the number of an iteration, from 0, that returns the learning rate of this
        iteration.

    Examples
    --------
    >>> from treecrf import TreeCRF
    >>> from treecrf.callbacks import LearningRateSchedule
    >>> rates = []
    >>> halved = LearningRateSchedule(lambda iteration: 0.4 * 0.5 ** (iteration // 2))
    >>> record = lambda info: rates.append(info.learning_rate)
    >>> X, y = ["abab", "ba"], ["xyxy", "yx"]
    >>> crf = TreeCRF(max_iter=6).fit(X, y, callbacks=[record, halved])
    >>> rates
    [0.4, 0.4, 0.2, 0.2, 0.1, 0.1]
    """

    def __init__(self, rate: Callable[[int], float]):
        self.rate = rate

    def start(self, info: IterationInfo) -> None:
        """Set the learning rate of the first iteration."""
        info.learning_rate = self.rate(info.n_iter)

    def __call__(self, info: IterationInfo) -> None:
        """Set the learning rate of the next iteration."""
        info.learning_rate = self.rate(info.n_iter)
