"""Transformers of scikit-learn for lists of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.arrays import rows_as_array
from treecrf.inputs.dataset import as_weights
from treecrf.inputs.forms import describe, is_frame
from treecrf.inputs.frames import concatenated
from treecrf.inputs.labels import as_labels
from treecrf.inputs.raw_column import joined_exactly
from treecrf.inputs.segmentation import Segmentation
from treecrf.utils.validation import DocumentationLink


class PerSequence(DocumentationLink, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Apply a scikit-learn transformer to a list of sequences.

    The transformer is fitted to the positions of all sequences together. It then transforms one
    sequence at a time. For a long table, you do not need this class: pass the table to the
    transformer.

    Parameters
    ----------
    transformer : transformer
        A transformer of positions, such as a ``StandardScaler`` or a ``ColumnTransformer``. It must
        return one row for each position. `fit` copies it.

    Attributes
    ----------
    transformer_ : transformer
        The fitted copy of ``transformer``.

    See Also
    --------
    treecrf.split : Split a long table into a list of sequences.
    treecrf.stream : Label a sequence online, with a pipeline that contains this transformer.

    Notes
    -----
    - Data frames remain data frames of the same library, unless the transformer returns sparse
      matrices, or ``set_output`` of this class or of the transformer demands another form.
    - For sequences with one symbol per position, the transformer gets a list or a 1-D array of
      strings, like the documents that a ``CountVectorizer`` expects.
    - For sequences that are lists of dicts, it gets one list of dicts.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from treecrf import LinearCRF, PerSequence
    >>> X, y = [[[10.0], [90.0], [80.0]], [[85.0], [20.0]]], ["abb", "ba"]
    >>> scaler = PerSequence(StandardScaler())
    >>> pipe = make_pipeline(scaler, LinearCRF()).fit(X, y)
    >>> "".join(pipe.predict([[[15.0], [70.0]]])[0])
    'ab'
    """

    _of_objects = False  # whether the transformer was fitted to an array of objects

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None, **params: Any) -> PerSequence:
        """Fit the transformer to the positions of all sequences.

        Parameters
        ----------
        X : list of sequences
            Sequences of the same form: 2-D arrays, sparse matrices, data frames, lists of dicts, or
            symbols.
        y : list of array-like of shape (n_positions,), default=None
            Labels of each sequence. The transformer gets one array with the labels of all
            positions.
        **params
            Further arguments of the ``fit`` of the transformer. ``sample_weight`` may have a weight
            for each sequence, or an array for each sequence. With metadata routing, the transformer
            must request them.

        Returns
        -------
        self : PerSequence
            The fitted object.

        Raises
        ------
        ValueError, TypeError
            If X is not a list of sequences of the same form, y does not match X, or the transformer
            refuses them.

        Examples
        --------
        >>> from sklearn.preprocessing import StandardScaler
        >>> from treecrf import PerSequence
        >>> scaler = PerSequence(StandardScaler()).fit([[[1.0], [2.0]], [[6.0]]])
        >>> scaler.transformer_.mean_
        array([3.])
        """
        items = _listed(X)
        offsets = Segmentation().item_offsets([_length(item) for item in items])
        table = _concatenated(items)
        labels = None if y is None else _labels(y, offsets)
        given = self._routed("fit", params)
        if given.get("sample_weight") is not None:
            weights = as_weights(given["sample_weight"], offsets, Segmentation())
            given["sample_weight"] = np.ones(offsets[-1]) if weights is None else weights
        transformer = clone(self.transformer)
        transformer.fit(table, *([] if labels is None else [labels]), **given)
        self.transformer_ = _keeping_frames(transformer, items[0])
        self._of_objects = isinstance(table, np.ndarray) and table.dtype == object
        return self

    def transform(self, X: Any, **params: Any) -> list:
        """Transform each sequence.

        Parameters
        ----------
        X : list of sequences
            Sequences of the same form as in `fit`.
        **params
            Further arguments of the ``transform`` of the transformer, if it requests them.

        Returns
        -------
        list of arrays, sparse matrices or data frames
            The transformed sequences, each with as many rows as it has positions.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError, TypeError
            If the transformer refuses a sequence, or returns another number of rows.

        Examples
        --------
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> from treecrf import PerSequence
        >>> scaler = PerSequence(MinMaxScaler()).fit([[[0.0], [2.0]], [[10.0]]])
        >>> for sequence in scaler.transform([[[5.0]], [[1.0], [2.0]]]):
        ...     print(sequence.tolist())
        [[0.5]]
        [[0.1], [0.2]]
        """
        check_is_fitted(self)
        items = _listed(X)
        given = self._routed("transform", params)
        # Transformers of scikit-learn refuse tables without rows.
        found = [
            self.transformer_.transform(self._table(item, i), **given) if _length(item) else item
            for i, item in enumerate(items)
        ]
        for i, (item, result) in enumerate(zip(items, found, strict=True)):
            if _length(result) != _length(item):
                raise ValueError(
                    f"sequence {i}: the transformer returned {_length(result)} rows for "
                    f"{_length(item)} positions; expected one row per position"
                )
        return found

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features after the transformation.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features, as for the transformer.

        Returns
        -------
        str array of shape (n_features_out,)
            The names, from ``get_feature_names_out`` of the transformer.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.

        Examples
        --------
        >>> from sklearn.preprocessing import PolynomialFeatures
        >>> from treecrf import PerSequence
        >>> squares = PerSequence(PolynomialFeatures(include_bias=False))
        >>> squares = squares.fit([[[1.0], [2.0]]])
        >>> squares.get_feature_names_out(["heat"]).tolist()
        ['heat', 'heat^2']
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def set_output(self, *, transform: str | None = None) -> PerSequence:
        """Set the form of the transformed sequences.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            The form, as in ``set_output`` of the transformer:

            - ``"default"``: that which the transformer returns by itself;
            - ``"pandas"`` or ``"polars"``: data frames of this library;
            - None: no change.

        Returns
        -------
        self : PerSequence
            The object itself.

        Examples
        --------
        >>> from sklearn.preprocessing import StandardScaler
        >>> from treecrf import PerSequence
        >>> scaler = PerSequence(StandardScaler()).set_output(transform="pandas")
        >>> scaler.fit([[[1.0], [2.0]], [[6.0]]]).transform([[[3.0]]])[0]
            x0
        0  0.0
        """
        self.transformer.set_output(transform=transform)
        if hasattr(self, "transformer_"):
            self.transformer_.set_output(transform=transform)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that the transformer requests, for scikit-learn's metadata routing.

        Returns
        -------
        MetadataRouter
            The requests of ``fit`` and ``transform`` of the transformer.
        """
        methods = MethodMapping()
        for name in ("fit", "transform"):
            methods = methods.add(caller=name, callee=name)
            methods = methods.add(caller="fit_transform", callee=name)
        router = MetadataRouter(owner=self)
        return router.add(transformer=self.transformer, method_mapping=methods)

    def _routed(self, method: str, params: dict) -> dict:
        """Return the arguments that a method of the transformer gets."""
        if not params or not get_config()["enable_metadata_routing"]:
            return dict(params)
        return dict(process_routing(self, method, **params).transformer[method])

    def _table(self, item: Any, i: int) -> Any:
        """Return sequence i in the form in which the transformer was fitted."""
        table = _table(item, f"sequence {i}")
        is_array = isinstance(table, np.ndarray)
        # Encoders of objects do not find them in arrays of floats.
        return table.astype(object) if self._of_objects and is_array else table

    @property
    def n_features_in_(self) -> int:
        """Number of features in `fit`, if the transformer counts them."""
        return self.transformer_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features in `fit`, if the transformer has recorded them."""
        return self.transformer_.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.transformer)
        tags.target_tags = inner.target_tags
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags = inner.input_tags
        # An array of three dimensions is a list of arrays.
        tags.input_tags.three_d_array = inner.input_tags.two_d_array
        tags.input_tags.two_d_array = tags.input_tags.one_d_array = False
        return tags


def _listed(X: Any) -> list:
    is_list = isinstance(X, (list, tuple)) or (
        isinstance(X, np.ndarray) and (X.ndim > 2 or (X.ndim == 1 and X.dtype == object))
    )
    if not is_list:
        raise TypeError(
            f"X is {describe(X)}; expected a list of sequences; a long table needs no PerSequence, "
            "but only the transformer itself"
        )
    return list(X)


def _length(item: Any) -> int:
    return item.shape[0] if hasattr(item, "shape") else len(item)


def _table(item: Any, where: str) -> Any:
    """Return a sequence in a form that transformers accept: lists of lists become arrays."""
    if isinstance(item, str):
        return list(item)
    are_rows = isinstance(item, (list, tuple)) and len(item) > 0
    if are_rows and isinstance(item[0], (list, tuple, np.ndarray)):
        return rows_as_array(item, where)
    # Transformers would read the values under the mask.
    return rows_as_array(item, where) if isinstance(item, np.ma.MaskedArray) else item


def _concatenated(items: list) -> Any:
    """Return all sequences as one table."""
    tables = [_table(item, f"sequence {i}") for i, item in enumerate(items)]
    kinds = [_kind(table) for table in tables]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise TypeError(
                f"sequence {i} is {kind}, sequence 0 is {kinds[0]}; expected sequences of the same "
                "form"
            )
    if is_frame(tables[0]):
        return concatenated(tables)
    if sparse.issparse(tables[0]):
        return sparse.vstack(tables, format="csr")
    if isinstance(tables[0], np.ndarray):
        return joined_exactly(tables)
    return [row for table in tables for row in table]


def _kind(table: Any) -> str:
    if is_frame(table):
        return f"a data frame of {type(table).__module__.partition('.')[0]}"
    if sparse.issparse(table):
        return "a sparse matrix"
    return f"a {table.ndim}-D array" if isinstance(table, np.ndarray) else "a list"


def _labels(y: Any, offsets: np.ndarray) -> np.ndarray:
    """Return the labels of all positions; None where they are unknown."""
    labels = as_labels(y, offsets, Segmentation())
    if labels.are_complete:
        return labels.values
    return np.where(labels.known, labels.values.astype(object), None)


def _keeping_frames(transformer: Any, item: Any) -> Any:
    """Make a fitted transformer return data frames of the type of a sequence, where possible."""
    library = type(item).__module__.partition(".")[0] if is_frame(item) else None
    if library not in ("pandas", "polars") or not hasattr(transformer, "set_output"):
        return transformer
    found = transformer.transform(item)
    if not is_frame(found) and not sparse.issparse(found) and not _is_configured(transformer):
        transformer.set_output(transform=library)
    return transformer


def _is_configured(transformer: Any) -> bool:
    """Return whether the user has set the output of a transformer."""
    return bool(getattr(transformer, "_sklearn_output_config", {}))
