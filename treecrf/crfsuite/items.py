"""Sequences of items in CRFsuite's forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treecrf.crfsuite._items import attributes_of


class ItemSequence:
    """The attributes of the items of one sequence, converted once.

    `Trainer` and `Tagger` also take the items themselves. An `ItemSequence` saves time if a
    sequence is used more than once, and shows the attributes and values that a model reads.

    Parameters
    ----------
    pyseq : iterable of items
        An item for each position. An item is a collection of strings, which are attributes of value
        1, or a dict. The value of a key in a dict can be:

        - A number or a boolean: the key is an attribute of this value.
        - A string: ``"key:string"`` is an attribute of value 1.
        - A dict, a list or a set: their own attributes follow the key and a colon.

        If an attribute occurs more than once in an item, its values add up.

    Raises
    ------
    TypeError
        If an item, the name of an attribute or a value has another type.

    Examples
    --------
    >>> from treecrf.crfsuite import ItemSequence
    >>> sequence = ItemSequence([{"word": "to", "next": {"title": True}}, ["last", "title"]])
    >>> sequence
    <ItemSequence of size 2>
    >>> sequence.items()
    [{'word:to': 1.0, 'next:title': 1.0}, {'last': 1.0, 'title': 1.0}]
    """

    __slots__ = ("_attributes",)

    def __init__(self, pyseq: Iterable[Any]):
        self._attributes = attributes_in(pyseq)

    def items(self) -> list[dict[str, float]]:
        """Return the attributes of all items.

        Returns
        -------
        list of dict
            For each item, the values of attributes by name.
        """
        return [dict(attributes) for attributes in self._attributes]

    def __len__(self) -> int:
        return len(self._attributes)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def attributes_in(sequence: Any) -> list[dict[str, float]]:
    """Return the attributes of an `ItemSequence`, or of its items; they must not be changed."""
    if type(sequence) is ItemSequence:
        return sequence._attributes
    return attributes_of(sequence)
