"""CoNLL-2000 chunking: plain features in a window against a linear model with conjunctions.

TreeCRF reads dicts with the features of each word itself and finds conjunctions over its window.
python-crfsuite gets the attributes that are typical for this task: words, tags, affixes and shapes
in the window, and hand-crafted bigrams and trigrams of words and tags. Each model is trained in a
separate process. ``--held-out`` evaluates the settings of TreeCRF on held-out sentences.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pycrfsuite
from measure import markdown, peak_memory

from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000
from treecrf.metrics import span_f1_score, token_accuracy_score

SETTINGS = {
    "window": 2,
    "max_iter": 170,
    "second_order": True,
    "learning_rate": 0.5,
    "max_leaf_nodes": 64,
    "l2_regularization": 10.0,
    "decoding": "viterbi",
    "random_state": 0,
}
# Features that occur less often in the training data are dropped.
FEWEST = 3
# Lengths of affixes.
SIZES = (1, 2, 3, 4)
HEADER = ("model", "features", "label accuracy %", "F1 %", "fit s", "iteration s", "peak GB")

Sentences = list[list[dict[str, str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--jobs", type=int, default=2, help="threads of TreeCRF")
    parser.add_argument(
        "--held-out", action="store_true", help="test on held-out training sentences"
    )
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    rows = []
    for name in arguments.model:
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
            rows.append(pool.submit(row, name, arguments.jobs, arguments.held_out).result())
    print(markdown(HEADER, rows))


def row(name: str, n_jobs: int, held_out: bool) -> list[str]:
    """Train and evaluate a model."""
    X, y = fetch_conll2000(return_X_y=True)
    X_test, y_test = fetch_conll2000(subset="test", return_X_y=True)
    if held_out:
        (X_test, y_test), (X, y) = (X[::4], y[::4]), ([s for i, s in enumerate(part) if i % 4]
                                                      for part in (X, y))  # fmt: skip
    n_features, seconds, n_iter, predicted = MODELS[name](X, y, X_test, n_jobs)
    fractions = (token_accuracy_score(y_test, predicted), span_f1_score(y_test, predicted))
    return [name, str(n_features), *(f"{100 * x:.2f}" for x in fractions), f"{seconds:.0f}",
            f"{seconds / n_iter:.2f}", f"{peak_memory() / 2**30:.1f}"]  # fmt: skip


def by_trees(X: Sentences, y: list, X_test: Sentences, n_jobs: int) -> tuple:
    X, X_test = ([[plain(**token) for token in x] for x in part] for part in (X, X_test))
    counts = Counter(item for x in X for token in x for item in token.items())
    common = {item for item, count in counts.items() if count >= FEWEST}
    X, X_test = (
        [[common_only(token, common) for token in x] for x in part] for part in (X, X_test)
    )
    start = time.perf_counter()
    model = TreeCRF(**SETTINGS, n_jobs=n_jobs).fit(X, y)
    return len(common), time.perf_counter() - start, model.n_iter_, model.predict(X_test)


def common_only(token: dict[str, str], common: set[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in token.items() if (name, value) in common}


def plain(word: str, tag: str) -> dict[str, str]:
    """Features of one word, without its neighbors."""
    small, outline = word.lower(), shape(word)
    known = {"word": word, "tag": tag, "small": small, "shape": outline}
    known["outline"] = re.sub(r"(.)\1", r"\1", outline)
    affixes = {f"first {n}": small[:n] for n in SIZES} | {f"last {n}": small[-n:] for n in SIZES}
    return known | affixes


def shape(word: str) -> str:
    """A for uppercase letters, a for lowercase letters, 0 for digits; runs are cut after two."""
    letters = re.sub("[A-Z]", "A", re.sub("[a-z]", "a", re.sub("[0-9]", "0", word)))
    return re.sub(r"(.)\1+", r"\1\1", letters)


def by_crfsuite(X: Sentences, y: list, X_test: Sentences, n_jobs: int) -> tuple:
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": 1.0, "max_iterations": 200})
    attributes = set()
    for x, labels in zip(X, y, strict=True):
        rows = conjunctions(x)
        attributes.update(*rows)
        trainer.append(rows, list(labels))
    start = time.perf_counter()
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        seconds = time.perf_counter() - start
        tagger.open(f"{folder}/model")
        predicted = [np.array(tagger.tag(conjunctions(x))) for x in X_test]
    return len(attributes), seconds, len(trainer.logparser.iterations), predicted


def conjunctions(x: list[dict[str, str]]) -> list[list[str]]:
    """The attributes of each word: its window, its affixes, and n-grams of words and tags."""
    words = ["<2", "<1", *(token["word"] for token in x), "1>", "2>"]
    tags = ["<2", "<1", *(token["tag"] for token in x), "1>", "2>"]
    return [_attributes(words[t : t + 5], tags[t : t + 5]) for t in range(len(x))]


def _attributes(words: list[str], tags: list[str]) -> list[str]:
    """Attributes of the middle one of five words."""
    found = [f"w[{i - 2}]={word}" for i, word in enumerate(words)]
    found += [f"t[{i - 2}]={tag}" for i, tag in enumerate(tags)]
    found += [f"w[{i - 2}..]={'|'.join(words[i : i + 2])}" for i in (1, 2)]
    found += [f"t[{i - 2}..]={'|'.join(tags[i : i + 2])}" for i in range(4)]
    found += [f"t3[{i - 2}..]={'|'.join(tags[i : i + 3])}" for i in range(3)]
    word = words[2]
    found += [f"first{n}={word[:n]}" for n in SIZES] + [f"last{n}={word[-n:]}" for n in SIZES]
    return [*found, f"small={word.lower()}", f"shape={shape(word)}"]


MODELS: dict[str, Callable[..., tuple]] = {
    "TreeCRF, plain features": by_trees,
    "python-crfsuite, with conjunctions": by_crfsuite,
}


if __name__ == "__main__":
    main()
