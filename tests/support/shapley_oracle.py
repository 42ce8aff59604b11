"""Shapley values by enumeration of all coalitions."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
from support.forests import Walker

from treecrf.encoding.column_layout import BOUNDARY
from treecrf.trees.forest import LABEL


def shapley_values(value, players) -> dict:
    """Return the value of each player in a game, a function of frozensets of players."""
    players, n = list(players), len(players)
    values = {}
    for player in players:
        others = [other for other in players if other != player]
        values[player] = sum(
            factorial(size) * factorial(n - size - 1) / factorial(n)
            * (value(frozenset(some) | {player}) - value(frozenset(some)))
            for size in range(n) for some in combinations(others, size)
        )  # fmt: skip
    return values


class TreeGame:
    """The values of a tree for coalitions of the features and previous labels that are present."""

    def __init__(self, tree, encoder, sequences):
        self.tree, self.walker = tree, Walker(tree, encoder, sequences)
        inner = np.flatnonzero(tree["true_child"] >= 0)
        self.player_of = {int(i): self._player(encoder, i) for i in inner}
        self.players = sorted(set(self.player_of.values()))

    def _player(self, encoder, node):
        column = int(self.tree["column"][node])
        feature = column
        if column not in (BOUNDARY, LABEL) and encoder.imputation is not None:
            feature = int(encoder.imputation.sources[column])
        return feature, int(self.tree["offset"][node])

    def value(self, coalition, t, symbols, node=0) -> float:
        """Return the expected value below a node."""
        tree = self.tree
        if tree["true_child"][node] < 0:
            return float(tree["leaf"][node])
        passing = self._passing(coalition, t, symbols, node)
        return sum(
            weight * self.value(coalition, t, symbols, int(tree[child][node]))
            for child, weight in (("true_child", passing), ("false_child", 1 - passing))
            if weight
        )

    def _passing(self, coalition, t, symbols, node) -> float:
        tree, walker = self.tree, self.walker
        on_label = tree["column"][node] == LABEL
        if self.player_of[node] in coalition:
            if on_label or not walker.missing[node, t]:
                return float(walker.passes(node, t, symbols))
            if walker.follows_surrogates:
                return float(walker.follow(node, t))
        return float(tree["share"][node])
