"""Models of projects that use CRFsuite, trained by CRFsuite and by treecrf on their own data.

The projects, their settings and the division of their data are those of `client_sets.py`. Cells are
tokens and whole sequences right in percent, in parentheses whole sequences if the labels of each
position are the most probable ones instead of the sequence, CPU seconds of the fit, CPU
milliseconds of a sequence in a call of its own, and growth of the memory in the fit and size of the
model file in MB. ``--clients`` is a folder of files ``owner/name/commit/path``; those that
``client_files.sha256`` lists and the folder lacks are downloaded. The projects need
python-crfsuite, NLTK, doublemetaphone and probableparsing.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pooch
import pycrfsuite
from client_sets import CLIENTS, Client, Sequences
from measure import in_new_process, markdown, peak_memory, reset_peak_memory
from real_files import SOURCE, fetch

from treecrf import LinearCRF, TreeCRF

CHECKSUMS = Path(__file__).with_name("client_files.sha256")
N_TIMED = 200  # test sequences, one call each
WEIGHTS = (1, 10)  # of added failures

Labeler = Callable[[Any], list[str]]


@dataclass(frozen=True)
class Trained:
    """A model: the most probable labels of a sequence, and of its positions."""

    label: Labeler
    by_position: Labeler | None = None


# Called with sequences, labels, the path of the model file, and optional weights of sequences.
Learner = Callable[..., Trained]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CLIENTS), default=list(CLIENTS))
    parser.add_argument(
        "--contestants", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS)
    )
    parser.add_argument("--clients", type=Path, default=Path(pooch.os_cache("treecrf"), "clients"))
    parser.add_argument("--source", default=SOURCE, help="address that the files are under")
    parser.add_argument(
        "--failures", action="store_true", help="train on half of the failures, with weights"
    )
    arguments = parser.parse_args()
    rows = []
    measure = added_failures if arguments.failures else result_of
    for name in arguments.only:
        client = CLIENTS[name]
        data = read(client, arguments.clients, arguments.source)
        n_tokens = sum(map(len, data.part(False).labels))
        n_labels = len({label for labels in data.labels for label in labels})
        row = [f"{name} ({n_tokens:,} tokens, {n_labels} labels)"]
        for contestant in arguments.contestants:
            found = in_new_process(measure, contestant, data, client.parameters, client.window)
            row.append(str(found))
            print(f"{name}, {contestant}: {row[-1]}", flush=True)
        rows.append(row)
    print(f"\n{markdown(['project', *arguments.contestants], rows)}")


def read(client: Client, folder: Path, source: str) -> Sequences:
    """Read the data of a project, without what it prints."""
    folders = [
        fetch(repository, commit, folder, source, CHECKSUMS)
        for repository, commit in client.repositories.items()
    ]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return client.read(*folders)


@dataclass(frozen=True)
class Result:
    """Scores and costs of a model."""

    tokens: float  # fraction that is right
    sequences: float
    by_position: float | None  # whole sequences, if labels are chosen position by position
    fit: float  # CPU seconds
    label: float  # CPU seconds of a sequence
    memory: float  # bytes
    size: float

    def __str__(self) -> str:
        """All of them in the units of the table."""
        other = "" if self.by_position is None else f" ({100 * self.by_position:.1f})"
        return (
            f"{100 * self.tokens:.2f} / {100 * self.sequences:.1f}{other}; {self.fit:.1f} s; "
            f"{1000 * self.label:.3f} ms; {self.memory / 1e6:.0f}, {self.size / 1e6:.1f} MB"
        )


def result_of(contestant: str, data: Sequences, parameters: dict[str, Any], window: int) -> Result:
    """Train and test a contestant."""
    make, inputs = CONTESTANTS[contestant]
    train = data.part(False)
    test = data.part(True)
    X = inputs(train)
    X_test = inputs(test)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        before = reset_peak_memory()
        start = time.process_time()
        model = make(parameters, window)(X, train.labels, path)
        seconds = time.process_time() - start
        memory = peak_memory() - before
        size = os.path.getsize(path)
        start = time.process_time()
        for x in X_test[:N_TIMED]:
            model.label(x)
        once = (time.process_time() - start) / len(X_test[:N_TIMED])
        tokens, sequences = scores(model.label, X_test, test.labels)
        by_position = None
        if model.by_position is not None:
            _, by_position = scores(model.by_position, X_test, test.labels)
    return Result(tokens, sequences, by_position, seconds, once, memory, size)


def scores(label: Labeler, X: list, y: list[list[str]]) -> tuple[float, float]:
    """Return the fractions of tokens and of whole sequences that are right."""
    hits = [
        [a == b for a, b in zip(label(x), labels, strict=True)]
        for x, labels in zip(X, y, strict=True)
    ]
    return sum(map(sum, hits)) / sum(map(len, hits)), sum(map(all, hits)) / len(hits)


# Failures that users report


@dataclass(frozen=True)
class Failures:
    """Sequences that a model gets wrong, of which half are added to its training data."""

    n_added: int
    n_others: int  # test sequences that are not added
    others: int  # of them, right before
    right: list[tuple[int, int, int]]  # of each weight: added ones and others that are right

    def __str__(self) -> str:
        """Numbers of sequences, as in the table."""
        parts = [
            f"weight {weight}: {added} of {self.n_added}, others {others}"
            for weight, added, others in self.right
        ]
        return f"others before: {self.others} of {self.n_others}; {'; '.join(parts)}"


def added_failures(
    contestant: str, data: Sequences, parameters: dict[str, Any], window: int
) -> Failures:
    """Add every second failure of the tests to the training data, with several weights."""
    make, inputs = CONTESTANTS[contestant]
    train = data.part(False)
    test = data.part(True)
    X = inputs(train)
    X_test = inputs(test)
    with tempfile.TemporaryDirectory() as folder:
        learn = partial(make(parameters, window), path=os.path.join(folder, "model"))
        before = hits_of(learn(X, train.labels).label, X_test, test.labels)
        added = [i for i, is_hit in enumerate(before) if not is_hit][::2]
        others = sorted(set(range(len(before))) - set(added))
        X_more = [*X, *(X_test[i] for i in added)]
        y_more = [*train.labels, *(test.labels[i] for i in added)]
        right = []
        for weight in WEIGHTS:
            weights = [1] * len(X) + [weight] * len(added)
            after = hits_of(learn(X_more, y_more, weights=weights).label, X_test, test.labels)
            right.append((weight, sum(after[i] for i in added), sum(after[i] for i in others)))
    return Failures(len(added), len(others), sum(before[i] for i in others), right)


def hits_of(label: Labeler, X: list, y: list[list[str]]) -> list[bool]:
    """Return whether all labels of each sequence are right."""
    return [label(x) == labels for x, labels in zip(X, y, strict=True)]


# Contestants: each has the settings of a project, trains a model, and writes it to a file


def crfsuite(parameters: dict[str, Any], _: int) -> Learner:
    """Train CRFsuite as the project does."""

    def learn(X: list, y: list, path: str, weights: list[int] | None = None) -> Trained:
        trainer = pycrfsuite.Trainer(verbose=False, params=parameters)
        for x, labels, weight in zip(X, y, weights or repeat(1), strict=weights is not None):
            for _ in range(weight):  # it has no weights
                trainer.append(x, labels)
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return Trained(tagger.tag)

    return learn


def linear(parameters: dict[str, Any], _: int) -> Learner:
    """Train a linear CRF with the settings of the project, or else the defaults of CRFsuite."""
    model = LinearCRF(
        max_iter=parameters.get("max_iterations", 1000),
        l1_regularization=parameters.get("c1", 0.0),
        l2_regularization=parameters.get("c2", 1.0),
        decoding="viterbi",
    )
    return partial(fitted, model)


def boosted(_: dict[str, Any], __: int) -> Learner:
    """Train trees on attributes, which already hold the neighbors."""
    return partial(fitted, TreeCRF(window=0, decoding="viterbi", random_state=0))


def boosted_plain(_: dict[str, Any], window: int) -> Learner:
    """Train trees that see the neighbors."""
    return partial(fitted, TreeCRF(window=window, decoding="viterbi", random_state=0))


def fitted(model: Any, X: list, y: list, path: str, weights: list[int] | None = None) -> Trained:
    """Fit a model and save it."""
    with warnings.catch_warnings(action="ignore"):  # of iterations that CRFsuite's limit ends
        model.fit(X, y, sample_weight=weights)
    model.save(path)
    other = copy.copy(model).set_params(decoding="marginal")
    return Trained(
        lambda x: model.predict([x])[0].tolist(), lambda x: other.predict([x])[0].tolist()
    )


CONTESTANTS = {
    "CRFsuite": (crfsuite, lambda data: data.attributes),
    "LinearCRF": (linear, lambda data: data.attributes),
    "TreeCRF": (boosted, lambda data: data.attributes),
    "TreeCRF on plain inputs": (boosted_plain, lambda data: data.plain),
}


if __name__ == "__main__":
    main()
