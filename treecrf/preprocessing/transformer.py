"""What transformers of sequences share: reading numbers, and returning the form of the input."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.added_columns import (
    with_columns,
    with_dicts,
    with_numbered_names,
    without_names,
)
from treecrf.inputs.column_names import NO_NAMES, ColumnNames
from treecrf.inputs.dataset import RawData, as_sequences
from treecrf.inputs.forms import are_dicts, is_empty_list, is_frame
from treecrf.inputs.frames import as_groups, group_column, segmentation_of, without_columns
from treecrf.inputs.offsets import position_name, split_sequences
from treecrf.inputs.schema import CATEGORY, InputSchema
from treecrf.inputs.segmentation import Segmentation
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import closest_name, short_repr
from treecrf.utils.typing import GroupsLike, LabelsLike, LengthsLike, SequencesLike
from treecrf.utils.validation import DocumentationLink

# Sums of squares of larger numbers may be outside the range of float64.
MAX_NUMBER = 1e140


class SequenceTransformer(
    DocumentationLink, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """A transformer that appends columns of numbers to sequences, computed from their numbers.

    Subclasses have the parameters ``columns`` and ``keep``.
    """

    _parameter_constraints: ClassVar[dict] = {
        "columns": ["array-like", None],
        "keep": ["boolean"],
    }
    _doc_link_template = DocumentationLink._doc_link_template.replace(
        "treecrf.{", "treecrf.preprocessing.{"
    )

    columns: ArrayLike | None
    keep: bool

    @abstractmethod
    def _names_of(self, name: str) -> list[str]:
        """Return the names of the new columns for a column of this name."""

    @abstractmethod
    def _compute(self, table: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Compute the new columns of all positions from float64 columns (n_positions, n_chosen)."""

    # Training

    def fit(
        self,
        X: SequencesLike,
        y: LabelsLike | str | None = None,
        *,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Self:
        """Find the columns to compute features of. No values are learned.

        Parameters
        ----------
        X : list of sequences, or one long table
            Arrays, sparse matrices, data frames, or lists of dicts. Columns of strings and other
            categories are passed on unchanged.
        y : str or object, optional
            If it is the name of a column of data frames, this column holds the labels and is passed
            on unchanged. Otherwise, y is ignored.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `treecrf.TreeCRF.fit`.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            If a parameter or a sequence is invalid, or there are no columns of numbers. The
            transformer then remains unchanged.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> SequenceScaler(columns=[0]).fit([[[1.0, 5.0], [3.0, 6.0]]]).n_features_in_
        2
        """
        self._check_parameters()
        X = _listed(X)
        raw = RawData(X, y, segmentation_of(X, lengths, groups))
        resolved = raw.resolved()
        schema = self._read(resolved.X, resolved.segmentation).schema
        chosen = self._choose(schema)
        _refuse_equal_names(self._names_out(_names_in(schema), chosen))
        # Nothing changes before here, where no error is raised any more.
        self._schema = schema
        self._others = raw.columns
        self._chosen = chosen
        self.n_features_in_ = schema.n_features
        vars(self).pop("feature_names_in_", None)
        if schema.names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)
        return self

    def _check_parameters(self) -> None:
        """Raise an error if a parameter, which may have been set after `fit`, is invalid."""
        self._validate_params()

    def _choose(self, schema: InputSchema) -> np.ndarray:
        """Return the indices of the columns that features are computed of."""
        numbers = np.flatnonzero(schema.kinds != CATEGORY)
        if self.columns is None:
            chosen = numbers
        else:
            items = np.asarray(self.columns, dtype=object).tolist()
            chosen = np.array([_index_of(item, schema) for item in items], dtype=np.intp)
        if not len(chosen):
            raise ValueError(
                f"X has no columns of numbers or booleans; {type(self).__name__} needs at least one"
            )
        others = np.setdiff1d(chosen, numbers)
        if len(others):
            raise ValueError(
                f"{schema.column(int(others[0]))} holds categories; expected columns of numbers or "
                "booleans"
            )
        return np.unique(chosen)

    # Transformation

    def transform(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Compute the features of sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            Sequences with the columns of the data in `fit`. Data frames may also have the columns
            of groups and labels, which are passed on unchanged.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to. The default is the column that
            ``groups`` named in `fit`.

        Returns
        -------
        list of sequences, or one long table
            The sequences in the form of X, with the columns that `get_feature_names_out` names. New
            columns are float64.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.
        ValueError, TypeError
            If X does not match the data in `fit`. The message names the sequence and the reason.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> scaler = SequenceScaler().fit([[[1.0], [3.0]]])
        >>> scaler.transform([[5.0], [6.0], [1.0], [9.0]], lengths=[2, 2])
        array([[-1.],
               [ 1.],
               [-1.],
               [ 1.]])
        """
        check_is_fitted(self)
        self._check_parameters()
        X = _listed(X)
        if lengths is None and groups is None:
            groups = group_column(X, self._others.group)
        segmentation = segmentation_of(X, lengths, groups, may_be_empty=True)
        X = as_groups(X, "X")
        sequences = self._read(X, segmentation, self._schema, self._others)
        values = self._compute(self._numbers(sequences), sequences.offsets)
        if segmentation.is_long:
            return self._output([X], [values])[0]
        return self._output(X, split_sequences(values, sequences.offsets))

    def fit_transform(
        self,
        X: SequencesLike,
        y: LabelsLike | str | None = None,
        *,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> Any:
        """Fit the transformer, and compute the features of the same sequences.

        Parameters
        ----------
        X : list of sequences, or one long table
            The sequences, as in `fit`.
        y : str or object, optional
            As in `fit`.
        lengths : array-like of shape (n_sequences,), optional
            Number of positions of each sequence in a long table.
        groups : array-like of shape (n_positions,) or str, optional
            Sequence that each position of a long table belongs to, as in `fit`.

        Returns
        -------
        list of sequences, or one long table
            The sequences with their features, as from `transform`.

        Raises
        ------
        ValueError, TypeError
            As in `fit`.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> SequenceScaler().fit_transform([[[5.0], [6.0]], [[1.0], [9.0]]])[1]
        array([[-1.],
               [ 1.]])
        """
        X = _listed(X)
        self.fit(X, y, lengths=lengths, groups=groups)
        return self.transform(X, lengths=lengths, groups=groups)

    def _read(
        self,
        X: Any,
        segmentation: Segmentation,
        schema: InputSchema | None = None,
        others: ColumnNames = NO_NAMES,
    ) -> Sequences:
        """Check sequences, without the columns of labels and groups."""
        names = others.names - segmentation.group_columns
        if names:
            X = without_columns(X, names)
        sequences = as_sequences(X, schema, segmentation)
        if sequences.n_positions and (sequences.form == "symbols" or sequences.are_symbols):
            raise TypeError(
                f"X holds symbols; {type(self).__name__} expects sequences of numbers: 2-D arrays, "
                "data frames, sparse matrices or lists of dicts"
            )
        return sequences

    def _numbers(self, sequences: Sequences) -> np.ndarray:
        """Return the chosen columns, float64 (n_positions, n_chosen), each of them contiguous."""
        table = np.empty((sequences.n_positions, len(self._chosen)), order="F")
        if not sequences.n_positions:
            return table
        for start, stop, rows in sequences.pieces():
            part = rows[:, self._chosen]
            table[start:stop] = part.toarray() if sparse.issparse(part) else part
        is_large = np.abs(table) > MAX_NUMBER
        if is_large.any():
            t, k = np.argwhere(is_large)[0].tolist()
            raise ValueError(
                f"{position_name(t, sequences.offsets)}, {self._schema.column(self._chosen[k])}: "
                f"{table[t, k]} is too large for sums of squares; expected at most {MAX_NUMBER:g}"
            )
        return table

    def _output(self, items: Iterable[Any], values: list[np.ndarray]) -> list:
        """Return sequences with the new columns, in the chosen library."""
        new_names = self._new_names()
        names = self.get_feature_names_out()
        library = self._library()
        results = []
        for x, part in zip(items, values, strict=True):
            if not is_empty_list(x):  # which has any form
                x = _in_library(self._with_values(x, part, new_names), library, names)
            results.append(x)
        return results

    def _with_values(self, x: Any, values: np.ndarray, names: list[str]) -> Any:
        """Return a sequence, or a long table, with the new columns of these names."""
        if is_frame(x) and self._schema.names is None:
            x = with_numbered_names(x, _names_in(self._schema))
        x = with_dicts(x, self._schema)
        dropped = [] if self.keep else self._chosen.tolist()
        if dropped and (is_frame(x) or are_dicts(x)):
            x = without_names(x, [_names_in(self._schema)[j] for j in dropped])
        return with_columns(x, values, names, dropped)

    # Names and output

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, if they have none in the data of `fit`.

        Returns
        -------
        array of str
            The names of the columns that are kept, and those of the new columns, such as
            ``heat_zscore``.

        Raises
        ------
        NotFittedError
            If the transformer has not been fitted.
        ValueError
            If ``input_features`` has another number of names.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> scaler = SequenceScaler(keep=True).fit([[[1.0], [3.0]]])
        >>> scaler.get_feature_names_out(["heat"]).tolist()
        ['heat', 'heat_zscore']
        """
        check_is_fitted(self)
        names = self._names_out(_names_in(self._schema, input_features), self._chosen)
        return np.array(names, dtype=object)

    def _names_out(self, names: list[str], chosen: np.ndarray) -> list[str]:
        """Return the names of the result, given those of X and the indices of chosen columns."""
        dropped = () if self.keep else chosen
        kept = [name for j, name in enumerate(names) if j not in dropped]
        return kept + [new for j in chosen for new in self._names_of(names[j])]

    def _new_names(self) -> list[str]:
        """Return the names of the new columns."""
        names = _names_in(self._schema)
        return [new for j in self._chosen for new in self._names_of(names[j])]

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the form of the sequences that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            ``"pandas"`` and ``"polars"`` are data frames, and ``"default"`` is the form of the
            input. None changes nothing.

        Returns
        -------
        self : object
            The transformer.

        Raises
        ------
        ValueError
            If ``transform`` is another string.

        Examples
        --------
        >>> from treecrf.preprocessing import SequenceScaler
        >>> scaler = SequenceScaler().set_output(transform="pandas")
        >>> scaler.fit_transform([[[1.0], [3.0]]])[0]
            x0
        0 -1.0
        1  1.0
        """
        if transform is None:
            return self
        if transform not in ("default", "pandas", "polars"):
            raise ValueError(
                f"transform={transform!r}; expected 'default', 'pandas', 'polars' or None"
            )
        # The attribute of scikit-learn, which clone copies.
        self._sklearn_output_config = {"transform": transform}
        return self

    def _library(self) -> str:
        """Return the library of the result, or "default"."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        return chosen or get_config()["transform_output"]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_schema")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True  # a list of arrays
        return tags


def _listed(X: Any) -> Any:
    """Return X, which is read more than once, and may be an iterator."""
    return list(X) if isinstance(X, Iterator) else X


def _names_in(schema: InputSchema, given: ArrayLike | None = None) -> list[str]:
    """Return the names of the columns of X, or the given ones if they have none."""
    if schema.names is not None:
        return list(schema.names)
    if given is None:
        return [f"x{j}" for j in range(schema.n_features)]
    names = np.asarray(given, dtype=object).tolist()
    if len(names) != schema.n_features:
        raise ValueError(f"input_features has {len(names)} names; expected {schema.n_features}")
    return names


def _refuse_equal_names(names: list[str]) -> None:
    """Raise ValueError if a new column has the name of another one."""
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise ValueError(f"the new column {twice!r} has the name of a column of X; rename that one")


def _index_of(item: Any, schema: InputSchema) -> int:
    """Return the index of a column that ``columns`` names."""
    if isinstance(item, str):
        names = schema.names or ()
        if item not in names:
            raise ValueError(f"columns: there is no column {item!r}{closest_name(item, names)}")
        return names.index(item)
    if isinstance(item, bool) or not isinstance(item, int):
        raise TypeError(f"columns holds {short_repr(item)}; expected names or indices of columns")
    if not -schema.n_features <= item < schema.n_features:
        raise ValueError(f"columns: no column has index {item}; X has {schema.n_features} columns")
    return item % schema.n_features


def _in_library(table: Any, library: str, names: np.ndarray) -> Any:
    """Return a table as a data frame of pandas or polars, unless the library is "default"."""
    if library == "default":
        return table
    import narwhals.stable.v2 as narwhals

    if not is_frame(table):
        if sparse.issparse(table):
            table = table.toarray()
        module = importlib.import_module(library)
        if are_dicts(table):
            return module.DataFrame(table)
        if table.dtype.kind == "f":
            columns = list(table.T)
        else:  # lists show the type of each column
            columns = table.T.tolist()
        return module.DataFrame(dict(zip(names, columns, strict=True)))
    frame = narwhals.from_native(table, eager_only=True)
    return frame.to_pandas() if library == "pandas" else frame.to_polars()
