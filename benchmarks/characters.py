"""Segmentation of characters: CRFsuite with n-grams, and trees on the plain characters.

The files are in CoNLL format: a character, or a cluster of characters, and a label in each line.
The n-grams are those of khmer-nltk: all of one to four characters within three positions of the
labeled one. The options of CRFsuite are those that its authors found. A row of the table has the
percentages of right labels and of sequences without error, the mean log-probability of a label, CPU
seconds of `fit`, and kilobytes of the model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pycrfsuite
from measure import markdown

from treecrf import LinearCRF, TreeCRF
from treecrf.datasets import read_conll

Sequences = tuple[list, list]
Result = tuple[list, list, float, int]  # labels, probabilities, seconds, bytes

REACH = 3
LONGEST = 4
PENALTIES = {"c1": 0.0418, "c2": 0.00056, "max_iterations": 100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    train, test = (characters(path) for path in (arguments.train, arguments.test))
    rows = []
    for name in arguments.models:
        rows.append([name, *cells(test[1], *MODELS[name](train, test[0]))])
        print(*rows[-1], sep=" | ", flush=True)
    header = ["model", "labels %", "sequences %", "log-likelihood", "fit s", "model kB"]
    print(markdown(header, rows))


def characters(path: str) -> Sequences:
    """Read sequences of characters, and their labels."""
    X, y = read_conll(path, names=["character"])
    return [[position["character"] for position in x] for x in X], [list(labels) for labels in y]


def n_grams(x: list[str]) -> list[dict[str, str]]:
    """Return the n-grams around each position, each with its first position and its length."""
    rows = []
    for t in range(len(x)):
        spans = ((t + first, n) for n in range(1, LONGEST + 1)
                 for first in range(-REACH, REACH + 2 - n))  # fmt: skip
        rows.append({f"{start - t}:{n}": "".join(x[start : start + n])
                     for start, n in spans if start >= 0 and start + n <= len(x)})  # fmt: skip
    return rows


def crfsuite(train: Sequences, X_test: list) -> Result:
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(*train, strict=True):
        trainer.append(pycrfsuite.ItemSequence(n_grams(x)), labels)
    trainer.set_params({**PENALTIES, "feature.possible_transitions": True})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        start = time.process_time()
        trainer.train(str(path))
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        predicted = []
        probabilities = []
        for x in X_test:
            predicted.append(tagger.tag(pycrfsuite.ItemSequence(n_grams(x))))
            probabilities.append(
                [{label: tagger.marginal(label, t) for label in tagger.labels()}
                 for t in range(len(x))])  # fmt: skip
        return predicted, probabilities, seconds, path.stat().st_size


def own(model: LinearCRF | TreeCRF, form: Callable) -> Callable[[Sequences, list], Result]:
    """Return a function that fits and applies one of our models to characters in a form."""

    def fit_and_predict(train: Sequences, X_test: list) -> Result:
        X = [form(x) for x in train[0]]
        start = time.process_time()
        model.fit(X, train[1])
        seconds = time.process_time() - start
        X_test = [form(x) for x in X_test]
        labels = model.classes_.tolist()
        probabilities = [[dict(zip(labels, row, strict=True)) for row in table.tolist()]
                         for table in model.predict_proba(X_test)]  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            model.save(path)
            size = path.stat().st_size
        return [each.tolist() for each in model.predict(X_test)], probabilities, seconds, size

    return fit_and_predict


MODELS = {
    "CRFsuite, n-grams": crfsuite,
    "LinearCRF(), n-grams": own(LinearCRF(), n_grams),
    "LinearCRF(l2_regularization='auto'), n-grams":
        own(LinearCRF(l2_regularization="auto"), n_grams),
    "TreeCRF(window=3, max_leaf_nodes=64)": own(TreeCRF(window=3, max_leaf_nodes=64), list),
    "TreeCRF(window=3)": own(TreeCRF(window=3), list),
    "TreeCRF()": own(TreeCRF(), list),
    "TreeCRF(window=3, max_leaf_nodes=4096, l2_regularization=5)":
        own(TreeCRF(window=3, max_leaf_nodes=4096, l2_regularization=5.0), list),
}  # fmt: skip


def cells(y_test: list, predicted: list, probabilities: list, seconds: float, size: int) -> list:
    """Return the cells of a row of the table."""
    right = np.concatenate([np.equal(*pair) for pair in zip(predicted, y_test, strict=True)])
    whole = np.mean([one == other for one, other in zip(predicted, y_test, strict=True)])
    logs = [np.log(max(row.get(label, 0.0), 1e-9))
            for rows, labels in zip(probabilities, y_test, strict=True)
            for row, label in zip(rows, labels, strict=True)]  # fmt: skip
    return [f"{100 * right.mean():.2f}", f"{100 * whole:.1f}", f"{np.mean(logs):.4f}",
            f"{seconds:.1f}", f"{size / 1024:.0f}"]  # fmt: skip


if __name__ == "__main__":
    main()
