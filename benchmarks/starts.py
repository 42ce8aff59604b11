"""Boosting from scores of 0 and from linear models with penalties of different strength.

Every third training sequence is held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

from measure import markdown, seconds
from papers_data import CHOICES, NAMES, Task, load
from settings import make_model

from treecrf import LinearCRF

# Training positions per unit of the L2 penalty of the linear model; None for scores of 0.
POSITIONS = (None, 250, 500, 1000, 2000)
SETTINGS = {"max_iter": 60, "max_leaf_nodes": 50}
STEPS = {"first": {"l2_regularization": 40.0},
         "second": {"l2_regularization": 5.0, "second_order": True}}  # fmt: skip
SHOWN = (0, 10, 20, 40, 60)
HEADER = ("data", "steps", "positions per penalty", *(f"iteration {i}" for i in SHOWN),
          "best", "at", "fit s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=CHOICES, default=NAMES)
    for name in parser.parse_args().data:
        print(f"\n{markdown(HEADER, list(rows(load(name))))}", flush=True)


def rows(task: Task) -> Iterator[list[str]]:
    """Rows of the table for a dataset: held-out log-likelihoods per label."""
    X, y, _, _ = task.arrays()
    parts = [[s for i, s in enumerate(part) if (i % 3 == 0) == is_held_out]
             for is_held_out, part in product((False, True), (X, y))]  # fmt: skip
    n = sum(map(len, parts[1]))
    for steps, positions in product(STEPS, POSITIONS):
        init = "zero"
        if positions is not None:
            init = LinearCRF(
                window=task.window, solver="sgd", max_iter=10, l2_regularization=n / positions
            )
        crf = make_model(task, SETTINGS | STEPS[steps], init=init)
        fit = seconds(lambda crf=crf: crf.fit(*parts))
        scores = crf.validation_score_
        yield [task.name, steps, "" if positions is None else str(positions),
               *(f"{scores[i]:.4f}" for i in SHOWN), f"{scores.max():.4f}", str(scores.argmax()),
               f"{fit:.1f}"]  # fmt: skip


if __name__ == "__main__":
    main()
