"""How the labels respond to one more feature: likelihood, slope and best effect."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

# A feature that tells everything would have an infinite effect.
MAX_EFFECT = 40.0
RIDGE = 1e-4
MAX_NEWTON_STEPS = 10
ENOUGH = 1e-8
FACTOR_TOLERANCE = 1e-3
# Stands for infinity where a label is forbidden, or all others are; its exponential is finite.
CERTAIN = 600.0


class Response(Protocol):
    """The labels as a function of a feature Q, whose effect adds to scores: intercept + slope Q."""

    def start(self, slope: float) -> np.ndarray:
        """The effect to begin with."""

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Mean log-likelihood of a position."""

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Derivative of the log-likelihood by the feature, at each position."""

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """The effect of the greatest likelihood, from another one on."""


class OneLabel:
    """The feature adds to the score of one label: logistic regression on it, the rest being fixed.

    Parameters
    ----------
    scores : float64 array (n_labels, n_positions)
        Scores after the true labels before each position.
    codes : int array (n_positions,)
        True labels.
    label : int
    weights : float64 array (n_positions,)
    """

    def __init__(self, scores: np.ndarray, codes: np.ndarray, label: int, weights: np.ndarray):
        others = np.delete(scores, label, axis=0)
        of_others = log_total(others)
        self.logits = np.clip(scores[label] - of_others, -CERTAIN, CERTAIN)
        self.is_label = codes == label
        self.against = np.where(self.is_label, -1.0, 1.0)
        self.weights = weights
        self.n_labels = len(scores)
        self.label = label
        # What the probabilities of the other labels add, given that it is one of them.
        among = (scores[codes, np.arange(len(codes))] - of_others)[~self.is_label]
        self.rest = float((weights[~self.is_label] * among).sum())

    def start(self, slope: float) -> np.ndarray:
        """No intercept and the given slope."""
        return np.array([0.0, slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Mean log-likelihood of a position."""
        logits = self._logits(effect, feature)
        log_p = -np.log1p(np.exp(self.against * logits))
        return float((self.weights * log_p).sum() + self.rest) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Derivative of the log-likelihood by the feature, at each position."""
        return effect[1] * self._residuals(effect, feature)

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Newton's method, with a ridge and a bound on the slope."""
        design = np.stack([np.ones_like(feature), feature])
        for _ in range(MAX_NEWTON_STEPS):
            residuals = self._residuals(effect, feature)
            p = expit(self._logits(effect, feature))
            hessian = (design * (self.weights * p * (1 - p))) @ design.T / len(p)
            gradient = design @ residuals / len(p) - RIDGE * effect
            step = np.linalg.solve(hessian + RIDGE * np.eye(2), gradient)
            after = self._better(effect, step, feature)
            change, effect = np.abs(after - effect).max(), after
            if change < ENOUGH:
                break
        return effect

    def on_labels(self, effect: np.ndarray) -> np.ndarray:
        """Intercept and slope of every label, (2, n_labels)."""
        effects = np.zeros((2, self.n_labels))
        effects[:, self.label] = effect
        return effects

    def _better(self, effect: np.ndarray, step: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """A step that does not lower what is maximized, halved until it does not."""
        before = self._penalized(effect, feature)
        for _ in range(MAX_NEWTON_STEPS):
            after = np.clip(effect + step, -MAX_EFFECT, MAX_EFFECT)
            if self._penalized(after, feature) >= before:
                return after
            step = step / 2
        return effect

    def _penalized(self, effect: np.ndarray, feature: np.ndarray) -> float:
        return self.value(effect, feature) - RIDGE * float(effect @ effect) / 2

    def _residuals(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        return self.weights * (self.is_label - expit(self._logits(effect, feature)))

    def _logits(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        return self.logits + effect[0] + effect[1] * feature


class Sloped:
    """The feature adds to all scores, at each position by a slope of its own, times one factor.

    Parameters
    ----------
    scores, slopes : float64 array (n_labels, n_positions)
        Scores where the feature is 0, and what they rise by where it is 1.
    codes : int array (n_positions,)
        True labels.
    weights : float64 array (n_positions,)
    """

    def __init__(
        self, scores: np.ndarray, slopes: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ):
        self.scores = scores
        # Of a forbidden label there is nothing to say.
        self.slopes = slopes = np.where(np.isfinite(scores), slopes, 0.0)
        self.weights = weights
        every = np.arange(len(codes))
        self.true_scores, self.of_true = scores[codes, every], slopes[codes, every]

    def start(self, slope: float) -> np.ndarray:
        """The given factor."""
        return np.array([slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Mean log-likelihood of a position."""
        changed = effect[0] * feature
        log_p = self.true_scores + changed * self.of_true
        log_p -= log_total(self.scores + changed * self.slopes)
        return float((self.weights * log_p).sum()) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Derivative of the log-likelihood by the feature, at each position."""
        scores = self.scores + (effect[0] * feature) * self.slopes
        p = np.exp(scores - log_total(scores))
        return effect[0] * self.weights * (self.of_true - (p * self.slopes).sum(axis=0))

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """The factor between 0 and 1 that is best."""
        found = minimize_scalar(
            lambda factor: -self.value(np.array([factor]), feature),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": FACTOR_TOLERANCE},
        )
        better = np.array([found.x])
        return better if -found.fun > self.value(effect, feature) else effect


def log_total(scores: np.ndarray) -> np.ndarray:
    """Logarithm of the sum of exponentials of the scores at each position."""
    largest = scores.max(axis=0)
    # Where all labels are forbidden nothing is subtracted.
    largest[np.isneginf(largest)] = 0.0
    with np.errstate(divide="ignore"):
        return largest + np.log(np.exp(scores - largest).sum(axis=0))
