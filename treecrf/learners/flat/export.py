"""Weights of flat models as arrays, data frames and files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treecrf.learners.flat.tables import FlatTables, frame_of
from treecrf.utils.typing import GroupsLike, LengthsLike, SequencesLike


class WeightExports:
    """Mixin of `FlatModel`: its weights as arrays, data frames and files."""

    _tables: FlatTables

    def weights(self) -> np.ndarray:
        """Return the weights of conjunctions for pairs of a previous and a current label.

        Returns
        -------
        float64 array (n_conjunctions, n_classes + 1, n_classes)
            The weight that a conjunction adds to the score of the current label (last axis) after
            the previous label (second axis). The last entry of the second axis stands for no
            previous label. With order 0, all entries along the second axis are equal.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ValueError
            If the order of the model is above 1.

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
        """Return the weights of the conjunctions as a sparse array.

        Returns
        -------
        sparse CSR array (n_conjunctions, (n_classes + 1) * n_classes)
            The weights of `weights`, with the previous label as the outer index of the columns.

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

    def to_frame(self, backend: Any = "pandas") -> Any:
        """Return all weights as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"

        Returns
        -------
        data frame
            One row per weight, with the columns ``conjunction`` and ``context`` (as text),
            ``label`` and ``weight``.

        Raises
        ------
        NotFittedError
            If the model was not created by `flatten`.
        ImportError
            If the library of the frame is not installed.

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
        """Return conjunctions, contexts and weights as JSON.

        Returns
        -------
        str
            An object with the keys ``classes``, ``order``, ``direction``, ``conjunctions``,
            ``contexts`` and ``weights``.

            Each conjunction has a ``name`` and ``tests``. A test has a ``feature`` (name or
            number) and an ``offset``; the value that the feature ``is``, is ``above`` or is
            ``at_most``, or ``missing`` for a test of whether it is missing; and whether the test
            ``holds``. A test of the sequence boundary has the offset that is ``outside`` of the
            sequence instead. Each context has a ``name`` and the labels that are possible at each
            lag (``previous``, with null for no label). Each weight has the indices of its
            ``conjunction`` and ``context``, a ``label`` and its value, ``weight``.

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
        self,
        file: Any,
        X: SequencesLike,
        *,
        lengths: LengthsLike = None,
        groups: GroupsLike = None,
    ) -> None:
        """Write the conjunctions of some sequences, and all weights, to a NumPy archive.

        ``scipy.sparse.load_npz`` reads the matrix (see `FlatModel.matrix`) from the file, and
        ``numpy.load`` reads all arrays. Neither needs pickle.

        Parameters
        ----------
        file : path-like or file object
            A file as for ``numpy.savez``.
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
        sequences = self._sequences(X, self._segmentation(X, lengths, groups, may_be_empty=True))
        matrix, flat = self._matrix(sequences.without_empty()), self._flat
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
