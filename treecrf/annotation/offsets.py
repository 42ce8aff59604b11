"""Spans of characters as labels of tokens, and back."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index, itemgetter
from typing import Any

import numpy as np

from treecrf.inputs.schemes import (
    find_forbidden,
    letters_of,
    scheme_named,
    split_tag,
    tag_transitions,
)
from treecrf.inspection.spans import Span, SpanRules
from treecrf.utils.validation import StrOptions, validate_params

Offsets = list[tuple[int, int]]
# A first character, the character after the last one, and a label.
Entity = tuple[int, int, str]
# What to do with spans whose ends are not those of tokens.
STRICT = "strict"
CONTRACT = "contract"
EXPAND = "expand"
MISSING = "missing"
ALIGNMENTS = (STRICT, CONTRACT, EXPAND, MISSING)
OUTSIDE = "O"
# The letters of the first, inner and last tokens of a span, and of its only token.
LETTERS = {
    "iob1": "IIII",
    "iob2": "BIIB",
    "ioe2": "IIEE",
    "iobes": "BIES",
    "bilou": "BILU",
}


def token_offsets(
    text: str, tokens: Iterable[str] | None = None, *, pattern: str | re.Pattern = r"\S+"
) -> Offsets:
    r"""Find the characters of the tokens of a text.

    Parameters
    ----------
    text : str
        The text.
    tokens : iterable of str, optional
        The tokens, from any tokenizer, in the order of the text. Each is searched for after the one
        before. The default is the matches of ``pattern``.
    pattern : str or re.Pattern, default=r"\S+"
        Regular expression of a token. By default, blanks separate tokens. ``r"\w+|[^\w\s]"``
        separates punctuation from words.

    Returns
    -------
    list of (int, int)
        The first character of each token, and the character after its last one.

    Raises
    ------
    ValueError
        If a token is empty, or is not in the rest of the text.

    See Also
    --------
    offsets_to_tags : Convert spans of characters to tags of these tokens.

    Examples
    --------
    >>> from treecrf.annotation import token_offsets
    >>> token_offsets("Ada met Mary.")
    [(0, 3), (4, 7), (8, 13)]
    >>> token_offsets("Ada met Mary.", pattern=r"\w+|[^\w\s]")
    [(0, 3), (4, 7), (8, 12), (12, 13)]
    >>> token_offsets("Ada met Mary.", ["Ada", "met", "Mary", "."])
    [(0, 3), (4, 7), (8, 12), (12, 13)]
    """
    if tokens is None:
        return [match.span() for match in re.finditer(pattern, text) if match.group()]
    offsets: Offsets = []
    end = 0
    for i, token in enumerate(tokens):
        start = text.find(token, end)
        if start < 0 or not token:
            raise ValueError(f"token {i}: {token!r} is not in the text after character {end}")
        end = start + len(token)
        offsets.append((start, end))
    return offsets


@validate_params(
    {"alignment_mode": [StrOptions(set(ALIGNMENTS))]}, prefer_skip_nested_validation=True
)
def offsets_to_tags(
    tokens: str | Iterable[Sequence[int]],
    entities: Iterable[Sequence],
    *,
    scheme: str = "bio",
    alignment_mode: str = "strict",
) -> list[str | None]:
    """Convert spans of characters to tags of tokens.

    Parameters
    ----------
    tokens : str or list of (int, int)
        The text, if blanks separate its tokens; or the offsets of the tokens, as from
        `token_offsets`.
    entities : iterable of (int, int, str)
        The spans in any order: the first character, the character after the last one, and the
        label. Further items, such as a probability, are ignored. Spans with an empty label have
        tags without a type, such as ``"B"``.
    scheme : {"iob1", "iob2", "bio", "ioe2", "iobes", "bioes", "bilou", "biluo"}, default="bio"
        Tagging scheme, in upper or lower case.
    alignment_mode : {"strict", "contract", "expand", "missing"}, default="strict"
        What to do with a span that begins or ends within a token or between tokens:

        - ``"strict"``: raise an error.
        - ``"contract"``: label the tokens that are completely within the span, if any.
        - ``"expand"``: label all tokens that the span touches.
        - ``"missing"``: the labels of all tokens that the span touches are missing.

        A span that touches no token is an error with ``"strict"``, and is otherwise left out.

    Returns
    -------
    list of str or None
        The tag of each token, such as ``"B-PER"``, ``"I-PER"`` or ``"O"``. None stands for a
        missing label, which ``fit`` accepts.

    Raises
    ------
    ValueError
        If spans overlap; if a span does not fit the tokens, is empty or is outside of the text; if
        tokens overlap or are empty; or if an option is unknown.
    TypeError
        If a token is not a pair of offsets, a span has no label, an offset is not an int, or a
        label is not a str.

    See Also
    --------
    tags_to_offsets : Convert tags of tokens to spans of characters.
    token_offsets : Find the characters of the tokens of a text.

    Examples
    --------
    >>> from treecrf.annotation import offsets_to_tags
    >>> offsets_to_tags("Ada Lovelace met Mary", [(0, 12, "PER"), (17, 21, "PER")])
    ['B-PER', 'I-PER', 'O', 'B-PER']
    >>> tokens = [(0, 3), (4, 7), (8, 12), (12, 13)]
    >>> offsets_to_tags(tokens, [(8, 12, "PER")], scheme="bilou")
    ['O', 'O', 'U-PER', 'O']
    >>> offsets_to_tags("Ada met Mary.", [(8, 12, "PER")])
    Traceback (most recent call last):
    ValueError: the span (8, 12, 'PER') does not end where a token ends; the nearest tokens are \
(8, 13)
    >>> offsets_to_tags("Ada met Mary.", [(8, 12, "PER")], alignment_mode="expand")
    ['O', 'O', 'B-PER']
    """
    name = scheme_named(scheme)
    offsets = as_token_offsets(tokens)
    length = len(tokens) if isinstance(tokens, str) else None
    tags: list[str | None] = [OUTSIDE] * len(offsets)
    # The span of each token so far.
    spans: list[Entity | None] = [None] * len(offsets)
    for entity in sorted(as_entity(entity, length) for entity in entities):
        first, last = _tokens_of(entity, offsets, alignment_mode)
        others = [other for other in spans[first:last] if other is not None]
        if others:
            raise ValueError(f"the spans {others[0]} and {entity} have tokens in common")
        is_known = alignment_mode != MISSING or _is_aligned(entity, offsets, first, last)
        previous = spans[first - 1] if first > 0 else None
        is_after_same = previous is not None and previous[2] == entity[2]
        suffix = f"-{entity[2]}" if entity[2] else ""
        if is_known:
            letters = _letters(name, last - first, is_after_same)
            tags[first:last] = [letter + suffix for letter in letters]
        else:
            tags[first:last] = [None] * (last - first)
        spans[first:last] = [entity] * (last - first)
    return tags


def _letters(scheme: str, n: int, is_after_same: bool) -> str:
    """Return the letters of the tags of a span of n tokens, maybe after another one of its type."""
    first, inner, last, single = LETTERS[scheme]
    if scheme == "iob1" and is_after_same:
        first = single = "B"
    if n < 2:
        return single * n
    return first + inner * (n - 2) + last


def as_token_offsets(tokens: Any) -> Offsets:
    """Check the offsets of tokens, or find the tokens of a text between blanks."""
    if isinstance(tokens, str):
        return token_offsets(tokens)
    offsets = []
    for i, pair in enumerate(tokens):
        if isinstance(pair, str) or len(pair) != 2:
            raise TypeError(
                f"token {i}: {pair!r} is not a pair of offsets; token_offsets(text, tokens) finds "
                "those of words"
            )
        offsets.append((index(pair[0]), index(pair[1])))
    for i, (start, end) in enumerate(offsets):
        if not 0 <= start < end:
            raise ValueError(f"token {i}: the offsets {(start, end)} are not those of characters")
    for i, ((_, end), (start, _)) in enumerate(pairwise(offsets)):
        if start < end:
            raise ValueError(f"token {i + 1}: it begins at {start}, before token {i} ends at {end}")
    return offsets


def as_entity(entity: Sequence, length: int | None = None) -> Entity:
    """Check a span of characters, of a text of a length if it is known."""
    if not isinstance(entity, (list, tuple)) or len(entity) < 3:
        raise TypeError(f"{entity!r} is not a span: expected a start, an end and a label")
    start, end, label = entity[:3]
    checked = (index(start), index(end), label)
    if not isinstance(label, str):
        raise TypeError(f"the span {checked} has no str as its label")
    if not 0 <= checked[0] < checked[1]:
        raise ValueError(f"the span {checked} holds no characters")
    if length is not None and checked[1] > length:
        raise ValueError(f"the span {checked} is outside of the text of {length} characters")
    return checked


def _tokens_of(entity: Entity, offsets: Offsets, alignment_mode: str) -> tuple[int, int]:
    """Return the first token of a span, and the one after the last."""
    start, end, _ = entity
    first = bisect_right(offsets, start, key=itemgetter(1))
    last = bisect_left(offsets, end, key=itemgetter(0))
    if alignment_mode == STRICT and not _is_aligned(entity, offsets, first, last):
        raise ValueError(_misaligned(entity, offsets, first, last))
    if alignment_mode == CONTRACT:
        first = bisect_left(offsets, start, key=itemgetter(0))
        last = max(first, bisect_right(offsets, end, key=itemgetter(1)))
    return first, max(first, last)


def _is_aligned(entity: Entity, offsets: Offsets, first: int, last: int) -> bool:
    """Return whether a span begins with its first token and ends with its last one."""
    return first < last and (offsets[first][0], offsets[last - 1][1]) == entity[:2]


def _misaligned(entity: Entity, offsets: Offsets, first: int, last: int) -> str:
    """Describe a span that does not fit the tokens that it touches."""
    if first >= last:
        return f"the span {entity} has no token"
    begins_with_token = offsets[first][0] == entity[0]
    ends_with_token = offsets[last - 1][1] == entity[1]
    if begins_with_token:
        problem = "end where a token ends"
    elif ends_with_token:
        problem = "begin where a token begins"
    else:
        problem = "begin and end where tokens do"
    touched = str(offsets[first])
    if last > first + 1:
        touched += f" to {offsets[last - 1]}"
    return f"the span {entity} does not {problem}; the nearest tokens are {touched}"


def tags_to_offsets(
    tokens: str | Iterable[Sequence[int]], tags: Iterable[str | None], *, scheme: str | None = None
) -> list[Entity]:
    """Convert tags of tokens to spans of characters.

    Parameters
    ----------
    tokens : str or list of (int, int)
        The text, if blanks separate its tokens; or the offsets of the tokens, as from
        `token_offsets`.
    tags : iterable of str or None
        The tag of each token: ``"O"``, or a letter of a tagging scheme and the type of a span, such
        as ``"B-PER"``. None, a missing label, is outside of spans.
    scheme : {None, "iob1", "iob2", "bio", "ioe2", "iobes", "bioes", "bilou", "biluo"}, default=None
        Tagging scheme that the tags must follow, in upper or lower case. With None, they need not
        follow any: a span begins at a B, S or U and where the type changes, and ends at an E, L, S
        or U.

    Returns
    -------
    list of (int, int, str)
        The spans in order: the first character, the character after the last one, and the type.

    Raises
    ------
    ValueError
        If the numbers of tokens and tags differ, a label is not a tag, the tags do not follow the
        scheme, or tokens overlap or are empty.
    TypeError
        If a token is not a pair of offsets.

    See Also
    --------
    offsets_to_tags : Convert spans of characters to tags of tokens.
    spans_to_offsets : Also returns the probabilities of the spans.

    Examples
    --------
    >>> from treecrf.annotation import tags_to_offsets
    >>> tags_to_offsets("Ada Lovelace met Mary", ["B-PER", "I-PER", "O", "B-PER"])
    [(0, 12, 'PER'), (17, 21, 'PER')]
    """
    offsets = as_token_offsets(tokens)
    labels = [OUTSIDE if tag is None else tag for tag in tags]
    if len(labels) != len(offsets):
        raise ValueError(f"{len(labels)} tags for {len(offsets)} tokens")
    if not labels:
        return []
    for i, label in enumerate(labels):
        if split_tag(label, "BIESLUO") is None:
            raise ValueError(f"token {i}: the label {label!r} is neither O nor a tag such as B-PER")
    classes, codes = np.unique(labels, return_inverse=True)
    if scheme is not None:
        _check_scheme(scheme, classes, codes)
    rules = SpanRules.of(classes, prefixes=True)
    starts, ends = rules.bounds(codes)
    return [
        (offsets[start][0], offsets[end - 1][1], rules.name_of[codes[start]])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _check_scheme(scheme: str, classes: np.ndarray, codes: np.ndarray) -> None:
    """Raise ValueError if tags do not follow a scheme."""
    letters = letters_of(scheme)
    tags = [split_tag(label, letters) for label in classes.tolist()]
    if None in tags:
        code = tags.index(None)
        i = int(np.argmax(codes == code))
        raise ValueError(f"token {i}: {classes[code].item()!r} is not a tag of scheme={scheme!r}")
    broken = find_forbidden(
        codes, np.array([0, len(codes)]), classes, *tag_transitions(scheme, tags)
    )
    if broken is not None:
        raise ValueError(f"{broken} is forbidden by scheme={scheme!r}")


def spans_to_offsets(
    tokens: Sequence[str | Iterable[Sequence[int]]], spans: Iterable[Span]
) -> list[list[tuple[int, int, Any, float]]]:
    """Convert spans of tokens, as from `treecrf.inspection.find_spans`, to spans of characters.

    Parameters
    ----------
    tokens : list of str, or of lists of (int, int)
        For each sequence, its text, if blanks separate its tokens; or the offsets of its
        tokens, as from `token_offsets`.
    spans : iterable of Span
        Spans of tokens in these sequences, as from `treecrf.inspection.find_spans`.

    Returns
    -------
    list of lists of (int, int, label, float)
        For each sequence, its spans: the first character, the character after the last one, the
        label, and the probability.

    Raises
    ------
    ValueError
        If tokens overlap or are empty, or a span is not in the sequences.

    See Also
    --------
    treecrf.inspection.find_spans : Find the spans of predicted tags.
    tags_to_offsets : Convert tags to spans of characters, without probabilities.
    write_doccano, write_label_studio : Write such spans to files.

    Examples
    --------
    >>> from treecrf import LinearCRF
    >>> from treecrf.annotation import offsets_to_tags, spans_to_offsets
    >>> from treecrf.inspection import find_spans
    >>> texts = ["Ada Lovelace met Mary", "Mary met Ada"]
    >>> entities = [[(0, 12, "PER"), (17, 21, "PER")], [(0, 4, "PER"), (9, 12, "PER")]]
    >>> X = [text.split() for text in texts]
    >>> y = list(map(offsets_to_tags, texts, entities))
    >>> crf = LinearCRF(l2_regularization=0.1).fit(X, y)
    >>> for start, end, label, p in spans_to_offsets(texts, find_spans(crf, X))[1]:
    ...     print(start, end, label, f"{p:.2f}")
    0 4 PER 0.86
    9 12 PER 0.89
    """
    offsets = list(map(as_token_offsets, tokens))
    by_text: list[list[tuple[int, int, Any, float]]] = [[] for _ in offsets]
    for span in spans:
        has_text = span.sequence in range(len(offsets))
        if not has_text or span.end > len(offsets[span.sequence]):
            raise ValueError(f"{span} is not in the tokens")
        token_ends = offsets[span.sequence]
        first = token_ends[span.start][0]
        last = token_ends[span.end - 1][1]
        by_text[span.sequence].append((first, last, span.label, span.probability))
    return by_text
