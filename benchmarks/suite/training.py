"""Fit and predict: ten iterations with the papers' settings on synthetic sequences."""

from __future__ import annotations

from treecrf import TreeCRF

from . import HALF_WINDOWS, LABELS, LENGTHS
from .synthetic import sequences

N_ITERATIONS = 10
# `treecrf.papers.TREECRF`, which older versions lack, but with samples of many examples.
PAPERS = {
    "second_order": False,
    "learning_rate": 1.0,
    "l2_regularization": 40.0,
    "max_leaf_nodes": 100,
    "early_stopping": False,
    "init": "zero",
}


def model(half_window: int) -> TreeCRF:
    fixed = {"max_iter": N_ITERATIONS, "n_jobs": 1, "random_state": 0}
    return TreeCRF(window=half_window, **fixed, **PAPERS)


class _Fitting:
    """Time and peak memory of `fit`; subclasses draw ``X`` and ``y`` and may set a window."""

    half_window = 1

    def time_fit(self, _: int) -> None:
        model(self.half_window).fit(self.X, self.y)

    def peakmem_fit(self, _: int) -> None:
        model(self.half_window).fit(self.X, self.y)


class _Predicting(_Fitting):
    """The same, plus prediction on the training sequences."""

    def fit(self) -> None:
        self.fitted = model(self.half_window).fit(self.X, self.y)

    def time_predict(self, _: int) -> None:
        self.fitted.predict(self.X)

    def time_predict_proba(self, _: int) -> None:
        self.fitted.predict_proba(self.X)


class Lengths(_Predicting):
    """100 sequences, 3 labels, a window of 3: figure 3.3a."""

    params = LENGTHS
    param_names = ("length",)

    def setup(self, length: int) -> None:
        self.X, self.y = sequences(length=length)
        self.fit()


class Windows(_Predicting):
    """100 sequences of 100 positions, 3 labels, windows of 3 to 11: figure 3.3b."""

    params = HALF_WINDOWS
    param_names = ("half_window",)

    def setup(self, half_window: int) -> None:
        self.X, self.y = sequences()
        self.half_window = half_window
        self.fit()


class Labels(_Predicting):
    """100 sequences of 100 positions, a window of 3."""

    params = LABELS
    param_names = ("n_labels",)

    def setup(self, n_labels: int) -> None:
        self.X, self.y = sequences(n_labels=n_labels)
        self.fit()
