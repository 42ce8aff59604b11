"""Labeled sequences that are joined to one table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treecrf.inputs.offsets import joined_arrays, offsets_of
from treecrf.inputs.schema import NUMBER, InputSchema
from treecrf.inputs.sequences import Description, LongSequences, Sequences
from treecrf.inputs.symbols import as_category
from treecrf.learners.base.training_data import OPTIONAL_ARRAYS, LabeledSequences
from treecrf.utils.scipy_sparse import sparse


def joined(parts: list[LabeledSequences], described: Description) -> LabeledSequences:
    """Join parts, in their order, into sequences in one table; ``described`` describes them."""
    if len(parts) == 1:
        return parts[0]
    names = "codes", *OPTIONAL_ARRAYS
    sequences = _joined_sequences([part.sequences for part in parts], described)
    return LabeledSequences(sequences, *(joined_arrays(parts, name) for name in names))


def joined_in_memory(
    training: LabeledSequences, other: LabeledSequences, n_labels: int
) -> LabeledSequences:
    """Append validation sequences to training sequences, with the categories of the latter.

    Without masks, all labels are allowed, and known; without weights, these are 1.
    """
    described = Description.of(training.sequences)
    if described.schema.form == "symbols":
        # If some symbols are missing, they are a table.
        form = min(training.sequences.form, other.sequences.form)
        described = replace(described, form=form)
    # Nothing is held out of them.
    parts = [
        replace(training, fold_groups=None),
        replace(other, sequences=other.sequences.for_model(described.schema), fold_groups=None),
    ]
    for name, default in (
        ("allowed", lambda codes: np.ones((len(codes), n_labels), dtype=bool)),
        ("candidates", lambda codes: np.eye(n_labels, dtype=bool)[codes]),
        ("weights", lambda codes: np.ones(len(codes))),
    ):
        present = [getattr(part, name) is not None for part in parts]
        if any(present) and not all(present):
            i = present.index(False)
            parts[i] = replace(parts[i], **{name: default(parts[i].codes)})
    return joined(parts, described)


def _joined_sequences(parts: list[Sequences], described: Description) -> Sequences:
    schema = described.schema
    is_sparse = described.form == "sparse"
    tables = [part.rows(0, part.n_sequences) for part in parts]
    if described.form == "dense":
        tables = [_dense(table, schema) for table in tables]
    table = sparse.vstack(tables, format="csr") if is_sparse else np.concatenate(tables)
    is_plain = described.is_boolean or not (schema.kinds != NUMBER).any()
    is_symbols = described.form == "symbols"
    return LongSequences.of(
        table,
        offsets_of(np.concatenate([np.diff(part.offsets) for part in parts])),
        form=described.form,
        n_features=schema.n_features,
        dtype=table.dtype,
        names=schema.names,
        kinds=None if is_plain or is_symbols else schema.kinds,
        categories={} if is_symbols else schema.categories,
        are_symbols=schema.form == "symbols" and not is_symbols,
        init_scores=joined_arrays(parts, "init_scores"),
    )


def _dense(table: Any, schema: InputSchema) -> np.ndarray:
    """Return a table as an array; symbols become a table of one category."""
    if table.ndim == 1:
        return as_category(table, schema.categories[0])
    return table.toarray() if sparse.issparse(table) else table
