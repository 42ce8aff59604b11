"""TREECRF compared with other libraries: accuracy, likelihood, time, memory, and ratios.

Everything runs in one process and one thread. The contestants take turns within each repeat, so
that other load on the machine affects all of them. Times are CPU seconds: median (min-max).
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from contestants import KINDS, Contestant, CRFsuite, SlidingWindow, Trees, make
from expanded import ExpandedTrees
from measure import Spread, markdown, peak_growth, seconds, seconds_repeated
from papers_data import CHOICES, NAMES, Task, load
from threadpoolctl import threadpool_limits

FROM_TREE, TO_TREE = 10, 40

HEADER = ("contestant", "accuracy %", "test log-likelihood per label", "fit s", "iteration ms",
          "tree ms", "1000 positions/s labeled", "peak memory MB")  # fmt: skip
RATIO_HEADER = ("measurement", "data", "TreeCRF", "other", "TreeCRF / other", "goal")


def main() -> None:
    arguments = parse_arguments()
    print(environment())
    ratios = []
    with threadpool_limits(1):
        for name in arguments.data:
            task = load(name)
            if not arguments.ratios:
                rows = [*contestant_rows(task, arguments), expanded_row(task, arguments)]
                print(f"\n## {name}\n\n{markdown(HEADER, rows)}", flush=True)
            ratios += ratio_rows(task, arguments.repeats)
    print(f"\n## Ratios\n\n{markdown(RATIO_HEADER, ratios)}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repeat and no peak memory")
    parser.add_argument("--ratios", action="store_true", help="the last table only")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = 1
    return arguments


def environment() -> str:
    packages = ("lightgbm", "python-crfsuite", "numpy")
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return f"Python {platform.python_version()} on {platform.machine()}, {versions}"


def contestant_rows(task: Task, arguments: argparse.Namespace) -> list[list[str]]:
    rounds = [[measured(kind, task) for kind in KINDS] for _ in range(arguments.repeats)]
    by_kind = zip(KINDS, zip(*rounds, strict=True), strict=True)
    return [
        [*contestant_row(results), memory(partial(fit_afresh, kind), task, arguments)]
        for kind, results in by_kind
    ]


def measured(kind: str, task: Task) -> tuple[Contestant, float, float, float]:
    """Fit a contestant and time the fit, one iteration, and labeling of the test set."""
    model = make(kind, task)
    fit = seconds(model.fit)
    iteration = (fit - seconds(make(kind, task, 1).fit)) / (model.n_iterations - 1)
    return model, fit, iteration, seconds_repeated(model.predict)


def contestant_row(results: tuple) -> list[str]:
    models, *times = zip(*results, strict=True)
    fit, iteration, labeling = map(Spread, times)
    model = models[0]
    n_trees = model.trees_per_iteration
    speeds = Spread(tuple(model.true_labels.size / time for time in labeling.values))
    return [
        f"{model.name}, {model.n_iterations} iterations",
        f"{100 * model.accuracy():.2f}",
        f"{model.log_likelihood():.4f}",
        fit.show(),
        iteration.show(1e3),
        iteration.show(1e3 / n_trees) if n_trees else "",
        speeds.show(1e-3, 1),
    ]


def expanded_row(task: Task, arguments: argparse.Namespace) -> list[str]:
    """Times of the fit only: these trees do not form a model that could label anything."""
    fits, iterations = [], []
    for _ in range(arguments.repeats):
        trees = ExpandedTrees(task)
        building = seconds(trees.build)
        growing = [trees.iterate() for _ in range(TO_TREE)]
        fits.append(building + sum(growing))
        iterations.append(sum(growing[FROM_TREE:]) / (TO_TREE - FROM_TREE))
    fit, iteration = Spread(tuple(fits)), Spread(tuple(iterations))
    return [
        f"{ExpandedTrees.name}, {TO_TREE} iterations", "", "", fit.show(), iteration.show(1e3),
        iteration.show(1e3 / trees.n_labels), "", memory(grow_afresh, task, arguments),
    ]  # fmt: skip


def memory(run: Callable[[Task], None], task: Task, arguments: argparse.Namespace) -> str:
    """Peak memory beyond the letters and labels, including the inputs of the contestant."""
    return "" if arguments.quick else f"{peak_growth(load, run, task.name) / 1e6:.0f}"


def fit_afresh(kind: str, task: Task) -> None:
    make(kind, task).fit()


def grow_afresh(task: Task) -> None:
    trees = ExpandedTrees(task)
    trees.build()
    for _ in range(TO_TREE):
        trees.iterate()


def ratio_rows(task: Task, repeats: int) -> list[list[str]]:
    goal = 0.45 if task.name.startswith("hyphen") else 0.35
    rows = [ratio_row("one iteration, ms", task, iteration_pair, repeats, 1e3, f"at most {goal}")]
    if task.name == "protein":
        rows.append(ratio_row("training, s", task, training_pair, repeats, 1.0, "at most 1"))
    rows.append(ratio_row("labeling, µs per position", task, labeling_pairs(task), repeats, 1e6,
                          "at most 1"))  # fmt: skip
    return rows


def ratio_row(
    name: str,
    task: Task,
    pair: Callable[[Task], tuple[float, float]],
    repeats: int,
    scale: float,
    target: str,
) -> list[str]:
    """Repeat a pair of measurements, of TreeCRF and of the other library."""
    ours, others = zip(*(pair(task) for _ in range(repeats)), strict=True)
    ours, others = Spread(ours), Spread(others)
    return [name, task.name, ours.show(scale), others.show(scale), ours.over(others).show(), target]


def iteration_pair(task: Task) -> tuple[float, float]:
    """TreeCRF's iterations 11 to 40, and LightGBM's trees for them on the expanded table."""
    n_iterations = TO_TREE - FROM_TREE
    long, short = (seconds(Trees(task, n).fit) for n in (TO_TREE, FROM_TREE))
    trees = ExpandedTrees(task)
    trees.build()
    growing = [trees.iterate() for _ in range(TO_TREE)]
    return (long - short) / n_iterations, sum(growing[FROM_TREE:]) / n_iterations


def training_pair(task: Task) -> tuple[float, float]:
    """142 iterations including all preparation, and 200 iterations of L-BFGS without any."""
    other = CRFsuite(task, 200)
    trainer = other.collect()
    return seconds(Trees(task, 142).fit), seconds(lambda: other.train(trainer))


def labeling_pairs(task: Task) -> Callable[[Task], tuple[float, float]]:
    """Both models have 150 iterations of K trees with 100 leaves; each is trained only once."""
    ours = Trees(task, 150)
    other = SlidingWindow(
        task, 150, num_leaves=100, min_data_in_leaf=1, min_sum_hessian_in_leaf=0.0
    )
    ours.fit()
    other.fit()
    models, n_positions = (ours, other), ours.true_labels.size
    return lambda _: tuple(seconds_repeated(model.predict) / n_positions for model in models)


if __name__ == "__main__":
    main()
