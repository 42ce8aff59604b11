"""Contributions of features and previous labels to the scores of a forest.

The contributions are Shapley values [1]_, as in path-dependent TreeSHAP [2]_. Players are features
at offsets in the window, sequence ends at offsets, and previous labels at lags. In a coalition, a
test of a present player has its actual outcome, and a test of an absent player sends a position to
both children, with weights that are the children's relative covers: their shares of the training
examples, in first-order and in Newton boosting alike. The values are computed by quadrature along
the paths, in time proportional to the number of nodes and players on a path.

References
----------
.. [1] L. Shapley, "A value for n-person games", Contributions to the Theory of Games II,
   1953.
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
    def from_pairs(cls, features: np.ndarray, offsets: np.ndarray) -> Players:
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
        return Players.from_pairs(
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
    missing_tests: np.ndarray  # uint8; marks the tests of whether a value is missing
    parents: np.ndarray  # parent of each node in its tree
    ancestors: np.ndarray  # node below the nearest test of the same player above; 0 for none
    n_players: np.ndarray  # number of players on the path to each node
    covers: np.ndarray  # product of the relative covers below the tests of the parent's player
    lacking: np.ndarray  # the same without tests of missing values
    reaches: np.ndarray  # product of all relative covers on the path


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
    by_weight = np.divide(passed, total, out=np.full(len(total), 0.5), where=total > 0)
    has_none = (packed["column"] == LABEL) & (packed["share"] == 0)
    shares = np.where(has_none, by_weight, packed["share"])
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
    missing_tests: np.ndarray

    @classmethod
    def of(cls, links: Links, width: int) -> PathTables:
        """Compute the tables of some trees."""
        packed = links.packed
        starts = packed["starts"].astype(np.int64)
        points, weights = np.polynomial.legendre.leggauss(width)
        nodes = np.flatnonzero(packed["true_child"] >= 0)
        trees = np.searchsorted(starts, nodes, side="right") - 1
        n_trees = len(starts) - 1
        n_players = int(links.players.max(initial=0)) + 1
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
            missing_tests=links.missing_tests,
        )


def _ratios_and_slopes(links: Links, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the ratios and slopes of all nodes at the points of the quadrature."""
    packed = links.packed
    n = len(links.players)
    first = np.repeat(packed["starts"][:-1], np.diff(packed["starts"])).astype(np.int64)
    parents = first + links.parents
    ancestors = first + links.ancestors[parents]
    is_true = packed["true_child"][parents] == np.arange(n) - first
    share = np.where(is_true, links.shares[parents], 1.0 - links.shares[parents])[:, None]
    # Covers at the node and at the ancestor, and both without tests of missing values.
    cover = links.covers[:, None]
    cover_above = links.covers[ancestors][:, None]
    lacking = links.lacking[:, None]
    lacking_above = links.lacking[ancestors][:, None]
    # Factors of the player in the products of both.
    leads = cover + (1.0 - cover) * points
    leads_above = cover_above + (1.0 - cover_above) * points
    lacks = np.maximum(cover * (1.0 - points) + lacking * points, TINY)
    lacks_above = np.maximum(cover_above * (1.0 - points) + lacking_above * points, TINY)
    is_plain = (cover == lacking) & (cover_above == lacking_above)
    ratios = np.zeros((n, 5, len(points)))
    ratios[:, LEADS] = leads / leads_above
    ratios[:, LACKS] = np.where(is_plain, share, lacks / lacks_above)
    ratios[:, LEAVES] = cover * (1.0 - points) / leads_above
    ratios[:, LACKS_LEAVES] = cover * (1.0 - points) / lacks_above
    ratios[:, GONE] = share
    is_leaf = packed["true_child"] < 0
    ratios *= np.where(is_leaf, packed["leaf"], 1.0)[:, None, None]
    slope_above = (1.0 - cover_above) / leads_above
    lacking_slope_above = (lacking_above - cover_above) / lacks_above
    slopes = np.zeros((n, 5, len(points)))
    slopes[:, LEADS] = (1.0 - cover) / leads - slope_above
    slopes[:, LACKS] = (lacking - cover) / lacks - lacking_slope_above
    slopes[:, LEAVES] = -1.0 / (1.0 - points) - slope_above
    slopes[:, LACKS_LEAVES] = -1.0 / (1.0 - points) - lacking_slope_above
    return ratios.reshape(-1, len(points)), slopes.reshape(-1, len(points))


def _widths(n_players: np.ndarray) -> np.ndarray:
    """Return the number of nodes of the quadrature for trees with this many players on a path.

    It is exact for the product of ``n_players - 1`` factors.
    """
    needed = -(-n_players // 2)
    multiple = -(-needed // WIDTHS[-1]) * WIDTHS[-1]
    narrow = np.array([*WIDTHS, 0])[np.searchsorted(WIDTHS, needed)]
    return np.where(needed > WIDTHS[-1], multiple, narrow)


class ForestExplainer:
    """Explainer of the scores of a forest, given the previous labels."""

    def __init__(self, forest: Forest, encoder: Encoder, codes: list[int]):
        self.forest = forest.one_output_per_tree()
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
        self.players = self._find_players()
        self.base_values = np.zeros(len(codes))
        # Number of nodes of the quadrature for each tree.
        self._widths = np.zeros(len(self._trees), dtype=np.int64)
        for chosen in self._runs(np.arange(len(self._trees))):
            links = self._link(chosen)
            starts = links.packed["starts"][:-1]
            self._widths[chosen] = _widths(np.maximum.reduceat(links.n_players, starts))
            # The expected value of each tree, where all players are absent.
            is_leaf = links.packed["true_child"] < 0
            values = np.where(is_leaf, links.packed["leaf"], 0.0) * links.reaches
            expected = np.add.reduceat(values, starts)
            self.base_values += np.bincount(self._classes[chosen], expected, len(codes))

    def _find_players(self) -> Players:
        """Return the players that the trees test."""
        pairs = [np.zeros((2, 0), dtype=np.int64)]
        for chosen in self._runs(np.arange(len(self._trees))):
            packed = self._pack(chosen)
            tested = self._pairs_of(packed)[:, packed["true_child"] >= 0]
            pairs.append(tested[:, np.unique(_keys(*tested), return_index=True)[1]])
        return Players.from_pairs(*np.hstack(pairs))

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
                links = self._link(chosen)
                packed = PackedTrees.of(links.packed, self.encoder, self.forest.n_labels)
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
        """Pack chosen trees."""
        forest = Forest(self.forest.n_labels, self.forest.order)
        forest.trees = [self.forest.trees[i] for i in self._trees[chosen]]
        return forest.pack()

    def _pairs_of(self, packed: dict[str, np.ndarray]) -> np.ndarray:
        """Return the feature and the offset of the test of each node."""
        column = packed["column"].astype(np.int64)
        features = np.where(column >= 0, self._features[np.maximum(column, 0)], column)
        return np.stack([features, packed["offset"].astype(np.int64)])

    def _link(self, chosen: np.ndarray) -> Links:
        """Link the tests of each player in chosen trees."""
        packed = self._pack(chosen)
        inner = packed["true_child"] >= 0
        players = np.zeros(len(inner), dtype=np.int32)
        players[inner] = self.players.index_of(*self._pairs_of(packed)[:, inner])
        shares = relative_covers(packed)
        missing_tests = (packed["column"] >= 0) & (packed["value"] == MISSING)
        missing_tests = missing_tests.astype(np.uint8)
        parents, ancestors, n_players = np.zeros((3, len(inner)), dtype=np.int32)
        covers, lacking, reaches = np.zeros((3, len(inner)))
        children = (packed[name].astype(np.int32) for name in ("true_child", "false_child"))
        starts = packed["starts"].astype(np.int32)
        link_tests(
            starts, *children, players, shares, missing_tests, parents, ancestors, covers, lacking,
            reaches, n_players,
        )  # fmt: skip
        return Links(
            packed, players, shares, missing_tests, parents, ancestors, n_players, covers, lacking,
            reaches,
        )  # fmt: skip
