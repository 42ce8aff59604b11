"""Annotated texts: spans of characters, labels of tokens, and the files of annotation tools.

A span is a tuple of its first character, the character after its last one, and its label, as in
spaCy: ``(7, 11, "PER")`` is ``text[7:11]``. Characters are those of Python's strings. The offsets
of a token are its first character and the character after its last one.
"""

from treecrf.annotation.doccano import read_doccano, write_doccano
from treecrf.annotation.label_studio import read_label_studio, write_label_studio
from treecrf.annotation.offsets import (
    offsets_to_tags,
    spans_to_offsets,
    tags_to_offsets,
    token_offsets,
)

__all__ = [
    "offsets_to_tags",
    "read_doccano",
    "read_label_studio",
    "spans_to_offsets",
    "tags_to_offsets",
    "token_offsets",
    "write_doccano",
    "write_label_studio",
]
