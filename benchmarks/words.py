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


def tutorial(sentence: list[list[str]]) -> list[dict]:
    """Features of sklearn-crfsuite's tutorial; each token is a list of word, tag, and others."""

    def of(t: int, prefix: str) -> dict:
        word, tag = sentence[t][:2]
        return {
            f"{prefix}word.lower()": word.lower(),
            f"{prefix}word.istitle()": word.istitle(),
            f"{prefix}word.isupper()": word.isupper(),
            f"{prefix}postag": tag,
            f"{prefix}postag[:2]": tag[:2],
        }

    rows = []
    for t, (word, *_) in enumerate(sentence):
        row = {"bias": 1.0, "word[-3:]": word[-3:], "word[-2:]": word[-2:]} | of(t, "")
        row["word.isdigit()"] = word.isdigit()
        row |= of(t - 1, "-1:") if t > 0 else {"BOS": True}
        row |= of(t + 1, "+1:") if t + 1 < len(sentence) else {"EOS": True}
        rows.append(row)
    return rows


def shape(word: str) -> str:
    """A for uppercase letters, a for lowercase letters, 0 for digits; runs are cut after two."""
    letters = re.sub("[A-Z]", "A", re.sub("[a-z]", "a", re.sub("[0-9]", "0", word)))
    return re.sub(r"(.)\1+", r"\1\1", letters)
