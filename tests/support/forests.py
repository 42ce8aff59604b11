"""Forests grown on noise, and a walk of single examples down their trees."""

from __future__ import annotations

import numpy as np
from support.cases import dense, pack, random_sequences, random_with_missing
from support.oracles import extended_contexts
from support.tree_oracle import (
    meaning_of_tests,
    part_of,
    round_value,
    window_test_missing,
    window_test_truth,
)

from treecrf.chains.constraints import Constraints
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.booster import Booster
from treecrf.trees.forest import LABEL, Forest
from treecrf.trees.growing.settings import TreeSettings
from treecrf.utils.threads import Threads

LENGTHS = [9, 1, 14, 3, 60]


class RandomObjective:
    """Random residuals for the trees to fit."""

    given = None
    counts = None
    candidates = None
    constraints = Constraints(np.arange(2))

    def __init__(self, shape, seed):
        self.shape, self.rng = shape, np.random.default_rng(seed)
        self.codes = np.zeros(shape[1], dtype=np.int32)

    def constrain(self, scores):
        """Nothing is forbidden."""

    def examples(self, scores, iteration, weights=None):
        return np.rint(self.rng.uniform(-1, 1, self.shape) * 2.0**32) / 2.0**32, None, 0.0

    def value(self, scores):
        return 0.0


class Trained:
    """A forest grown on noise, with the scores that training accumulated.

    ``rate`` is the fraction of missing values, for input of a kind that has some.
    """

    def __init__(self, kind, seed, *, rate=None, lengths=LENGTHS, **options):
        rng = np.random.default_rng(seed)
        sequences = (
            random_sequences(kind, rng, lengths)
            if rate is None
            else random_with_missing(kind, rng, lengths, rate)
        )
        self.grow(sequences, rng, seed, **options)

    def grow(
        self,
        sequences,
        rng,
        seed,
        *,
        n_labels=2,
        order=1,
        window=(1, 1),
        n_iter=3,
        missing="weighting",
        weights=None,
        **tree_settings,
    ):
        self.n_labels, self.order = n_labels, order
        self.sequences = sequences
        packed = pack(sequences)
        self.encoder = Encoder(window, missing=missing).fit(packed)
        self.encoded = self.encoder.encode(packed)
        self.forest = Forest(n_labels, order)
        shape = (n_labels, packed.n_positions, n_labels**order)
        booster = Booster(
            self.forest,
            self.encoder,
            self.encoded,
            RandomObjective(shape, seed),
            TreeSettings(**{**PLAIN_GROWTH, **tree_settings}),
            np.ones(packed.n_positions) if weights is None else weights,
            Threads(1),
        )
        for _ in range(n_iter):
            booster.step()
        self.training_scores = booster.scores

    def scores(self, sequences=None, n_threads=1, **options):
        encoded = self.encoded
        if sequences is not None:
            encoded = self.encoder.encode(pack(sequences))
        with Threads(n_threads) as threads:
            return self.forest.scores(self.encoder, encoded, threads, **options)

    def walked(self, sequences):
        return walk(self.forest, self.encoder, dense(sequences))


def with_vector_leaves(forest, n_labels, order, seed, scale=2.0, has_transitions=False):
    """Return a forest of multi-output trees: those of another one, whose leaves get vectors."""
    rng = np.random.default_rng(seed)
    new = Forest(n_labels, order, has_transitions, is_multi_output=True)
    for tree in forest.trees:
        values = rng.uniform(-scale, scale, (len(tree["leaf"]), n_labels))
        values[tree["true_child"] >= 0] = 0.0
        new.trees.append(tree | {"leaf": round_value(values)})
        if has_transitions:
            shape = order + 1, n_labels, n_labels**order
            new.transitions.append(rng.integers(-(1 << 20), 1 << 20, shape, dtype=np.int32))
    return new


PLAIN_GROWTH = {
    "max_leaf_nodes": 15,
    "l2_regularization": 1.0,
    "learning_rate": 0.3,
    "min_gain": 0.0,
    "min_missing_gain": 0.0,
    "max_features": 1.0,
    "subsample": 1.0,
    "max_leaf_value": np.inf,
    "seed": 0,
}


def walk(forest, encoder, sequences):
    """Take every example down every tree."""
    places = np.concatenate([np.arange(len(sequence)) for sequence in sequences])
    depth = np.minimum(places, forest.order)
    scores = np.zeros((forest.n_labels, len(places), forest.n_labels**forest.order))
    for k, tree in enumerate(forest.trees):
        walker = Walker(tree, encoder, sequences)
        for context_depth, c, symbols in extended_contexts(forest.n_labels, forest.order):
            for t in np.flatnonzero(depth == context_depth):
                scores[k % forest.n_labels, t, c] += walker.value(0, t, symbols, 1.0)
    return scores


class Walker:
    """Walk of examples down a tree, one by one and, if values are missing, in fractions."""

    def __init__(self, tree, encoder, sequences):
        self.tree = tree
        self.follows_surrogates = encoder.missing == "surrogate"
        nodes = np.flatnonzero((tree["true_child"] >= 0) & (tree["column"] != LABEL))
        self.truth, self.missing = answers("", nodes, len(tree["leaf"]), tree, encoder, sequences)
        n = len(tree["reversed"])
        self.surrogates = answers("surrogate_", np.arange(n), n, tree, encoder, sequences)
        self.starts = np.append(0, np.cumsum(tree["n_surrogates"]))

    def value(self, node, t, symbols, part):
        """Return the value that a fraction of an example receives below a node."""
        tree = self.tree
        if tree["true_child"][node] < 0:
            return round_value(tree["leaf"][node] * part)
        passing = part * self.passes(node, t, symbols)
        if self.missing[node, t]:
            passing = part * self.follow(node, t)
            if not self.follows_surrogates:
                passing = part_of(part, tree["share"][node])
        value = 0.0
        for child, weight in (("true_child", passing), ("false_child", part - passing)):
            if weight > 0:
                value += self.value(tree[child][node], t, symbols, weight)
        return value

    def passes(self, node, t, symbols):
        if self.tree["column"][node] == LABEL:
            return symbols[self.tree["offset"][node] - 1] == self.tree["value"][node]
        return self.truth[node, t]

    def follow(self, node, t):
        truth, missing = self.surrogates
        for s in range(self.starts[node], self.starts[node + 1]):
            if not missing[s, t]:
                return truth[s, t] != self.tree["reversed"][s]
        return self.tree["share"][node] >= 0.5


def answers(prefix, places, n, tree, encoder, sequences):
    """Outcomes of some window tests at all positions, and where their values are missing."""
    tests = (tree[prefix + name][places] for name in ("column", "offset", "value"))
    meanings = meaning_of_tests(encoder, *tests)
    n_positions = sum(len(sequence) for sequence in sequences)
    truth, missing = np.zeros((2, n, n_positions), dtype=bool)
    truth[places] = window_test_truth(sequences, meanings)
    missing[places] = window_test_missing(sequences, meanings)
    return truth, missing
