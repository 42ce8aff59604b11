"""Kinds of the columns of a table, determined over the whole file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from treecrf.inputs.files.arrow import ArrowConverter
from treecrf.inputs.files.blocks import TableFile

# Whole numbers and text are categories, of integers and of strings.
BOOLEAN, NUMBER, WHOLE, TEXT = "boolean", "number", "whole", "text"
# A column gets the first kind that fits all of its values.
FEATURE_KINDS = (BOOLEAN, NUMBER, TEXT)
CATEGORY_KINDS = (WHOLE, TEXT)


def find_kinds(
    file: TableFile,
    converter: ArrowConverter,
    features: Iterable[str],
    categories: Sequence[str],
) -> dict[str, str]:
    """Determine the kinds of some columns.

    Parameters
    ----------
    file : TableFile
    converter : ArrowConverter
    features : iterable of str
        Columns of booleans, numbers or text.
    categories : sequence of str
        Columns of categories, which are whole numbers or text.

    Raises
    ------
    OSError, ValueError
        If the file cannot be read.
    TypeError
        If a column has an unsupported type.
    """
    finder = KindFinder(converter, features, categories)
    all_blocks = file.blocks(finder.names)
    # In a typed column, the first block determines the kind.
    for block in all_blocks if file.is_text else islice(all_blocks, 1):
        finder.add(block, file)
    return finder.kinds()


class KindFinder:
    """Kinds of columns, determined block by block.

    Parameters are those of `find_kinds`.
    """

    def __init__(
        self, converter: ArrowConverter, features: Iterable[str], categories: Sequence[str]
    ):
        self._converter = converter
        self._categories = categories
        self._possible = dict.fromkeys(features, FEATURE_KINDS)
        self._possible |= dict.fromkeys(categories, CATEGORY_KINDS)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._possible)

    def add(self, block: Mapping[str, Any], file: TableFile) -> None:
        """Exclude the kinds that some values do not fit."""
        for name in self._possible:
            while not self._fits(name, block[name], file.is_text):
                self._possible[name] = self._possible[name][1:]
                if not self._possible[name]:
                    raise _unsupported(file, name, block[name], name in self._categories)

    def kinds(self) -> dict[str, str]:
        """Return the first kind of each column that fits all of its values."""
        return {name: kinds[0] for name, kinds in self._possible.items()}

    def _fits(self, name: str, array: Any, is_text: bool) -> bool:
        return _fits(self._possible[name][0], array, self._converter, is_text)


def _unsupported(file: TableFile, name: str, array: Any, is_category: bool) -> TypeError:
    numbers, hint = "numbers", f"; --drop {name} leaves it out"
    if is_category:
        numbers, hint = "whole numbers", ""
    return TypeError(
        f"{file.name}: column {name!r} is of type {array.type}; expected {numbers}, booleans or "
        f"strings{hint}"
    )


def _fits(kind: str, array: Any, converter: ArrowConverter, is_text: bool) -> bool:
    if kind == WHOLE:
        array = array if is_text else converter.plain(array)
        return converter.are_whole(array) if is_text else converter.is_whole(array.type)
    if kind == TEXT:
        return converter.is_text(converter.plain(array).type)
    if converter.is_text(array.type) and not is_text:
        return False
    try:
        (converter.booleans if kind == BOOLEAN else converter.numbers)(array)
    except ValueError:
        return False
    return True
