"""The linear CRF compared with CRFsuite, and the results for linear CRFs in the TREECRF papers.

``crfsuite``: the same attributes, labels and penalties, so that both minimize the same loss. They
take turns within each repeat, in one thread. The time of CRFsuite starts when all items are in its
memory; that of LinearCRF includes encoding the strings.

``papers``: accuracy on the test data, with the penalty that gives held-out thirds of the training
data the highest likelihood.

``chunking``: CoNLL-2000 with every fourth training sentence held out, L-BFGS and stochastic
gradient descent.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pycrfsuite
from compare import environment
from measure import Spread, markdown, seconds
from papers_data import CHOICES, NAMES, Task, load
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits
from words import plain

from treecrf import LinearCRF
from treecrf.datasets import fetch_conll2000
from treecrf.metrics import span_f1_score

# Stopping criteria: the default of CRFsuite, and near the optimum.
ENDS = {"default": 1e-5, "near the optimum": 1e-8}
PENALTIES = ((0.0, 1.0), (0.0, 0.1), (1.0, 0.0))  # c1 and c2
GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
MAX_ITERATIONS = 1000
N_FOLDS = 3
# Attributes that occur less often in the training data are dropped.
FEWEST = 3
CHUNKING_GRID = (1.0, 10.0, 40.0, 100.0)
SOLVERS = ({"solver": "sgd", "max_iter": 10}, {"solver": "sgd", "max_iter": 30},
           {"solver": "lbfgs"})  # fmt: skip

CRFSUITE_HEADER = ("data", "c1", "c2", "stop at", "CRFsuite: iterations", "loss", "above best", "s",
                   "LinearCRF: iterations", "loss", "above best", "s", "ratio of s")  # fmt: skip
PAPERS_HEADER = ("data", "transition features", "l2", "held-out log-likelihood", "marginal %",
                 "viterbi %", "test log-likelihood", "iterations", "fit s")  # fmt: skip
CHUNKING_HEADER = ("l2", "solver", "iterations", "loss", "held-out log-likelihood",
                   "F1 % (Viterbi)", "fit s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["crfsuite", "papers", "chunking"])
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--splits", type=int, default=2, help="number of splits into thirds")
    parser.add_argument(
        "--penalties", nargs="+", type=float, default=CHUNKING_GRID, help="l2 for chunking"
    )
    arguments = parser.parse_args()
    print(environment())
    with threadpool_limits(1):
        if "crfsuite" in arguments.what:
            for name in arguments.data:
                rows = list(races(load(name), arguments.repeats))
                print(f"\n{markdown(CRFSUITE_HEADER, rows)}", flush=True)
        if "papers" in arguments.what:
            rows = [
                paper_row(load(name), pairs, arguments.splits)
                for name, pairs in product(arguments.data, (False, True))
            ]
            print(f"\n{markdown(PAPERS_HEADER, rows)}", flush=True)
        if "chunking" in arguments.what:
            rows = list(chunking_rows(arguments.penalties))
            print(f"\n{markdown(CHUNKING_HEADER, rows)}", flush=True)


# Comparison with CRFsuite


def races(task: Task, repeats: int) -> Iterator[list[str]]:
    """Rows of the table for a dataset."""
    for c1, c2 in PENALTIES:
        losses, found = [], {}
        for ends, tol in ENDS.items():
            rounds = [race(task, c1, c2, tol) for _ in range(repeats)]
            found[ends] = rounds
            losses += [loss for _, loss, _ in rounds[0]]
        for ends, rounds in found.items():
            theirs, ours = zip(*rounds, strict=True)
            times = [Spread(tuple(time for _, _, time in side)) for side in (theirs, ours)]
            cells = [cell for (n, loss, _), time in zip(rounds[0], times, strict=True)
                     for cell in (str(n), f"{loss:.3f}", f"{loss / min(losses) - 1:.0e}",
                                  time.show())]  # fmt: skip
            yield [task.name, f"{c1:g}", f"{c2:g}", ends, *cells, times[1].over(times[0]).show()]


def race(task: Task, c1: float, c2: float, tol: float) -> tuple[tuple, tuple]:
    """Iterations, loss and seconds of CRFsuite, then of LinearCRF."""
    X, y, _, _ = task.arrays()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({
        "c1": c1, "c2": c2, "max_iterations": MAX_ITERATIONS, "delta": tol,
        "epsilon": min(1e-5, tol),
        "feature.possible_states": True, "feature.possible_transitions": True,
    })  # fmt: skip
    for word, labels in zip(X, y, strict=True):
        trainer.append(items_of(word, task.window), [str(label) for label in labels])
    with tempfile.TemporaryDirectory() as folder:
        theirs = seconds(lambda: trainer.train(str(Path(folder) / "model")))
    last = trainer.logparser.last_iteration
    crf = LinearCRF(
        window=task.window,
        l1_regularization=c1,
        l2_regularization=c2,
        tol=tol,
        max_iter=MAX_ITERATIONS,
    )
    ours = seconds(lambda: crf.fit(X, y))
    return (last["num"], last["loss"], theirs), (crf.n_iter_, crf.loss_, ours)


def items_of(word: str, window: tuple[int, int]) -> list[list[str]]:
    """Attributes of the letters of a word, the same that LinearCRF builds internally."""
    left, right = window
    padded = "|" * left + word + "|" * right
    items = [
        [f"{k - left}{letter}" for k, letter in enumerate(padded[t : t + left + right + 1])]
        for t in range(len(word))
    ]
    items[0].append("first")  # LinearCRF has weights for the labels at first positions
    return items


# The papers


def paper_row(task: Task, pairs: bool, n_splits: int) -> list[str]:
    held_out = {l2: held_out_likelihood(task, pairs, l2, n_splits) for l2 in GRID}
    best = max(held_out, key=held_out.get)
    X, y, X_test, y_test = task.arrays()
    crf = LinearCRF(window=task.window, transition_features=pairs, l2_regularization=best)
    fit = seconds(lambda: crf.fit(X, y))
    truth = task.codes(task.test)
    accuracies = []
    for decoding in ("marginal", "viterbi"):
        labels = task.test.rows_of(crf.set_params(decoding=decoding).predict(X_test))
        accuracies.append(f"{100 * np.mean(np.searchsorted(crf.classes_, labels) == truth):.2f}")
    log_p = crf.predict_log_likelihood(X_test, y_test).sum() / len(truth)
    return [task.name, "yes" if pairs else "no", f"{best:g}", f"{held_out[best]:.4f}", *accuracies,
            f"{log_p:.4f}", str(crf.n_iter_), f"{fit:.2f}"]  # fmt: skip


def held_out_likelihood(task: Task, pairs: bool, l2: float, n_splits: int) -> float:
    """Mean log-likelihood per held-out label, over all thirds of several splits."""
    total = n = 0
    for split in range(n_splits):
        folds = KFold(N_FOLDS, shuffle=True, random_state=split).split(task.train.labels)
        for kept, out in folds:
            part = Task(task.name, task.train.take(kept), task.train.take(out))
            X, y, X_out, y_out = part.arrays()
            crf = LinearCRF(window=task.window, transition_features=pairs, l2_regularization=l2)
            total += crf.fit(X, y).predict_log_likelihood(X_out, y_out).sum()
            n += part.test.lengths.sum()
    return total / n


# Chunking


def chunking_rows(penalties: Iterable[float]) -> Iterator[list[str]]:
    X, y = fetch_conll2000(return_X_y=True)
    X = [[plain(**token) for token in x] for x in X]
    train = [[s for i, s in enumerate(part) if i % 4] for part in (X, y)]
    X_out, y_out = X[::4], y[::4]
    for l2, settings in product(penalties, SOLVERS):
        crf = LinearCRF(window=2, l2_regularization=l2, min_count=FEWEST, random_state=0)
        crf.set_params(decoding="viterbi", **settings)
        fit = seconds(lambda crf=crf: crf.fit(*train))
        log_p = crf.predict_log_likelihood(X_out, y_out).sum() / sum(map(len, y_out))
        f1 = 100 * span_f1_score(y_out, crf.predict(X_out))
        yield [f"{l2:g}", crf.solver, str(crf.n_iter_), f"{crf.loss_:.1f}", f"{log_p:.4f}",
               f"{f1:.2f}", f"{fit:.1f}"]  # fmt: skip


if __name__ == "__main__":
    main()
