"""Write models in the current file format, and their predictions.

The files of each format stay in the repository, because all later versions must read them. Run this
script when the format's version has changed, and add its output to the repository. With names as
arguments, it writes only these models.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from treecrf import FlatModel, FutureFeatureMEMM, LinearCRF, TreeCRF, flatten
from treecrf.utils.model_file import VERSION

FOLDER = Path(__file__).parent


def symbols() -> tuple[TreeCRF, list, list]:
    X = ["banana", "panama", "cabana", "ananas"]
    crf = TreeCRF(window=(1, 2), order=2, max_iter=3, l2_regularization=0.5, decoding="viterbi")
    return crf, X, ["cvcvcv", "cvcvcv", "cvcvcv", "vcvcvs"]


def table() -> tuple[TreeCRF, list, list]:
    """Columns of many values, of two and of rare ones, so that each kind of storage is there."""
    rng = np.random.default_rng(0)
    shares = [1.0, 0.4, 0.05]
    X = [(rng.random((12, 3)) < shares) * np.round(rng.normal(size=(12, 3)), 1) for _ in range(5)]
    for t in X:
        t[:, 1:] = t[:, 1:] != 0
    y = [(t[:, 0] > 0).astype(int) + (t[:, 1] > 0) for t in X]
    crf = TreeCRF(window=1, max_iter=3, max_leaf_nodes=8, l2_regularization=0.5, second_order=True,
                  class_weight={0: 1.0, 1: 1.5, 2: 2.0}, random_state=1)  # fmt: skip
    return crf, [t.tolist() for t in X], [labels.tolist() for labels in y]


def discovered() -> tuple[FutureFeatureMEMM, list, list]:
    """Labels that depend on whether a d is among the next two letters."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("aaabbcd"), 9)) for _ in range(12)]
    y = ["".join("xyz"[("d" in x[t + 1 : t + 3]) + (x[t] == "b")] for t in range(9)) for x in X]
    memm = FutureFeatureMEMM(bag_size=2, max_iter=3, max_leaf_nodes=6, l2_regularization=1.0,
                             instance_max_iter=4, instance_l2_regularization=1.0,
                             early_stopping=False, max_future_features=1,
                             random_state=0)  # fmt: skip
    return memm, X, y


def flat() -> tuple[FlatModel, list, list]:
    crf, X, y = symbols()
    return flatten(crf.set_params(order=1).fit(X, y)).prune(0.01), X, y


def linear() -> tuple[LinearCRF, list, list]:
    """Weights of conjunctions of trees."""
    model, X, y = flat()
    return LinearCRF(attributes=model, transition_features=True), X, y


def text() -> tuple[TreeCRF, list, list]:
    """Words with values that some lack, a linear start, and constant transitions."""
    sentences = ["the red fox ran", "a fox saw the old red dog", "dogs ran", "the dog saw a fox"]
    y = [["D" if w in ("a", "the") else "A" if w in ("red", "old") else "V" if w in ("ran", "saw")
          else "N" for w in sentence.split()] for sentence in sentences]  # fmt: skip
    X = [
        [{"word": w} | ({"length": len(w)} if w != "fox" else {}) for w in sentence.split()]
        for sentence in sentences
    ]
    crf = TreeCRF(window=1, max_iter=3, l2_regularization=0.5, init="linear", sampling=0.1,
                  constant_transitions=True, early_stopping=False, random_state=0)  # fmt: skip
    return crf, X, y


def main(names: list[str]) -> None:
    for make in (symbols, table, discovered, flat, linear, text):
        if names and make.__name__ not in names:
            continue
        crf, X, y = make()
        name = f"format{VERSION}-{make.__name__}"
        crf.fit(X, y).save(FOLDER / f"{name}.treecrf")
        parameters = crf.get_params(deep=False)
        parameters.pop("attributes", None)  # they are no matter of JSON
        expected = {
            "parameters": parameters,
            "X": X,
            "labels": [labels.tolist() for labels in crf.predict(X)],
            "probabilities": [p.tolist() for p in crf.predict_proba(X)],
        }
        if hasattr(crf, "train_score_"):
            expected["train_score"] = crf.train_score_.tolist()
        (FOLDER / f"{name}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
