"""NETtalk with phoneme and stress combined: 126 labels, exactly, with beams, and by local models.

The words are those of the stress data, and the labels come from ``nettalk.data``, which lacks one
of the training words. A test word with a label that does not occur in training counts as wrong,
because it cannot be labeled without error. Every variant is trained in a separate process. With
``--held-out``, every fourth training word replaces the test words; this is how the settings were
chosen.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from measure import in_new_process, markdown, peak_memory
from settings import papers_model

import treecrf
from treecrf.datasets import fetch_nettalk

SETTINGS = {
    "window": 7,
    "second_order": True,
    "learning_rate": 0.3,
    "l2_regularization": 5.0,
    "max_leaf_nodes": 10,
    "max_iter": 120,
    "sampling": "auto",
    "random_state": 0,
}
FROM_THE_RIGHT = {"learner": "RecurrentSlidingWindowClassifier", "direction": "right-to-left"}
# Exact probabilities tolerate longer steps than those of beams.
VARIANTS: dict[str, dict[str, Any]] = {
    "order 1, all examples": {"order": 1, "learning_rate": 1.0, "sampling": None},
    "order 1, samples": {"order": 1, "learning_rate": 1.0, "sampling": 0.1},
    "order 1, samples, diagonal curvature": {
        "order": 1,
        "learning_rate": 0.5,
        "sampling": 0.1,
        "curvature": "diagonal",
    },
    **{
        f"order {order}, {beam} beam of {width}": {
            "order": order,
            "beam_width": width,
            "beam": beam,
        }
        for order, widths in ((1, (5, 10, 20)), (2, (10, 20)))
        for beam in ("two-pass", "forward-only")
        for width in widths
    },
    "MEMM": {"learner": "TreeMEMM"},
    "sliding window": {"learner": "SlidingWindowClassifier"},
    "recurrent window, right to left": FROM_THE_RIGHT,
    # The columns for both decodings are then the same.
    "recurrent window, right to left, greedy": {**FROM_THE_RIGHT, "decoding": "greedy"},
}
HEADER = ("variant", "Viterbi: letters %", "words %", "marginal: letters %", "words %",
          "CPU s per iteration", "decoding CPU s", "peak GB")  # fmt: skip

Words = tuple[list[str], list[list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument("--held-out", action="store_true", help="test on held-out training words")
    arguments = parser.parse_args()
    rows = [
        [variant, *in_new_process(evaluate, variant, arguments.jobs, arguments.held_out)]
        for variant in arguments.variant
    ]
    print(markdown(HEADER, rows))


def evaluate(variant: str, n_jobs: int, held_out: bool) -> list[str]:
    """Train on the training words; return all cells of the table row but the first."""
    X, y = fetch_nettalk(task="full", return_X_y=True)
    X_test, y_test = fetch_nettalk(task="full", subset="test", return_X_y=True)
    if held_out:
        (X_test, y_test), (X, y) = (X[::4], y[::4]), without_fourths(X, y)
    model = make(variant).set_params(n_jobs=n_jobs)
    start = time.process_time()
    model.fit(X, y)
    trained = time.process_time()
    decoded = model.decode(X_test)[0]
    seconds = time.process_time() - trained
    fractions = [*fractions_right(decoded, y_test), *fractions_right(model.predict(X_test), y_test)]
    return [
        *(f"{100 * fraction:.1f}" for fraction in fractions),
        f"{(trained - start) / model.n_iter_:.2f}",
        f"{seconds:.1f}",
        f"{peak_memory() / 2**30:.1f}",
    ]


def make(variant: str) -> Any:
    settings = {"learner": "TreeCRF", "decoding": "marginal"} | SETTINGS | VARIANTS[variant]
    return papers_model(getattr(treecrf, settings.pop("learner")), **settings)


def without_fourths(X: list[str], y: list[list[str]]) -> Words:
    kept = [i for i in range(len(X)) if i % 4]
    return [X[i] for i in kept], [y[i] for i in kept]


def fractions_right(predicted: list[np.ndarray], labels: list[list[str]]) -> tuple[float, float]:
    """Fraction of letters and of whole words that are correct."""
    right = [found == np.array(own) for found, own in zip(predicted, labels, strict=True)]
    return np.concatenate(right).mean(), np.mean([word.all() for word in right])


if __name__ == "__main__":
    main()
