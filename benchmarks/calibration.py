"""How much held-out data a correction of probabilities needs, by the log loss of new data.

The data are simulated: four labels, of which the rarest has about 2 % of the positions, and two
noisy measurements. The model has default settings. Each correction is fitted to held-out sequences
of several sizes, and the table shows means over three sets of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from measure import markdown
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from treecrf import TreeCRF

LENGTH = 60
SHARES = np.array([0.5, 0.3, 0.18, 0.02])
LEVELS = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [1.5, 1.5]])
CHANGE = 0.1  # probability that a label is drawn anew
N_TRAINING = 100
N_NEW = 500
SIZES = (5, 10, 25, 100, 250)  # held-out sequences
PENALTIES = (0.1, 1.0, 1e6)

Correction = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=3, help="of held-out data")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    model = TreeCRF(window=1).fit(*simulated(N_TRAINING, rng))
    new_log_p, new_y = predicted(model, N_NEW, rng)
    losses = np.empty((arguments.sets, len(SIZES), 1 + len(PENALTIES)))
    counts = np.empty((arguments.sets, len(SIZES)))
    for i in range(arguments.sets):
        log_p, y = predicted(model, SIZES[-1], rng)
        for j, size in enumerate(SIZES):
            n_positions = size * LENGTH
            counts[i, j] = (y[:n_positions] == len(SHARES) - 1).sum()
            for k, correct in enumerate(corrections(log_p[:n_positions], y[:n_positions])):
                losses[i, j, k] = log_loss(new_y, correct(new_log_p), labels=model.classes_)
    print(f"without correction: {log_loss(new_y, softmax(new_log_p, axis=1)):.3f}\n")
    print(table(losses.mean(axis=0), counts.mean(axis=0)))


def simulated(n_sequences: int, rng: np.random.Generator) -> tuple[list, list]:
    """Draw sequences of measurements, and their labels."""
    shape = n_sequences, LENGTH
    drawn = rng.choice(len(SHARES), size=shape, p=SHARES)
    is_new = rng.random(shape) < CHANGE
    is_new[:, 0] = True
    last = np.maximum.accumulate(np.where(is_new, np.arange(LENGTH), 0), axis=1)
    y = np.take_along_axis(drawn, last, axis=1)
    X = LEVELS[y] + rng.normal(size=(*shape, 2))
    return list(X), list(y)


def predicted(model: TreeCRF, n_sequences: int, rng: np.random.Generator) -> tuple:
    """Return the logarithms of the probabilities of new positions, and their labels."""
    X, y = simulated(n_sequences, rng)
    proba = np.concatenate(model.predict_proba(X))
    return np.log(proba.clip(1e-9)), np.concatenate(y)


def corrections(log_p: np.ndarray, y: np.ndarray) -> list[Correction]:
    """Fit the power, and logistic regressions with several penalties."""
    return [fitted_power(log_p, y), *(fitted_regression(log_p, y, c) for c in PENALTIES)]


def fitted_power(log_p: np.ndarray, y: np.ndarray) -> Correction:
    """Fit temperature scaling."""

    def loss(power: float) -> float:
        return log_loss(y, softmax(power * log_p, axis=1), labels=range(len(SHARES)))

    power = minimize_scalar(loss, bounds=(0.05, 5), method="bounded").x
    return lambda new: softmax(power * new, axis=1)


def fitted_regression(log_p: np.ndarray, y: np.ndarray, c: float) -> Correction:
    """Fit Platt scaling for any number of labels; those that do not occur have no probability."""
    regression = LogisticRegression(C=c, max_iter=10_000).fit(log_p, y)

    def correct(new: np.ndarray) -> np.ndarray:
        proba = np.zeros((len(new), len(SHARES)))
        proba[:, regression.classes_] = regression.predict_proba(new)
        return proba

    return correct


def table(losses: np.ndarray, counts: np.ndarray) -> str:
    """Format the mean log losses, with a column for each number of held-out positions."""
    sizes = [f"{n * LENGTH:,} ({count:.0f})" for n, count in zip(SIZES, counts, strict=True)]
    names = ["power", *(f"logistic regression, C={c:g}" for c in PENALTIES)]
    rows = [[name, *(f"{loss:.3f}" for loss in losses[:, k])] for k, name in enumerate(names)]
    return markdown(["positions (of the rarest label)", *sizes], rows)


if __name__ == "__main__":
    main()
