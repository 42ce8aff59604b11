"""Latency: time to label one short sequence, to search label sequences, and to label online.

``hyphen`` are words, and ``sensors`` sequences of ten simulated measurements of five sensors with
three labels. TreeCRF and TreeMEMM have the settings of the papers (λ = 40, 100 leaves, 100
iterations), and LinearCRF has its defaults. Times of calls are those of the fastest of many, in
microseconds: other work on the machine can only add to them.

``predict`` labels the measurements as arrays, strings, dicts and data frames, with few and many
trees. ``text`` labels sentences of CoNLL-2000 with the default model and with python-crfsuite, both
trained on every sixth sentence. ``curves`` are CPU times of single calls in relation to those of
python-crfsuite, along the numbers of positions, keys, labels and trees, and for forms of input.
Models without their compiled form read a short sequence like a large batch.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pycrfsuite
from chunking import conjunctions
from measure import Spread, markdown, seconds_repeated
from papers_data import load
from settings import papers_model
from words import plain_sentences

from treecrf import LinearCRF, TreeCRF, TreeMEMM
from treecrf.datasets import fetch_conll2000

WINDOWS = {"hyphen": 3, "sensors": 1}
TREES = {"max_leaf_nodes": 100, "l2_regularization": 40.0}
MODELS = {
    "TreeCRF": partial(papers_model, TreeCRF, **TREES),
    "TreeMEMM": partial(papers_model, TreeMEMM, **TREES),
    "LinearCRF": LinearCRF,
}
SIZES = {"15 iterations of 31 leaves": (15, 31), "50 iterations of 64 leaves": (50, 64)}
N_SENTENCES = 300
LAGS = (0, 5, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--curves", nargs="+", choices=list(CURVES), default=list(CURVES))
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    for table in arguments.tables:
        header, rows_of = TABLES[table]
        every = {"curves": arguments.curves}.get(table, [""])
        if table in OF_DATA:
            every = arguments.data
        rows = [row for data in every for row in rows_of(data, arguments.repeats)]
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


def forms() -> dict[str, Callable[[np.ndarray], Any]]:
    """Functions that convert measurements to each form of input."""
    import pandas as pd

    def symbols(x: np.ndarray) -> str:
        return "".join("abcdefghij"[int(v)] for v in np.clip(2 * x[:, 0] + 5, 0, 9))

    def dicts(x: np.ndarray) -> list[dict]:
        rows = zip(x.tolist(), symbols(x), strict=True)
        return [{"a": row[0], "b": row[1], "symbol": symbol} for row, symbol in rows]

    def frame(x: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(x, columns=list("abcde")).assign(symbol=list(symbols(x)))

    return {"arrays": lambda x: x, "strings": symbols, "dicts": dicts, "frames": frame}


def long_way(model: Any) -> Any:
    """Return a copy of a model without its compiled form."""
    other = copy.copy(model)
    other._predictor().short_model = None
    return other


def predict_rows(_: str, repeats: int) -> list[list[str]]:
    """Time of `predict` for ten rows in each form."""
    X, y = sequences("sensors")
    rows = []
    for (form, convert), init in product(forms().items(), ("zero", "linear")):
        items = [convert(x) for x in X]
        for size, (max_iter, n_leaves) in SIZES.items():
            settings = {"max_iter": max_iter, "max_leaf_nodes": n_leaves, "init": init}
            model = TreeCRF(window=1, early_stopping=False, **settings).fit(items, y)
            times = [
                fastest(lambda m=m, x=items[0]: m.predict([x]), repeats)
                for m in (model, long_way(model))
            ]
            rows.append([form, init, size, *(f"{micros:.0f}" for micros in times)])
    return rows


def text_rows(_: str, repeats: int) -> list[list[str]]:
    """Mean time to label a sentence of CoNLL-2000."""
    X, y = fetch_conll2000(return_X_y=True)
    X, y, new = X[::6], y[::6], X[1 : 6 * N_SENTENCES : 6]
    model = TreeCRF(window=2).fit(plain_sentences(X), y)
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": 1.0, "max_iterations": 50})
    for x, labels in zip(X, y, strict=True):
        trainer.append(conjunctions(x), list(labels))
    other = long_way(model)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")
        calls = {
            "TreeCRF": (lambda x: model.predict([x]), plain_sentences(new)),
            "TreeCRF, as a long sequence": (
                lambda x: other.predict([x]),
                plain_sentences(new),
            ),
            "python-crfsuite": (tagger.tag, [conjunctions(x) for x in new]),
        }
        return [
            [name, f"{1e3 * mean_seconds(call, items, repeats):.2f}"]
            for name, (call, items) in calls.items()
        ]


def mean_seconds(call: Callable, items: list, repeats: int) -> float:
    """CPU seconds of a call, the mean over the items, in the fastest of a few rounds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for item in items:
            call(item)
        times.append(time.process_time() - start)
    return min(times) / len(items)


# Curves: what changes along each of them, and what is the same.
PLAIN = {"positions": 10, "keys": 8, "labels": 4, "trees": 200}
CURVES = {
    "positions": (1, 10, 50, 64, 65, 100, 200, 500, 1000, 2000, 5000),
    "keys": (1, 8, 32, 128, 129, 500, 2000),
    "labels": (2, 10, 30, 64, 65, 100),
    "trees": (40, 200, 1000, 2000),
    "input": (
        "dicts",
        "lists of attributes",
        "sets of attributes",
        "nested dicts",
        "values of NumPy",
        "a missing value",
        "nothing known",
        "decode",
        "predict_proba",
        "chunks of 20",
        "chunks of 300",
    ),
}


def words_of(n: int, n_labels: int, n_keys: int, rng: np.random.Generator) -> tuple[list, list]:
    """Dicts of words, of which few are frequent; labels depend on the first and the second."""
    words = rng.zipf(1.5, (n, n_keys)) % 2000
    rows = [{f"key {k}": f"w{word}" for k, word in enumerate(row)} for row in words.tolist()]
    codes = (words[:, 0] + np.roll(words[:, min(1, n_keys - 1)], 1)) % n_labels
    return rows, [f"label {code}" for code in codes.tolist()]


def named(rows: list[dict]) -> list[dict]:
    """The same words as attributes without values, as lists of attributes have them."""
    return [{f"{key}={word}": True for key, word in row.items()} for row in rows]


def labelers(settings: dict[str, int], attributes: bool) -> tuple[Any, Any, Any]:
    """python-crfsuite, LinearCRF and TreeCRF, trained on sequences of 20 positions."""
    rng = np.random.default_rng(0)
    n_sequences = max(20, min(200, 2000 // settings["keys"]))
    data = [words_of(20, settings["labels"], settings["keys"], rng) for _ in range(n_sequences)]
    X = [named(x) if attributes else x for x, _ in data]
    y = [labels for _, labels in data]
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": 1.0, "max_iterations": 20})
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, labels)
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger.open(f"{folder}/model")
    max_iter = max(1, settings["trees"] // settings["labels"])
    linear = LinearCRF(max_iter=20, decoding="viterbi")
    trees = TreeCRF(
        max_iter=max_iter, early_stopping=False, init="zero", constant_transitions=False,
        decoding="viterbi",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tagger, linear.fit(X, y), trees.fit(X, y)


def curve_rows(axis: str, repeats: int) -> list[list[str]]:
    """CPU time of one call, in relation to that of python-crfsuite for the same attributes."""
    rows = []
    made: dict[tuple, tuple] = {}
    for value in CURVES[axis]:
        settings = PLAIN | ({axis: value} if axis in PLAIN else {})
        form = value if axis == "input" else "dicts"
        attributes = "attributes" in form
        key = attributes, *(settings[name] for name in ("keys", "labels", "trees"))
        if key not in made:
            made[key] = labelers(settings, attributes)
        tagger, *models = made[key]
        n = settings["positions"]
        n_sequences = int(form.split()[-1]) if "chunks" in form else 1
        rng = np.random.default_rng(1)
        X = [words_of(n, 2, settings["keys"], rng)[0] for _ in range(n_sequences)]
        X = [named(x) for x in X] if attributes else X
        suite = mean_seconds(tagger.tag, X * (10 // n_sequences + 1), repeats) * n_sequences
        calls = [quick_call(model, X, form) for model in models]
        ratios = [mean_seconds(call, range(10), repeats) / suite for call in calls]
        rows.append([f"{axis}: {value}", f"{1e3 * suite / n_sequences:.3f}", *map(ratio, ratios)])
    return rows


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def quick_call(model: Any, X: list, form: str) -> Callable[[int], Any]:
    """A call with these sequences in a form, or of another method."""
    if form == "decode":
        return lambda _: model.decode(X)
    if form == "predict_proba":
        return lambda _: model.predict_proba(X)
    if "attributes" in form:
        kind = set if "sets" in form else list
        X = [[kind(row) for row in x] for x in X]
    elif form == "nested dicts":
        X = [[{"key 0": row["key 0"], "other": row} for row in x] for x in X]
    elif form == "values of NumPy":
        X = [[{key: np.str_(word) for key, word in row.items()} for row in x] for x in X]
    elif form == "a missing value":
        X = [[row | {"key 3": None} for row in x] for x in X]
    elif form == "nothing known":
        X = [[dict.fromkeys(row, "never") for row in x] for x in X]
    warnings.simplefilter("ignore")
    return lambda _: model.predict(X)


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
    "predict": (
        ("input", "start", "trees", "predict, µs", "as a long sequence, µs"),
        predict_rows,
    ),
    "text": (("model", "ms per sentence"), text_rows),
    "curves": (
        ("curve", "python-crfsuite, ms", "LinearCRF, ratio", "TreeCRF, ratio"),
        curve_rows,
    ),
    "search": (("data", "order", "Viterbi, ms", "greedy / Viterbi", "beam / Viterbi"), search_rows),
    "stream": (
        ("data", "model", "lag", "push after 100 positions, µs", "after 10,000, µs"),
        stream_rows,
    ),
}

# Tables with rows for each of ``--data``, and for each of ``--curves``.
OF_DATA = ("search", "stream")


if __name__ == "__main__":
    main()
