"""Labels of the lines of Python source, and features of single lines."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator

import numpy as np

LABELS = ("code", "comment", "docstring", "blank")


def label_lines(source: str) -> list[str]:
    r"""Label every line of a Python source.

    The first character that is not whitespace determines the label: comment, docstring or code.
    Strings other than docstrings are code. A line of whitespace is blank, unless it is inside a
    string; then it has the label of the string.

    Parameters
    ----------
    source : str
        The text of a whole module, with ``\n`` as line ending.

    Returns
    -------
    list of str
        One of `LABELS` for every line.

    Raises
    ------
    SyntaxError, tokenize.TokenError
        If the text is not valid Python of the running version.

    Examples
    --------
    >>> from treecrf.cli.demo import label_lines
    >>> label_lines("'Say hello.'\n\nprint('hello')  # once\n# twice\n")
    ['docstring', 'blank', 'code', 'comment']
    """
    lines = split_lines(source)
    labels = ["code" if line.strip() else "blank" for line in lines]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for first, last in _string_spans(tokens):
        labels[first:last] = ["code"] * (last - first)
    for first, last in _docstring_spans(source, lines):
        labels[first - 1 : last] = ["docstring"] * (last - first + 1)
    for token in tokens:
        row, column = token.start
        if token.type == tokenize.COMMENT and not lines[row - 1][:column].strip():
            labels[row - 1] = "comment"
    return labels


def split_lines(source: str) -> list[str]:
    """Split a text into lines as Python does; `str.splitlines` would also split at form feeds."""
    return source.removesuffix("\n").split("\n") if source else []


def _string_spans(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[int, int]]:
    """Yield the first and last row of every string; since 3.12, f-strings are several tokens."""
    open_rows = []
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            yield token.start[0], token.end[0]
        elif kind.endswith("STRING_START"):
            open_rows.append(token.start[0])
        elif kind.endswith("STRING_END"):
            yield open_rows.pop(), token.end[0]


def _docstring_spans(source: str, lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the rows that start inside a docstring; in ``def f(): "..."``, the first does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            string = node.body[0].value
            before = lines[string.lineno - 1].encode()[: string.col_offset]
            yield string.lineno + bool(before.strip()), string.end_lineno


CHARACTERS = {
    "quote": "\"'`",
    "hash": "#",
    "at": "@",
    "underscore": "_",
    "opening bracket": "([{",
    "closing bracket": ")]}",
    "colon": ":",
    "comma": ",",
    "full stop": ".!?;",
    "backslash": "\\",
    "operator": "+-*/=<>|&^~%",
}
CATEGORIES = ("none", "lowercase letter", "uppercase letter", "digit", *CHARACTERS, "other")

PATTERNS = {
    "triple quotes at start": r"^[rRbBuUfF]{0,2}(\"\"\"|''')",
    "triple quotes at end": r"(\"\"\"|''')$",
    "double quote": '"',
    "single quote": "'",
    "apostrophe": r"[a-z]'[a-z]",
    "interpreter prompt": r"^(>>>|\.\.\.)( |$)",
    "def or class": r"^(async )?\s*(def|class)\b",
    "import": r"^(import|from)\b",
    "block keyword": r"^(if|elif|else|for|while|try|except|finally|with|async|match|case)\b",
    "statement keyword": r"^(return|raise|yield|pass|break|continue|del|assert|global)\b",
    "self": r"\bself\b",
    "constant": r"\b(None|True|False)\b",
    "equals": "=",
    "assignment": r"^[\w.,\[\] ]+ [-+*/|&]?= ",
    "keyword argument": r"\w=[\w\"'(\[{-]",
    "comparison": r"==|!=|<=|>=| (is|in|not) ",
    "opening bracket": r"[(\[{]",
    "call": r"\w\(",
    "attribute": r"\w\.\w",
    "underscore in a name": r"\w_\w",
    "comma and space": ", ",
    "hash": "#",
    "three words in a row": r"\b[a-z]+ [a-z]+ [a-z]+\b",
    "new sentence": r"[a-z)][.!?]  ?[A-Z]",
    "function word": r"\b(the|a|an|of|to|is|are|be|this|that|it|by|as)\b",
    "list item": r"^([-*+o]|\d+[.)]|:\w+.*:) ",
    "only punctuation": r"^\W+$",
    "only one word": r"^\w+$",
}
_SEARCHES = [re.compile(pattern).search for pattern in PATTERNS.values()]

NUMBERS = (
    "indentation",
    "length",
    "words",
    "fraction of letters",
    "fraction of punctuation",
    "unclosed brackets",
    "triple quotes",
)

FEATURES = (
    *NUMBERS,
    *(f"first: {category}" for category in CATEGORIES),
    *(f"last: {category}" for category in CATEGORIES),
    *PATTERNS,
)


def line_features(line: str) -> list[float]:
    """Compute the features of a single line.

    Parameters
    ----------
    line : str
        A line of Python source, or of any text.

    Returns
    -------
    list of float
        The values of `FEATURES`: numbers, indicators of the class of the first and of the last
        character, and whether certain patterns occur.

    Examples
    --------
    >>> from treecrf.cli.demo import FEATURES, line_features
    >>> features = dict(zip(FEATURES, line_features("    return f(x)")))
    >>> features["indentation"], features["last: closing bracket"], features["call"]
    (4.0, 1.0, 1.0)
    """
    text = line.strip()
    return [
        *_numbers(line.expandtabs(), text),
        *_indicators(text[:1]),
        *_indicators(text[-1:]),
        *(float(search(text) is not None) for search in _SEARCHES),
    ]


def feature_table(lines: list[str]) -> np.ndarray:
    """Compute the features of the lines of a file, an array (n_lines, n_features)."""
    return np.array([line_features(line) for line in lines])


def _numbers(line: str, text: str) -> list[float]:
    letters = sum(map(str.isalpha, text))
    blanks = text.count(" ")
    others = len(text) - letters - blanks - sum(map(str.isdigit, text))
    opened = sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
    length = max(len(text), 1)
    return [
        float(len(line) - len(line.lstrip())) if text else 0.0,
        float(len(text)),
        float(len(text.split())),
        letters / length,
        others / length,
        float(opened),
        float(text.count('"""') + text.count("'''")),
    ]


def _indicators(character: str) -> list[float]:
    category = _category(character)
    return [float(category == other) for other in CATEGORIES]


def _category(character: str) -> str:
    if not character:
        return "none"
    for category, members in CHARACTERS.items():
        if character in members:
            return category
    if character.isdigit():
        return "digit"
    if character.isalpha():
        return "uppercase letter" if character.isupper() else "lowercase letter"
    return "other"
