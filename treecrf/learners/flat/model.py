"""Boosted models as conjunctions of tests with weights: features to read, and to hand on."""

from __future__ import annotations

import copy
import json
import numbers
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from treecrf.chains.constraints import Constraints
from treecrf.chains.lattice import Lattice
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import InputSchema, Sequences, reversed_positions
from treecrf.learners.boosted.base import BoostedSequenceClassifier
from treecrf.learners.classifier import SequenceClassifier
from treecrf.learners.flat import pruning
from treecrf.learners.flat.export import FlatTables, frame_of
from treecrf.learners.flat.forest import FlatForest
from treecrf.learners.flat.pruning import NOTHING, Pruned
from treecrf.trees.forest import Forest
from treecrf.utils import checks, model_file
from treecrf.utils.threads import Threads
from treecrf.utils.validation import Interval, StrOptions

# What can be set after training.
CHOICES = ("decoding", "beam_width", "cost_matrix", "transitions", "n_jobs")


class FlatModel(TransformerMixin, SequenceClassifier, auto_wrap_output_keys=None):
    """A boosted model as conjunctions of tests of the window, with weights.

    Made by `flatten`. A leaf of a tree says: if these tests of the window come out so, and the
    previous labels are among those, add this to the score of a label. Here all leaves with the same
    tests of the window are one conjunction, in which no test is named that others imply, with a
    weight for each label and set of previous labels that any of them speaks of. The scores are
    those of the trees, to the last bit.

    It predicts as the model does, and is a transformer: what conjunctions hold at each position
    (`transform`) are features for any other model.

    Parameters
    ----------
    decoding : str, default="marginal"
        How `predict` chooses labels. Starts as the setting of the flattened model and takes the
        same values.
    beam_width : int or None, default=None
        Beam width in prediction, if the flattened model has one.
    cost_matrix : array-like of shape (n_classes, n_classes), dict or None, default=None
        Cost of predicting a label (column) when another is true (row), for
        ``decoding="minimum_risk"``; or a dict of the costs of pairs (true, predicted), where all
        other errors cost 1.
    transitions : {"bio", "bioes"}, bool array-like or None, default=None
        Which labels may follow each other in decoding, if the labels of the flattened model depend
        on previous labels.
    n_jobs : int, default=None
        Number of threads; -1 uses all processors. The result does not depend on it.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    n_conjunctions_ : int
        Number of distinct conjunctions.
    n_weights_ : int
        Number of weights over all conjunctions; each belongs to a label and a set of previous
        labels.
    pruned_ : Pruned
        What pruning has dropped, with a bound on the change of the scores; see `prune`.
    n_features_in_ : int
        Number of features; 1 for symbols.
    feature_names_in_ : array of shape ``(n_features_in_,)``
        Names of the features, if the sequences are data frames or dicts.

    See Also
    --------
    flatten : Makes it.

    Notes
    -----
    A conjunction holds at a position or does not, if the window misses no value that any test asks
    for. With ``missing="weighting"`` or ``"surrogate"`` a position that misses one (an unseen
    category is missing, too) goes down each tree in its own way: such positions are scored by the
    trees, which the model keeps, and `transform` gives the mean, over the leaves that make
    up a conjunction, of the part of the position that reaches each.

    It is not trained: `fit` does nothing, and scikit-learn's ``clone`` keeps what it knows.

    References
    ----------
    .. [1] G. Hao, "Efficient training and feature induction in sequential supervised learning",
       dissertation, Oregon State University, 2009.

    Examples
    --------
    >>> from treecrf import TreeCRF, flatten
    >>> crf = TreeCRF(order=0, max_iter=5, l2_regularization=1.0)
    >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
    >>> flat.predict(["nab"])[0].tolist()
    ['c', 'v', 'c']
    >>> flat.get_feature_names_out().tolist()
    ["symbol is 'a'", "not symbol is 'a'"]
    >>> flat.transform(["nab"])[0].toarray()
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SequenceClassifier._parameter_constraints,
        "decoding": [StrOptions({"marginal", "viterbi", "minimum_risk", "greedy", "beam"})],
        "beam_width": [Interval(numbers.Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        *,
        decoding="marginal",
        beam_width=None,
        cost_matrix=None,
        transitions=None,
        n_jobs=None,
    ):
        self.decoding = decoding
        self.beam_width = beam_width
        self.cost_matrix = cost_matrix
        self.transitions = transitions
        self.n_jobs = n_jobs

    def __sklearn_clone__(self) -> FlatModel:
        return copy.copy(self)

    def fit(self, X: Any = None, y: Any = None) -> FlatModel:
        """Do nothing: it has been trained as the model that was flattened.

        Parameters
        ----------
        X, y : ignored

        Returns
        -------
        self : object

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        """
        check_is_fitted(self, "classes_")
        return self

    @classmethod
    def _of(cls, model: BoostedSequenceClassifier, forest: Forest, pruned: Pruned) -> FlatModel:
        """The flat form of a model with other leaves."""
        parameters = model.get_params(deep=False)
        flat = cls(**{name: parameters[name] for name in CHOICES if name in parameters})
        return flat._take(model, forest, pruned)

    def _take(self, model: BoostedSequenceClassifier, forest: Forest, pruned: Pruned) -> FlatModel:
        """Take over what a model has learned, with these trees."""
        self._model = copy.copy(model)
        self._model._forest = FlatForest(forest, model._encoder)
        self._tables = FlatTables(
            self._flat, model._encoder, model.classes_, self._trained_backward
        )
        self.pruned_ = pruned
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_
        self.n_conjunctions_, self.n_weights_ = len(self._flat), len(self._flat.weights)
        vars(self).update(self._feature_names(model._encoder.names))
        return self

    @property
    def _flat(self) -> Any:
        return self._model._forest.flat

    # Prediction: what the model does with its scores, under the parameters of now

    def _predictor(self) -> BoostedSequenceClassifier:
        predictor = copy.copy(self._model)
        asked = {name: getattr(self, name) for name in CHOICES}
        vars(predictor).update({n: v for n, v in asked.items() if n in vars(predictor)})
        return predictor

    @property
    def _schema(self) -> InputSchema:
        return self._model._schema

    @property
    def _trained_order(self) -> int:
        return self._model._trained_order

    @property
    def _trained_backward(self) -> bool:
        return self._model._trained_backward

    def _scores_of(self, sequences: Sequences, threads: Threads) -> np.ndarray:
        return self._model._scores_of(sequences, threads)

    def _labels(self, sequences: Sequences, masks: np.ndarray | None) -> list[np.ndarray]:
        return self._predictor()._labels(sequences, masks)

    def _decoded(
        self, sequences: Sequences, masks: np.ndarray | None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        return self._predictor()._decoded(sequences, masks)

    def _lattice_of(
        self, sequences: Sequences, constraints: Constraints, threads: Threads
    ) -> Lattice:
        return self._predictor()._lattice_of(sequences, constraints, threads)

    def _log_likelihoods(
        self, sequences: Sequences, codes: np.ndarray, threads: Threads
    ) -> np.ndarray:
        return self._predictor()._log_likelihoods(sequences, codes, threads)

    # Features

    def transform(self, X: Any, *, lengths: Any = None, groups: Any = None) -> Any:
        """Tell which conjunctions hold at each position.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of sparse CSR arrays (n_positions, n_conjunctions)
            1 where a conjunction holds; a part of 1 at positions that miss values (see the notes
            above). For a long table one array.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        ValueError, TypeError
            If X is not like the training data; the message says which sequence and why.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> [rows.shape for rows in flat.transform(["ab", "bba"])]
        [(2, 2), (3, 2)]
        """
        segmentation = Segmentation(lengths, groups)
        sequences = self._sequences(X, segmentation)
        matrix = self.matrix(sequences)
        if segmentation.is_long:
            return matrix
        offsets = sequences.offsets.tolist()
        return [matrix[a:b] for a, b in pairwise(offsets)]

    def matrix(self, X: Any, *, lengths: Any = None, groups: Any = None) -> sparse.csr_array:
        """Tell which conjunctions hold, of all positions of all sequences together.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        sparse CSR array of float64 (n_positions, n_conjunctions)
            As `transform` has it, one sequence after the other.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As `transform`.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.matrix(["ab", "bba"]).shape
        (5, 2)
        """
        sequences = self._sequences(X, Segmentation(lengths, groups))
        model, offsets = self._model, sequences.offsets
        if self._trained_backward:
            sequences = sequences.reversed()
        with Threads(self.n_jobs) as threads:
            matrix = model._forest.matrix(model._encoder.encode(sequences), threads)
        return matrix[reversed_positions(offsets)] if self._trained_backward else matrix

    def attributes(self, X: Any, *, lengths: Any = None, groups: Any = None) -> list:
        """Name the conjunctions that hold, as CRFsuite and its relatives take them.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of lists of dicts
            For each position of each sequence the value of each conjunction, by its name; those of
            0 are left out. For a long table one list of dicts.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As `transform`.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.attributes(["ab"])
        [[{"symbol is 'a'": 1.0}, {"not symbol is 'a'": 1.0}]]
        """
        rows = self.transform(X, lengths=lengths, groups=groups)
        names = self.get_feature_names_out()
        if Segmentation(lengths, groups).is_long:
            return _named(rows, names)
        return [_named(rows_of_one, names) for rows_of_one in rows]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the conjunctions, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored
            The names of the features are those of the training data.

        Returns
        -------
        array of str (n_conjunctions,)
            Such as ``aa[-2] is 'P' and not aa[0] is 'G'``; all different.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        """
        check_is_fitted(self, "classes_")
        return np.array(self._tables.names, dtype=object)

    # Weights

    def weights(self) -> np.ndarray:
        """Weights of the conjunctions for a previous and a present label.

        Returns
        -------
        float64 array (n_conjunctions, n_classes + 1, n_classes)
            What a conjunction adds to the score of the label of the last axis after that of the
            second, of which the last means that there is none. Of order 0 all of the second axis
            are the same.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        ValueError
            If the model is of a higher order than 1.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.weights().shape
        (2, 3, 2)
        """
        check_is_fitted(self, "classes_")
        return self._tables.weights()

    def sparse_weights(self) -> sparse.csr_array:
        """Weights of the conjunctions as a sparse array.

        Returns
        -------
        sparse CSR array (n_conjunctions, (n_classes + 1) * n_classes)
            Those of `weights`, the previous label outermost.

        Raises
        ------
        NotFittedError, ValueError
            As `weights`.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.sparse_weights().shape
        (2, 6)
        """
        check_is_fitted(self, "classes_")
        return self._tables.sparse_weights()

    def prune(self, tolerance: float) -> FlatModel:
        """Drop small weights, and conjunctions that are left without any.

        Parameters
        ----------
        tolerance : float
            What any score, of a label at a position in a context, may change by at most. As many of
            the smallest weights are dropped as keep to it for any input.

        Returns
        -------
        FlatModel
            Its ``pruned_`` says how many were dropped, and what scores and probabilities can change
            by; after pruning twice, in both together.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        ValueError
            If ``tolerance`` is no number, or negative.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> crf = TreeCRF(window=1, max_iter=5, l2_regularization=1.0)
        >>> flat = flatten(crf.fit(["banana", "cabana"], ["cvcvcv", "cvcvcv"]))
        >>> small = flat.prune(0.1)
        >>> small.n_weights_ < flat.n_weights_
        True
        >>> small.pruned_.score_change <= 0.1
        True
        """
        check_is_fitted(self, "classes_")
        if not isinstance(tolerance, numbers.Real) or not tolerance >= 0:
            raise ValueError(f"tolerance={tolerance!r}; expected a number that is not negative")
        forest, pruned = pruning.prune(self._model._forest, float(tolerance))
        smaller = FlatModel(**self.get_params())
        return smaller._take(self._model, forest, self.pruned_ + pruned)

    # Exports

    def to_frame(self, backend: Any = "pandas") -> Any:
        """List all weights in a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"

        Returns
        -------
        data frame
            A row for each weight: ``conjunction`` and ``context``, in words, ``label`` and
            ``weight``.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.
        ImportError
            If narwhals or the library of the frame is not installed.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> flat.to_frame().columns.tolist()
        ['conjunction', 'context', 'label', 'weight']
        """
        check_is_fitted(self, "classes_")
        return frame_of(self._tables.columns(), backend)

    def to_json(self) -> str:
        """Write conjunctions, contexts and weights as JSON.

        Returns
        -------
        str
            An object: ``classes``; ``order``; ``direction``; ``conjunctions``, each with its
            ``name`` and its ``tests`` (the ``feature`` by name or number, its ``offset``, what it
            ``is`` or is ``above`` or ``at_most``, or that its value was ``missing``, or how far off
            the place lies that is ``outside`` the sequence, and whether the test ``holds``);
            ``contexts``, each with its ``name`` and the labels that are possible at each lag
            (``previous``, null for none); and ``weights``, each of a ``conjunction`` and
            ``context`` by number, for a ``label``.

        Raises
        ------
        NotFittedError
            If it was not made by `flatten`.

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

    def to_npz(self, file: Any, X: Any, *, lengths: Any = None, groups: Any = None) -> None:
        """Write the matrix of some sequences, and all weights, to a NumPy archive.

        ``scipy.sparse.load_npz`` reads the matrix from it, and ``numpy.load`` all of it, without
        pickle.

        Parameters
        ----------
        file : path-like or file object
            As ``numpy.savez`` takes it.
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Raises
        ------
        NotFittedError, ValueError, TypeError
            As `transform`.
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
        sequences = self._sequences(X, Segmentation(lengths, groups))
        matrix, flat = self.matrix(sequences), self._flat
        np.savez_compressed(
            file,
            format=b"csr",
            shape=np.array(matrix.shape),
            _is_array=True,
            data=matrix.data,
            indices=matrix.indices,
            indptr=matrix.indptr,
            offsets=sequences.offsets,
            classes=self.classes_,
            names=np.array(self._tables.names, dtype=str),
            weight_conjunctions=flat.conjunctions,
            weight_contexts=flat.sets,
            weight_labels=flat.labels,
            weights=flat.weights,
            contexts=flat.masks,
        )

    # Saved models

    def _state(self) -> tuple[dict, dict[str, np.ndarray]]:
        model = self._model
        values, arrays = model._state()
        parameters = model_file.plain_parameters(model.get_params(deep=False))
        told = {"model": type(model).__name__, "model_parameters": parameters}
        return told | {"pruned": vars(self.pruned_)} | values, arrays

    def _restore(self, values: dict, arrays: dict[str, np.ndarray]) -> FlatModel:
        """Take over the state of a saved model; what is flat about it follows from the trees."""
        self._validate_params()
        kind = BoostedSequenceClassifier._class_named(values["model"])
        model = kind(**model_file.restored_parameters(values["model_parameters"]))
        model._restore(values, arrays)
        pruned = Pruned(**values["pruned"])
        checks.check_counts(pruned.n_weights, pruned.n_conjunctions)
        changes = (pruned.score_change, pruned.log_probability_change)
        checks.require(all(type(c) is float and 0 <= c < np.inf for c in changes), "bounds")
        return self._take(model, model._forest, pruned)


def flatten(model: BoostedSequenceClassifier) -> FlatModel:
    """Turn a model of boosted trees into conjunctions of tests with weights.

    Parameters
    ----------
    model : estimator
        A fitted model of boosted trees: any learner but `HMMClassifier` and those around an
        ``estimator``.

    Returns
    -------
    FlatModel
        Predicts the same as the model.

    Raises
    ------
    NotFittedError
        Before the model's `fit`.
    TypeError
        If the model has no trees.

    Examples
    --------
    >>> from treecrf import TreeMEMM, flatten
    >>> memm = TreeMEMM(window=1, max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"])
    >>> flat = flatten(memm)
    >>> flat.predict(["ab"])[0].tolist() == memm.predict(["ab"])[0].tolist()
    True
    """
    kind = type(model).__name__
    if not isinstance(model, BoostedSequenceClassifier):
        raise TypeError(f"model is a {kind}; expected a model of boosted trees")
    check_is_fitted(model, "classes_")
    if not hasattr(model, "_forest"):
        around = type(model.estimator_).__name__
        raise TypeError(f"model is a {kind} around {around}; expected one of boosted trees")
    return FlatModel._of(model, model._forest, NOTHING)


def _named(rows: sparse.csr_array, names: np.ndarray) -> list[dict[str, float]]:
    """The entries of each row by the names of their columns."""
    found, values, starts = names[rows.indices].tolist(), rows.data.tolist(), rows.indptr.tolist()
    return [dict(zip(found[a:b], values[a:b], strict=True)) for a, b in pairwise(starts)]
