"""Spanish named entities with three sets of features, as in Altun, Hofmann and Johnson (2002).

Feature set S1 consists of the word and the previous label; S2 adds the spelling of the word, and S3
the words on both sides and their spelling. All learners get the same features, as dicts. Among
several settings, the one with the fewest errors on the validation sentences (``esp.testa``) is
chosen; the objectives of `LinearCRF` share the penalty that is best for the first objective. The
models are tested on ``esp.testb``, or with ``--held-out`` on the validation sentences.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

from measure import markdown
from settings import papers_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from treecrf import (
    LinearCRF,
    SequenceBoostingClassifier,
    StructuredPerceptron,
    StructuredSVM,
    TreeCRF,
)
from treecrf.datasets import fetch_conll2002
from treecrf.metrics import span_f1_score, token_accuracy_score

# Features that occur at fewer training positions are dropped.
FEWEST = 2
# Lengths of affixes.
SIZES = (2, 3, 4)
L2 = (0.03, 0.3, 1.0)
OBJECTIVES = ("log", "exponential", "hamming_log", "hamming_exponential")
SETS = ("S1", "S2", "S3")
LEARNERS = (*OBJECTIVES, "boosting", "perceptron", "margin", "TREECRF")
HEADER = ("features", "learner", "setting", "errors %", "F1 %", "fit s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS)
    parser.add_argument("--share", type=float, default=1.0, help="fraction of training data")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--held-out", action="store_true", help="do not use the test data")
    parser.add_argument("--pieces", type=int, help="cut the training sentences to this length")
    parser.add_argument("--rounds", type=int, default=1000, help="of boosting")
    parser.add_argument("--steps-of-bound", action="store_true", help="no line search in boosting")
    arguments = parser.parse_args()
    boosting = {"max_iter": arguments.rounds, "line_search": not arguments.steps_of_bound}
    rows = []
    for name in arguments.sets:
        parts, penalties = data(name, arguments.share), L2
        if arguments.pieces:
            parts["train"] = tuple(cut(items, arguments.pieces) for items in parts["train"])
        for learner in arguments.learners:
            models = settings_of(learner, penalties)
            if learner == "boosting":
                models = [model.set_params(**boosting) for model in models]
            model, seconds = best(models, name, parts, arguments.jobs)
            judged = parts["validation" if arguments.held_out else "test"]
            rows.append([name, learner, *row(model, seconds, *judged)])
            print(*rows[-1], flush=True)
            penalties = (model.l2_regularization,) if learner == "log" else penalties
    print(markdown(HEADER, rows))


def settings_of(learner: str, penalties: tuple[float, ...]) -> list:
    """Candidate models of a learner, one per setting."""
    linear = {"min_count": FEWEST, "max_iter": 200, "tol": 1e-4}
    cut = {"piece_length": 5, "max_step": 3.0}
    grown = {"second_order": True, "learning_rate": 0.5, "max_leaf_nodes": 64, "sampling": "auto"}
    ended = {"early_stopping": True, "max_iter": 200, "decoding": "viterbi", "random_state": 0}
    if learner in OBJECTIVES:
        return [LinearCRF(objective=learner, l2_regularization=c, **linear) for c in penalties]
    return {
        "boosting": [SequenceBoostingClassifier(min_count=FEWEST, **cut)],
        "perceptron": [StructuredPerceptron(max_iter=10, min_count=FEWEST, random_state=0)],
        "margin": [
            StructuredSVM(C=c, max_iter=30, min_count=FEWEST, random_state=0) for c in (0.1, 0.3)
        ],
        "TREECRF": [papers_model(TreeCRF, l2_regularization=10.0, **grown, **ended)],
    }[learner]


def best(models: list, name: str, parts: dict[str, tuple], n_jobs: int) -> tuple:
    """The model with the fewest errors on the validation sentences, and its training time."""
    tried = [trained(model, name, parts, n_jobs) for model in models]
    _, model, seconds = max(tried, key=lambda one: one[0])
    return model, seconds


def row(model, seconds: float, X: list, y: list) -> Iterator[str]:
    """Cells with the results of a model on test data."""
    predicted = model.predict(X)
    yield ", ".join(f"{name}={value}" for name, value in setting(model).items())
    yield f"{100 * (1 - token_accuracy_score(y, predicted)):.2f}"
    yield f"{100 * span_f1_score(y, predicted):.2f}"
    yield f"{seconds:.0f}"


def trained(model, name: str, parts: dict[str, tuple], n_jobs: int) -> tuple:
    """Accuracy on the validation sentences, the model, and its training time in CPU seconds."""
    window = 1 if name == "S3" else 0
    model = clone(model).set_params(window=window, n_jobs=n_jobs)
    held_out = parts["validation"] if getattr(model, "early_stopping", False) else ()
    start = time.process_time()
    with warnings.catch_warnings():  # stopping at `max_iter` is intended
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*parts["train"], *held_out)
    seconds = time.process_time() - start
    X, y = parts["validation"]
    return token_accuracy_score(y, model.predict(X)), model, seconds


def setting(model) -> dict:
    """The setting chosen by validation."""
    chosen = {"l2_regularization", "C"} & set(model.get_params())
    return {name: getattr(model, name) for name in chosen} or {"max_iter": model.max_iter}


def data(name: str, share: float) -> dict[str, tuple]:
    """Sentences as lists of dicts with the features of a feature set."""
    parts = {}
    for subset in ("train", "validation", "test"):
        X, y = fetch_conll2002(subset=subset, return_X_y=True)
        n = round(share * len(X)) if subset == "train" else len(X)
        parts[subset] = [[features(token["word"], name) for token in x] for x in X[:n]], y[:n]
    return parts


def cut(sentences: list, size: int) -> list:
    """Cut sentences into the fewest pieces of about equal length, at most ``size``."""
    counts = [-(-len(sentence) // size) for sentence in sentences]
    return [
        sentence[len(sentence) * i // n : len(sentence) * (i + 1) // n]
        for sentence, n in zip(sentences, counts, strict=True)
        for i in range(n)
    ]


def features(word: str, name: str) -> dict[str, str]:
    """The features of one word: the word itself and, in S2 and S3, its spelling."""
    if name == "S1":
        return {"word": word}
    affixes = {f"first {n}": word[:n] for n in SIZES} | {f"last {n}": word[-n:] for n in SIZES}
    return {"word": word, "small": word.lower()} | affixes | spelling(word)


def spelling(word: str) -> dict[str, bool]:
    """Boolean features of the letters of a word."""
    return {
        "capitalized": word[:1].isupper(),
        "all capitals": word.isupper(),
        "inner capital": any(letter.isupper() for letter in word[1:]) and not word.isupper(),
        "digits alone": word.isdigit(),
        "with digit": any(letter.isdigit() for letter in word),
        "no letter": not any(letter.isalnum() for letter in word),
        "with hyphen": "-" in word,
        "with period": "." in word[:-1],
        "one letter": len(word) == 1,
    }


if __name__ == "__main__":
    main()
