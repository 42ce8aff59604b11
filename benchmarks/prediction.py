"""Speed of prediction: methods to score positions with the same trees, and python-crfsuite.

The models of TreeCRF have few or many iterations of K trees (``MODELS``). Every method scores the
test set and short sequences, and all give the same scores. python-crfsuite is a linear model on the
indicators of the same windows, which tags with Viterbi; its items are built once, so that only
tagging is timed. Times are CPU seconds of one thread: median (min-max).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pycrfsuite
from contestants import CRFsuite
from measure import Spread, markdown, seconds_repeated
from papers_data import NAMES, Task, load
from settings import make_model
from threadpoolctl import threadpool_limits

from treecrf import FlatModel, TreeCRF, flatten
from treecrf.trees.evaluators import ForestEvaluator
from treecrf.trees.fast import lookup
from treecrf.trees.scoring.fast_evaluator import FastEvaluator
from treecrf.utils.threads import Threads

# Few large steps, and many small ones.
SECOND_ORDER = {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.3}
MODELS = {
    "50 iterations of 64 leaves": {"max_iter": 50, "max_leaf_nodes": 64, **SECOND_ORDER},
    "80 iterations of 128 leaves": {"max_iter": 80, "max_leaf_nodes": 128, **SECOND_ORDER},
    "150 iterations of 100 leaves": {
        "max_iter": 150,
        "max_leaf_nodes": 100,
        "l2_regularization": 40.0,
    },
}
# The evaluator for all positions, and whether it may look up bytes in registers.
WAYS = {
    "walking the trees": ("walking", False),
    "sets of positions": ("reference", False),
    "lookup in memory": ("lookup", False),
    "lookup": ("lookup", True),
}
HEADER = ("method", "µs per position", "relative to walking", "relative to python-crfsuite")
SHORT_HEADER = ("positions in a sequence", "walking, µs", "lookup, µs", "predict, µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for name in arguments.data:
            task = load(name)
            linear = CRFsuite(task)
            linear.fit()
            for model in arguments.model:
                report(task, model, linear, arguments.repeats)


def report(task: Task, model: str, linear: CRFsuite, repeats: int) -> None:
    """Print the tables of a dataset and a model."""
    X, y, X_test, _ = task.arrays()
    crf = make_model(task, MODELS[model])
    flat = flatten(crf.fit(X, y))
    n_leaves = len(flat._flat.entry_of_leaf)
    print(f"\n## {task.name}, {model}\n\n{n_leaves} leaves, {flat.n_conjunctions_} conjunctions, "
          f"{flat.n_weights_} weights\n")  # fmt: skip
    print(markdown(HEADER, rows_of(crf, flat, tagger(linear), X_test, repeats)), "\n")
    print(markdown(SHORT_HEADER, short_rows(crf, X_test, repeats)), flush=True)


def rows_of(crf: TreeCRF, flat: FlatModel, tag: Callable, X: list, repeats: int) -> list[list[str]]:
    """A row for each method; the methods take turns."""
    calls = calls_of(crf, flat, tag, X)
    rounds = [[seconds_repeated(call) for call in calls.values()] for _ in range(repeats)]
    n = sum(map(len, X))
    times = {
        name: Spread(times) for name, times in zip(calls, zip(*rounds, strict=True), strict=True)
    }
    walking, linear = times["walking the trees"], times["python-crfsuite, tag"]
    return [
        [name, spread.show(1e6 / n), spread.over(walking).show(digits=3),
         spread.over(linear).show()]
        for name, spread in times.items()
    ]  # fmt: skip


def calls_of(crf: TreeCRF, flat: FlatModel, tag: Callable, X: list) -> dict[str, Callable]:
    """Timed functions by name, after checking that all methods give the same scores."""
    threads, encoder, forest = Threads(1), crf._encoder, crf._forest
    encoded = encoder.encode(crf._predictor().read(X)[0])

    def by_trees(way: str) -> np.ndarray:
        with only(way):
            return forest.scores(encoder, encoded, threads)

    calls = {way: lambda way=way: by_trees(way) for way in WAYS}
    for call in calls.values():
        np.testing.assert_array_equal(call(), forest.scores(encoder, encoded, threads))
    return calls | {
        "matrix of conjunctions": lambda: flat._flat_forest.matrix(encoded, threads),
        "predict": lambda: crf.predict(X),
        "python-crfsuite, tag": lambda: tag(X),
    }


@contextmanager
def only(way: str) -> Iterator[None]:
    """Use one method for all positions."""
    name, may_permute = WAYS[way]
    has_permutes = lookup.has_permutes()

    def fastest(evaluator: ForestEvaluator, _: int) -> FastEvaluator | None:
        named = [fast for fast in evaluator.fast_evaluators if fast.name == name]
        return named[0] if named else None

    with (
        patch.object(ForestEvaluator, "fastest", fastest),
        patch.object(lookup, "has_permutes", lambda: has_permutes and may_permute),
    ):
        yield


def tagger(linear: CRFsuite) -> Callable[[list], list]:
    """Function that tags the first sequences, whose items are built in advance."""
    model = pycrfsuite.Tagger()
    model.open_inmemory(linear.model)
    items = [pycrfsuite.ItemSequence(x) for x in linear.X_test]
    return lambda X: [model.tag(x) for x in items[: len(X)]]


def short_rows(crf: TreeCRF, X: list, repeats: int) -> list[list[str]]:
    """Rows for single short sequences: scores by two methods, and `predict`."""
    rows = []
    for n in (1, 4, 8, 16, 32, 64):
        x = ["".join(X)[:n]]
        encoded = crf._encoder.encode(crf._predictor().read(x)[0])
        times: list[list[float]] = [[], [], []]
        for _ in range(repeats):
            for k, way in enumerate(("walking the trees", "lookup")):
                with only(way):
                    times[k].append(seconds_repeated(lambda e=encoded: scored(crf, e)))
            times[2].append(seconds_repeated(lambda x=x: crf.predict(x)))
        rows.append([str(n), *(Spread(tuple(some)).show(1e6, 0) for some in times)])
    return rows


def scored(crf: TreeCRF, encoded) -> np.ndarray:
    return crf._forest.scores(crf._encoder, encoded, Threads(1))


if __name__ == "__main__":
    main()
