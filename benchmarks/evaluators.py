"""Times of the evaluators of trees, the constants of their choice, and what the choice is worth.

Models of different kinds of columns, numbers of labels, trees and leaves score different numbers
of positions. Every evaluator scores the same positions in turns, and all give the same scores.
Times are those of the fastest call, in CPU seconds of one thread: other work can only add to them.

- Without options: a table of the times of each evaluator, of the one that is chosen, and how much
  longer than the fastest one it takes.
- ``--constants``: the constants of `treecrf.trees.fast.costs`, fitted to the times. The lookup is
  measured without permutes (AVX-512 VBMI), for which there are other constants.
- ``--save FILE`` and ``--load FILE...``: store measurements, or read those of several machines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import markdown
from scipy.optimize import nnls

from treecrf import TreeCRF
from treecrf.encoding.encoded import EncodedSequences
from treecrf.trees.evaluators import ForestEvaluator
from treecrf.trees.fast import costs, lookup
from treecrf.trees.scoring.batch import Batch
from treecrf.utils.threads import Threads

# Kind of columns, number of labels, and parameters of the model.
CASES = [
    ("letters", 2, {}),
    ("letters", 3, {}),
    ("letters", 8, {}),
    ("letters", 26, {"max_iter": 30}),
    ("letters", 3, {"order": 2}),
    ("letters", 3, {"order": 0}),
    ("letters", 8, {"order": 2, "max_iter": 20}),
    ("letters", 3, {"max_iter": 20}),
    ("letters", 2, {"max_leaf_nodes": 8}),
    ("letters", 3, {"max_leaf_nodes": 120}),
    ("numbers", 2, {"window": 0}),
    ("numbers", 3, {}),
    ("numbers", 8, {}),
    ("numbers", 20, {"max_iter": 30}),
    ("numbers", 3, {"max_leaf_nodes": 8}),
    ("numbers", 3, {"max_leaf_nodes": 120}),
    ("words", 4, {}),
    ("words", 12, {"max_iter": 30}),
    ("words", 50, {"max_iter": 10}),
]
MODEL = {"window": 2, "max_iter": 100, "max_leaf_nodes": 31, "early_stopping": False,
         "init": "zero", "sampling": None}  # fmt: skip
PAPERS = ("protein", "nettalk", "hyphen")
SIZES = (4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 20_000)
LENGTH = 40
# Walking takes longest of all for more positions.
MOST_WALKED = 2048
WORK = {
    "reference": costs.reference_work,
    "walking": costs.walking_work,
    "lookup": costs.lookup_work,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--papers", action="store_true", help="also models of the papers' datasets")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each number of positions")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--load", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.load:
        rows = [row for path in arguments.load for row in json.loads(path.read_text())]
    else:
        rows = list(measured(arguments.papers, arguments.seconds))
    if arguments.save:
        arguments.save.write_text(json.dumps(rows, indent=1))
    if arguments.constants:
        print_constants(rows)
    else:
        print(markdown(HEADER, [table_row(row) for row in rows]))


def measured(with_papers: bool, seconds: float) -> Iterator[dict]:
    """Yield a record for each model and number of positions."""
    for kind, n_labels, settings in CASES:
        rng = np.random.default_rng(0)
        X, y = sequences(kind, n_labels, 80, rng)
        crf = TreeCRF(**MODEL | settings).fit(X, y)
        X_test, _ = sequences(kind, n_labels, max(SIZES) // LENGTH, rng)
        changes = ", ".join(f"{name}={value}" for name, value in settings.items())
        yield from measured_model(f"{n_labels} labels, {kind} {changes}", crf, X_test, seconds)
    for name in PAPERS if with_papers else ():
        yield from measured_paper(name, seconds)


def sequences(kind: str, n_labels: int, n: int, rng: np.random.Generator) -> tuple[list, list]:
    """Random labels, and columns that depend on them."""
    y = [rng.integers(0, n_labels, LENGTH) for _ in range(n)]
    if kind == "letters":
        codes = [(3 * labels + rng.integers(0, 12, LENGTH)) % 26 for labels in y]
        return [[chr(97 + code) for code in row] for row in codes], y
    if kind == "words":
        codes = [50 * labels + rng.zipf(1.5, LENGTH) % 400 for labels in y]
        return [[f"w{code}" for code in row] for row in codes], y
    scales = rng.uniform(0.2, 1, 5)
    return [rng.normal(size=(LENGTH, 5)) + labels[:, np.newaxis] * scales for labels in y], y


def measured_paper(name: str, seconds: float) -> Iterator[dict]:
    """Yield records for a dataset of the papers."""
    from papers_data import load
    from settings import make_model

    task = load(name)
    X, y, X_test, _ = task.arrays()
    second_order = {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.3}
    for n_iter, n_leaves in ((50, 64), (80, 128)):
        settings = {"max_iter": n_iter, "max_leaf_nodes": n_leaves, **second_order}
        crf = make_model(task, settings).fit(X, y)
        yield from measured_model(
            f"{name}, {n_iter} iterations of {n_leaves} leaves", crf, list(X_test), seconds
        )


def measured_model(name: str, crf: TreeCRF, X: list, seconds: float) -> Iterator[dict]:
    """Yield a record for each number of positions."""
    for n_positions in SIZES:
        if sum(map(len, X)) < n_positions:
            return
        encoded = crf._encoder.encode(crf._predictor().read(first_positions(X, n_positions))[0])
        evaluator = crf._forest.evaluator(crf._encoder, 0, crf._forest.n_iter, False)
        times = evaluator_times(evaluator, encoded, seconds)
        work = {key: function(evaluator.trees, n_positions).tolist()
                for key, function in WORK.items()}  # fmt: skip
        fastest = evaluator.fastest(n_positions)
        choice = "reference" if fastest is None else fastest.name
        yield {"model": name, "positions": n_positions, "times": times, "work": work,
               "choice": choice}  # fmt: skip


def first_positions(X: list, n: int) -> list:
    """Cut sequences after a total number of positions."""
    taken = []
    for x in X:
        taken.append(x[:n])
        n -= len(taken[-1])
        if n == 0:
            break
    return taken


def evaluator_times(
    evaluator: ForestEvaluator, encoded: EncodedSequences, seconds: float
) -> dict[str, float]:
    """Seconds of each evaluator, in turns, after checking that all give the same scores."""
    names = ["reference", "lookup"]
    if encoded.n_positions <= MOST_WALKED and evaluator.trees.n_contexts <= 64:
        names.append("walking")
    expected = scores_by("reference", evaluator, encoded)
    for name in names:
        np.testing.assert_array_equal(scores_by(name, evaluator, encoded), expected)
    times = dict.fromkeys(names, np.inf)
    end = time.process_time() + seconds
    while time.process_time() < end:
        for name in names:
            start = time.process_time()
            scores_by(name, evaluator, encoded)
            times[name] = min(times[name], time.process_time() - start)
    return times


def scores_by(name: str, evaluator: ForestEvaluator, encoded: EncodedSequences) -> np.ndarray:
    """Scores by one evaluator.

    Positions at the start of sequences, which are few, are left to walking by the lookup.
    """
    trees, n = evaluator.trees, encoded.n_positions
    scores = np.zeros((trees.packed.n_labels, n, trees.n_contexts))
    batch = Batch(encoded, encoded.depth_of(trees.order), None, scores, Threads(1))
    if name == "reference":
        batch.run(evaluator.reference)
        return scores
    fast = {evaluator.name: evaluator for evaluator in evaluator.fast_evaluators}
    is_deep = batch.depth == trees.order
    by_lookup = is_deep & (name == "lookup")
    for way, is_chosen in (("lookup", by_lookup), ("walking", ~by_lookup)):
        positions = np.flatnonzero(is_chosen).astype(np.int32)
        if len(positions):
            batch.take(positions, scores).run(fast[way].kernel(trees.order), positions)
    return scores


def print_constants(rows: list[dict]) -> None:
    """Fit the constants to the measured times, with the same relative weight for all of them."""
    for name in WORK:
        known = [row for row in rows if name in row["times"]]
        work = np.array([row["work"][name] for row in known], dtype=float)
        times = 1e9 * np.array([row["times"][name] for row in known])
        constants, _ = nnls(work / times[:, np.newaxis], np.ones(len(times)))
        print(f"{name.upper()}_TIMES = {[float(f'{value:.2g}') for value in constants]}")
        print_fit(work @ constants / times)


def print_fit(ratios: np.ndarray) -> None:
    print("  estimated / measured time:", np.quantile(ratios, [0.05, 0.5, 0.95]).round(2))


HEADER = ("model", "positions", "reference, µs", "walking", "lookup", "choice", "over the fastest")


def table_row(row: dict) -> list[str]:
    """Times of a position, and how much longer the choice takes than the fastest evaluator."""
    times, n = row["times"], row["positions"]
    shown = [f"{1e6 * times[name] / n:.2f}" if name in times else "" for name in WORK]
    over = times[row["choice"]] / min(times.values())
    return [row["model"], str(n), *shown, row["choice"], f"{over:.2f}"]


if __name__ == "__main__":
    # The lookup in memory, as on processors without permutes.
    lookup.has_permutes = lambda: False
    main()
