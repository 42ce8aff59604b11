"""Response of the labels to one more feature: likelihood, gradient and best effect."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from treecrf.utils.exact import exact_sum

# A feature that separates the labels perfectly would have an infinite effect.
MAX_EFFECT = 40.0
RIDGE = 1e-4
MAX_NEWTON_STEPS = 10
EFFECT_TOLERANCE = 1e-8
FACTOR_TOLERANCE = 1e-3
# Limit of the logits, which are infinite if a label is forbidden or the only one allowed. Its
# exponential is finite.
MAX_LOGIT = 600.0


class OneLabel:
    """A feature Q that adds intercept + slope Q to the score of one label.

    The likelihood is that of a logistic regression, plus a constant. The scores,
    (n_labels, n_positions), are conditional on the true previous labels.
    """

    def __init__(self, scores: np.ndarray, codes: np.ndarray, label: int, weights: np.ndarray):
        others = np.delete(scores, label, axis=0)
        of_others = log_sum_exp(others)
        self.logits = np.clip(scores[label] - of_others, -MAX_LOGIT, MAX_LOGIT)
        self.is_label = codes == label
        self.negated_sign = np.where(self.is_label, -1.0, 1.0)
        self.weights = weights
        self.n_labels = len(scores)
        self.label = label
        # Log-likelihood of the other labels, given that the label is one of them.
        among = (scores[codes, np.arange(len(codes))] - of_others)[~self.is_label]
        self.rest = exact_sum(weights[~self.is_label] * among)

    def start(self, slope: float) -> np.ndarray:
        """Return an intercept of 0 and the initial slope."""
        return np.array([0.0, slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Compute the mean log-likelihood per position."""
        logits = self._logits(effect, feature)
        log_p = -np.log1p(np.exp(self.negated_sign * logits))
        return (exact_sum(self.weights * log_p) + self.rest) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Compute the derivative of the log-likelihood by the feature, at each position."""
        return effect[1] * self._residuals(effect, feature)

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Find the best effect by Newton's method, with a ridge and a bound on the slope."""
        for _ in range(MAX_NEWTON_STEPS):
            residuals = self._residuals(effect, feature)
            p = expit(self._logits(effect, feature))
            curvature = self.weights * p * (1 - p)
            mixed = exact_sum(curvature * feature)
            squares = exact_sum(curvature), exact_sum(curvature * feature**2)
            hessian = np.array([[squares[0], mixed], [mixed, squares[1]]]) / len(p)
            slopes = exact_sum(residuals), exact_sum(residuals * feature)
            gradient = np.array(slopes) / len(p) - RIDGE * effect
            step = np.linalg.solve(hessian + RIDGE * np.eye(2), gradient)
            after = self._better(effect, step, feature)
            change, effect = np.abs(after - effect).max(), after
            if change < EFFECT_TOLERANCE:
                break
        return effect

    def effects_by_label(self, effect: np.ndarray) -> np.ndarray:
        """Return the intercepts and slopes of all labels, (2, n_labels)."""
        effects = np.zeros((2, self.n_labels))
        effects[:, self.label] = effect
        return effects

    def _better(self, effect: np.ndarray, step: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Take a step, halved until it does not lower the penalized likelihood."""
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
    """A feature Q that adds factor * slope * Q to all scores; positions have fixed slopes."""

    def __init__(
        self, scores: np.ndarray, slopes: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ):
        self.scores = scores
        # Slopes of forbidden labels are undefined and have no effect.
        self.slopes = slopes = np.where(np.isfinite(scores), slopes, 0.0)
        self.weights = weights
        every = np.arange(len(codes))
        self.true_scores, self.of_true = scores[codes, every], slopes[codes, every]

    def start(self, slope: float) -> np.ndarray:
        """Return the initial factor."""
        return np.array([slope])

    def value(self, effect: np.ndarray, feature: np.ndarray) -> float:
        """Compute the mean log-likelihood per position."""
        changed = effect[0] * feature
        log_p = self.true_scores + changed * self.of_true
        log_p -= log_sum_exp(self.scores + changed * self.slopes)
        return exact_sum(self.weights * log_p) / len(log_p)

    def gradient(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Compute the derivative of the log-likelihood by the feature, at each position."""
        scores = self.scores + (effect[0] * feature) * self.slopes
        p = np.exp(scores - log_sum_exp(scores))
        return effect[0] * self.weights * (self.of_true - (p * self.slopes).sum(axis=0))

    def fit(self, effect: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Find the best factor between 0 and 1."""
        search = minimize_scalar(
            lambda factor: -self.value(np.array([factor]), feature),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": FACTOR_TOLERANCE},
        )
        better = np.array([search.x])
        return better if -search.fun > self.value(effect, feature) else effect


# The likelihood of the labels as a function of a feature and its effect on their scores.
Response = OneLabel | Sloped


def log_sum_exp(scores: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the sum of the exponentials of the scores at each position."""
    largest = scores.max(axis=0)
    # If all labels are forbidden, subtracting minus infinity would give NaN.
    largest[np.isneginf(largest)] = 0.0
    with np.errstate(divide="ignore"):
        return largest + np.log(np.exp(scores - largest).sum(axis=0))
