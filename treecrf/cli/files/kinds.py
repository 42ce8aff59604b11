"""What the columns of a table hold, found over the whole file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from treecrf.cli.files.blocks import TableFile
from treecrf.cli.files.cells import Cells

BOOLEAN, NUMBER, WHOLE, TEXT = "boolean", "number", "whole", "text"
# The narrowest kind that fits all values is taken.
OF_FEATURES = (BOOLEAN, NUMBER, TEXT)
OF_CATEGORIES = (WHOLE, TEXT)


def find_kinds(
    file: TableFile, cells: Cells, features: Iterable[str], categories: Sequence[str]
) -> dict[str, str]:
    """The kinds of some columns.

    Parameters
    ----------
    file : TableFile
    cells : Cells
    features : iterable of str
        Columns that are booleans, numbers or text.
    categories : sequence of str
        Columns of values that are only told apart: whole numbers or text.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read.
    TypeError
        If a column has a type that is none of these.
    """
    possible = dict.fromkeys(features, OF_FEATURES)
    possible |= dict.fromkeys(categories, OF_CATEGORIES)
    all_blocks = file.blocks(list(possible))
    # All blocks of a typed column are alike.
    for block in all_blocks if file.is_text else islice(all_blocks, 1):
        for name, array in block.items():
            while not _fits(possible[name][0], array, cells, file.is_text):
                possible[name] = possible[name][1:]
                if not possible[name]:
                    numbers = "whole numbers" if name in categories else "numbers"
                    raise TypeError(
                        f"{file.path}: column {name!r} is of type {array.type}; expected "
                        f"{numbers}, booleans or strings"
                    )
    return {name: kinds[0] for name, kinds in possible.items()}


def _fits(kind: str, array: Any, cells: Cells, may_be_any: bool) -> bool:
    if kind == WHOLE:
        return cells.are_whole(array)
    if kind == TEXT:
        return cells.is_text(cells.plain(array).type)
    if cells.is_text(array.type) and not may_be_any:
        return False
    try:
        (cells.booleans if kind == BOOLEAN else cells.numbers)(array)
    except ValueError:
        return False
    return True
