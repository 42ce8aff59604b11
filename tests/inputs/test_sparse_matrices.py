"""Damaged sparse matrices are refused, because their conversion would corrupt memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from treecrf import LinearCRF, TreeCRF

ONES = np.ones((4, 4))


def damaged_coo(axis: int, index: int) -> sparse.coo_array:
    matrix = sparse.coo_array(ONES)
    coords = [matrix.row.copy(), matrix.col.copy()]
    coords[axis][3] = index
    matrix.coords = tuple(coords)
    return matrix


def damaged(form: str, array: str, index: int, value: int) -> sparse.sparray:
    matrix = getattr(sparse, form)(ONES)
    changed = getattr(matrix, array).copy()
    changed[index] = value
    setattr(matrix, array, changed)
    return matrix


def shortened(form: str, array: str) -> sparse.sparray:
    matrix = getattr(sparse, form)(ONES)
    setattr(matrix, array, getattr(matrix, array)[:-1])
    return matrix


DAMAGED = {
    "column beyond the width": damaged("csr_array", "indices", 5, 10**6),
    "negative column": damaged("csr_matrix", "indices", 5, -1),
    "row start beyond the data": damaged("csr_array", "indptr", 2, 10**8),
    "rows that overlap": damaged("csr_array", "indptr", 2, 1),
    "last row start": damaged("csr_array", "indptr", -1, 10**8),
    "row starts that do not fit": shortened("csr_array", "indptr"),
    "too few values": shortened("csr_array", "data"),
    "row of CSC": damaged("csc_array", "indices", 5, 10**6),
    "column start of CSC": damaged("csc_array", "indptr", 2, 10**8),
    "block": damaged("bsr_array", "indices", 0, 10**7),
    "row of COO": damaged_coo(0, 10**6),
    "negative column of COO": damaged_coo(1, -10**6),
    "too few values of COO": shortened("coo_array", "data"),
    "diagonals": shortened("dia_array", "offsets"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_matrices_are_refused(name):
    good, y = sparse.csr_array(ONES), [[0, 1, 0, 1]] * 2
    model = TreeCRF(max_iter=1).fit([good, good], y)
    for call in (
        lambda: model.predict([good, DAMAGED[name]]),
        lambda: TreeCRF(max_iter=1).fit([good, DAMAGED[name]], y),
    ):
        with pytest.raises(ValueError, match=r"^sequence 1 is a damaged sparse matrix: \w+"):
            call()


def test_a_damaged_long_table_is_refused():
    matrix = DAMAGED["column beyond the width"]
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        TreeCRF(max_iter=1).fit(matrix, [0, 1, 0, 1], lengths=[4])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
def test_reading_changes_no_matrix(form):
    matrix = sparse.csr_array(np.triu(ONES)).asformat(form)
    before = {k: v for k, v in vars(matrix).items() if isinstance(v, np.ndarray)}
    TreeCRF(max_iter=1).fit([matrix], [[0, 1, 0, 1]])
    assert all(vars(matrix)[name] is array for name, array in before.items())
    np.testing.assert_array_equal(matrix.toarray(), np.triu(ONES))


@pytest.mark.parametrize("model", [
    TreeCRF(categorical_features=[1], max_iter=2),
    TreeCRF(categorical_features=[1], missing="impute", max_iter=2),
    LinearCRF(categorical_features=[1]),
])  # fmt: skip
def test_a_category_may_have_no_values(model, tmp_path):
    """As a rare category in a fold of cross-validation."""
    import treecrf

    X, y = [sparse.csr_array([[1.0, 0.0], [2.0, 0.0]])] * 2, [[0, 1]] * 2
    model.fit(X, y).save(tmp_path / "model")
    other = [sparse.csr_array([[1.0, 3.0], [2.0, 0.0]])]
    expected = model.predict_proba(X[:1])[0]
    for fitted in (model, treecrf.load(tmp_path / "model")):
        np.testing.assert_array_equal(fitted.predict_proba(other)[0], expected)
