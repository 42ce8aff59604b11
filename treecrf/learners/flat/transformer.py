"""Conjunctions as features: the transformer methods of flat models."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from treecrf.inputs.offsets import reversed_positions
from treecrf.inputs.sequences import Sequences
from treecrf.learners.flat.export import FlatTables
from treecrf.utils.threads import Threads
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike


class ConjunctionTransformer(TransformerMixin, auto_wrap_output_keys=None):
    """Mixin of `FlatModel`: the conjunctions that hold at each position."""

    _tables: FlatTables

    def transform(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> Any:
        """Find the conjunctions that hold at each position.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of sparse CSR arrays (n_positions, n_conjunctions)
            1 where a conjunction holds; a fraction at positions with missing values (see the notes
            of the class). For a long table one array.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ValueError, TypeError
            If X does not match the training data; the message names the sequence and the problem.

        Examples
        --------
        >>> from treecrf import TreeCRF, flatten
        >>> flat = flatten(TreeCRF(max_iter=5).fit(["abab", "ba"], ["xyxy", "yx"]))
        >>> [rows.shape for rows in flat.transform(["ab", "bba"])]
        [(2, 2), (3, 2)]
        """
        segmentation = self._segmentation(X, lengths, groups, may_be_empty=True)
        sequences = self._sequences(X, segmentation)
        matrix = self._matrix(sequences.without_empty())
        if segmentation.is_long:
            return matrix
        return [matrix[a:b] for a, b in pairwise(sequences.offsets.tolist())]

    def matrix(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> sparse.csr_array:
        """Find the conjunctions that hold at the positions of all sequences, in one array.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        sparse CSR array of float64 (n_positions, n_conjunctions)
            The rows of `transform`, one sequence after the other.

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
        sequences = self._sequences(X, self._segmentation(X, lengths, groups, may_be_empty=True))
        return self._matrix(sequences.without_empty())

    def _matrix(self, sequences: Sequences) -> sparse.csr_array:
        """Return the rows of sequences that are not empty."""
        if not sequences.n_positions:
            return sparse.csr_array((0, self.n_conjunctions_))
        model, offsets = self._model, sequences.offsets
        if self._trained_backward:
            sequences = sequences.reversed()
        with Threads(self.n_jobs) as threads:
            matrix = model._forest.matrix(model._encoder.encode(sequences, threads), threads)
        return matrix[reversed_positions(offsets)] if self._trained_backward else matrix

    def attributes(
        self, X: SequencesLike, *, lengths: LengthsLike = None, groups: GroupsLike = None
    ) -> list:
        """Name the conjunctions that hold, in the format of CRFsuite and similar programs.

        Parameters
        ----------
        X : list of sequences, or one long table of all
        lengths, groups : optional
            As in `predict`.

        Returns
        -------
        list of lists of dicts
            For each position of each sequence, the nonzero values of conjunctions by name. For a
            long table one list of dicts.

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
        if self._segmentation(X, lengths, groups).is_long:
            return _named(rows, names)
        return [_named(rows_of_one, names) for rows_of_one in rows]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Name the conjunctions, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored
            The names of the features are those of the training data.

        Returns
        -------
        array of str (n_conjunctions,)
            For example ``aa[-2] is 'P' and not aa[0] is 'G'``. Names are unique.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        """
        check_is_fitted(self, "classes_")
        return np.array(self._tables.names, dtype=object)


def _named(rows: sparse.csr_array, names: np.ndarray) -> list[dict[str, float]]:
    """Return the entries of each row, by the names of their columns."""
    keys, values = names[rows.indices].tolist(), rows.data.tolist()
    return [
        dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in pairwise(rows.indptr.tolist())
    ]
