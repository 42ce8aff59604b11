"""Tagging schemes of spans: their names, and which tags may follow each other.

A tag is O, or a letter, ``-`` and the type of its span, such as B-PER; a letter alone stands for
spans of one nameless type. In a sequence that follows the rules of its scheme, every tag but O
belongs to a span, and no other sequence has this property.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from treecrf.inputs.offsets import position_name

# The first letter of a tag gives its position in a span; O is outside of spans.
BEGIN = "B"
INSIDE = "I"
OUTSIDE = "O"
LAST = ("E", "L")
# A tag of any scheme.
TAG = re.compile("O|([BIESLU])(?:-(.+))?", re.DOTALL)


def _bio(before: str, kind_before: str, letter: str, kind: str) -> bool:
    return letter != INSIDE or (before != OUTSIDE and kind == kind_before)


def _iob1(before: str, kind_before: str, letter: str, kind: str) -> bool:
    # B separates adjacent spans of one type, and only them.
    return letter != BEGIN or (before != OUTSIDE and kind == kind_before)


def _ioe2(before: str, kind_before: str, letter: str, kind: str) -> bool:
    return before != INSIDE or (letter != OUTSIDE and kind == kind_before)


def _bioes(before: str, kind_before: str, letter: str, kind: str) -> bool:
    goes_on = before in (BEGIN, INSIDE)
    return (letter in (INSIDE, *LAST)) == goes_on and (not goes_on or kind == kind_before)


# For each scheme, whether a tag may follow another one, and the letters of its tags.
# Without IOE1: seqeval 1.2.2 misses one-label spans followed by another span of the same type.
RULES: dict[str, tuple[Callable, str]] = {
    "iob1": (_iob1, "BIO"),
    "iob2": (_bio, "BIO"),
    "ioe2": (_ioe2, "IEO"),
    "iobes": (_bioes, "BIOES"),
    "bilou": (_bioes, "BILOU"),
}
# Other names of schemes, by seqeval, spaCy, AllenNLP and papers.
ALIASES = {
    "bio": "iob2", "bio2": "iob2", "bio1": "iob1", "bioes": "iobes", "biluo": "bilou",
    "bioul": "bilou",
}  # fmt: skip
SCHEME_NAMES = (*RULES, *ALIASES)


def scheme_named(name: str) -> str:
    """Return the scheme with a name in any case, a key of `RULES`; ValueError without one."""
    lower = name
    if isinstance(name, str):
        lower = name.lower()
    if lower not in SCHEME_NAMES:
        raise ValueError(f"scheme={name!r}; expected None or one of {SCHEME_NAMES}")
    return ALIASES.get(lower, lower)


def letters_of(name: str) -> str:
    """Return the letters of the tags of a scheme, O among them."""
    return RULES[scheme_named(name)][1]


def split_tag(tag: object, letters: str) -> tuple[str, str] | None:
    """Split a tag into its letter and its type; None if it is not a tag with these letters."""
    match = None
    if isinstance(tag, str):
        match = TAG.fullmatch(tag)
    if match is None or match.string[0] not in letters:
        return None
    return match.string[0], match.group(2) or ""


def tag_transitions(name: str, tags: list[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return which tags, letters and types, may follow each other in a scheme.

    The first array, bool (n_tags + 1, n_tags), has a row for each tag before, and in the last row
    those that may come first. The second one, bool (n_tags,), marks those that may come last.
    """
    may_follow, _ = RULES[scheme_named(name)]
    outside = (OUTSIDE, "")  # before and after a sequence
    follows = [[may_follow(*before, *tag) for tag in tags] for before in [*tags, outside]]
    ends = [may_follow(*tag, *outside) for tag in tags]
    return np.array(follows), np.array(ends)


def find_forbidden(
    codes: np.ndarray,
    offsets: np.ndarray,
    classes: np.ndarray,
    follows: np.ndarray,
    ends: np.ndarray,
    argument: str = "",
) -> str | None:
    """Describe the first label that may not follow the one before, come first or come last.

    None if there is none. ``follows`` and ``ends`` are as from `tag_transitions`; sequences may be
    empty. ``argument`` is the name of what holds them.
    """
    lengths = np.diff(offsets)
    starts = offsets[:-1][lengths > 0]
    lasts = offsets[1:][lengths > 0] - 1
    before = np.append(0, codes)[:-1]
    before[starts] = len(classes)
    broken = ~follows[before, codes]
    broken[lasts] |= ~ends[codes[lasts]]
    if not broken.any():
        return None
    p = int(np.argmax(broken))
    if follows[before[p], codes[p]]:
        where = "at the end"
    elif before[p] == len(classes):
        where = "at the start"
    else:
        where = f"after {classes[before[p]].item()!r}"
    return f"{position_name(p, offsets, argument)}: {classes[codes[p]].item()!r} {where}"
