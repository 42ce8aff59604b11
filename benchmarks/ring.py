"""Exact inference and beams on the ring of Ashenfelter's thesis (2003, section 3.2, table 5).

The data come from a hidden Markov model of ten states in a ring. The accuracy of Viterbi decoding
is averaged over 50 iterations, as in the thesis, and over seeds. The trees are those of the thesis,
of unlimited size, or smaller ones grown in Newton steps.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from measure import markdown
from settings import papers_model

from treecrf import TreeCRF, papers
from treecrf.datasets import make_ring_hmm

INFERENCE = {
    "full": {},
    "two-pass beam of 5": {"beam_width": 5},
    "forward-only beam of 5": {"beam_width": 5, "beam": "forward-only"},
}
PUBLISHED = {"full": 11.0, "two-pass beam of 5": 6.5, "forward-only beam of 5": 8.9}
STEPS = {
    "thesis": papers.TREECRF_ORIGINAL | papers.RING,
    "Newton": {"second_order": True, "l2_regularization": 5.0, "learning_rate": 0.5,
               "max_leaf_nodes": 64},
}  # fmt: skip
JUDGED = range(2, 51, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    rows = []
    for steps, name in product(STEPS, INFERENCE):
        settings = STEPS[steps] | INFERENCE[name]
        fractions = np.array([evaluate(seed, settings) for seed in range(arguments.seeds)])
        rows.append([steps, name, *map(spread, fractions.mean(axis=1).T), f"{PUBLISHED[name]}"])
    header = ("steps", "inference", "label accuracy %", "sequence accuracy %",
              "published sequences %")  # fmt: skip
    print(markdown(header, rows))


def evaluate(seed: int, settings: dict) -> list[tuple[float, float]]:
    """Accuracy of test labels and of whole sequences after some of the iterations."""
    X, y = make_ring_hmm(n_sequences=500, random_state=2 * seed)
    X_test, y_test = make_ring_hmm(n_sequences=2000, random_state=2 * seed + 1)
    model = papers_model(TreeCRF, **settings, decoding="viterbi", warm_start=True)
    fractions = []
    for n_iter in JUDGED:
        model.set_params(max_iter=n_iter).fit(X, y)
        right = np.array(model.predict(X_test)) == np.array(y_test)
        fractions.append((right.mean(), right.all(axis=1).mean()))
    return fractions


def spread(fractions: np.ndarray) -> str:
    """Mean over the seeds and its standard error, in percent."""
    error = fractions.std(ddof=1) / np.sqrt(len(fractions))
    return f"{100 * fractions.mean():.1f} ± {100 * error:.1f}"


if __name__ == "__main__":
    main()
