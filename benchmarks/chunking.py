"""Tagging of text: plain features in a window against a linear model with conjunctions.

``--data chunks`` is the CoNLL-2000 task, ``--data entities`` the Spanish one of CoNLL-2002. TreeCRF
reads dicts with the features of each word itself and finds conjunctions over its window.
python-crfsuite gets the attributes that are typical for this task: words, tags, affixes and shapes
in the window, and hand-crafted bigrams and trigrams of words and tags. Each model is trained in a
separate process. ``--held-out`` evaluates on held-out sentences instead of the test sentences:
every fourth training sentence, or the task's validation sentences.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from statistics import mean

import numpy as np
import pycrfsuite
from measure import in_new_process, markdown, peak_memory
from settings import papers_model
from words import SIZES, Sentences, plain_sentences, shape

import treecrf
from treecrf import TreeCRF
from treecrf.datasets import fetch_conll2000, fetch_conll2002
from treecrf.metrics import span_f1_score, token_accuracy_score

SHARED = {
    "window": 2,
    "init": "linear",
    "second_order": True,
    "curvature": "diagonal",
    "l2_regularization": 20.0,
    "sampling": 0.1,
    "decoding": "viterbi",
}
SETTINGS = {
    "chunks": SHARED
    | {
        "max_iter": 50,
        "learning_rate": 0.5,
        "max_leaf_nodes": 128,
        "max_features_per_tree": 0.4,
    },
    # The labels of names are rarer: shorter steps, and larger trees of fewer features.
    "entities": SHARED
    | {
        "max_iter": 90,
        "learning_rate": 0.25,
        "max_leaf_nodes": 256,
        "max_features_per_tree": 0.1,
    },
}
# Penalties of CRFsuite.
C2 = {"chunks": 1.0, "entities": 1.0}
HEADER = ("model", "label accuracy %", "F1 %", "log-likelihood per label", "fit s", "predict s",
          "peak GB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=("chunks", "entities"), default="chunks")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="threads of TreeCRF")
    parser.add_argument("--without-crfsuite", action="store_true")
    parser.add_argument(
        "--crfsuite-iterations", type=int, default=200, help="a few suffice to time tagging"
    )
    parser.add_argument("--held-out", action="store_true", help="test on held-out sentences")
    parser.add_argument("--settings", type=json.loads, default={}, help="other ones, as JSON")
    arguments = parser.parse_args()
    rows = [] if arguments.without_crfsuite else [in_new_process(by_crfsuite, arguments)]
    rows += in_new_process(by_trees, arguments)
    print(markdown(HEADER, rows))


def training(arguments: argparse.Namespace) -> tuple[Sentences, list]:
    """Return the sentences and labels for training."""
    if arguments.data == "entities":
        return fetch_conll2002(return_X_y=True)
    X, y = fetch_conll2000(return_X_y=True)
    if not arguments.held_out:
        return X, y
    kept = [i for i in range(len(X)) if i % 4]
    return [X[i] for i in kept], [y[i] for i in kept]


def evaluation(arguments: argparse.Namespace) -> tuple[Sentences, list]:
    """Return the sentences and labels for evaluation."""
    if arguments.data == "entities":
        part = "validation" if arguments.held_out else "test"
        return fetch_conll2002(subset=part, return_X_y=True)
    if not arguments.held_out:
        return fetch_conll2000(subset="test", return_X_y=True)
    X, y = fetch_conll2000(return_X_y=True)
    return X[::4], y[::4]


def by_trees(arguments: argparse.Namespace) -> list[list[str]]:
    """Train a model for each seed, and average them."""
    models, seconds = train_trees(arguments)
    X, y = evaluation(arguments)
    X = plain_sentences(X)
    rows = [
        row(f"TreeCRF, seed {seed}", model, X, y, fit_seconds)
        for seed, model, fit_seconds in zip(arguments.seeds, models, seconds, strict=True)
    ]
    f1, log_likelihood = (mean(float(cells[i]) for cells in rows) for i in (2, 3))
    name = f"mean of {len(models)} seeds"
    rows.append([name, "", f"{f1:.2f}", f"{log_likelihood:.4f}", "", "", ""])
    for n in range(2, len(models) + 1):
        one = treecrf.average(models[:n])
        rows.append(row(f"TreeCRF, average of {n}", one, X, y))
    return rows


def train_trees(arguments: argparse.Namespace) -> tuple[list[TreeCRF], list[float]]:
    """Return a model for each seed, and the times to fit them."""
    X, y = training(arguments)
    X = plain_sentences(X)
    settings = SETTINGS[arguments.data] | arguments.settings
    models, seconds = [], []
    for seed in arguments.seeds:
        start = time.process_time()
        model = papers_model(TreeCRF, **settings, n_jobs=arguments.jobs, random_state=seed)
        models.append(model.fit(X, y))
        seconds.append(time.process_time() - start)
    return models, seconds


def row(
    name: str, model: TreeCRF, X: Sentences, y: list, seconds: float | None = None
) -> list[str]:
    """Cells of a row; an average of models has no time of its own to fit."""
    start = time.process_time()
    predicted = model.predict(X)
    times = seconds, time.process_time() - start
    known = with_labels(y, model.classes_)
    found = model.predict_log_likelihood(*([part[i] for i in known] for part in (X, y)))
    n_labels = sum(len(y[i]) for i in known)
    return result(name, y, predicted, sum(found) / n_labels, times)


def with_labels(y: list, labels: Iterable[str]) -> list[int]:
    """Indices of the sentences whose labels all occur in training; models have no others."""
    known = set(labels)
    return [i for i, tags in enumerate(y) if known.issuperset(tags)]


def result(
    name: str, y: list, predicted: list, log_likelihood: float, times: tuple[float | None, float]
) -> list[str]:
    """Cells of a row, from the log-likelihood per label and the times of fit and predict."""
    scores = (token_accuracy_score(y, predicted), span_f1_score(y, predicted))
    seconds = "" if times[0] is None else f"{times[0]:.1f}"
    return [name, *(f"{100 * x:.2f}" for x in scores), f"{log_likelihood:.4f}", seconds,
            f"{times[1]:.2f}", f"{peak_memory() / 2**30:.2f}"]  # fmt: skip


def by_crfsuite(arguments: argparse.Namespace) -> list[str]:
    """Train CRFsuite; the time to build attributes and to load them is not counted."""
    X, y = training(arguments)
    X_test, y_test = evaluation(arguments)
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": C2[arguments.data], "max_iterations": arguments.crfsuite_iterations})
    for x, labels in zip(X, y, strict=True):
        trainer.append(conjunctions(x), list(labels))
    X_test = [conjunctions(x) for x in X_test]
    tagger = pycrfsuite.Tagger()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        trainer.train(f"{folder}/model")
        seconds = time.process_time() - start
        tagger.open(f"{folder}/model")
        start = time.process_time()
        predicted = [np.array(tagger.tag(x)) for x in X_test]
        times = seconds, time.process_time() - start
        known = with_labels(y_test, tagger.labels())
        found = [log_probability(tagger, X_test[i], y_test[i]) for i in known]
    log_likelihood = sum(found) / sum(len(y_test[i]) for i in known)
    return result("python-crfsuite, with conjunctions", y_test, predicted, log_likelihood, times)


def log_probability(tagger: pycrfsuite.Tagger, x: list[list[str]], labels: list) -> float:
    tagger.set(x)
    return float(np.log(tagger.probability(list(labels))))


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


if __name__ == "__main__":
    main()
