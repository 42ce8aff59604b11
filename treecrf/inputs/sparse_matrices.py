"""Sparse matrices of any format, checked and converted to CSR."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy import sparse


def as_csr(matrix: Any, where: str) -> sparse.csr_array:
    """Copy a matrix to CSR without stored zeros and duplicates.

    Parameters
    ----------
    matrix : sparse matrix or array
    where : str
        Description of the matrix in error messages.

    Raises
    ------
    ValueError
        If the arrays of the matrix do not fit together. Conversion does not check them, and would
        read and write outside its arrays.
    """
    try:
        # A copy, because the checks of SciPy may replace attributes.
        _check(copy.copy(matrix))
        converted = sparse.csr_array(matrix, copy=True)
        converted.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{where} is a damaged sparse matrix: {error}") from None
    converted.sum_duplicates()
    converted.eliminate_zeros()
    return converted


def _check(matrix: Any) -> None:
    """Raise ValueError if the conversion of a matrix to CSR would not be safe."""
    if matrix.format in ("csc", "bsr"):
        matrix.check_format(full_check=True)
    elif matrix.format == "coo":
        _check_coordinates(matrix)
    elif matrix.format == "dia" and matrix.offsets.shape != matrix.data.shape[:1]:
        raise ValueError("offsets and data have different lengths")


def _check_coordinates(matrix: Any) -> None:
    for indices, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
        if indices.shape != matrix.data.shape:
            raise ValueError("coordinates and data have different lengths")
        if indices.size and not (indices.min() >= 0 and indices.max() < size):
            raise ValueError(f"a coordinate is outside the shape {matrix.shape}")
    if not all(np.issubdtype(a.dtype, np.integer) for a in (matrix.row, matrix.col)):
        raise ValueError("the coordinates are not integers")
