"""Speed of contributions to scores, compared with `pred_contrib` of LightGBM, in one thread.

All models have as many trees of as many leaves, and explain all labels at all positions from the
same window. TreeCRF also explains the previous label.
"""

from __future__ import annotations

import argparse

import numpy as np
from lightgbm import LGBMClassifier
from measure import Spread, markdown, seconds
from settings import papers_model

from treecrf import SlidingWindowClassifier, TreeCRF
from treecrf.inspection import contributions

N_LABELS, N_FEATURES, LENGTH = 3, 10, 100
HEADER = ("leaves", "sliding window, ms", "TreeCRF, ms", "LightGBM, ms", "LightGBM / window")


def sequences(n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Numbers with labels that depend on products of them, and on the previous position."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(LENGTH, N_FEATURES)) for _ in range(n)]
    sums = [x[:, 0] * x[:, 1] + np.roll(x[:, 2], 1) + x[:, 3] + 1.5 for x in X]
    return X, [np.clip(values.astype(int), 0, N_LABELS - 1) for values in sums]


def windows(X: list[np.ndarray]) -> np.ndarray:
    """Rows with the values at the offsets -1, 0 and 1."""
    padded = [np.pad(x, [(1, 1), (0, 0)], constant_values=np.nan) for x in X]
    return np.concatenate([np.hstack([p[:-2], p[1:-1], p[2:]]) for p in padded])


def row(n_leaves: int, args: argparse.Namespace) -> list[str]:
    """Time the models with this number of leaves; milliseconds per 1000 positions."""
    X, y = sequences(args.sequences)
    settings = {"window": 1, "max_iter": args.iterations, "max_leaf_nodes": n_leaves,
                "l2_regularization": 40.0}  # fmt: skip
    kinds = (SlidingWindowClassifier, TreeCRF)
    models = [papers_model(kind, **settings).fit(X, y) for kind in kinds]
    some, labels = X[: args.explained], y[: args.explained]
    calls = [lambda model=model: contributions(model, some, labels) for model in models]
    lgbm = LGBMClassifier(
        n_estimators=args.iterations, num_leaves=n_leaves, min_child_samples=1, n_jobs=1,
        verbose=-1,
    ).fit(windows(X), np.concatenate(y))  # fmt: skip
    table = windows(some)
    calls.append(lambda: lgbm.booster_.predict(table, pred_contrib=True, num_threads=1))
    rounds = [[seconds(call) for call in calls] for _ in range(args.repeats)]
    times = [Spread(values) for values in zip(*rounds, strict=True)]
    shown = [time.show(1e6 / len(table), 0) for time in times]
    return [str(n_leaves), *shown, times[2].over(times[0]).show(digits=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--explained", type=int, default=10, help="number of explained sequences")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print(markdown(HEADER, [row(n_leaves, args) for n_leaves in (8, 31, 100)]))


if __name__ == "__main__":
    main()
