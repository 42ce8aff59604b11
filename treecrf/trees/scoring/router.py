"""Addition of trees to the scores of the same sequences, iteration after iteration."""

from __future__ import annotations

from treecrf.chains.contexts import extended_contexts
from treecrf.chains.score_parts import ScoreParts
from treecrf.encoding.encoded import EncodedColumns, EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.scoring._route import PartsEvaluator
from treecrf.trees.scoring.scorer import PART, PackedTrees
from treecrf.utils.scratch import Allocate
from treecrf.utils.threads import Threads


class Router:
    """Positions to whose scores trees are added.

    Parameters
    ----------
    encoder : Encoder
    encoded : EncodedSequences
    order : int
        Number of previous labels in a context.
    columns : EncodedColumns, optional
        The encoded sequences column by column, if there are any already.
    """

    def __init__(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        order: int,
        columns: EncodedColumns | None = None,
    ):
        self.encoder = encoder
        self._columns = EncodedColumns.of(encoded) if columns is None else columns
        self._rows = encoded.row_of_position
        self._depth = encoded.depth_of(order)
        self._has_missing = bool(encoded.has_missing.any())
        self._order = order

    def keep_in(self, allocate: Allocate) -> None:
        """Move the columns to arrays from a function such as `Scratch.allocate`."""
        self._columns = self._columns.kept_in(allocate)

    def add(self, packed: PackedTrees, parts: ScoreParts, threads: Threads) -> None:
        """Add the values of trees to the parts of scores.

        Parameters
        ----------
        packed : PackedTrees
        parts : ScoreParts
        threads : Threads

        Raises
        ------
        ValueError
            If a score could leave the range of the parts.
        """
        evaluator = PartsEvaluator(
            packed,
            *extended_contexts(packed.n_labels, self._order),
            self.encoder.missing == "surrogate",
            self._columns,
            self._has_missing,
        )
        parts.make_room(packed.largest_values)
        if evaluator.tests_labels:
            parts.ensure_rest()
        evaluator.add_defaults(parts.transitions)
        n = len(self._rows)
        threads.map(
            lambda part: evaluator.add(parts, self._rows, self._depth, *part),
            threads.even_parts(n, PART) if n else [],
        )
