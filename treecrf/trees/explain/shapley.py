"""Contributions of features and previous labels to the scores of a forest.

The contributions are Shapley values [1]_, as in path-dependent TreeSHAP [2]_. Players are features
at offsets in the window, sequence ends at offsets, and previous labels at lags. In a coalition, a
test of a present player has its actual outcome, and a test of an absent player sends a position to
both children, with weights that are the children's relative covers: their shares of the training
examples, in first-order and in Newton boosting alike. They are computed by quadrature
along the paths, in time proportional to the number of nodes and players on a path.

References
----------
.. [1] L. Shapley, "A value for n-person games", Contributions to the Theory of Games II, 1953.
.. [2] S. Lundberg et al., "From local explanations to global understanding with explainable AI for
   trees", Nature Machine Intelligence 2, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from treecrf.encoding.column_layout import BOUNDARY, MISSING
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import DERIVED, Encoder
from treecrf.inputs.offsets import runs
from treecrf.trees.explain._shapley import Explainer, link_tests
from treecrf.trees.forest import LABEL, Forest
from treecrf.trees.scoring.packed_trees import PackedTrees
from treecrf.utils.threads import Threads

# Numbers of nodes of the quadrature; larger ones are multiples of the last.
WIDTHS = (2, 4, 8, 16)
# Maximum number of tree nodes whose tables are in memory at the same time.
MAX_NODES = 50_000
# Minimum number of positions of a part for a thread.
PART = 1 << 6

# See ``shapley.h``.
LEADS, LACKS, LEAVES, LACKS_LEAVES, GONE = range(5)
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Players:
    """The players among whom the scores are divided."""

    # Number of the feature, or of one derived in training, `BOUNDARY` for the ends of sequences, or
    # `LABEL` for previous labels.
    features: np.ndarray
    offsets: np.ndarray  # in the window, or lags of previous labels, in the chain's direction

    def __len__(self) -> int:
        return len(self.features)

    @classmethod
    def of_pairs(cls, features: np.ndarray, offsets: np.ndarray) -> Players:
        """Make players of pairs that may repeat: features first, previous labels last."""
        pairs = np.unique(np.stack([features, offsets]).astype(np.int64), axis=1)
        rank = np.where(pairs[0] >= 0, 0, np.where(pairs[0] == BOUNDARY, 1, 2))
        pairs = pairs[:, np.lexsort((pairs[1], pairs[0], rank))]
        return cls(*pairs)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Feature and offset of each player."""
        return list(zip(self.features.tolist(), self.offsets.tolist(), strict=True))

    def union(self, *others: Players) -> Players:
        """Return the players of several groups."""
        every = (self, *others)
        return Players.of_pairs(
            np.concatenate([players.features for players in every]),
            np.concatenate([players.offsets for players in every]),
        )

    def index_of(self, features: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the index of each pair, int32; all must be players."""
        keys = _keys(self.features, self.offsets)
        order = np.argsort(keys)
        return order[np.searchsorted(keys[order], _keys(features, offsets))].astype(np.int32)


def _keys(features: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return one number for each pair; offsets are small."""
    return features.astype(np.int64) * (1 << 32) + offsets


@dataclass(frozen=True)
class Links:
    """Tests of the same player on the paths of some trees; see `_shapley.link_tests`."""

    packed: dict[str, np.ndarray]  # the arrays of `Forest.pack`
    players: np.ndarray  # player of the test of each node; 0 in leaves
    shares: np.ndarray  # relative cover of the true child of each node
    of_missing: np.ndarray  # uint8; marks the tests of whether a value is missing
    parents: np.ndarray
    ancestors: np.ndarray
    n_players: np.ndarray
    covers: np.ndarray
    lacking: np.ndarray
    reaches: np.ndarray


def relative_covers(packed: dict[str, np.ndarray]) -> np.ndarray:
    """Return the cover of each node's true child relative to the node: its share.

    Shares also divide positions without a value, so that a missing value is the same as an absent
    player, except to tests of whether it is missing. Models saved by early versions have no shares
    of label tests; weights replace them.
    """
    children = [packed[name].astype(np.int64) for name in ("true_child", "false_child")]
    first = np.repeat(packed["starts"][:-1], np.diff(packed["starts"]))
    is_inner = children[0] >= 0
    passed, failed = (packed["weight"][np.maximum(first + c, 0)] for c in children)
    total = passed + failed
    of_weight = np.divide(passed, total, out=np.full(len(total), 0.5), where=total > 0)
    has_none = (packed["column"] == LABEL) & (packed["share"] == 0)
    shares = np.where(has_none, of_weight, packed["share"])
    return np.where(is_inner, shares, 0.0)


@dataclass(frozen=True)
class PathTables:
    """Trees as `treecrf.trees.explain._shapley.Explainer` reads them."""

    weights: np.ndarray  # of the quadrature
    ratios: np.ndarray  # see ``shapley.h``
    slopes: np.ndarray  # see ``shapley.h``
    inner: np.ndarray  # (n_inner, 5): index in the tree, children, ancestor and slot
    inner_starts: np.ndarray  # first inner node of each tree
    players: np.ndarray  # of each tree, one tree after another
    slot_starts: np.ndarray  # first slot of each tree
    shares: np.ndarray
    of_missing: np.ndarray

    @classmethod
    def of(cls, links: Links, width: int) -> PathTables:
        """Compute the tables of some trees."""
        packed = links.packed
        starts = packed["starts"].astype(np.int64)
        points, weights = np.polynomial.legendre.leggauss(width)
        nodes = np.flatnonzero(packed["true_child"] >= 0)
        trees = np.searchsorted(starts, nodes, side="right") - 1
        n_trees, n_players = len(starts) - 1, int(links.players.max(initial=0)) + 1
        slots, which = np.unique(trees * n_players + links.players[nodes], return_inverse=True)
        slot_starts = np.searchsorted(slots, np.arange(n_trees + 1) * n_players)
        children = (packed[name][nodes] for name in ("true_child", "false_child"))
        first = starts[trees]
        columns = (nodes - first, *children, links.ancestors[nodes], which - slot_starts[trees])
        return cls(
            weights / 2,
            *_ratios_and_slopes(links, (points + 1) / 2),
            inner=np.stack(columns, axis=1).astype(np.int32),
            inner_starts=np.searchsorted(nodes, starts).astype(np.int64),
            players=(slots % n_players).astype(np.int32),
            slot_starts=slot_starts.astype(np.int64),
            shares=links.shares,
            of_missing=links.of_missing,
        )


def _ratios_and_slopes(links: Links, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the ratios and slopes of all nodes at the points of the quadrature."""
    packed, n = links.packed, len(links.players)
    first = np.repeat(packed["starts"][:-1], np.diff(packed["starts"])).astype(np.int64)
    parents = first + links.parents
    ancestors = first + links.ancestors[parents]
    above, lacked = links.covers[ancestors][:, None], links.lacking[ancestors][:, None]
    here, lacks = links.covers[:, None], links.lacking[:, None]
    is_true = packed["true_child"][parents] == np.arange(n) - first
    share = np.where(is_true, links.shares[parents], 1.0 - links.shares[parents])[:, None]
    leads, led = here + (1.0 - here) * points, above + (1.0 - above) * points
    without = np.maximum(here * (1.0 - points) + lacks * points, TINY)
    before = np.maximum(above * (1.0 - points) + lacked * points, TINY)
    is_plain = (here == lacks) & (above == lacked)
    ratios, slopes = np.zeros((2, n, 5, len(points)))
    ratios[:, LEADS] = leads / led
    ratios[:, LACKS] = np.where(is_plain, share, without / before)
    ratios[:, LEAVES] = here * (1.0 - points) / led
    ratios[:, LACKS_LEAVES] = here * (1.0 - points) / before
    ratios[:, GONE] = share
    is_leaf = packed["true_child"] < 0
    ratios *= np.where(is_leaf, packed["leaf"], 1.0)[:, None, None]
    slopes[:, LEADS] = (1.0 - here) / leads - (1.0 - above) / led
    slopes[:, LACKS] = (lacks - here) / without - (lacked - above) / before
    slopes[:, LEAVES] = -1.0 / (1.0 - points) - (1.0 - above) / led
    slopes[:, LACKS_LEAVES] = -1.0 / (1.0 - points) - (lacked - above) / before
    return ratios.reshape(-1, len(points)), slopes.reshape(-1, len(points))


class ForestExplainer:
    """Explainer of the scores of a forest, given the previous labels."""

    def __init__(self, forest: Forest, encoder: Encoder, codes: list[int]):
        self.forest = forest
        self.encoder = encoder
        n_labels = forest.n_labels
        trees = [
            (iteration * n_labels + code, k)
            for iteration in range(forest.n_iter)
            for k, code in enumerate(codes)
        ]
        self._trees, self._classes = np.array(trees, dtype=np.int64).reshape(-1, 2).T
        # The feature of each column; columns derived in training follow the features.
        origins = [encoder.origin_of(column) for column in range(len(encoder.columns))]
        self._features = np.array(
            [index + encoder.n_features * (kind == DERIVED) for kind, index in origins],
            dtype=np.int64,
        )
        pairs = [np.zeros((2, 0), dtype=np.int64)]
        for chosen in self._runs(np.arange(len(self._trees))):
            packed = self._pack(chosen)
            some = self._pairs_of(packed)[:, packed["true_child"] >= 0]
            pairs.append(some[:, np.unique(_keys(*some), return_index=True)[1]])
        self.players = Players.of_pairs(*np.hstack(pairs))
        self.base_values = np.zeros(len(codes))
        self._widths = np.zeros(len(self._trees), dtype=np.int64)
        for chosen in self._runs(np.arange(len(self._trees))):
            links = self._link(chosen)
            leaves, starts = links.packed["leaf"], links.packed["starts"][:-1]
            # The number of nodes of the quadrature that is exact for the product of n - 1 factors.
            needed = -(-np.maximum.reduceat(links.n_players, starts) // 2)
            larger = -(-needed // WIDTHS[-1]) * WIDTHS[-1]
            of_needed = np.array([*WIDTHS, 0])[np.searchsorted(WIDTHS, needed)]
            self._widths[chosen] = np.where(needed > WIDTHS[-1], larger, of_needed)
            # The expected value of each tree, where all players are absent.
            values = np.where(links.packed["true_child"] < 0, leaves, 0.0) * links.reaches
            expected = np.add.reduceat(values, starts)
            self.base_values += np.bincount(self._classes[chosen], expected, len(codes))

    def add_contributions(
        self,
        encoded: EncodedSequences,
        given: np.ndarray,
        players: Players,
        values: np.ndarray,
        threads: Threads,
    ) -> None:
        """Add the contributions to ``values``, (n_positions, n_codes, n_players)."""
        columns = players.index_of(self.players.features, self.players.offsets)
        follows_surrogates = self.encoder.missing == "surrogate"
        for width in np.unique(self._widths):
            for chosen in self._runs(np.flatnonzero(self._widths == width)):
                links, n_labels = self._link(chosen), self.forest.n_labels
                packed = PackedTrees.of(links.packed, self.encoder, n_labels)
                tables = PathTables.of(links, int(width))
                tables = replace(tables, players=columns[tables.players])
                classes = self._classes[chosen].astype(np.int32)
                explainer = Explainer(packed, tables, classes, len(given), follows_surrogates)
                threads.map(
                    lambda part, run=explainer: run.add_contributions(
                        encoded, given, values, *part
                    ),
                    threads.even_parts(encoded.n_positions, PART),
                )

    def _runs(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Cut chosen trees into runs with a limited number of nodes."""
        sizes = [len(self.forest.trees[i]["leaf"]) for i in self._trees[chosen]]
        for first, last in runs(np.append(0, np.cumsum(sizes)), MAX_NODES):
            yield chosen[first:last]

    def _pack(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        some = Forest(self.forest.n_labels, self.forest.order)
        some.trees = [self.forest.trees[i] for i in self._trees[chosen]]
        return some.pack()

    def _pairs_of(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        """Return the feature and the offset of the test of each node."""
        column = packed["column"].astype(np.int64)
        features = np.where(column >= 0, self._features[np.maximum(column, 0)], column)
        return np.stack([features, packed["offset"].astype(np.int64)])

    def _link(self, chosen: np.ndarray) -> Links:
        packed = self._pack(chosen)
        inner = packed["true_child"] >= 0
        players = np.zeros(len(inner), dtype=np.int32)
        players[inner] = self.players.index_of(*self._pairs_of(packed)[:, inner])
        shares = relative_covers(packed)
        of_missing = (packed["column"] >= 0) & (packed["value"] == MISSING)
        of_missing = of_missing.astype(np.uint8)
        parents, ancestors, n_players = np.zeros((3, len(inner)), dtype=np.int32)
        covers, lacking, reaches = np.zeros((3, len(inner)))
        children = (packed[name].astype(np.int32) for name in ("true_child", "false_child"))
        starts = packed["starts"].astype(np.int32)
        link_tests(
            starts, *children, players, shares, of_missing, parents, ancestors, covers, lacking,
            reaches, n_players,
        )  # fmt: skip
        return Links(
            packed, players, shares, of_missing, parents, ancestors, n_players, covers, lacking,
            reaches,
        )  # fmt: skip
