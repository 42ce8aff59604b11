"""A user's script, which ``mypy --strict`` checks (``make lint``) and a test runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import treecrf
from treecrf import HMMClassifier, LinearCRF, SlidingWindowClassifier, TreeCRF, TreeMEMM
from treecrf.callbacks import IterationInfo
from treecrf.crfsuite import CRF, Tagger, Trainer
from treecrf.metrics import span_f1_score, token_accuracy_score, token_f1_score
from treecrf.preprocessing import RollingFeatures, SequenceScaler
from treecrf.utils.typing import HasColumns

Floats = NDArray[np.float64]


class Rooms(TreeCRF):
    """An estimator of the user's own."""


def sequences(n: int) -> tuple[list[Floats], list[list[str]]]:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 2)) for _ in range(n)]
    return X, [["in" if row[0] > 0 else "out" for row in x] for x in X]


def stop(info: IterationInfo) -> bool:
    return info.n_iter >= 3


def main(path: Path) -> None:
    X, y = sequences(8)
    crf = TreeCRF(window=(1, 0), max_iter=5, decoding="viterbi", class_weight={"in": 2.0})
    assert_type(crf.fit(X, y, callbacks=[stop]), TreeCRF)
    assert_type(Rooms(max_iter=1).fit(X, y), Rooms)
    assert_type(HMMClassifier().fit(["aab", "bb"], ["xxy", "yy"]), HMMClassifier)

    assert_type(crf.predict(X), list[NDArray[Any]])
    assert_type(crf.predict_proba(X), list[Floats])
    assert_type(crf.predict_log_likelihood(X, y), Floats)
    assert_type(crf.score(X, y), float)
    print(token_accuracy_score(y, crf.predict(X)))
    f1: float = token_f1_score(y, crf.predict(X))
    print(f1, assert_type(token_f1_score(y, y, average=None), Floats).shape)

    # A long table has one array of results.
    table, labels, days = np.concatenate(X), np.concatenate(y), np.repeat(np.arange(8), 10)
    memm = TreeMEMM(max_iter=5, decoding="beam", beam_width=3).fit(table, labels, groups=days)
    assert_type(memm.predict(table, groups=days), NDArray[Any])
    assert_type(memm.predict_proba(table, lengths=[80]), Floats)

    words, tags = [[{"word": "a"}, {"word": "b"}, {"word": "a"}]] * 4, [["O", "B-X", "O"]] * 4
    linear = LinearCRF(transitions="bio", solver="sgd", random_state=0)
    window = SlidingWindowClassifier(max_iter=2, early_stopping=True, validation_fraction=0.25)
    for model in (linear, window):
        print(model.fit(words, tags).predict(words)[0].tolist())

    crf.save(path)
    print(treecrf.load(path).predict(X)[0])
    print(crf.decode(X, n_best=2)[0][0], crf.stream().push(X[0][0]))

    rolling = RollingFeatures([3, 5], ["mean", "slope"], centered=False, columns=[0])
    assert_type(rolling.fit(X), RollingFeatures)
    scaled = SequenceScaler(running=True).fit_transform(table, groups=days)
    print(rolling.transform(X)[0].shape, scaled.shape, rolling.stream().push(X[0][0]))
    print(treecrf.stream(crf, lag=2).push(X[0][0]))


def of_a_frame(crf: TreeCRF, frame: HasColumns, y: list[list[str]]) -> float:
    """Results of a table whose groups are a column."""
    print(assert_type(crf.fit(frame, "y", groups="day").predict(frame), NDArray[Any]).shape)
    print(assert_type(crf.predict_proba(frame), Floats).shape)
    f1: float = span_f1_score(y, crf.predict([frame]), average="macro", scheme="IOB2")
    assert_type(span_f1_score(y, y, average=None), Floats)
    return f1


def as_with_crfsuite(path: str) -> list[str]:
    """Programs written for python-crfsuite and sklearn-crfsuite."""
    trainer = Trainer(params={"c1": 0.1}, estimator=TreeCRF(max_iter=5))
    trainer.append([{"word": "to"}, ["word:Rome"]], ["O", "PLACE"], weight=10)
    trainer.train(path)
    tagger = Tagger()
    with tagger.open(path) as opened:
        assert_type(opened.tag([{"word": "Rome"}]), list[str])
        assert_type(opened.marginal("O", 0), float)
    crf = assert_type(CRF(c2=0.1).fit([[["a"], ["b"]]], [["x", "y"]]), CRF)
    return crf.predict([[["a"]]])[0]


def mistakes() -> None:
    """Mistakes that a type checker finds."""
    TreeCRF(decoding="greedy")  # type: ignore[arg-type]
    TreeCRF(max_iter="5")  # type: ignore[arg-type]
    TreeCRF(max_leafs=5)  # type: ignore[call-arg]
    TreeCRF().fit(3, ["xy"])  # type: ignore[arg-type]
    TreeCRF().fit(["ab"])  # type: ignore[call-arg]
    token_f1_score(["ab"], ["ab"], averages=None)  # type: ignore[call-overload]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
