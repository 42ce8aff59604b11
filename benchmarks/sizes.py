"""Default settings as data grow: from 500 to 200,000 training positions of six kinds of data.

TreeCRF with default settings is compared with LinearCRF, with TreeCRF from scores of 0 and the best
number of iterations (early stopping on as many further positions as there are test positions), and
with LightGBM on the values in the window. In bold: results that are not worse than the best one by
more than one standard error of their difference, over the test sequences. The training data of one
size contain those of all smaller sizes, and all sizes have the same test data.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from defaults import MODELS, Contestant, estimator, is_as_good, result
from measure import markdown
from panel import Draw, Sequences, Task, chunks, gaussian
from sklearn.exceptions import ConvergenceWarning

from treecrf import TreeCRF
from treecrf.datasets import make_block_hmm

SIZES = [500, 1_000, 2_000, 5_000, 9_000, 12_000, 20_000, 50_000, 100_000, 200_000]
# Number of test positions, and of validation positions.
N_TEST = 10_000


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    Attributes
    ----------
    window : int
    make : callable
        Called with a random generator and a number of positions; returns sequences.
    max_size : int
    """

    window: int
    make: Callable[[np.random.RandomState, int], Sequences]
    max_size: int = SIZES[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--models", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name in arguments.kinds:
        for size in arguments.sizes:
            if size <= KINDS[name].max_size:
                rows.append([name, f"{size:,}", *cells(KINDS[name], size, arguments)])
                print(*rows[-1], sep=" | ", flush=True)
    header = [f"{model}: accuracy % (Viterbi), log loss, fit s" for model in arguments.models]
    print(markdown(["data", "positions", *header], rows))


def cells(kind: Kind, size: int, arguments: argparse.Namespace) -> list[str]:
    """Return the results of all models."""
    draw, validation = draws(kind, size, arguments.seed)
    task = Task(kind.window, 1, lambda *_: draw)
    extra = {"zero": {"validation": validation}}
    results = [result(CONTESTANTS[model], task, draw, extra.get(model, {}))
               for model in arguments.models]  # fmt: skip
    shown = []
    for i, one in enumerate(results):
        values = [(f"{100 * one.correct.sum() / one.lengths.sum():.1f}", "correct"),
                  (f"{-one.logs.sum() / one.lengths.sum():.3f}", "logs")]  # fmt: skip
        accuracy, loss = (
            f"**{text}**" if is_as_good([getattr(r, name) for r in results], i, one.lengths)
            else text for text, name in values
        )  # fmt: skip
        viterbi = 100 * one.viterbi / one.lengths.sum()
        accuracy += f" ({viterbi:.1f})" if viterbi == viterbi else ""
        shown.append(f"{accuracy}, {loss}, {one.seconds:.1f}")
    return shown


def draws(kind: Kind, size: int, seed: int) -> tuple[Draw, Sequences]:
    """Return a draw with ``size`` training positions, and validation data."""
    X, y = made(kind, seed)
    ends = np.cumsum([len(labels) for labels in y])
    n_test, n_both, n = np.searchsorted(ends, [N_TEST, 2 * N_TEST, 2 * N_TEST + size]) + 1
    if len(X) == 3:  # one sequence of each kind
        n_test, n_both, n = 1, 2, 3
    train = X[n_both:n], y[n_both:n]
    if len(X) == 3:
        train = [train[0][0][:size]], [train[1][0][:size]]
    return Draw(*train, X[:n_test], y[:n_test]), (X[n_test:n_both], y[n_test:n_both])


@cache
def made(kind: Kind, seed: int) -> Sequences:
    """Make or read test, validation and training sequences, in this order."""
    return kind.make(np.random.RandomState(seed), 2 * N_TEST + kind.max_size)


def by_zero(task: Task, draw: Draw, validation: Sequences) -> Contestant:
    """Train a TreeCRF from scores of 0, which stops at the best iteration."""
    labels = set(np.concatenate([np.asarray(each) for each in draw.y]))
    pairs = [(X, y) for X, y in zip(*validation, strict=True) if labels.issuperset(y)]
    settings = {"init": "zero", "early_stopping": True, "max_iter": 200}
    return estimator(
        TreeCRF(window=task.window, random_state=0, **settings),
        draw,
        tuple(zip(*pairs, strict=True)),
    )


CONTESTANTS: dict[str, Any] = {
    "TreeCRF": MODELS["TreeCRF"], "LinearCRF": MODELS["LinearCRF"], "zero": by_zero,
    "LightGBM": MODELS["LightGBM"],
}  # fmt: skip


# Kinds of data


def simulated(
    make: Callable[[np.random.RandomState, int], Sequences], length: int
) -> Callable[[np.random.RandomState, int], Sequences]:
    """Make sequences of one length."""
    return lambda rng, n_positions: make(rng, -(-n_positions // length) + 3)


def shuffled(
    read: Callable[[], Sequences],
) -> Callable[[np.random.RandomState, int], Sequences]:
    """Read published sequences, in random order."""

    def make(rng: np.random.RandomState, n_positions: int) -> Sequences:
        X, y = read()
        order = rng.permutation(len(X))
        return [X[i] for i in order], [y[i] for i in order]

    return make


def interactions(rng: np.random.RandomState, n: int) -> Sequences:
    """Three labels that persist; heavy-tailed numbers, of which a switch inverts one."""
    X, y = [], []
    for _ in range(n):
        labels = np.zeros(50, dtype=int)
        moves, drawn = rng.rand(50) < 0.15, rng.randint(3, size=50)
        for t in range(50):
            labels[t] = drawn[t] if moves[t] or t == 0 else labels[t - 1]
        table = rng.standard_t(3, size=(50, 8))
        switch = rng.rand(50) < 0.5
        table[:, 1] += np.where(switch, 2.0, -2.0) * (labels == 1)
        table[:, 2] = np.abs(table[:, 2]) + 1.2 * (labels == 2)
        table[rng.rand(50, 8) < 0.1] = np.nan
        table[:, 0] = switch
        X.append(table)
        y.append(labels)
    return X, y


def long_sequences(rng: np.random.RandomState, n_positions: int) -> Sequences:
    """Make a test, a validation and a training sequence; one of five numbers is squared."""
    means = 0.35 * rng.normal(size=(3, 5))
    X, y = [], []
    for length in (N_TEST, N_TEST, n_positions - 2 * N_TEST):
        moves, drawn = rng.rand(length) < 0.03, rng.randint(3, size=length)
        moves[0] = True
        labels = drawn[np.maximum.accumulate(np.where(moves, np.arange(length), 0))]
        table = means[labels] + rng.normal(size=(length, 5))
        table[:, 4] **= 2
        X.append(table)
        y.append(labels)
    return X, y


def phonemes() -> Sequences:
    """Read the phonemes of the letters of all words of NETtalk's dictionary."""
    path = Path(os.environ["TREECRF_DATA"]) / "nettalk" / "nettalk.data"
    rows = [line.split("\t") for line in path.read_text(encoding="latin-1").splitlines()]
    words = [row for row in rows if len(row) > 2 and len(row[0]) == len(row[1])]
    return [row[0] for row in words], [list(row[1]) for row in words]


KINDS = {
    "numbers": Kind(2, simulated(gaussian(4, 60, 0.8, 3, 0.8), 60)),
    "interactions": Kind(1, simulated(interactions, 50)),
    "symbols": Kind(
        2,
        simulated(lambda rng, n: make_block_hmm(n_sequences=n, length=50, random_state=rng), 50),
    ),
    "words": Kind(1, shuffled(lambda: chunks("train")), 100_000),
    "phonemes": Kind(3, shuffled(phonemes), 100_000),
    "one sequence": Kind(1, long_sequences),
}


if __name__ == "__main__":
    main()
