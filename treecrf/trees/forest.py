"""Forests: trees collected by boosting, packed into arrays, evaluated on encoded sequences."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from treecrf.encoding.column_layout import BOUNDARY, MISSING, NOWHERE
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import Encoder
from treecrf.trees.evaluators import (
    ForestEvaluator,
    MultiOutputEvaluator,
    is_supported,
    make_evaluator,
)
from treecrf.trees.scoring.packed_trees import LABEL, TEST, PackedTrees
from treecrf.utils.exact import LEAF_UNIT, MAX_EXACT, rounded_leaves
from treecrf.utils.model_file import require
from treecrf.utils.threads import Threads

# Fields of a node: its test, and what follows from it.
FIELDS = (*TEST, "true_child", "false_child", "leaf", "gain", "weight", "share", "n_surrogates")
# Those of floating point numbers.
FLOATS = ("leaf", "gain", "weight", "share")
# Fields that have an entry for each surrogate instead of each node.
SURROGATE_FIELDS = (*(f"surrogate_{name}" for name in TEST), "reversed")


class Forest:
    """The trees of all classes, iteration by iteration.

    There is one tree for each class, or, in a forest of multi-output trees, one tree for all.

    A node stores its test as (column, offset, value). ``column`` is an index of an encoded column;
    ``BOUNDARY`` tests whether the sequence has ended at ``offset``, and ``LABEL`` whether the label
    ``offset`` positions back is number ``value`` (``n_labels`` for no label). Children are counted
    from the start of their tree; leaves have none (-1) and store their value, ``leaf``. A leaf of a
    multi-output tree has a value for each class; such a tree tests no previous label.

    ``share`` is the fraction of the training examples that pass a test, of those that have its
    value. A position that lacks the value goes to both children, with this fraction of its weight
    to the true child. If the encoder has ``missing="surrogate"``, it goes to one child
    instead: by the node's first surrogate whose value is not missing, with the opposite outcome if
    the surrogate is ``reversed``, or else to the child with more weight. The surrogates of all
    nodes are concatenated, ``n_surrogates`` for each node.

    With constant transitions, no tree tests a previous label. Each iteration adds an array to the
    scores of labels after labels instead, which are the same at all positions.
    """

    # The trees that were packed last: encoder, first and last iteration, packed trees.
    _latest: tuple[Encoder, int, int, PackedTrees] | None = None
    # Number of iterations of the last result of `one_output_per_tree`, and this result.
    _divided: tuple[int, Forest] | None = None

    def __init__(
        self,
        n_labels: int,
        order: int,
        has_transitions: bool = False,
        is_multi_output: bool = False,
    ):
        self.n_labels = n_labels
        self.order = order
        # Whether leaves have a value for each class.
        self.is_multi_output = is_multi_output
        self.trees: list[dict[str, np.ndarray]] = []
        # For each iteration, as in `treecrf.chains.factored.factored_scores.FactoredScores`.
        self.transitions: list[np.ndarray] | None = [] if has_transitions else None
        # Evaluators of all iterations, by their number and whether previous labels are given.
        self._evaluators: dict[tuple[int, bool], ForestEvaluator | MultiOutputEvaluator] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict:
        dropped = {"transitions": None, "_evaluators": {}, "_latest": None, "_lock": None}
        return {**vars(self), "trees": self.pack(), **dropped, "_divided": None}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, _lock=Lock())
        unpacked = Forest.unpack(self.n_labels, self.order, state["trees"])
        self.trees = unpacked.trees
        self.transitions = unpacked.transitions
        self.is_multi_output = unpacked.is_multi_output

    @property
    def n_trees(self) -> int:
        """Number of trees of an iteration: one for each class, or one for all."""
        return 1 if self.is_multi_output else self.n_labels

    @property
    def n_iter(self) -> int:
        """Number of boosting iterations."""
        return len(self.trees) // self.n_trees

    def copy(self, n_iter: int | None = None) -> Forest:
        """Return a forest of the first iterations, or of all."""
        if n_iter is None:
            n_iter = self.n_iter
        return self.iterations(0, n_iter)

    def iterations(self, first: int, last: int) -> Forest:
        """Return a forest of the iterations from ``first`` to ``last - 1``."""
        forest = self.single_trees(first * self.n_trees, last * self.n_trees)
        if self.transitions is not None:
            forest.transitions = self.transitions[first:last]
        return forest

    def extend(self, forest: Forest) -> None:
        """Add the iterations of another forest."""
        self.trees += forest.trees
        if self.transitions is not None:
            self.transitions += forest.transitions

    def divided(self, divisor: float) -> Forest:
        """Return a forest whose scores are those of this one, divided by a number and rounded."""
        forest = self.copy()
        forest.trees = [
            tree | {"leaf": rounded_leaves(tree["leaf"] / divisor)} for tree in self.trees
        ]
        if self.transitions is not None:
            forest.transitions = [
                np.rint(step / divisor).astype(np.int32) for step in self.transitions
            ]
        return forest

    def halve_latest(self) -> Forest:
        """Halve the scores of the latest iteration; return this iteration as it was."""
        latest = self.iterations(self.n_iter - 1, self.n_iter)
        halved = latest.divided(2.0)
        self.trees[-self.n_trees :] = halved.trees
        if self.transitions is not None:
            self.transitions[-1] = halved.transitions[0]
        # The caches have the trees as they were.
        self._evaluators = {}
        self._latest = None
        self._divided = None
        return latest

    def single_trees(self, first: int, last: int) -> Forest:
        """Return a forest of the trees from ``first`` to ``last - 1``, without transitions."""
        forest = Forest(self.n_labels, self.order, is_multi_output=self.is_multi_output)
        forest.trees = self.trees[first:last]
        return forest

    def one_output_per_tree(self) -> Forest:
        """Return a forest with the same scores that has a tree for each class.

        Of a multi-output tree, the values of each class become the leaves of a tree of its own,
        with the same tests. A forest without such trees is returned itself.
        """
        if not self.is_multi_output:
            return self
        with self._lock:
            if self._divided is None or self._divided[0] != self.n_iter:
                self._divided = self.n_iter, self._divide()
            return self._divided[1]

    def _divide(self) -> Forest:
        """Make the trees of `one_output_per_tree`; those of an iteration share their tests."""
        forest = Forest(self.n_labels, self.order)
        for tree in self.trees:
            values = np.ascontiguousarray(tree["leaf"].T)
            forest.trees += (tree | {"leaf": label_values} for label_values in values)
        if self.transitions is not None:
            forest.transitions = list(self.transitions)
        return forest

    def pack(self, names: tuple[str, ...] = FIELDS + SURROGATE_FIELDS) -> dict[str, np.ndarray]:
        """Return all nodes, in one array for each field, and the start of each tree."""
        packed = {}
        with_surrogates = [tree for tree in self.trees if len(tree["reversed"])] or self.trees[:1]
        for name in names:
            trees = with_surrogates if name in SURROGATE_FIELDS else self.trees
            packed[name] = np.zeros(0)
            if name == "leaf" and self.is_multi_output:
                packed[name] = np.zeros((0, self.n_labels))
            if trees:
                packed[name] = np.concatenate([tree[name] for tree in trees])
        sizes = (len(tree["true_child"]) for tree in self.trees)
        packed["starts"] = np.cumsum([0, *sizes], dtype=np.int32)
        if self.transitions is not None:
            shape = (len(self.transitions), *self._transition_shape())
            packed["transitions"] = np.array(self.transitions, dtype=np.int32).reshape(shape)
        return packed

    @classmethod
    def unpack(cls, n_labels: int, order: int, packed: Mapping[str, np.ndarray]) -> Forest:
        """Undo `pack`."""
        forest = cls(n_labels, order, is_multi_output=packed["leaf"].ndim == 2)
        if "transitions" in packed:
            forest.transitions = list(packed["transitions"])
        starts = packed["starts"]
        surrogate_starts = np.append(0, np.cumsum(packed["n_surrogates"]))[starts].astype(int)
        nodes = pairwise(starts.tolist())
        surrogates = pairwise(surrogate_starts.tolist())
        # A mapping may take longer than a dict.
        node_fields = {name: packed[name] for name in FIELDS}
        surrogate_fields = {name: packed[name] for name in SURROGATE_FIELDS}
        for (start, stop), (first, last) in zip(nodes, surrogates, strict=True):
            tree = {name: array[start:stop] for name, array in node_fields.items()}
            tree |= {name: array[first:last] for name, array in surrogate_fields.items()}
            forest.trees.append(tree)
        return forest

    def gains(self, n_columns: int) -> np.ndarray:
        """Sum the gains of the splits on each column."""
        packed = self.pack(("true_child", "column", "gain"))
        inner = (packed["true_child"] >= 0) & (packed["column"] >= 0)
        columns = packed["column"][inner].astype(np.int64)
        return np.bincount(columns, weights=packed["gain"][inner], minlength=n_columns)

    def tested_columns(self, n_columns: int) -> np.ndarray:
        """Mark the columns that splits or surrogate splits test; bool array (n_columns,)."""
        packed = self.pack(("true_child", "column", "surrogate_column"))
        is_tested = np.zeros(n_columns, dtype=bool)
        for columns in (packed["column"][packed["true_child"] >= 0], packed["surrogate_column"]):
            is_tested[columns[columns >= 0].astype(np.intp)] = True
        return is_tested

    def scores(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        iterations: tuple[int, int] | None = None,
        start: np.ndarray | None = None,
        given: np.ndarray | None = None,
        depth: np.ndarray | None = None,
    ) -> np.ndarray:
        """Sum the trees' values of some iterations for every class, position and context.

        The sums are added to ``start``. Where previous labels are ``given``, only their context is
        scored, by the trees alone. ``depth`` is the number of labels before each position that
        define its context, by default those in its sequence.
        """
        scores = self.zeros(encoded, given) if start is None else start
        iterations = iterations or (0, self.n_iter)
        if iterations[0] == iterations[1]:
            return scores
        evaluator = self.evaluator(encoder, *iterations, given is not None)
        if depth is None:
            depth = self.depth_of(encoded, given)
        from treecrf.trees.scoring.batch import Batch

        evaluator.add_scores(Batch(encoded, depth, given, scores, threads))
        if self.transitions is not None and given is None:
            transitions = self.sum_of_transitions(iterations) * LEAF_UNIT
            for label in range(self.n_labels):
                for d in range(self.order + 1):
                    scores[label][depth == d] += transitions[d, label]
        return scores

    def scores_of_trees(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        first: int,
        given: np.ndarray | None = None,
    ) -> np.ndarray:
        """Compute the scores of each iteration from ``first`` on, in arrays like `zeros`."""
        if self.transitions is not None or self.is_multi_output:
            single = ((i, i + 1) for i in range(first, self.n_iter))
            return np.array(
                [
                    self.scores(encoder, encoded, threads, iteration, given=given)
                    for iteration in single
                ]
            )
        packed = self.packed(encoder, first, self.n_iter)
        evaluator = ForestEvaluator(packed, encoder, self.order, given is not None)
        shape = self.zeros(encoded, given).shape
        scores = np.zeros((self.n_iter - first, *shape))
        # To the reference, each tree is a class of its own.
        tree_scores = scores.reshape(-1, *shape[1:])
        depth = self.depth_of(encoded, given)
        from treecrf.trees.scoring.batch import Batch

        Batch(encoded, depth, given, tree_scores, threads).run(evaluator.reference)
        return scores

    def sum_of_transitions(self, iterations: tuple[int, int]) -> np.ndarray:
        """Sum the constant transitions of some iterations; int32 as in ``transitions``."""
        total = np.zeros(self._transition_shape(), dtype=np.int32)
        for transitions in self.transitions[slice(*iterations)]:
            total += transitions
        return total

    def _transition_shape(self) -> tuple[int, int, int]:
        return self.order + 1, self.n_labels, self.n_labels**self.order

    def state_scores(
        self,
        encoder: Encoder,
        encoded: EncodedSequences,
        threads: Threads,
        iterations: tuple[int, int] | None = None,
    ) -> np.ndarray:
        """Sum the values of trees that test no previous labels; (n_labels, n_positions)."""
        # In any context the values are the same.
        context = np.zeros((self.order, encoded.n_positions), dtype=np.uint8)
        return self.scores(encoder, encoded, threads, iterations, given=context)[:, :, 0]

    def zeros(self, encoded: EncodedSequences, given: np.ndarray | None) -> np.ndarray:
        """Return scores of 0 for all contexts, or for one context per position."""
        n_contexts = self.n_labels**self.order if given is None else 1
        return np.zeros((self.n_labels, encoded.n_positions, n_contexts))

    def depth_of(self, encoded: EncodedSequences, given: np.ndarray | None) -> np.ndarray:
        """Return the number of labels before each position that define its context; uint8."""
        if given is not None:
            return np.zeros(encoded.n_positions, dtype=np.uint8)
        return encoded.depth_of(self.order)

    def evaluator(
        self, encoder: Encoder, first: int, last: int, is_given: bool
    ) -> ForestEvaluator | MultiOutputEvaluator:
        """Return the evaluator of some iterations; the one of the whole forest is cached."""
        if (first, last) != (0, self.n_iter):
            return self._make_evaluator(encoder, first, last, is_given)
        key = last, is_given
        with self._lock:  # threads should not make the same evaluator twice
            if key not in self._evaluators:
                current = {k: v for k, v in self._evaluators.items() if k[0] == last}
                current[key] = self._make_evaluator(encoder, 0, last, is_given)
                self._evaluators = current
            return self._evaluators[key]

    def _make_evaluator(
        self, encoder: Encoder, first: int, last: int, is_given: bool
    ) -> ForestEvaluator | MultiOutputEvaluator:
        packed = self.packed(encoder, first, last)
        if not is_supported(packed):
            trees = self.iterations(first, last)._divide().pack()
            packed = PackedTrees.of(trees, encoder, self.n_labels)
        return make_evaluator(packed, encoder, self.order, is_given)

    def packed(self, encoder: Encoder, first: int, last: int) -> PackedTrees:
        """Return the trees of some iterations as the kernels read them; the latest are cached."""
        latest = self._latest  # another thread may replace it
        if latest is not None and latest[0] is encoder and latest[1:3] == (first, last):
            return latest[3]
        trees = self.single_trees(first * self.n_trees, last * self.n_trees).pack()
        packed = PackedTrees.of(trees, encoder, self.n_labels)
        self._latest = (encoder, first, last, packed)
        return packed


def to_file(packed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of `Forest.pack` as model files hold them.

    Vectors of multi-output trees take most of the memory. Those of leaves alone are stored, as
    integers in units of leaf values, if 32 bits hold them.
    """
    if packed["leaf"].ndim == 1:
        return packed
    units = packed["leaf"][packed["true_child"] < 0] / LEAF_UNIT
    if (units != np.rint(units)).any() or np.abs(units).max(initial=0) >= 2.0**31:
        return packed
    others = {name: array for name, array in packed.items() if name != "leaf"}
    return {**others, "leaf_units": units.astype(np.int32)}


def from_file(stored: Mapping[str, np.ndarray], n_labels: int) -> Mapping[str, np.ndarray]:
    """Undo `to_file`; raises ValueError if vectors are not those of the leaves."""
    if "leaf_units" not in stored:
        return stored
    is_leaf = stored["true_child"] < 0
    units = stored["leaf_units"]
    n_leaves = np.count_nonzero(is_leaf)
    require(units.shape == (n_leaves, n_labels) and units.dtype == np.int32, "leaves")
    # A binary tree has fewer inner nodes than leaves; others would take too much memory.
    require(is_leaf.ndim == 1 and len(is_leaf) <= 2 * n_leaves, "trees")
    leaf = np.zeros((len(is_leaf), n_labels))
    leaf[is_leaf] = units * LEAF_UNIT
    return {**stored, "leaf": leaf}


def with_transitions_as_trees(forest: Forest) -> Forest:
    """Return a forest of the same scores without constant transitions.

    Its last iteration has a tree for each label, which tests the previous labels and has the sums
    of the transitions in its leaves.
    """
    plain = forest.one_output_per_tree().copy()
    if plain.transitions is None:
        return plain
    transitions = plain.sum_of_transitions((0, plain.n_iter)) * LEAF_UNIT
    plain.transitions = None
    plain.trees += [tree_of_transitions(scores) for scores in transitions.swapaxes(0, 1)]
    return plain


def tree_of_transitions(scores: np.ndarray) -> dict[str, np.ndarray]:
    """Return a tree whose values are the scores of a label after contexts.

    ``scores`` are (order + 1, n_contexts): for each number of previous labels, the first contexts.
    At each lag, the labels are tested one after another; if no test holds, there is no label.
    """
    order = len(scores) - 1
    n_labels = round(scores.shape[1] ** (1 / order))
    nodes: list[dict] = []

    def add(**fields: Any) -> int:
        nodes.append({"true_child": -1, "false_child": -1} | fields)
        return len(nodes) - 1

    def add_lags(depth: int, context: int) -> int:
        """Add the tests of the labels after the first lags; return the number of the first node."""
        if depth == order:
            return add(leaf=scores[depth, context])
        first = len(nodes)
        for label in range(n_labels):
            node = add(column=LABEL, offset=depth + 1, value=label)
            nodes[node]["true_child"] = add_lags(depth + 1, context + label * n_labels**depth)
            nodes[node]["false_child"] = len(nodes)
        add(leaf=scores[depth, context])
        return first

    add_lags(0, 0)
    children = np.array([[node[name] for node in nodes] for name in ("true_child", "false_child")])
    names = ("column", "offset", "value", "leaf")
    return make_tree(
        children, **{name: np.array([node.get(name, 0) for node in nodes]) for name in names}
    )


def make_tree(children: np.ndarray, **fields: np.ndarray) -> dict[str, np.ndarray]:
    """Make a tree of a `Forest`, given the true and false children (2, n_nodes); others are 0."""
    n = children.shape[1]
    tree = {name: np.zeros(n, dtype=float if name in FLOATS else np.int32) for name in FIELDS}
    fields |= {"true_child": children[0], "false_child": children[1]}
    for name, values in fields.items():
        tree[name][:] = values
    surrogates = {f"surrogate_{name}": np.zeros(0, dtype=np.int32) for name in TEST}
    return tree | surrogates | {"reversed": np.zeros(0, dtype=bool)}


def check_forest(
    packed: Mapping[str, np.ndarray], n_iter: int, n_labels: int, order: int, encoder: Encoder
) -> None:
    """Raise ValueError unless these are complete trees whose tests the encoder supports."""
    _check_shapes(packed, n_iter, n_labels)
    if len(packed["leaf"]) == 0:
        return
    _check_types(packed)
    _check_children(packed)
    _check_tests(packed, n_labels, order, encoder)
    if packed["leaf"].ndim == 2:
        require(not (packed["column"] == LABEL).any(), "tests")
    if "transitions" in packed:
        transitions = packed["transitions"]
        shape = (n_iter, order + 1, n_labels, n_labels**order)
        require(transitions.shape == shape and transitions.dtype == np.int32, "transitions")
        require(not (packed["column"] == LABEL).any(), "tests")
    _check_surrogates(packed, encoder)


def _check_shapes(packed: Mapping[str, np.ndarray], n_iter: int, n_labels: int) -> None:
    """Check that all nodes and surrogates have all fields, and that trees have nodes."""
    starts = packed["starts"]
    n_nodes = len(packed["true_child"])
    n_surrogates = len(packed["reversed"])
    one_value = [name for name in FIELDS if name != "leaf"]
    require(all(packed[name].shape == (n_nodes,) for name in one_value), "trees")
    require(packed["leaf"].shape in ((n_nodes,), (n_nodes, n_labels)), "leaves")
    n_trees = n_labels if packed["leaf"].ndim == 1 else 1
    require(all(packed[name].shape == (n_surrogates,) for name in SURROGATE_FIELDS), "surrogates")
    require(starts.shape == (n_iter * n_trees + 1,) and starts.dtype == np.int32, "trees")
    require(starts[0] == 0 and starts[-1] == n_nodes and (np.diff(starts) > 0).all(), "trees")


def _check_types(packed: Mapping[str, np.ndarray]) -> None:
    """Check the types of the numbers of nodes, and the ranges of leaf values and shares."""
    require(all(packed[name].dtype == np.float64 for name in FLOATS), "trees")
    require((np.abs(packed["leaf"]) <= MAX_EXACT).all(), "leaves")
    require(((packed["share"] >= 0) & (packed["share"] <= 1)).all(), "shares")
    integers = (*TEST, "true_child", "false_child", "n_surrogates")
    require(all(packed[name].dtype == np.int32 for name in integers), "trees")


def _check_children(packed: Mapping[str, np.ndarray]) -> None:
    """Check that children follow their parent, and that all nodes but roots have one parent."""
    roots = packed["starts"][:-1]
    n_nodes = len(packed["true_child"])
    sizes = np.diff(packed["starts"])
    root = np.repeat(roots, sizes)
    size = np.repeat(sizes, sizes)
    index = np.arange(n_nodes) - root  # of each node in its tree
    children = np.stack([packed["true_child"], packed["false_child"]]).astype(np.int64)
    inner = children[0] >= 0
    require((children[:, ~inner] == -1).all(), "children")
    require(((children > index) & (children < size))[:, inner].all(), "children")
    every_child = np.sort((children + root)[:, inner].ravel())
    require(np.array_equal(every_child, np.delete(np.arange(n_nodes), roots)), "children")


def _check_tests(
    packed: Mapping[str, np.ndarray], n_labels: int, order: int, encoder: Encoder
) -> None:
    """Check that inner nodes test what there is, and that leaves test nothing."""
    inner = packed["true_child"] >= 0
    require(not any(packed[name][~inner].any() for name in TEST), "leaves")
    column, offset, value = (packed[name][inner] for name in TEST)
    on_label = column == LABEL
    require(((offset >= 1) & (offset <= order))[on_label].all(), "tests")
    require(((value >= 0) & (value <= n_labels))[on_label].all(), "tests")
    _check_window_tests(column[~on_label], offset[~on_label], value[~on_label], encoder)


def _check_surrogates(packed: Mapping[str, np.ndarray], encoder: Encoder) -> None:
    """Check that each surrogate belongs to a node and tests a row of the window."""
    n = packed["n_surrogates"]
    require((n >= 0).all() and n.sum(dtype=np.int64) == len(packed["reversed"]), "surrogates")
    require(packed["reversed"].dtype == bool, "surrogates")
    tests = [packed[f"surrogate_{name}"] for name in TEST]
    require(all(array.dtype == np.int32 for array in tests), "surrogates")
    _check_window_tests(*tests, encoder)


def _check_window_tests(
    column: np.ndarray, offset: np.ndarray, value: np.ndarray, encoder: Encoder
) -> None:
    """Check that columns, offsets and values exist."""
    require(((column >= BOUNDARY) & (column < len(encoder.columns))).all(), "tests")
    left, right = encoder.window
    require(((offset >= -left) & (offset <= right)).all(), "tests")
    n_tests = np.where(encoder.layout.storage == NOWHERE, 0, encoder.columns.n_tests)
    real = np.maximum(column, 0)
    n_values = np.where(column >= 0, n_tests[real], 1)
    least = np.where((column >= 0) & encoder.layout.has_missing[real], MISSING, 0)
    require(((value >= least) & (value < n_values)).all(), "tests")
    require((offset[column == BOUNDARY] != 0).all(), "tests")
