"""Label sequences with unknown labels, and their likelihood.

The likelihood of such a sequence is the sum of the probabilities of all label sequences with the
known labels. With Z the sum over all label sequences and Z' the sum over those with the known
labels, its logarithm is log Z' - log Z. The residual of a score is the difference of two
probabilities, given the known labels and without them. Both come from forward-backward, the first
one over scores in which impossible labels are forbidden.

The curvature of log Z alone would make steps too small where few labels are known. If all labels
are known, a score of probability p has the residual g = 1 - p or -p, of size at least
min(p, 1 - p). With unknown labels, the curvature is multiplied by |g| / min(p, 1 - p), if this is
less than 1. It remains at least twice the second derivative with respect to this score. Only for
known labels is it proven that steps of full length never lower the likelihood, but no exception is
known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treecrf import _inference
from treecrf.chains.constraints import Transitions, labels_reaching_end
from treecrf.chains.lattice import MAX_BYTES
from treecrf.inputs.offsets import offsets_of, position_name, positions_in_sequences, runs
from treecrf.utils.threads import Threads


def completed(
    candidates: np.ndarray,
    allowed: np.ndarray | None,
    transitions: Transitions | None,
    classes: np.ndarray,
    offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Restrict possible labels to allowed ones, and choose one possible label sequence of each.

    Returns the codes, and the candidates unless only one label is possible at each position.
    """
    if allowed is not None:
        empty = ~(candidates & allowed).any(axis=1)
        if empty.any():
            p = int(np.argmax(empty))
            labels = " or ".join(map(repr, classes[candidates[p]].tolist()))
            raise ValueError(f"{position_name(p, offsets)}: {labels} is forbidden by allowed")
        candidates = candidates & allowed
    codes, exists = label_paths(candidates, transitions, offsets)
    if transitions is not None and not exists.all():
        raise transitions.impossible(int(np.argmin(exists)), classes, offsets, candidates)
    if not unknown_labels(candidates).any():
        return codes, None
    return codes, candidates


def label_paths(
    candidates: np.ndarray, transitions: Transitions | None, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find a label sequence with possible labels for each sequence, from its lowest codes on.

    Returns the codes, and whether there is such a label sequence; otherwise they are arbitrary.
    """
    if transitions is None:
        codes = candidates.argmax(axis=1).astype(np.int32)
        return codes, np.ones(len(offsets) - 1, dtype=bool)
    candidates = labels_reaching_end(transitions, offsets, candidates)
    codes = np.zeros(len(candidates), dtype=np.int32)
    before = np.full(len(offsets) - 1, len(transitions.ends))
    lengths = np.diff(offsets)
    for t in range(int(lengths.max())):
        longer = lengths > t
        positions = offsets[:-1][longer] + t
        possible = candidates[positions] & transitions.follows[before[longer]]
        if t == 0:
            exists = possible.any(axis=1)
        codes[positions] = before[longer] = possible.argmax(axis=1)
    return codes, exists


def unknown_labels(candidates: np.ndarray) -> np.ndarray:
    """Mark the positions with several possible labels; bool array (n_positions,)."""
    return candidates.sum(axis=1) > 1


def unknown_contexts(candidates: np.ndarray, offsets: np.ndarray, order: int) -> np.ndarray:
    """Mark the positions before which a label is unknown, at a lag of at most ``order``."""
    unknown = unknown_labels(candidates)
    positions = positions_in_sequences(offsets)
    is_unknown = np.zeros(len(candidates), dtype=bool)
    for lag in range(1, order + 1):
        inside = np.flatnonzero(positions >= lag)
        is_unknown[inside] |= unknown[inside - lag]
    return is_unknown


def known_examples(candidates: np.ndarray, offsets: np.ndarray, order: int) -> np.ndarray:
    """Mark the positions whose label and ``order`` previous labels are known."""
    return ~(unknown_labels(candidates) | unknown_contexts(candidates, offsets, order))


@dataclass(frozen=True)
class _Block:
    """Some of the chains with unknown labels, one after another."""

    numbers: np.ndarray  # indices of the chains
    positions: np.ndarray  # indices of their positions
    chains: np.ndarray  # their offsets among these positions


class UnknownLabels:
    """Inference given the known labels, for those chains whose labels are not all known."""

    def __init__(
        self,
        chains: np.ndarray,
        codes: np.ndarray,  # a possible label sequence of each chain
        candidates: np.ndarray,
        n_contexts: int,
        threads: Threads,
    ):
        self.chains = chains
        self.codes = codes
        self.candidates = candidates
        self.threads = threads
        unknown = unknown_labels(candidates)
        # Indices of the chains with unknown labels.
        self.numbers = np.flatnonzero(np.logical_or.reduceat(unknown, chains[:-1]))
        self.blocks = self._make_blocks(n_contexts)

    def _make_blocks(self, n_contexts: int) -> list[_Block]:
        """Divide the chains into blocks whose scores fit in memory."""
        lengths = np.diff(self.chains)[self.numbers]
        offsets = offsets_of(lengths)
        starts = np.repeat(self.chains[self.numbers], lengths)
        positions = starts + positions_in_sequences(offsets)
        max_positions = max(1, MAX_BYTES // (8 * self.candidates.shape[1] * n_contexts))
        return [
            _Block(
                self.numbers[first:last],
                positions[offsets[first] : offsets[last]],
                offsets[first : last + 1] - offsets[first],
            )
            for first, last in runs(offsets, max_positions)
        ]

    def subtract_likelihoods(self, scores: np.ndarray, likelihoods: np.ndarray) -> None:
        """Turn log-likelihoods of the codes into log-likelihoods of the known labels."""

        def subtract(block: _Block) -> None:
            conditional = np.empty(len(block.numbers))
            _inference.log_likelihood(
                self._block_scores(block, scores), block.chains, self.codes[block.positions],
                0, len(conditional), conditional,
            )  # fmt: skip
            likelihoods[block.numbers] -= conditional

        self.threads.map(subtract, self.blocks)

    def subtract_residuals(
        self,
        scores: np.ndarray,
        residuals: np.ndarray,
        curvature: np.ndarray | None,
        likelihoods: np.ndarray,
    ) -> None:
        """Subtract residuals, curvature and likelihoods of the codes given the known labels."""

        def subtract(block: _Block) -> None:
            conditional = np.empty(len(block.numbers))
            table = self._block_scores(block, scores)
            conditional_residuals = np.empty_like(table)
            _inference.residuals(
                table, block.chains, self.codes[block.positions], 0, len(conditional),
                conditional_residuals, None, conditional,
            )  # fmt: skip
            _inference.subtract_residuals(
                residuals, curvature, block.positions, conditional_residuals
            )
            likelihoods[block.numbers] -= conditional

        self.threads.map(subtract, self.blocks)

    def _block_scores(self, block: _Block, scores: np.ndarray) -> np.ndarray:
        """Return the scores of a block, minus infinity for labels that are not possible."""
        table = np.take(scores, block.positions, axis=1)
        table[~self.candidates[block.positions].T] = -np.inf
        return table
