"""Scores of fitted hidden Markov models, and their tables in model files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treecrf.chains.contexts import check_order
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.symbols import indices_of
from treecrf.learners.base.chain import FittedChain
from treecrf.utils.model_file import check_classes, check_counts, is_ascending, require
from treecrf.utils.threads import Threads


@dataclass(kw_only=True)
class HMMChain(FittedChain):
    """Logarithms of the joint probabilities of a label and a symbol."""

    # log P(label | previous labels), as ``HMMClassifier.transition_log_prob_``.
    label_log_p: list[np.ndarray]
    # log P(symbol | label), as ``HMMClassifier.emission_log_prob_``.
    symbol_log_p: np.ndarray

    def factors(
        self, sequences: Sequences, threads: Threads
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return log P(symbol | label), and log P(label | previous label), up to order 1."""
        if self.order > 1:
            return None
        symbols = symbol_codes(self.schema.categories[0], sequences)
        # A missing symbol is uninformative.
        log_p = np.pad(self.symbol_log_p, [(0, 0), (0, 1)])
        start = self.label_log_p[0]
        if self.order == 0:
            # All positions are alike.
            transitions = np.tile(start, (len(start), 1))
        else:
            transitions = self.label_log_p[1]
        return log_p.T[symbols], np.vstack([transitions, start])

    def scores(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        """Compute scores of shape (n_labels, n_positions, n_contexts)."""
        symbols = symbol_codes(self.schema.categories[0], sequences)
        # Tables of the scores of labels in contexts: of the first positions, and of all later ones.
        *first, later = [table.reshape(-1, len(self.classes)).T for table in self.label_log_p]
        scores = np.empty((len(later), len(symbols), later.shape[1]))
        # A missing symbol is uninformative: it has log-probability 0 under every label.
        log_p = np.pad(self.symbol_log_p, [(0, 0), (0, 1)])

        offsets = sequences.offsets

        def fill(run: tuple[int, int]) -> None:
            first_sequence, last_sequence = run
            positions = slice(offsets[first_sequence], offsets[last_sequence])
            emissions = log_p[:, symbols[positions], np.newaxis]
            np.add(emissions, later[:, np.newaxis], out=scores[:, positions])

        threads.map(fill, threads.parts(offsets))
        for depth, table in enumerate(first):
            positions = offsets[:-1][np.diff(offsets) > depth] + depth
            emissions = log_p[:, symbols[positions], np.newaxis]
            scores[:, positions, : table.shape[1]] = emissions + table[:, np.newaxis]
        return scores


def symbol_codes(known: np.ndarray, sequences: Sequences) -> np.ndarray:
    """Return indices of symbols; the next two are for unseen and missing symbols."""
    symbols = np.concatenate([piece for _, _, piece in sequences.pieces()])
    if not sequences.are_symbols:
        return indices_of(symbols, known)
    # Codes from 1, 0 for unseen symbols, and NaN.
    codes = symbols[:, 0]
    unseen = len(known)
    missing = unseen + 1
    codes = np.select([np.isnan(codes), codes == 0], [missing, unseen], codes - 1)
    return codes.astype(np.intp)


# Tables of a model


@dataclass(frozen=True)
class SymbolTables:
    """What an estimator has learned."""

    # The symbols of the training data, sorted.
    symbols: np.ndarray
    # As ``HMMClassifier.emission_log_prob_`` and ``HMMClassifier.transition_log_prob_``.
    emissions: np.ndarray
    transitions: list[np.ndarray]

    def chain(self, classes: np.ndarray, transitions: Any) -> HMMChain:
        """Return the chain; ``transitions`` is the parameter of the estimator."""
        # An array of kinds, and the symbols as the only categories.
        kinds = np.array([CATEGORY], dtype=np.uint8)
        return HMMChain(
            schema=InputSchema("symbols", 1, None, kinds, {0: self.symbols}),
            classes=classes,
            order=len(self.transitions) - 1,
            transitions=transitions,
            label_log_p=self.transitions,
            symbol_log_p=self.emissions,
        )

    def check(self, n_labels: int) -> None:
        """Raise ValueError unless the symbols are sorted and the tables have valid shapes."""
        require(self.symbols.dtype.kind in "iU" and is_ascending(self.symbols), "symbols")
        require(len(self.symbols) > 0, "symbols")
        _check_log_probabilities(self.emissions, (n_labels, len(self.symbols) + 1))
        for depth, table in enumerate(self.transitions):
            _check_log_probabilities(table, (n_labels,) * (depth + 1))


def _check_log_probabilities(table: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless each row along the last axis is a distribution without zeros."""
    require(table.shape == shape and table.dtype == np.float64, "probabilities")
    require(np.isfinite(table).all() and (table <= 0).all(), "probabilities")
    require(np.allclose(np.exp(table).sum(axis=-1), 1.0), "probabilities")


# Model files


def restored_tables(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SymbolTables:
    """Return the tables of a file; ValueError if they do not fit together."""
    classes = arrays["classes"]
    order = values["order"]
    check_counts(order)
    check_classes(classes)
    check_order(len(classes), order)
    transitions = [arrays[f"transitions.{depth}"] for depth in range(order + 1)]
    tables = SymbolTables(arrays["symbols"], arrays["emissions"], transitions)
    tables.check(len(classes))
    return tables


def restored_chain(
    parameters: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> HMMChain:
    """Return the chain of an `HMMClassifier`, given its parameters."""
    tables = restored_tables(values, arrays)
    return tables.chain(arrays["classes"], parameters.get("transitions"))
