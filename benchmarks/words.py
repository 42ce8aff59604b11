"""Features of words: the word, its part of speech, affixes and shapes."""

from __future__ import annotations

import re
import sys

# Lengths of affixes.
SIZES = (1, 2, 3, 4)

Sentences = list[list[dict[str, str]]]


def plain_sentences(X: Sentences) -> Sentences:
    """Return the features of the words of sentences, without their neighbors."""
    return [[plain(**token) for token in x] for x in X]


def plain(word: str, tag: str) -> dict[str, str]:
    """Features of one word, each text in memory once."""
    small, outline = word.lower(), shape(word)
    known = {"word": word, "tag": tag, "small": small, "shape": outline}
    known["outline"] = re.sub(r"(.)\1", r"\1", outline)
    affixes = {f"first {n}": small[:n] for n in SIZES} | {f"last {n}": small[-n:] for n in SIZES}
    return {name: sys.intern(value) for name, value in (known | affixes).items()}


def shape(word: str) -> str:
    """A for uppercase letters, a for lowercase letters, 0 for digits; runs are cut after two."""
    letters = re.sub("[A-Z]", "A", re.sub("[a-z]", "a", re.sub("[0-9]", "0", word)))
    return re.sub(r"(.)\1+", r"\1\1", letters)
