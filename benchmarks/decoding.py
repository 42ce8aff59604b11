"""Speed of decoding: kernels of TreeCRF and hmmlearn on the same scores, in one thread.

The scores are those of a hidden Markov model, log P(label | previous label) plus
log P(symbol | label). hmmlearn gets probabilities, and the time to compute them is excluded. Its
marginals are the normalized product of its scaled forward and backward passes.
"""

from __future__ import annotations

import argparse

import numpy as np
from hmmlearn import _hmmc
from measure import Spread, markdown, seconds_repeated

from treecrf import _inference
from treecrf.chains import _decode

N_POSITIONS = 50_000
HEADER = ("labels", "decoding", "TreeCRF, 1000 positions/s", "hmmlearn, 1000 positions/s",
          "TreeCRF / hmmlearn")  # fmt: skip


class Chains:
    """Sequences of one hidden Markov model, in the formats of both libraries."""

    def __init__(self, n_labels: int, n_positions: int, length: int):
        rng = np.random.default_rng(0)
        self.start = rng.dirichlet(np.ones(n_labels))
        self.transitions = rng.dirichlet(np.ones(n_labels), n_labels)
        self.emissions = rng.uniform(0.01, 1.0, (n_positions, n_labels))
        self.logs = np.log(self.emissions)
        self.offsets = np.arange(0, n_positions + 1, length)
        scores = np.log(self.transitions.T)[:, None, :] + self.logs.T[:, :, None]
        first = self.offsets[:-1]
        scores[:, first, 0] = np.log(self.start)[:, None] + self.logs[first].T
        self.scores = np.ascontiguousarray(scores)

    def viterbi(self) -> np.ndarray:
        codes = np.zeros(len(self.logs), dtype=np.int32)
        best = np.zeros(len(self.offsets) - 1)
        _decode.viterbi(self.scores, self.offsets, 0, len(best), codes, best)
        return codes

    def marginal(self) -> np.ndarray:
        out, log_z = np.zeros(self.logs.shape), np.zeros(len(self.offsets) - 1)
        _inference.marginals(self.scores, self.offsets, 0, len(log_z), out, log_z)
        return out

    def pieces(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(len(self.offsets) - 1, -1, values.shape[1])

    def hmmlearn_viterbi(self) -> np.ndarray:
        found = [_hmmc.viterbi(self.start, self.transitions, piece)[1]
                 for piece in self.pieces(self.logs)]  # fmt: skip
        return np.concatenate(found)

    def hmmlearn_marginal(self) -> np.ndarray:
        found = []
        for piece in self.pieces(self.emissions):
            _, forward, scaling = _hmmc.forward_scaling(self.start, self.transitions, piece)
            both = forward * _hmmc.backward_scaling(self.start, self.transitions, piece, scaling)
            found.append(both / both.sum(axis=1, keepdims=True))
        return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3, 5, 10, 20, 50])
    parser.add_argument("--length", type=int, default=50, help=f"a divisor of {N_POSITIONS}")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    for n_labels in arguments.labels:
        chains = Chains(n_labels, N_POSITIONS, arguments.length)
        np.testing.assert_allclose(chains.marginal(), chains.hmmlearn_marginal(), atol=1e-9)
        np.testing.assert_array_equal(chains.viterbi(), chains.hmmlearn_viterbi())
        rows += [row(chains, decoding, arguments.repeats) for decoding in ("viterbi", "marginal")]
    print(markdown(HEADER, rows))


def row(chains: Chains, decoding: str, repeats: int) -> list[str]:
    """Measure both libraries in alternation, several times."""
    functions = (getattr(chains, decoding), getattr(chains, f"hmmlearn_{decoding}"))
    rounds = [[N_POSITIONS / seconds_repeated(f) for f in functions] for _ in range(repeats)]
    ours, theirs = map(Spread, zip(*rounds, strict=True))
    return [str(chains.logs.shape[1]), decoding, ours.show(1e-3, 0), theirs.show(1e-3, 0),
            ours.over(theirs).show()]  # fmt: skip


if __name__ == "__main__":
    main()
