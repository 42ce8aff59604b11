"""Contestants of `real.py`: each learns from labeled sequences and labels others.

What a contestant has to choose (the window, the length of a filter, the strength of a posterior,
the number of epochs) it chooses by one rule: it learns from two thirds of the training persons, and
takes the choice with the highest accuracy on the others, the first of equal ones. Then it learns
from all training sequences.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hmmlearn.hmm import GaussianHMM
from lightgbm import LGBMClassifier
from real_sequences import Examples, Predicted, held_out, n_correct
from real_smoothing import Smoother, best, chain_probabilities, majority_filter, markov_chain
from sklearn.ensemble import HistGradientBoostingClassifier

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF

WINDOWS = (0, 2, 5, 10)

# A model that has learned returns its predictions, of each way to decode them, by name ("" is the
# usual one). A learner is called with the data and the number of labels.
Model = Callable[[list[np.ndarray]], dict[str, Predicted]]
Learner = Callable[[Examples, int], Model]


def most_probable(probabilities: list[np.ndarray]) -> Predicted:
    """Label each position with its most probable label."""
    return Predicted([each.argmax(axis=1) for each in probabilities], probabilities)


# Learners of this package


def sequence_learner(make: Callable[[], Any]) -> Learner:
    """Learn with an estimator of this package."""

    def learn(data: Examples, n_labels: int) -> Model:
        model = make().fit(data.X, data.y)
        return lambda X: {"": most_probable(_all_labels(model.predict_proba(X), model, n_labels))}

    return learn


def _all_labels(probabilities: Sequence[np.ndarray], model: Any, n_labels: int) -> list[np.ndarray]:
    """Add columns of zeros for labels that the training sequences lack."""
    complete = [np.zeros((len(each), n_labels)) for each in probabilities]
    for out, each in zip(complete, probabilities, strict=True):
        out[:, model.classes_.astype(int)] = each
    return complete


# Classifiers of positions, from the values in a window


def windowed(X: np.ndarray, window: int) -> np.ndarray:
    """Write out the rows in a window around each position; those beyond the ends are missing."""
    padded = np.pad(X, [(window, window), (0, 0)], constant_values=np.nan)
    return np.hstack([padded[i : i + len(X)] for i in range(2 * window + 1)])


def position_learner(make: Callable[[], Any], window: int) -> Learner:
    """Learn a classifier of positions from the values in a window."""

    def learn(data: Examples, n_labels: int) -> Model:
        rows = np.concatenate([windowed(X, window) for X in data.X])
        model = make().fit(rows, np.concatenate(data.y))

        def predict(X: list[np.ndarray]) -> dict[str, Predicted]:
            found = [model.predict_proba(windowed(each, window)) for each in X]
            return {"": most_probable(_all_labels(found, model, n_labels))}

        return predict

    return learn


def choose_window(of_window: Callable[[int], Learner], **smoothers: Smoother) -> Learner:
    """Learn with the window that labels held-out persons best.

    Smoothers, by name, are fitted to the predictions for the held-out persons.
    """

    def learn(data: Examples, n_labels: int) -> Model:
        part, rest = held_out(data)
        tried = {window: of_window(window)(part, n_labels)(rest.X)[""] for window in WINDOWS}
        window = best(WINDOWS, lambda window: n_correct(tried[window].labels, rest.y))
        fitted = {name: smoother(data, rest, tried[window]) for name, smoother in smoothers.items()}
        model = of_window(window)(data, n_labels)

        def predict(X: list[np.ndarray]) -> dict[str, Predicted]:
            plain = model(X)[""]
            return {"": plain} | {name: smooth(plain) for name, smooth in fitted.items()}

        return predict

    return learn


def lightgbm_learner(window: int) -> Learner:
    """LightGBM with its defaults."""
    return position_learner(lambda: LGBMClassifier(n_jobs=1, verbose=-1, random_state=0), window)


def boosting_learner(window: int) -> Learner:
    """scikit-learn's boosting by histograms, with its defaults."""
    return position_learner(lambda: HistGradientBoostingClassifier(random_state=0), window)


# Others


def gaussian_hmm(data: Examples, n_labels: int) -> Model:
    """Estimate hmmlearn's Gaussian hidden Markov model from the labels: one state for each.

    Columns are standardized, and missing values are replaced by the mean.
    """
    scaled = standardizer(data.X)
    rows, labels = np.concatenate([scaled(X) for X in data.X]), np.concatenate(data.y)
    model = GaussianHMM(n_labels, covariance_type="diag")
    model.startprob_, model.transmat_ = chain_probabilities(data.y, n_labels)
    of_label = [rows[labels == k] if (labels == k).any() else rows for k in range(n_labels)]
    model.means_ = np.array([each.mean(axis=0) for each in of_label])
    model.covars_ = np.array([each.var(axis=0) + 0.01 for each in of_label])
    return lambda X: {"": most_probable([model.predict_proba(scaled(each)) for each in X])}


def standardizer(X: list[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that standardizes columns as those of ``X``; missing values become 0."""
    rows = np.concatenate(X).astype(float)
    center, scale = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    scale[~(scale > 0)] = 1.0
    return lambda table: np.nan_to_num((table - center) / scale)


def convolutional_net(data: Examples, n_labels: int) -> Model:
    """Train a small net of convolutions over positions, with PyTorch; see `real_net.py`.

    The number of epochs is chosen by the log loss of the held-out persons.
    """
    from real_net import train  # PyTorch is optional

    prepared = filler(data.X)
    part, rest = (([prepared(X) for X in each.X], each.y) for each in held_out(data))
    _, n_epochs = train(*part, n_labels, validation=rest)
    predict, _ = train([prepared(X) for X in data.X], data.y, n_labels, n_epochs=n_epochs)
    return lambda X: {"": most_probable([predict(prepared(each)) for each in X])}


def filler(X: list[np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that standardizes, and adds indicators of missing values."""
    scaled = standardizer(X)
    has_missing = np.isnan(np.concatenate(X)).any(axis=0)
    return lambda table: np.hstack([scaled(table), np.isnan(table)[:, has_missing]])


CONTESTANTS: dict[str, Learner] = {
    "TreeCRF": sequence_learner(lambda: TreeCRF(random_state=0)),
    "LinearCRF": choose_window(lambda window: sequence_learner(lambda: LinearCRF(window=window))),
    "SlidingWindowClassifier": choose_window(
        lambda window: sequence_learner(
            lambda: SlidingWindowClassifier(window=window, random_state=0)
        )
    ),
    "LightGBM": choose_window(lightgbm_learner, HMM=markov_chain, filter=majority_filter),
    "HistGradientBoosting": choose_window(boosting_learner),
    "hmmlearn": gaussian_hmm,
    "convolutions": convolutional_net,
}


def available() -> list[str]:
    """Return the contestants whose libraries are installed."""
    lacks_torch = importlib.util.find_spec("torch") is None
    return [name for name in CONTESTANTS if not (lacks_torch and name == "convolutions")]
