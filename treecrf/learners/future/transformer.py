"""Transformer that computes discovered features for other models."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.forms import are_dicts, is_frame
from treecrf.learners.future.memm import FutureFeatureMEMM
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import DocumentationLink


class FutureFeatures(
    DocumentationLink, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Transformer for features of bags that a `FutureFeatureMEMM` discovers.

    The features of a sequence depend on its input only. They let models of any kind, and decoders
    that proceed from left to right, use information from the positions ahead.

    Parameters
    ----------
    estimator : FutureFeatureMEMM or None, default=None
        Estimator that discovers the features; it is copied. None stands for
        ``FutureFeatureMEMM(order=0)``.
    append : bool, default=False
        Whether to append the discovered features to the columns of the input, instead of returning
        them alone. Symbols become a table with a column of symbols.

    Attributes
    ----------
    estimator_ : FutureFeatureMEMM
        The fitted copy of ``estimator``.
    future_features_ : list of FutureFeature
        The discovered features, in a readable form.
    n_features_in_ : int
        Number of features; 1 for symbols.

    See Also
    --------
    FutureFeatureMEMM : Discovers the features.

    Examples
    --------
    >>> from treecrf import FutureFeatureMEMM, FutureFeatures, TreeCRF
    >>> from treecrf.datasets import make_future_bags
    >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
    >>> model = FutureFeatureMEMM(
    ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
    ... )
    >>> discovery = FutureFeatures(model, append=True)
    >>> ahead = discovery.fit_transform(X, y)
    >>> ahead[0].shape
    (30, 9)
    >>> TreeCRF(max_iter=20).fit(ahead, y).score(ahead, y) > 0.95
    True
    """

    # Parameters of `fit` that are otherwise not in its signature.
    __metadata_request__fit: ClassVar[dict] = {"lengths": None, "groups": None}

    def __init__(self, estimator: FutureFeatureMEMM | None = None, *, append: bool = False):
        self.estimator = estimator
        self.append = append

    def fit(self, X: SequencesLike, y: LabelsLike, **parameters: Any) -> Self:
        """Discover features.

        Parameters
        ----------
        X, y : sequences and their labels
            As in `FutureFeatureMEMM.fit`.
        **parameters
            Other parameters of that method, such as ``X_val`` and ``y_val``, or ``lengths``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As `FutureFeatureMEMM.fit`.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> model = FutureFeatureMEMM(order=0, bag_size=2, max_iter=5, max_future_features=1)
        >>> discovery = FutureFeatures(model).fit(["abab", "ba"] * 5, ["xyxy", "yx"] * 5)
        >>> discovery.n_features_in_
        1
        """
        model = FutureFeatureMEMM(order=0) if self.estimator is None else clone(self.estimator)
        if not isinstance(model, FutureFeatureMEMM):
            raise TypeError(
                f"estimator is a {type(model).__name__}; expected a FutureFeatureMEMM or None"
            )
        self.estimator_ = model.fit(X, y, **parameters)
        self.n_features_in_ = model.n_features_in_
        return self

    def fit_transform(self, X: SequencesLike, y: LabelsLike, **parameters: Any) -> Any:
        """Discover features, and compute those of the same sequences.

        Parameters
        ----------
        X, y, **parameters
            As in `fit`.

        Returns
        -------
        list of arrays, or one array for a long table
            As in `transform`.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.
        """
        cuts = {name: parameters.get(name) for name in ("lengths", "groups")}
        return self.fit(X, y, **parameters).transform(X, **cuts)

    @property
    def future_features_(self) -> list:
        """The discovered features, in the order of their discovery."""
        return self.estimator_.future_features_

    def transform(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Compute the features of sequences.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `FutureFeatureMEMM.predict`.

        Returns
        -------
        list of float arrays (n_positions, n_future_features)
            For each feature, the probability that the bag of a position contains a positive
            instance. With ``append``, the sequences with these columns, in their own form: arrays,
            matrices, data frames or dicts. For a long table one table.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError, TypeError
            If X does not match the training data; the message names the sequence and the problem.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> model = FutureFeatureMEMM(order=0, bag_size=2, max_iter=5, max_future_features=1)
        >>> discovery = FutureFeatures(model).fit(["abab", "ba"] * 5, ["xyxy", "yx"] * 5)
        >>> [len(table) for table in discovery.transform(["aab", "b"])]
        [3, 1]
        """
        check_is_fitted(self)
        segmentation = self.estimator_._predictor().segmentation(X, lengths, groups, False)
        X = X if segmentation.is_long else list(X)
        joined = self.estimator_.future_values(X, lengths=lengths, groups=groups)
        joined = joined[..., 1] if segmentation.is_long else [values[..., 1] for values in joined]
        if not self.append:
            return joined
        names = self._names()
        if segmentation.is_long:
            return _appended(X, joined, names)
        return [
            _appended(x, table, names) if len(table) else x  # an empty sequence has any form
            for x, table in zip(X, joined, strict=True)
        ]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the columns of the result.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, if the training data have none.

        Returns
        -------
        array of str

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> from treecrf import FutureFeatureMEMM, FutureFeatures
        >>> from treecrf.datasets import make_future_bags
        >>> X, y = make_future_bags("or", n_sequences=60, random_state=0)
        >>> model = FutureFeatureMEMM(
        ...     order=0, bag_size=6, max_iter=30, max_future_features=1, random_state=0
        ... )
        >>> discovery = FutureFeatures(model).fit(X, y)
        >>> discovery.get_feature_names_out().tolist()
        ['future0']
        """
        check_is_fitted(self)
        if not self.append:
            return np.array(self._names(), dtype=object)
        if input_features is None:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            input_features = getattr(self.estimator_, "feature_names_in_", default)
        return np.array([*input_features, *self._names()], dtype=object)

    def _names(self) -> list[str]:
        return [f"future{k}" for k in range(len(self.estimator_._encoder.features))]


def _appended(x: Any, values: np.ndarray, names: list[str]) -> Any:
    """Append columns to a sequence, which keeps its form."""
    if sparse.issparse(x):
        return sparse.hstack([x, sparse.csr_array(values)], format="csr")
    if is_frame(x):
        return _with_columns(x, values, names)
    if are_dicts(x):
        rows = (dict(zip(names, row, strict=True)) for row in values.tolist())
        return [{**here, **more} for here, more in zip(x, rows, strict=True)]
    table = np.asarray(list(x) if isinstance(x, str) else x)
    if table.ndim == 1:
        table = table[:, None]
        # Numbers that are symbols remain categorical only as strings.
        table = table.astype(str)
    kind = np.float64 if table.dtype.kind in "biuf" else object
    return np.hstack([table.astype(kind), values.astype(kind)])


def _with_columns(frame: Any, values: np.ndarray, names: list[str]) -> Any:
    import narwhals.stable.v2 as nw

    table = nw.from_native(frame, eager_only=True)
    added = [
        nw.new_series(name, column.tolist(), nw.Float64, backend=table.implementation)
        for name, column in zip(names, values.T, strict=True)
    ]
    return table.with_columns(*added).to_native()
