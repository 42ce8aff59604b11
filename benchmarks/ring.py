"""Exact inference and beams on the ring of Ashenfelter's thesis (2003, section 3.2, table 5).

The data come from a hidden Markov model of ten states in a ring. The accuracy of Viterbi decoding
is averaged over 50 iterations, as in the thesis, and over seeds. The trees are those of the thesis,
of unlimited size, or smaller ones grown in Newton steps.

With ``--losing``, a beam in training may lose the true state, as in the thesis. `TreeCRF` always
keeps it, so this trains tables instead, to which trees of unlimited size amount.
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
N = 10  # states and symbols


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--losing", action="store_true", help="beams may lose the true state")
    arguments = parser.parse_args()
    if arguments.losing:
        print_losing(arguments.seeds)
        return
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


# Beams that may lose the true state


def print_losing(n_seeds: int) -> None:
    rows = []
    for name, settings in INFERENCE.items():
        width, forward_only = settings.get("beam_width", N), "beam" in settings
        fractions = np.array([losing(seed, width, forward_only) for seed in range(n_seeds)])
        published = f"{PUBLISHED[name]}"
        rows.append([name, *map(spread, fractions.mean(axis=1).T), published])
    header = ("inference", "label accuracy %", "sequence accuracy %", "true states lost %",
              "published sequences %")  # fmt: skip
    print(markdown(header, rows))


def losing(seed: int, width: int, forward_only: bool) -> list[tuple[float, float, float]]:
    """Accuracy of test labels and sequences, and states lost in training, after iterations."""
    X, y = map(np.array, make_ring_hmm(n_sequences=500, random_state=2 * seed))
    X_test, y_test = map(np.array, make_ring_hmm(n_sequences=2000, random_state=2 * seed + 1))
    scores, fractions = np.zeros((N + 1, N, N)), []  # of previous state, symbol, state
    for n_iter in range(1, JUDGED[-1] + 1):
        step, lost = mean_residuals(scores, X, y, width, forward_only)
        scores += step
        if n_iter in JUDGED:
            right = best_states(scores, X_test) == y_test
            fractions.append((right.mean(), right.all(axis=1).mean(), lost))
    return fractions


def mean_residuals(
    scores: np.ndarray, X: np.ndarray, y: np.ndarray, width: int, forward_only: bool
) -> tuple[np.ndarray, float]:
    """Mean residual of each cell of the table over the pairs of states in the beam."""
    n, length = X.shape
    factors = [np.exp(scores[:, symbols]).transpose(1, 0, 2) for symbols in X.T]
    forward = [np.eye(N + 1)[np.full(n, N)]]
    for factor in factors:
        weights = np.einsum("ip,ipq->iq", forward[-1], factor)
        worst = np.argsort(-weights, axis=1, kind="stable")[:, width:]
        np.put_along_axis(weights, worst, 0.0, axis=1)
        weights = np.hstack([weights, np.zeros((n, 1))])
        forward.append(weights / weights.sum(axis=1, keepdims=True))
    kept = [weights > 0 for weights in forward]
    future, sums, counts = kept[-1][:, :N] * 1.0, np.zeros_like(scores), np.zeros_like(scores)
    for t in reversed(range(length)):
        is_pair = kept[t][:, :, None] & kept[t + 1][:, None, :N]
        after = kept[t + 1][:, None, :N] if forward_only else future[:, None, :]
        p = forward[t][:, :, None] * factors[t] * after
        residuals = -p / p.sum(axis=(1, 2), keepdims=True)
        residuals[np.arange(n), y[:, t - 1] if t else N, y[:, t]] += 1
        of_symbol = np.eye(N)[X[:, t]]
        sums += np.einsum("is,ipq->psq", of_symbol, residuals * is_pair, optimize=True)
        counts += np.einsum("is,ipq->psq", of_symbol, is_pair * 1.0, optimize=True)
        future = np.einsum("ipq,iq->ip", factors[t], future)[:, :N] * kept[t][:, :N]
        future /= np.maximum(future.max(axis=1, keepdims=True), 1e-300)
    is_kept = [kept[t + 1][np.arange(n), y[:, t]].mean() for t in range(length)]
    return sums / np.maximum(counts, 1), 1 - float(np.mean(is_kept))


def best_states(scores: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Decode with the Viterbi algorithm."""
    best, sources = scores[N, X[:, 0]], []
    for symbols in X.T[1:]:
        totals = best[:, :, None] + scores[:N, symbols].transpose(1, 0, 2)
        sources.append(totals.argmax(axis=1))
        best = totals.max(axis=1)
    states = [best.argmax(axis=1)]
    for source in reversed(sources):
        states.append(source[np.arange(len(X)), states[-1]])
    return np.stack(states[::-1], axis=1)


if __name__ == "__main__":
    main()
