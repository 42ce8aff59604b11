"""Latency: time to label one short sequence, to search label sequences, and to label online.

``hyphen`` are words, and ``sensors`` sequences of ten simulated measurements of five sensors with
three labels. TreeCRF and TreeMEMM have the settings of the papers (λ = 40, 100 leaves, 100
iterations), and LinearCRF has its defaults. Times of calls are those of the fastest of many, in
microseconds: other work on the machine can only add to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import Spread, markdown, seconds_repeated
from papers_data import load
from settings import papers_model

from treecrf import LinearCRF, TreeCRF, TreeMEMM
from treecrf.utils.threads import Threads

WINDOWS = {"hyphen": 3, "sensors": 1}
TREES = {"max_leaf_nodes": 100, "l2_regularization": 40.0}
MODELS = {
    "TreeCRF": partial(papers_model, TreeCRF, **TREES),
    "TreeMEMM": partial(papers_model, TreeMEMM, **TREES),
    "LinearCRF": LinearCRF,
}
PARTS = ("read", "scores", "marginals")
LAGS = (0, 5, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    for table in arguments.tables:
        header, rows_of = TABLES[table]
        rows = [row for data in arguments.data for row in rows_of(data, arguments.repeats)]
        print(f"\n{markdown(header, rows)}", flush=True)


def sequences(data: str) -> tuple[list, list]:
    """Training sequences and their labels."""
    if data == "hyphen":
        X, y, *_ = load(data).arrays()
        return X, y
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 5)) for _ in range(200)]
    y = [(x[:, 0] + np.roll(x[:, 1], 1) > 0).astype(int) + (x[:, 2] > 1) for x in X]
    return X, y


def fitted(data: str, model: str, **parameters: Any) -> tuple[Any, Any]:
    """A model, and a sequence of ten positions."""
    X, y = sequences(data)
    estimator = MODELS[model](window=WINDOWS[data], **parameters).fit(X, y)
    return estimator, next(x for x in X if len(x) == 10)


def fastest(call: Callable, repeats: int) -> float:
    """Microseconds of the fastest call."""
    times = []
    for _ in range(100 * repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def predict_rows(data: str, repeats: int) -> list[list[str]]:
    """Time of `predict` for one sequence, and of its parts."""
    rows = []
    for name in MODELS:
        model, x = fitted(data, name)
        read, threads = model._read([x])[0], Threads(1)
        lattice = model._lattice(read, None, threads)
        calls = {
            "predict": lambda m=model, x=x: m.predict([x]),
            "read": lambda m=model, x=x: m._read([x]),
            "scores": lambda m=model, r=read: m._lattice(r, None, Threads(1)),
            "marginals": lattice.marginals,
        }
        rows.append([data, name, *(f"{fastest(call, repeats):.0f}" for call in calls.values())])
    return rows


def search_rows(data: str, repeats: int) -> list[list[str]]:
    """Time of greedy decoding and beam search relative to exact decoding, on 1440 positions."""
    rows = []
    for order in (1, 2):
        model, _ = fitted(data, "TreeMEMM", order=order)
        X = sequences(data)[0]
        x = ["".join(X)[:1440]] if data == "hyphen" else [np.concatenate(X)[:1440]]
        calls = {
            way: lambda m=model, x=x, w=way: m.set_params(decoding=w).predict(x)
            for way in ("viterbi", "greedy", "beam")
        }
        rounds = [[seconds_repeated(call) for call in calls.values()] for _ in range(repeats)]
        exact, *searches = map(Spread, zip(*rounds, strict=True))
        ratios = (spread.over(exact).show() for spread in searches)
        rows.append([data, str(order), exact.show(1e3, 1), *ratios])
    return rows


def stream_rows(data: str, repeats: int) -> list[list[str]]:
    """Time of a push, after 100 and after 10,000 positions."""
    rows = []
    for name in MODELS:
        model, x = fitted(data, name)
        for lag in LAGS:
            found = []
            for n_before in (100, 10_000):
                stream = model.stream(lag)
                for t in range(n_before):
                    stream.push(x[t % 10])
                found.append(fastest(lambda s=stream, x=x: push_all(s, x), repeats) / 10)
            rows.append([data, name, str(lag), *(f"{micros:.0f}" for micros in found)])
    return rows


def push_all(stream: Any, x: Any) -> None:
    """Push ten positions."""
    for row in x:
        stream.push(row)


TABLES = {
    "predict": (("data", "model", "predict, µs", *(f"{part}, µs" for part in PARTS)), predict_rows),
    "search": (("data", "order", "Viterbi, ms", "greedy / Viterbi", "beam / Viterbi"), search_rows),
    "stream": (
        ("data", "model", "lag", "push after 100 positions, µs", "after 10,000, µs"),
        stream_rows,
    ),
}


if __name__ == "__main__":
    main()
