"""The linear CRF compared with CRFsuite, and the results for linear CRFs in the TREECRF papers.

``crfsuite``: the same attributes, labels and penalties, so that both minimize the same loss. They
take turns within each repeat, in one thread. The time of CRFsuite starts when all items are in its
memory; that of LinearCRF includes encoding the strings.

``text``: CoNLL-2000 and CoNLL-2002 (Spanish) with the features of sklearn-crfsuite's tutorial, the
same penalties, and ``all_possible_transitions``. Each training has a process of its own. CPU
seconds include the conversion of the dicts; memory is the growth of the peak above data and
libraries. Every fourth training sentence is held out; ``--test`` labels the test files instead.
``search`` is a random search of both penalties, with 5 candidates and 3 folds of 500 sentences.

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
from measure import Spread, in_new_process, markdown, peak_memory, reset_peak_memory, seconds
from papers_data import CHOICES, NAMES, Task, folder, load
from scipy.stats import expon
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold, RandomizedSearchCV
from threadpoolctl import threadpool_limits
from words import plain_sentences, tutorial

from treecrf import LinearCRF
from treecrf.datasets import fetch_conll2000
from treecrf.metrics import get_scorer, span_f1_score

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

# Of text: c1 and c2, and the learners.
TEXT_PENALTIES = ((0.1, 0.1), (0.0, 0.1))
TEXT_FILES = {"conll2000": ("conll2000/train.txt", "conll2000/test.txt"),
              "conll2002": ("conll2002/esp.train", "conll2002/esp.testb")}  # fmt: skip
# The pairs of attribute and label that have weights, see `LinearCRF`.
PAIRS = {"observed pairs": False, "default": "auto", "all pairs": True}
TEXT_SIDES = ("CRFsuite", *(f"LinearCRF, {pairs}" for pairs in PAIRS))
SEARCH_SENTENCES, SEARCH_ITERATIONS = 500, 100

CRFSUITE_HEADER = ("data", "c1", "c2", "stop at", "CRFsuite: iterations", "loss", "above best", "s",
                   "LinearCRF: iterations", "loss", "above best", "s", "ratio of s")  # fmt: skip
TEXT_HEADER = (
    "data",
    "c1",
    "c2",
    "learner",
    "iterations",
    "CPU s",
    "ratio",
    "MB",
    "F1 % (Viterbi)",
)
PAPERS_HEADER = ("data", "transition features", "l2", "held-out log-likelihood", "marginal %",
                 "viterbi %", "test log-likelihood", "iterations", "fit s")  # fmt: skip
CHUNKING_HEADER = ("l2", "solver", "iterations", "loss", "held-out log-likelihood",
                   "F1 % (Viterbi)", "fit s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="*", default=["crfsuite", "text", "search", "papers", "chunking"]
    )
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--splits", type=int, default=2, help="number of splits into thirds")
    parser.add_argument(
        "--penalties", nargs="+", type=float, default=CHUNKING_GRID, help="l2 for chunking"
    )
    parser.add_argument("--texts", nargs="+", choices=TEXT_FILES, default=list(TEXT_FILES))
    parser.add_argument("--sentences", type=int, default=2000, help="of text; 0 for all")
    parser.add_argument("--max-iter", type=int, default=MAX_ITERATIONS, help="for text")
    parser.add_argument("--test", action="store_true", help="label the test files of the texts")
    arguments = parser.parse_args()
    print(environment())
    with threadpool_limits(1):
        if "crfsuite" in arguments.what:
            for name in arguments.data:
                rows = list(races(load(name), arguments.repeats))
                print(f"\n{markdown(CRFSUITE_HEADER, rows)}", flush=True)
        if "text" in arguments.what:
            settings = arguments.sentences, arguments.test, arguments.max_iter, arguments.repeats
            rows = [row for name in arguments.texts for row in text_rows(name, *settings)]
            print(f"\n{markdown(TEXT_HEADER, rows)}", flush=True)
        if "search" in arguments.what:
            print(f"\n{markdown(('learner', 'CPU s', 'F1 %'), list(search_rows()))}", flush=True)
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


# Text


def text_rows(
    name: str, n_sentences: int, is_test: bool, max_iter: int, repeats: int
) -> Iterator[list[str]]:
    """Rows of the table for a text; in each repeat, the learners take turns."""
    for c1, c2 in TEXT_PENALTIES:
        found: dict[str, list[tuple]] = {side: [] for side in TEXT_SIDES}
        for side in TEXT_SIDES * repeats:
            arguments = name, n_sentences, is_test, side, c1, c2, max_iter
            found[side].append(in_new_process(text_run, *arguments))
        theirs = Spread(tuple(run[1] for run in found[TEXT_SIDES[0]]))
        for side, runs in found.items():
            times = Spread(tuple(run[1] for run in runs))
            n_iter, _, memory, f1 = runs[0]
            yield [name, f"{c1:g}", f"{c2:g}", side, str(n_iter), times.show(1, 1),
                   times.over(theirs).show(), f"{memory / 1e6:.0f}", f"{100 * f1:.2f}"]  # fmt: skip


def text_run(
    name: str, n_sentences: int, is_test: bool, side: str, c1: float, c2: float, max_iter: int
) -> tuple[int, float, float, float]:
    """Iterations, CPU seconds, growth of memory and F1 of one training."""
    X, y, X_new, y_new = text_data(name, n_sentences, is_test)
    model = text_model(side).set_params(
        l1_regularization=c1, l2_regularization=c2, max_iter=max_iter
    )
    before = reset_peak_memory()
    with threadpool_limits(1):
        time = seconds(lambda: model.fit(X, y))
    memory = peak_memory() - before
    return model.n_iter_, time, memory, span_f1_score(y_new, model.predict(X_new))


def text_data(name: str, n_sentences: int, is_test: bool) -> tuple[list, list, list, list]:
    """Training and held-out sentences as lists of dicts, with their labels."""
    training, test = TEXT_FILES[name]
    sentences = read_sentences(training)
    parts = [s for k, s in enumerate(sentences) if k % 4 != 3], sentences[3::4]
    if is_test:
        parts = sentences, read_sentences(test)
    if n_sentences:
        parts = parts[0][:n_sentences], parts[1]
    return tuple(
        item for part in parts
        for item in ([tutorial(s) for s in part], [[token[-1] for token in s] for s in part])
    )  # fmt: skip


def read_sentences(path: str) -> list[list[list[str]]]:
    """Words, tags and labels of the sentences of a file."""
    blocks = (folder() / path).read_text(encoding="utf-8").strip().split("\n\n")
    return [[line.split() for line in block.strip().split("\n")] for block in blocks]


def text_model(side: str) -> BaseEstimator:
    if side == "CRFsuite":
        return Crfsuite()
    pairs = side.removeprefix("LinearCRF, ")
    return LinearCRF(decoding="viterbi", all_possible_states=PAIRS[pairs])


class Crfsuite(BaseEstimator):
    """CRFsuite, with the names of the parameters of LinearCRF."""

    def __init__(
        self, l1_regularization: float = 0.0, l2_regularization: float = 1.0, max_iter: int = 1000
    ):
        self.l1_regularization = l1_regularization
        self.l2_regularization = l2_regularization
        self.max_iter = max_iter

    def fit(self, X: list, y: list) -> Crfsuite:
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({
            "c1": self.l1_regularization, "c2": self.l2_regularization,
            "max_iterations": self.max_iter, "feature.possible_transitions": True,
        })  # fmt: skip
        for x, labels in zip(X, y, strict=True):
            trainer.append(pycrfsuite.ItemSequence(x), labels)
        with tempfile.TemporaryDirectory() as home:
            path = str(Path(home) / "model")
            trainer.train(path)
            self._model = Path(path).read_bytes()
        self.n_iter_ = trainer.logparser.last_iteration["num"]
        return self

    def predict(self, X: list) -> list[list[str]]:
        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self._model)
        return [tagger.tag(pycrfsuite.ItemSequence(x)) for x in X]


def search_rows() -> Iterator[list[str]]:
    """CPU seconds of the random search of sklearn-crfsuite's tutorial, on fewer sentences."""
    X, y, X_new, y_new = text_data("conll2000", SEARCH_SENTENCES, is_test=False)
    penalties = {"l1_regularization": expon(scale=0.5), "l2_regularization": expon(scale=0.05)}
    for side in TEXT_SIDES:
        search = RandomizedSearchCV(
            text_model(side).set_params(max_iter=SEARCH_ITERATIONS), penalties,
            n_iter=5, cv=3, random_state=0, scoring=get_scorer("span_f1"),
        )  # fmt: skip
        time = seconds(lambda search=search: search.fit(X, y))
        f1 = span_f1_score(y_new, search.predict(X_new))
        yield [side, f"{time:.1f}", f"{100 * f1:.2f}"]


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
    X = plain_sentences(X)
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
