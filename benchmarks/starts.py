"""Boosting from scores of 0, and from all or 0.4 of linear models with several penalties.

Four-fold cross-validation on the training sequences. In each fold, `TreeCRF` chooses the number of
iterations from the given start as by default.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from measure import markdown
from panel import TASKS
from sklearn.model_selection import KFold

from treecrf import TreeCRF
from treecrf.learners.boosted.spec import BoostingSpec

# Pairs of penalty and share.
STARTS = (None, (1.0, 1.0), *((penalty, 0.4) for penalty in (1.0, 3.0, 10.0)))
NAMES = ("protein", "nettalk", "hyphen")
HEADER = ("data", "penalty", "share", "log loss", "accuracy %", "Viterbi, accuracy %", "iterations")


class FromStart(TreeCRF):
    """A TreeCRF with one of the starts that ``init="auto"`` may compare."""

    start: tuple[float, float] | None = None

    def _spec(self) -> BoostingSpec:
        spec, (penalty, share) = super()._spec(), self.start or (1.0, None)
        return replace(spec, starts=[share], linear=spec.linear | {"l2_regularization": penalty})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    for name in parser.parse_args().data:
        print(f"\n{markdown(HEADER, list(rows(name)))}", flush=True)


def rows(name: str) -> Iterator[list[str]]:
    """Rows of the table for a dataset."""
    task = TASKS[f"{name} all"]
    draw = task.draws()[0]  # its test data are not used
    X, y = draw.X, [np.asarray(list(labels)) for labels in draw.y]
    for start in STARTS:
        results, n_iter = [], []
        for train, test in KFold(4, shuffle=True, random_state=0).split(X):
            model = FromStart(window=task.window, random_state=0)
            model.start = start
            model.fit([X[i] for i in train], [y[i] for i in train])
            results.append(scores(model, [X[i] for i in test], [y[i] for i in test]))
            n_iter.append(str(model.n_iter_))
        *sums, n = np.sum(results, axis=0)
        loss, marginal, viterbi = np.array(sums) / n
        described = ["", ""] if start is None else [f"{number:g}" for number in start]
        yield [name, *described, f"{loss:.3f}", f"{100 * marginal:.1f}", f"{100 * viterbi:.1f}",
               ", ".join(n_iter)]  # fmt: skip


def scores(model: TreeCRF, X: list, y: list) -> tuple[float, int, int, int]:
    """Return sums over positions: log losses, correct labels by each decoding, and positions."""
    true = np.concatenate(y)
    probabilities = np.concatenate(model.predict_proba(X))
    of_true = probabilities[np.arange(len(true)), np.searchsorted(model.classes_, true)]
    best = model.classes_[probabilities.argmax(axis=1)]
    model.set_params(decoding="viterbi")
    decoded = np.concatenate([np.asarray(labels) for labels in model.predict(X)])
    return -np.log(of_true).sum(), (best == true).sum(), (decoded == true).sum(), len(true)


if __name__ == "__main__":
    main()
