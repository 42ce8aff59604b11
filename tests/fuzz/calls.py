"""Random input for the tests, valid and invalid."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import treecrf

PACKAGE = Path(treecrf.__file__).parent

text = st.text(st.characters(exclude_categories=()), max_size=4)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), text,
    st.binary(max_size=3), st.complex_numbers(), st.just(np.datetime64("2004-01-01")),
)  # fmt: skip
dtypes = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(), hnp.complex_number_dtypes(), hnp.unicode_string_dtypes(max_len=3),
    hnp.byte_string_dtypes(max_len=3), hnp.datetime64_dtypes(), hnp.timedelta64_dtypes(),
    hnp.array_dtypes(), st.just(np.dtype(object)),
)  # fmt: skip
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


@st.composite
def arrays(draw) -> np.ndarray:
    dtype, shape = draw(dtypes), draw(shapes)
    if dtype.hasobject:
        return draw(hnp.arrays(dtype, shape, elements=scalars))
    return draw(hnp.arrays(dtype, shape))


@st.composite
def matrices(draw) -> sparse.sparray:
    table = draw(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=3)))
    return draw(st.sampled_from([sparse.csr_array, sparse.coo_matrix, sparse.lil_array]))(table)


@st.composite
def masked(draw) -> np.ma.MaskedArray:
    dtype, shape = draw(st.sampled_from("?bqfdU")), (draw(st.integers(1, 4)), 2)
    values = draw(hnp.arrays("U1" if dtype == "U" else dtype, shape))
    return np.ma.masked_array(values, draw(hnp.arrays(bool, shape)))


def containers(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(text, inner, max_size=2),
        st.lists(inner, max_size=2).map(iter),
    )


garbage = st.recursive(st.one_of(scalars, arrays(), matrices()), containers, max_leaves=6)

numbers = st.one_of(st.floats(-9, 9), st.floats(), st.integers(-2, 2), st.integers())
lengths = st.integers(1, 4)
forms = st.one_of(
    lengths.map(lambda n: st.text("abc", min_size=n, max_size=n)),
    lengths.map(lambda n: st.lists(text, min_size=n, max_size=n)),
    lengths.map(lambda n: st.lists(st.integers(), min_size=n, max_size=n)),
    lengths.map(lambda n: st.lists(st.tuples(numbers, numbers), min_size=n, max_size=n)),
    st.tuples(st.sampled_from("?bBhqQefdg"), lengths).map(lambda a: hnp.arrays(a[0], (a[1], 2))),
    lengths.map(lambda n: st.lists(st.none() | text, min_size=n, max_size=n)),
    lengths.map(lambda n: st.lists(st.none() | st.integers(0, 3), min_size=n, max_size=n)),
    lengths.map(lambda n: st.lists(st.tuples(st.none() | text, numbers), min_size=n, max_size=n)),
    st.just(matrices()),
    st.just(masked()),
)
sequences = forms.flatmap(lambda form: st.lists(form, min_size=1, max_size=4))


# Columns of one kind with missing values, and of several kinds.
kinds_of_cells = st.sampled_from([
    st.none() | st.booleans(), st.none() | st.integers(-2, 2), st.none() | st.floats(-9, 9),
    st.none() | st.sampled_from(["a", "b", "\U0001f600", ""]), st.none() | text,
    st.floats(), st.integers(), st.none(), scalars,
])  # fmt: skip


@st.composite
def dicts(draw) -> list:
    """Sequences of dicts that are mostly compatible."""
    keys = draw(st.lists(text, min_size=1, max_size=4, unique=True))
    cells = {key: draw(kinds_of_cells) for key in keys}
    row = st.fixed_dictionaries({}, optional=cells)
    rows = st.lists(
        row if draw(st.booleans()) else row | st.dictionaries(text, scalars), max_size=4
    )
    return draw(st.lists(rows if draw(st.booleans()) else rows.filter(len), min_size=1, max_size=4))


@st.composite
def frames(draw) -> list:
    """Data frames of pandas or polars that are mostly compatible."""
    import pandas
    import polars

    names = draw(st.lists(text, min_size=1, max_size=4, unique=draw(st.integers(0, 9)) > 0))
    cells = [draw(kinds_of_cells) for _ in names]
    library = draw(st.sampled_from([pandas.DataFrame, polars.DataFrame]))
    made = []
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 4))
        columns = [draw(st.lists(cell, min_size=n, max_size=n)) for cell in cells]
        try:
            if library is pandas.DataFrame:
                made.append(pandas.concat([pandas.Series(c) for c in columns], axis=1, keys=names))
            else:
                table = zip(names, columns, strict=True)
                made.append(polars.DataFrame([polars.Series(n, c, strict=False) for n, c in table]))
        except Exception:  # what the libraries themselves refuse
            assume(False)
    if draw(st.integers(0, 4)) == 0:
        made[-1] = made[-1][:, ::-1] if library is polars.DataFrame else made[-1].iloc[:, ::-1]
    return made


def labels_for(X: list) -> st.SearchStrategy:
    """Label sequences that are mostly valid."""
    kinds = st.sampled_from([
        st.sampled_from("xyz"), st.integers(0, 2), st.booleans(), st.sampled_from([0.0, 1.0]),
        st.integers(), scalars,
    ])  # fmt: skip
    sizes = [x.shape[0] if hasattr(x, "shape") else len(x) for x in X]
    return kinds.flatmap(
        lambda kind: st.tuples(*(st.lists(kind, min_size=n, max_size=n) for n in sizes)).map(list)
    )


def check_call(call: Callable[[], list]) -> None:
    """Call a function that must return probabilities or raise an error of the package."""
    try:
        results = call()
    except (ValueError, TypeError) as error:
        raiser = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        assert type(error) in (ValueError, TypeError) and str(error)
        assert raiser.is_relative_to(PACKAGE), f"not explained by the package: {error!r}"
    else:
        assert all(np.isfinite(result).all() for result in results)
