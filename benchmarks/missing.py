"""Comparison of methods for missing values: experiment 4.4 of Hao's dissertation (2009).

Entire residues or letters are removed from training and test data, at four rates, in five versions
of each. Every method is trained on each damaged training set and evaluated on each damaged test
set, with marginal decoding. As in the dissertation, a logistic regression of the correct labels on
the methods and the training sets shows whether a method differs from that of the dissertation:
weighting, and trees that do not test whether a value is missing.

The number of iterations is chosen for each damaged training set and method, by the likelihood of a
held-out third. The other settings are those of ``settings.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from joblib import Parallel, delayed
from measure import Spread, markdown, seconds
from papers_data import NAMES, Task, load
from settings import chosen, make_model

from treecrf import TreeCRF

METHODS = ("weighting-only", "weighting", "surrogate", "impute", "indicator")
RATES = (0.05, 0.1, 0.2, 0.4)
N_VERSIONS = 5
MAX_ITER = 250
N_REPEATS = 3
RESULTS = Path(__file__).with_name("missing.json")
PICTURE = Path(__file__).parents[1] / "docs" / "guide" / "images" / "missing.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rate", nargs="+", type=float, default=RATES)
    parser.add_argument("--method", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--learner", choices=("first", "second"), default="first")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", action="store_true", help="only show earlier results")
    parser.add_argument("--cost", action="store_true", help="only measure the time of an iteration")
    arguments = parser.parse_args()
    if arguments.cost:
        rows = [cost(name, arguments.learner, arguments.method) for name in arguments.data]
        print(markdown(("20 % missing / none missing", *arguments.method), rows))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.show:
        for name, rate in product(arguments.data, arguments.rate):
            counts = run(name, rate, arguments.learner, arguments.method, arguments.jobs)
            results[f"{name} {rate}"] = results.get(f"{name} {rate}", {}) | counts
            write(results)
    for name in arguments.data:
        print(f"\n## {name}\n\n{table(name, results)}")
    if all(f"{name} {rate}" in results for name, rate in product(NAMES, RATES)):
        draw(results)


def write(results: dict) -> None:
    """Store the counts, a line for each case."""
    lines = [f'"{case}": {json.dumps(results[case], sort_keys=True)}' for case in sorted(results)]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def run(
    name: str, rate: float, learner: str, methods: list[str], n_jobs: int
) -> dict[str, list[list[int]]]:
    """Count the correct labels by method, training set and test set; add the total number."""
    task, settings = load(name), chosen(name, learner)
    work = [delayed(right_of_each)(task, settings, rate, method, version)
            for method, version in product(methods, range(N_VERSIONS))]  # fmt: skip
    counts = np.array(Parallel(n_jobs=n_jobs)(work)).reshape(len(methods), N_VERSIONS, N_VERSIONS)
    return dict(zip(methods, counts.tolist(), strict=True)) | {"of": len("".join(task.test.labels))}


def right_of_each(
    task: Task, settings: dict[str, Any], rate: float, method: str, version: int
) -> list[int]:
    """Train on one damaged training set and count the correct labels in each damaged test set."""
    X, y, X_test, _ = task.arrays()
    X = damaged(X, rate, ("train", version))
    model = make_model(task, settings, missing=method)
    model.set_params(max_iter=best_iteration(model, X, y)).fit(X, y)
    truth = np.array(list("".join(task.test.labels)))
    tests = (damaged(X_test, rate, ("test", k)) for k in range(N_VERSIONS))
    return [int(np.sum(task.test.rows_of(model.predict(X)) == truth)) for X in tests]


def damaged(X: list[str], rate: float, which: tuple[str, int]) -> list[list[str | None]]:
    """Remove single letters at random."""
    rng = np.random.default_rng([which[0] == "test", which[1], round(1000 * rate)])
    gone = [rng.random(len(x)) < rate for x in X]
    return [[None if off else letter for letter, off in zip(*pair, strict=True)]
            for pair in zip(X, gone, strict=True)]  # fmt: skip


def best_iteration(model: TreeCRF, X: list, y: list) -> int:
    """Find the iteration with the best likelihood on a held-out third."""
    in_third = np.random.default_rng(0).permutation(len(X)) % 3 == 0
    parts = [([X[i] for i in where], [y[i] for i in where])
             for where in (np.flatnonzero(~in_third), np.flatnonzero(in_third))]  # fmt: skip
    trial = TreeCRF(**model.get_params() | {"max_iter": MAX_ITER}).fit(*parts[0], *parts[1])
    return max(1, int(trial.validation_score_.argmax()))


def table(name: str, results: dict) -> str:
    """Accuracy of every method, and the difference of its log odds from those of the first."""
    rows = []
    for rate in RATES:
        counts = results.get(f"{name} {rate}")
        if counts:
            percents = (f"{percent(counts, method):.2f}" for method in METHODS)
            rows.append([f"{rate:.0%}", *percents, *differences(counts)])
    others = METHODS[1:]
    return markdown(("missing", *METHODS, *(f"log odds of {m}" for m in others)), rows)


def cost(name: str, learner: str, methods: list[str]) -> list[str]:
    """CPU time of an iteration with 20 % missing, relative to one without missing values."""
    task, settings = load(name), chosen(name, learner)
    X, y, _, _ = task.arrays()
    with_gaps = damaged(X, 0.2, ("train", 0))

    def iterations(X: list, method: str) -> float:
        model = make_model(task, settings, missing=method)
        short, long = (
            seconds(lambda n=n: model.set_params(max_iter=n).fit(X, y)) for n in (10, 40)
        )
        return long - short

    ratios = []
    for method in methods:
        pairs = [(iterations(with_gaps, method), iterations(X, method)) for _ in range(N_REPEATS)]
        ratios.append(Spread(tuple(ours / whole for ours, whole in pairs)).show())
    return [name, *ratios]


def percent(counts: dict, method: str) -> float:
    return 100 * float(np.mean(counts[method])) / counts["of"]


def differences(counts: dict) -> Iterator[str]:
    """Log odds of the other methods relative to the first, with a star if p < 0.05."""
    right = np.array([np.sum(counts[method], axis=1) for method in METHODS]).ravel()
    wrong = N_VERSIONS * counts["of"] - right
    of_method, of_training = np.divmod(np.arange(len(right)), N_VERSIONS)
    indicators = np.hstack([np.eye(len(METHODS))[of_method][:, 1:],
                            np.eye(N_VERSIONS)[of_training]])  # fmt: skip
    fitted = sm.GLM(np.stack([right, wrong], axis=1), indicators, sm.families.Binomial()).fit()
    for value, p in list(zip(fitted.params, fitted.pvalues, strict=True))[: len(METHODS) - 1]:
        yield f"{value:+.3f}{'*' if p < 0.05 else ''}"


def draw(results: dict) -> None:
    """Draw figure 4.1 of the dissertation: accuracy by fraction of missing values."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(NAMES), figsize=(10, 3.2), layout="constrained")
    for ax, name in zip(axes, NAMES, strict=True):
        for method, marker in zip(METHODS, "oDs^v", strict=True):
            accuracies = [percent(results[f"{name} {rate}"], method) for rate in RATES]
            ax.plot([100 * rate for rate in RATES], accuracies, marker=marker, label=method)
        ax.set(title=name, xlabel="missing letters, %")
    axes[0].set_ylabel("labels right, %")
    axes[0].legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    print(f"\nwritten: {PICTURE.name}")


if __name__ == "__main__":
    main()
