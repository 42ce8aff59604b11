"""Recurrent windows that are trained on true labels, or on their own predictions.

A third of the training sequences is held out. The rows are decodings of the same two models, the
labels being read in either direction, and a window without previous labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from measure import markdown
from papers_data import NAMES, load
from sklearn.model_selection import ShuffleSplit

from treecrf import RecurrentSlidingWindowClassifier, SlidingWindowClassifier

DIRECTIONS = ("left-to-right", "right-to-left")
PREVIOUS = {"true": None, "predicted": 5}
HEADER = ("data", "order", "direction", "previous labels", "greedy: labels %", "sequences %",
          "marginal: labels %", "sequences %")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=["protein", "nettalk"])
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--splits", type=int, default=6)
    arguments = parser.parse_args()
    rows = []
    for data in arguments.data:
        cells: dict[tuple, list] = {}
        for split in range(arguments.splits):
            for name, fractions in evaluated(data, arguments.orders, split):
                cells.setdefault(name, []).append(fractions)
        for name, fractions in cells.items():
            means = 100 * np.mean(fractions, axis=0)
            rows.append([data, *name, *(f"{mean:.1f}" for mean in means)])
    print(markdown(HEADER, rows))


def evaluated(data: str, orders: list[int], split: int) -> Iterator[tuple[tuple, list[float]]]:
    """Yield the first cells of each row, and accuracies by greedy and by marginal decoding."""
    task = load(data)
    splitter = ShuffleSplit(1, test_size=1 / 3, random_state=split)
    train, test = next(splitter.split(task.train.letters))
    X, y = zip(*((task.train.letters[i], task.train.targets()[i]) for i in train), strict=True)
    held_out = task.train.take(test)
    settings = {"window": task.window, "random_state": 0, "n_jobs": 1}
    window = SlidingWindowClassifier(**settings).fit(X, y)
    yield ("", "", "none"), 2 * accuracy(window, held_out)
    for order in orders:
        for direction in DIRECTIONS:
            for previous, cv in PREVIOUS.items():
                model = RecurrentSlidingWindowClassifier(
                    order=order, direction=direction, cv=cv, **settings
                ).fit(X, y)
                greedy = accuracy(model, held_out)
                model.set_params(decoding="marginal")
                yield (str(order), direction, previous), greedy + accuracy(model, held_out)


def accuracy(model, held_out) -> list[float]:
    """Fractions of labels and of whole sequences that are right."""
    right = [
        found[: len(labels)] == np.array(list(labels))
        for found, labels in zip(model.predict(held_out.letters), held_out.labels, strict=True)
    ]
    return [np.concatenate(right).mean(), np.mean([of_one.all() for of_one in right])]


if __name__ == "__main__":
    main()
