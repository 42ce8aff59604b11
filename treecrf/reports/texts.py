"""The texts of positions that a report shows: words, or characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treecrf.inputs.forms import is_frame
from treecrf.inputs.sequences import Sequences
from treecrf.inputs.values import as_list, column_names

# Longer texts of positions are cut.
MAX_CHARACTERS = 40
# Characters of all positions together; with more, the report goes without texts.
MAX_TEXT = 1_000_000


def texts_of(X: Any, symbols: Any, sequences: Sequences) -> list[str] | None:
    """Return the text of each position.

    ``symbols`` has the texts, or is the name of a column of X. Without it, these are the input if
    it consists of symbols.
    """
    if symbols is not None:
        return limited(_given_texts(X, symbols, sequences))
    if sequences.form == "symbols":
        return limited([symbol for *_, piece in sequences.pieces() for symbol in piece.tolist()])
    return None


def limited(texts: list) -> list[str] | None:
    """Return texts that are cut; None if they are too many for a page."""
    cut = [str(text)[:MAX_CHARACTERS] for text in texts]
    return cut if sum(map(len, cut)) <= MAX_TEXT else None


def _given_texts(X: Any, symbols: Any, sequences: Sequences) -> list:
    """Return the texts of all positions, in one list."""
    if isinstance(symbols, str):
        items = [X] if is_frame(X) else list(X)
        found = [text for item in items for text in _column(item, symbols)]
    else:
        found = as_list(symbols, "symbols", "texts")
        if found and not isinstance(found[0], (str, np.str_)):
            found = [text for item in found for text in as_list(item, "symbols", "texts")]
    if len(found) != sequences.n_positions:
        raise ValueError(
            f"symbols has {len(found)} texts; expected {sequences.n_positions}, one for each "
            "position of X"
        )
    return found


def _column(item: Any, name: str) -> list:
    """Return the values of a column of a data frame, or of a key of dicts."""
    if is_frame(item):
        if name not in column_names(item):
            raise ValueError(f"symbols={name!r} is not a column of X")
        import narwhals.stable.v2 as narwhals

        return narwhals.from_native(item, eager_only=True).get_column(name).to_list()
    if not all(isinstance(row, Mapping) for row in item):
        raise TypeError(
            f"symbols={name!r} names a column, but X holds no data frames and no dicts; pass the "
            "texts of the positions"
        )
    return [row.get(name, "") for row in item]
