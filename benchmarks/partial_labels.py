"""Hyphenation with unknown labels: summed over, or left out of training.

A fraction of the training labels is removed at random. ``summed`` trains on the words with their
unknown labels. ``left out`` trains on the runs of known labels between them: these have the same
attributes, but nothing connects them. The settings are fixed, not chosen for these data. All values
are means over random choices of the labels that are removed, in percent of the test labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import groupby

import numpy as np
from measure import Spread, markdown, seconds
from settings import papers_model

from treecrf import LinearCRF, TreeCRF
from treecrf.datasets import fetch_hyphenation

LEARNERS: dict[str, Callable] = {
    "`LinearCRF`": LinearCRF,
    "`TreeCRF`, first order": partial(papers_model, TreeCRF, max_iter=50),
    "`TreeCRF`, Newton steps": partial(
        papers_model,
        TreeCRF,
        second_order=True,
        max_leaf_nodes=31,
        l2_regularization=10.0,
        learning_rate=0.3,
    ),
}
HEADER = ("learner", "unknown %", "summed: labels %", "left out: labels %",
          "summed: log-likelihood", "left out: log-likelihood", "fit, summed / left out",
          )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unknown", type=float, nargs="+", default=[0.0, 0.5, 0.8, 0.95])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    data = []
    for subset in ("train", "test"):
        words, labels = fetch_hyphenation(subset=subset, return_X_y=True)
        data += [list(map(rows, words)), labels]
    table = [
        [name, f"{100 * share:.0f}", *compare(make, share, arguments.repeats, *data)]
        for name, make in LEARNERS.items()
        for share in arguments.unknown
    ]
    print(markdown(HEADER, table))


def rows(word: str) -> np.ndarray:
    """The letters in the window of each letter, so that runs of letters keep their windows."""
    padded = "__" + word + "___"
    return np.array([list(padded[t : t + 6]) for t in range(len(word))])


def compare(make: Callable, share: float, repeats: int, X, y, X_test, y_test) -> list[str]:
    accuracies, likelihoods, times = np.zeros((3, repeats, 2))
    for i in range(repeats):
        rng = np.random.default_rng(i)
        unknown = [[v if rng.random() >= share else None for v in labels] for labels in y]
        for j, given in enumerate([(X, unknown), runs_of_known(X, unknown)]):
            model = make()
            times[i, j] = seconds(lambda model=model, given=given: model.fit(*given))
            accuracies[i, j] = model.score(X_test, y_test)
            total = model.predict_log_likelihood(X_test, y_test).sum()
            likelihoods[i, j] = total / sum(map(len, y_test))
    return [
        *(f"{100 * value:.2f}" for value in accuracies.mean(axis=0)),
        *(f"{value:.4f}" for value in likelihoods.mean(axis=0)),
        Spread(tuple(times[:, 0] / times[:, 1])).show(digits=1),
    ]


def runs_of_known(X, y) -> tuple[list, list]:
    """The longest parts of sequences in which all labels are known."""
    parts = []
    for x, labels in zip(X, y, strict=True):
        known_at = [label is not None for label in labels]
        for known, run in groupby(range(len(labels)), known_at.__getitem__):
            positions = list(run)
            parts += [(x[positions], [labels[t] for t in positions])] * known
    return tuple(map(list, zip(*parts, strict=True)))


if __name__ == "__main__":
    main()
