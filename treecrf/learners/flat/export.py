"""Forests as conjunctions, the conjunctions that hold at positions, and their export."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.contexts import extended_contexts
from treecrf.encoding.column_layout import BOUNDARY, MISSING
from treecrf.encoding.encoded import EncodedSequences
from treecrf.encoding.encoder import DERIVED, INDICATOR_COLUMN, Encoder
from treecrf.encoding.names import conjunction, name_of_labels, points_down
from treecrf.inputs.offsets import reversed_positions
from treecrf.trees.explain.conjunctions import WeightedConjunctions, bits_of, conjunctions_of
from treecrf.trees.forest import Forest
from treecrf.trees.scoring.batch import MIN_TAKEN
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike

# Maximum number of leaf values times contexts; beyond it, one bound covers all contexts.
MAX_VALUES = 1 << 22


class FlatForest:
    """A forest with its flat form."""

    def __init__(self, forest: Forest, encoder: Encoder):
        self.forest = forest.one_output_per_tree()
        self.encoder = encoder
        self.flat = conjunctions_of(self.forest, encoder)

    def matrix(self, encoded: EncodedSequences, threads: Threads) -> sparse.csr_array:
        """Find the conjunctions that hold at each position; float64 (n_positions, n_conjunctions).

        An entry is the mean fraction of the position that reaches the leaves of the conjunction: 1,
        unless a value is missing and fractions go to both children of a test.
        """
        evaluator = self.forest.evaluator(self.encoder, 0, self.forest.n_iter, False).members
        conjunctions = self.flat.conjunction_of_leaf
        n_conjunctions = len(self.flat)
        n_leaves = np.bincount(conjunctions[conjunctions >= 0], minlength=n_conjunctions)

        def rows_within(run: tuple[int, int]) -> sparse.csr_array:
            first, last = run
            rows = encoded.row_of_position[first:last]
            run_encoded = replace(encoded, row_of_position=rows)
            n_entries = evaluator.list_leaves(run_encoded, None, None, None)
            leaves = np.empty(n_entries, dtype=np.int32)
            positions = np.empty(n_entries, dtype=np.int32)
            fractions = np.empty(n_entries)
            evaluator.list_leaves(run_encoded, leaves, positions, fractions)
            has_weight = conjunctions[leaves] >= 0
            places = (positions[has_weight], conjunctions[leaves[has_weight]])
            shape = (len(rows), n_conjunctions)
            sums = sparse.csr_array((fractions[has_weight], places), shape=shape)
            sums.sum_duplicates()  # SciPy 1.13 leaves them
            sums.data /= n_leaves[sums.indices]
            return sums

        runs = threads.even_parts(encoded.n_positions, MIN_TAKEN)
        return sparse.csr_array(sparse.vstack(threads.map(rows_within, runs), format="csr"))


@dataclass(frozen=True)
class Pruned:
    """What pruning has removed from a flat model, with bounds on the resulting changes.

    It is the attribute ``pruned_`` of a `FlatModel`. Without pruning, all values are 0.

    Attributes
    ----------
    n_weights, n_conjunctions : int
        Numbers of weights and of conjunctions that were removed.
    score_change : float
        Upper bound of the change of any score: of any label in any context, at any position of any
        input.
    log_probability_change : float
        Upper bound of the change of log-probabilities given the input, per position of the
        sequence. It holds for whole label sequences and for labels at one or more of the positions.

    See Also
    --------
    FlatModel.prune : Remove small weights.
    """

    n_weights: int
    n_conjunctions: int
    score_change: float
    log_probability_change: float

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            n_weights=self.n_weights + other.n_weights,
            n_conjunctions=self.n_conjunctions + other.n_conjunctions,
            score_change=self.score_change + other.score_change,
            log_probability_change=self.log_probability_change + other.log_probability_change,
        )


NOTHING = Pruned(0, 0, 0.0, 0.0)


def prune(flat_forest: FlatForest, tolerance: float) -> tuple[Forest, Pruned]:
    """Remove as many of the smallest weights as possible without changing any score too much.

    Each position in each context reaches one leaf of a tree. A tree therefore changes the score by
    at most its largest removed leaf value, and all trees together by at most the sum of these. If
    values are missing and fractions of a position reach several leaves, the tree contributes a mean
    of their values. In the pruned forest, the removed leaves have the value 0.
    """
    forest = flat_forest.forest
    flat = flat_forest.flat
    limits = _limits(forest, flat)
    n_weights = len(flat.weights)
    ranking = np.argsort(np.abs(flat.weights), kind="stable")
    rank = np.empty(n_weights + 1, dtype=np.int64)
    rank[ranking] = np.arange(n_weights)
    # Leaves whose sum is 0 have no weight, and remain unchanged.
    rank[-1] = n_weights
    leaf_ranks = rank[flat.entry_of_leaf]

    # Bisection: removing n_removed weights is within the tolerance, more than n_tried is not.
    n_removed = 0
    n_tried = n_weights
    while n_removed < n_tried:
        middle = (n_removed + n_tried + 1) // 2
        low, high = limits(leaf_ranks < middle)
        if max(high, -low) <= tolerance:
            n_removed = middle
        else:
            n_tried = middle - 1

    is_removed = leaf_ranks < n_removed
    low, high = limits(is_removed)
    n_remaining = len(np.unique(flat.conjunctions[ranking[n_removed:]]))
    pruned = Pruned(n_removed, len(flat) - n_remaining, max(high, -low), high - low)
    packed = forest.pack()
    leaves = np.flatnonzero(packed["true_child"] < 0)
    packed["leaf"] = packed["leaf"].copy()
    packed["leaf"][leaves[is_removed]] = 0.0
    return Forest.unpack(forest.n_labels, forest.order, packed), pruned


def _limits(
    forest: Forest, flat: WeightedConjunctions
) -> Callable[[np.ndarray], tuple[float, float]]:
    """Return a function that bounds the sums of the values of some leaves at any position."""
    packed = forest.pack()
    n_labels = forest.n_labels
    is_leaf = packed["true_child"] < 0
    leaf_values = packed["leaf"][is_leaf]
    if not len(leaf_values):
        return lambda chosen: (0.0, 0.0)
    n_leaves = np.add.reduceat(is_leaf, packed["starts"][:-1])
    first_leaves = np.cumsum(n_leaves) - n_leaves
    reached = _leaf_contexts(forest, flat, len(leaf_values))

    def extreme(values: np.ndarray, extremum: np.ufunc) -> np.ndarray:
        # Each tree adds the extreme value of its leaves, or 0, to the score of its label.
        by_tree = extremum(extremum.reduceat(values, first_leaves, axis=0), 0.0)
        return by_tree.reshape(-1, n_labels, values.shape[1]).sum(axis=0)

    def limits(chosen: np.ndarray) -> tuple[float, float]:
        values = np.where(chosen, leaf_values, 0.0)[:, np.newaxis] * reached
        low = extreme(values, np.minimum).min()
        high = extreme(values, np.maximum).max()
        return float(low), float(high)

    return limits


def _leaf_contexts(forest: Forest, flat: WeightedConjunctions, n_leaves: int) -> np.ndarray:
    """Return the contexts that reach each leaf, bool (n_leaves, n_contexts).

    If there are many, a single one stands for all contexts.
    """
    n_labels = forest.n_labels
    n_contexts = sum(n_labels**depth for depth in range(forest.order + 1))
    if n_contexts * n_leaves > MAX_VALUES:
        return np.ones((n_leaves, 1), dtype=bool)
    symbols, _ = extended_contexts(n_labels, forest.order)
    contexts = flat.masks[:, np.arange(forest.order), symbols].all(axis=2)
    # The contexts of leaves whose sum is 0 are not recorded: assume all of them.
    contexts = np.vstack([contexts, np.ones(contexts.shape[1], dtype=bool)])
    return contexts[np.append(flat.sets, -1)[flat.entry_of_leaf]]


class FlatTables:
    """The conjunctions, contexts and weights of a flat forest, as text."""

    def __init__(
        self, flat: WeightedConjunctions, encoder: Encoder, classes: np.ndarray, backward: bool
    ):
        self.flat = flat
        self.encoder = encoder
        self.classes = classes
        # Offsets are reversed if the chain starts at the end of the sequences.
        self.side = -1 if backward else 1

    @cached_property
    def names(self) -> list[str]:
        """Unique names of the conjunctions."""
        names: dict[str, None] = {}
        # Names of the input may read like tests: a column "a[-1]" is not column "a" one before.
        counts: Counter[str] = Counter()
        for k in range(len(self.flat)):
            name = conjunction(self.encoder, self.tests_of(k))
            unique = name
            while unique in names:
                counts[name] += 1
                unique = f"{name} ({counts[name] + 1})"
            names[unique] = None
        return list(names)

    def tests_of(self, k: int) -> list[tuple[tuple[int, int, int], bool]]:
        """Return the tests of a conjunction, at offsets in reading direction."""
        tests = self.flat.tests_of(k)
        return [((column, self.side * o, value), holds) for (column, o, value), holds in tests]

    @cached_property
    def contexts(self) -> list[str]:
        """Names of the sets of contexts."""
        names = []
        for mask in self.flat.masks:
            conditions = [
                name_of_labels(self.classes, lag, bits_of(labels), backward=self.side < 0)
                for lag, labels in enumerate(mask, 1)
                if not labels.all()
            ]
            names.append(" and ".join(conditions) or "anything")
        return names

    def plain(self) -> dict[str, Any]:
        """Return all contents as values that JSON supports."""
        flat = self.flat
        classes = self.classes.tolist()
        symbols = [*classes, None]
        sets = [[[symbols[i] for i in np.flatnonzero(lag)] for lag in mask] for mask in flat.masks]
        return {
            "classes": classes,
            "order": flat.masks.shape[1],
            "direction": "left-to-right" if self.side == 1 else "right-to-left",
            "conjunctions": [
                {"name": name, "tests": [self._plain_test(*test) for test in self.tests_of(k)]}
                for k, name in enumerate(self.names)
            ],
            "contexts": [
                {"name": name, "previous": lags}
                for name, lags in zip(self.contexts, sets, strict=True)
            ],
            "weights": [
                {"conjunction": k, "context": c, "label": classes[v], "weight": w}
                for k, c, v, w in zip(
                    flat.conjunctions.tolist(), flat.sets.tolist(), flat.labels.tolist(),
                    flat.weights.tolist(), strict=True,
                )
            ],
        }  # fmt: skip

    def _plain_test(self, test: tuple[int, int, int], holds: bool) -> dict[str, Any]:
        """Return a test as values that JSON supports."""
        column, offset, value = test
        if column == BOUNDARY:
            return {"outside": offset, "holds": holds}
        encoder = self.encoder
        learned = encoder.columns[column]
        kind, index = encoder.origin_of(column)
        if kind == DERIVED:
            plain = {"future": index}
        elif encoder.names is None:
            plain = {"feature": index}
        else:
            plain = {"feature": encoder.names[index]}
        is_missing = kind == INDICATOR_COLUMN or value == MISSING
        if is_missing:
            plain["missing"] = True
        plain |= {"offset": offset, "holds": holds}
        if learned.kind == "boolean" or is_missing:
            return plain
        if learned.kind == "category":
            comparison = "is"
        elif points_down(encoder, column, value):
            comparison = "at_most"
        else:
            comparison = "above"
        return plain | {comparison: learned.values[value].item()}


class FlatExports(TransformerMixin, auto_wrap_output_keys=None):
    """Mixin of `FlatModel`: the conjunctions that hold at each position, and all weights."""

    _tables: FlatTables
    _flat_forest: FlatForest

    def transform(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Find the conjunctions that hold at each position of each sequence.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of sparse CSR arrays of float64, of shape (n_positions, n_conjunctions)
            1 where a conjunction holds, and 0 where it does not. A fraction at positions with
            missing values (see the notes of `FlatModel`). For a long table, one array of all
            positions.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ValueError, TypeError
            If X does not match the training data. The message names the sequence and the reason.

        See Also
        --------
        matrix : The same in one array.
        attributes : The same as dicts with the names of the conjunctions.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> flat.get_feature_names_out().tolist()
        ["symbol is 'a'", "not symbol is 'a'"]
        >>> flat.transform(["nab"])[0].toarray()
        array([[0., 1.],
               [1., 0.],
               [0., 1.]])
        """
        matrix, offsets, is_long = self._rows(X, lengths, groups)
        if is_long:
            return matrix
        return [matrix[start:stop] for start, stop in pairwise(offsets.tolist())]

    def matrix(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> sparse.csr_array:
        """Find the conjunctions that hold at the positions of all sequences, in one array.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        sparse CSR array of float64, of shape (n_positions, n_conjunctions)
            The rows of `transform`, one sequence after another.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        See Also
        --------
        transform : An array for each sequence.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> flat.matrix(["na", "b"]).toarray()
        array([[0., 1.],
               [1., 0.],
               [0., 1.]])
        """
        return self._rows(X, lengths, groups)[0]

    def _rows(
        self, X: SequencesLike, lengths: LengthsLike, groups: GroupsLike
    ) -> tuple[sparse.csr_array, np.ndarray, bool]:
        """Return the rows of `matrix`, the offsets of the sequences, and whether X is one table."""
        predictor = self._predictor()
        chain = predictor.chain
        segmentation = predictor.segmentation(X, lengths, groups)
        sequences = predictor.sequences(X, segmentation)
        offsets = sequences.offsets
        is_long = segmentation.is_long
        if not sequences.n_positions:
            return sparse.csr_array((0, self.n_conjunctions_)), offsets, is_long
        sequences = sequences.without_empty()
        if chain.is_backward:
            sequences = sequences.reversed()
        with Threads(self.n_jobs) as threads:
            matrix = self._flat_forest.matrix(chain.encoder.encode(sequences, threads), threads)
        if chain.is_backward:
            matrix = matrix[reversed_positions(sequences.offsets)]
        return matrix, offsets, is_long

    def attributes(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> list:
        """Name the conjunctions that hold at each position, as dicts of attributes.

        CRFsuite and similar programs take sequences in this format, and so does `LinearCRF`.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Returns
        -------
        list of lists of dicts
            For each position of each sequence, the conjunctions with nonzero values: their values
            by name. For a long table, one list of dicts.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.

        See Also
        --------
        treecrf.datasets.read_crfsuite : Read sequences of attributes from a file.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.attributes(["ab"])
        [[{"symbol is 'a'": 1.0}, {"not symbol is 'a'": 1.0}]]
        """
        matrix, offsets, is_long = self._rows(X, lengths, groups)
        names = self.get_feature_names_out()
        keys = names[matrix.indices].tolist()
        values = matrix.data.tolist()
        positions = [
            dict(zip(keys[start:stop], values[start:stop], strict=True))
            for start, stop in pairwise(matrix.indptr.tolist())
        ]
        if is_long:
            return positions
        return [positions[start:stop] for start, stop in pairwise(offsets.tolist())]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the conjunctions, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : object, optional
            Ignored. The names of the features are those of the training data.

        Returns
        -------
        array of str of shape (n_conjunctions,)
            The tests of each conjunction, such as ``aa[-2] is 'P' and not aa[0] is 'G'``. Names are
            unique.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> flat.get_feature_names_out().tolist()
        ["symbol is 'a'", "not symbol is 'a'"]
        """
        check_is_fitted(self, "classes_")
        return np.array(self._tables.names, dtype=object)

    def weights(self) -> np.ndarray:
        """Return the weights of conjunctions for pairs of a previous and a current label.

        Returns
        -------
        float64 array of shape (n_conjunctions, n_classes + 1, n_classes)
            The weight that a conjunction adds to the score of the current label (last axis) after
            the previous label (second axis). The last entry of the second axis stands for no
            previous label, at first positions. With order 0, all entries along the second axis are
            equal.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ValueError
            If the order of the model is above 1.

        See Also
        --------
        sparse_weights : The same as a sparse array.
        to_frame : All weights with names, for any order.

        Examples
        --------
        The weights of "c" and "v" for each conjunction:

        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> flat.weights().shape
        (2, 3, 2)
        >>> flat.weights()[:, 0].round(2)
        array([[-0.82,  0.82],
               [ 0.82, -0.82]])
        """
        weights = self.sparse_weights()
        n = len(self.classes_)
        return weights.toarray().reshape(self.n_conjunctions_, n + 1, n)

    def sparse_weights(self) -> sparse.csr_array:
        """Return the weights of the conjunctions as a sparse array.

        Returns
        -------
        sparse CSR array of shape (n_conjunctions, (n_classes + 1) * n_classes)
            The weights of `weights`, in float64. Column ``u * n_classes + v`` belongs to label v
            after label u.

        Raises
        ------
        NotFittedError, ValueError
            As in `weights`.

        See Also
        --------
        weights : The same as a dense array.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.sparse_weights().shape
        (2, 6)
        """
        check_is_fitted(self, "classes_")
        flat = self._flat
        n = len(self.classes_)
        # The previous labels in each set of contexts, the last for none.
        masks = flat.masks
        if masks.shape[1] > 1:
            raise ValueError(
                f"the model is of order {masks.shape[1]}; weights of pairs of labels need order 0 "
                "or 1"
            )
        entry, u = np.nonzero(masks[flat.sets].all(axis=1))
        indices = (flat.conjunctions[entry], u * n + flat.labels[entry])
        shape = (len(flat), (n + 1) * n)
        return sparse.csr_array(sparse.coo_array((flat.weights[entry], indices), shape=shape))

    def to_frame(self, backend: Any = "pandas") -> Any:
        """Return all weights as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            Library of the data frame.

        Returns
        -------
        data frame
            One row per weight, with the columns ``conjunction`` and ``context`` (as text),
            ``label`` and ``weight``. The context is the set of previous labels, such as
            ``"anything"``.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ImportError
            If the library of the frame is not installed.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> flat.to_frame().round(2)
                 conjunction   context label  weight
        0      symbol is 'a'  anything     c   -0.82
        1      symbol is 'a'  anything     v    0.82
        2  not symbol is 'a'  anything     c    0.82
        3  not symbol is 'a'  anything     v   -0.82
        """
        check_is_fitted(self, "classes_")
        import narwhals.stable.v2 as narwhals

        flat = self._flat
        tables = self._tables
        columns = {
            "conjunction": [tables.names[k] for k in flat.conjunctions],
            "context": [tables.contexts[k] for k in flat.sets],
            "label": self.classes_[flat.labels].tolist(),
            "weight": flat.weights.tolist(),
        }
        try:
            return narwhals.from_dict(columns, backend=backend).to_native()
        except ModuleNotFoundError as error:
            name = error.name
            raise ImportError(f"backend={backend!r} needs {name}: pip install {name}") from error

    def to_json(self) -> str:
        """Return the conjunctions, contexts and weights as JSON.

        Returns
        -------
        str
            An object with the keys ``classes``, ``order``, ``direction``, ``conjunctions``,
            ``contexts`` and ``weights``.

            - Each conjunction has a ``name`` and ``tests``. A test has a ``feature`` (name or
              number), an ``offset``, and whether the test ``holds``. It also has the value that
              the feature ``is``, is ``above`` or is ``at_most``, or ``missing`` for a test of
              whether the value is missing. A test of the sequence boundary has the offset that is
              ``outside`` of the sequence instead.
            - Each context has a ``name`` and the labels that are possible at each lag
              (``previous``, with null for no label).
            - Each weight has the indices of its ``conjunction`` and ``context``, a ``label``, and
              its value, ``weight``.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.

        Examples
        --------
        >>> import json
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> json.loads(flat.to_json())["conjunctions"][0]["tests"]
        [{'feature': 0, 'offset': 0, 'holds': False, 'is': 'a'}]
        """
        check_is_fitted(self, "classes_")
        return json.dumps(self._tables.plain(), allow_nan=False)

    def to_npz(
        self, file: Any, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> None:
        """Write the conjunctions of some sequences, and all weights, to a NumPy archive.

        ``scipy.sparse.load_npz`` reads the matrix (see `FlatModel.matrix`) from the file, and
        ``numpy.load`` reads all arrays. Neither needs pickle.

        Parameters
        ----------
        file : path-like or file object
            File to write, as for ``numpy.savez``.
        X : list of sequences, or one long table
            Sequences of the same form and with the same features as the training data.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `predict`.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As in `transform`.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import io, scipy
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> file = io.BytesIO()
        >>> flat.to_npz(file, ["ab", "bba"])
        >>> scipy.sparse.load_npz(io.BytesIO(file.getvalue())).shape
        (5, 2)
        """
        matrix, offsets, _ = self._rows(X, lengths, groups)
        flat = self._flat
        np.savez_compressed(
            file,
            format=b"csr",
            shape=np.array(matrix.shape),
            _is_array=True,
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            offsets=offsets,
            classes=self.classes_,
            names=np.array(self._tables.names, dtype=str),
            weight_conjunctions=flat.conjunctions,
            weight_contexts=flat.sets,
            weight_labels=flat.labels,
            weights=flat.weights,
            contexts=flat.masks,
        )
