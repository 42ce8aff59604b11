"""Prediction of many sequences: reading, encoding, and all of `predict`.

Each form of input has one model of 20 iterations from scores of 0. The times are CPU microseconds
of one thread for each position. Reading and encoding are also timed alone, in every round.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np
from chunking import conjunctions
from measure import markdown, seconds
from papers_data import load
from threadpoolctl import threadpool_limits

from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000
from treecrf.utils.threads import Threads

HEADER = ("input", "positions", "reading", "encoding", "predict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        rows = [[name, *measured(*DATA[name](), arguments.repeats)] for name in arguments.data]
    print(markdown(HEADER, rows))


def measured(X: list, y: list, X_new: list, window: Any, repeats: int) -> list[str]:
    """Positions, and the medians of all stages."""
    crf = TreeCRF(window=window, init="zero", max_iter=20, early_stopping=False).fit(X, y)
    threads, encoder, found = Threads(1), crf._encoder, {}

    def keep(name: str, value: Any) -> None:
        found[name] = value

    stages = [
        lambda: keep("read", crf._predictor().read(X_new)[0]),
        lambda: keep("encoded", encoder.encode(found["read"], threads)),
        lambda: crf.predict(X_new),
    ]
    times = zip(*([seconds(stage) for stage in stages] for _ in range(repeats)), strict=True)
    n = found["read"].n_positions
    return [f"{n:,}", *(f"{1e6 * median(of_stage) / n:.2f}" for of_stage in times)]


def windows(form: str) -> tuple[list, list, list, int]:
    """Windows of protein as 315 booleans, in arrays or sparse matrices."""
    X, y, X_test, _ = load(f"protein-{form}").arrays()
    return X, y, X_test * 20, 0


def letters(form: type) -> tuple[list, list, list, Any]:
    """Words of NETtalk as strings or lists of letters."""
    task = load("nettalk")
    X, y, X_test, _ = task.arrays()
    return list(map(form, X)), y, [form(x) for x in X_test] * 20, task.window


def sensors() -> tuple[list, list, list, int]:
    """Arrays of 14 numbers."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(500, 14)) for _ in range(400)]
    y = [(x[:, 0] > 0) * 1 + (x[:, 1] > 0) for x in X]
    return X[:20], y[:20], X[20:], 1


def sentences(as_rows: bool) -> tuple[list, list, list, int]:
    """Sentences of CoNLL-2000: dicts of a word and its tag, or rows of 29 attributes."""
    X, y = fetch_conll2000(return_X_y=True)
    if as_rows:
        X = [conjunctions(x) for x in X[:3000]]
    return X[:800], y[:800], X[800:3000], 0 if as_rows else 1


DATA = {
    "booleans": lambda: windows("dense"),
    "sparse booleans": lambda: windows("rows"),
    "strings": lambda: letters(str),
    "lists of strings": lambda: letters(list),
    "numbers": sensors,
    "dicts": lambda: sentences(False),
    "rows of strings": lambda: sentences(True),
}

if __name__ == "__main__":
    main()
