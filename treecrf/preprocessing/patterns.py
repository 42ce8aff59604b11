"""Templates of CRF++ and patterns of Wapiti: both languages, and the attributes they make."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

# Columns of strings of the positions of all sequences, one after another.
Columns = Sequence[Sequence[str]]

# How templates begin that make attributes of labels, of pairs of labels, and of both.
UNIGRAM = "u"
BIGRAM = "b"
BOTH = "*"


@dataclass(frozen=True)
class Macro:
    """A part of a template that stands for a value of a column."""

    offset: int
    column: int
    # Whether the offset counts from the start of the sequence, or from its end if it is negative.
    is_absolute: bool = False
    # What becomes of the value.
    change: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Template:
    """A line of a file of templates: text around macros."""

    line: str
    number: int
    kind: str
    # The text with a replacement field for each macro.
    form: str
    macros: tuple[Macro, ...]

    @property
    def has_attributes(self) -> bool:
        """Whether there are attributes; there are none if only pairs of labels are meant."""
        return self.kind != BIGRAM or bool(self.macros)

    @property
    def has_pairs(self) -> bool:
        """Whether there are attributes of pairs of labels."""
        return self.kind != UNIGRAM and bool(self.macros)

    def attributes(self, table: ShiftedColumns) -> list[str]:
        """Return the attribute of each position."""
        if not self.macros:
            return [self.form.format()] * table.n_positions
        values = (table.values(macro) for macro in self.macros)
        return list(map(_Results(self._formatted).__getitem__, zip(*values, strict=True)))

    def _formatted(self, values: tuple[str, ...]) -> str:
        return self.form.format(*values)


class _Results(dict):
    """The results of a function, which is called once for each argument."""

    def __init__(self, function: Callable[[Any], Any]):
        super().__init__()
        self._function = function

    def __missing__(self, argument: Any) -> Any:
        result = self[argument] = self._function(argument)
        return result


# Columns


@dataclass
class ShiftedColumns:
    """The columns of some sequences, moved by some positions."""

    columns: Columns
    # First position of each sequence, and the number of positions.
    offsets: list[int]
    # Names of the first positions before and after a sequence, and further away of all others.
    before: Sequence[str]
    after: Sequence[str]
    _shifted: dict[tuple, list[str]] = field(default_factory=dict)

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return self.offsets[-1]

    def values(self, macro: Macro) -> list[str]:
        """Return what a macro stands for at each position."""
        place = macro.offset, macro.column, macro.is_absolute
        if place not in self._shifted:
            self._shifted[place] = self._move(*place)
        values = self._shifted[place]
        if macro.change is None:
            return values
        return list(map(_Results(macro.change).__getitem__, values))

    def _move(self, offset: int, column: int, is_absolute: bool) -> list[str]:
        values = list(self.columns[column])
        result: list[str] = []
        for start, stop in pairwise(self.offsets):
            sequence = values[start:stop]
            if is_absolute:
                result += [self._value_at(offset, sequence)] * len(sequence)
            else:
                result += self._moved(offset, sequence)
        return result

    def _moved(self, offset: int, sequence: list[str]) -> list[str]:
        """Return the values that are some positions behind those of a sequence."""
        n = len(sequence)
        m = min(abs(offset), n)
        if offset < 0:
            return [self._name(self.before, -offset - t) for t in range(m)] + sequence[: n - m]
        return sequence[m:] + [self._name(self.after, offset - m + t + 1) for t in range(m)]

    def _value_at(self, number: int, sequence: list[str]) -> str:
        """Return the value at a place, where 1 is the first one and -1 the last one."""
        t = number + len(sequence) if number < 0 else number - 1
        if t < 0:
            return self._name(self.before, -t)
        if t >= len(sequence):
            return self._name(self.after, t - len(sequence) + 1)
        return sequence[t]

    @staticmethod
    def _name(names: Sequence[str], distance: int) -> str:
        return names[min(distance, len(names)) - 1]


# Languages


class CrfppSyntax:
    """The language of the templates of CRF++."""

    name = "CRF++"
    before = tuple(f"_B-{i}" for i in range(1, 9))
    after = tuple(f"_B+{i}" for i in range(1, 9))
    macro = re.compile(r"%x\[(-?[0-9]+),([0-9]+)\]")
    expected = "%x[row,column] with whole numbers"
    kinds = "U or B"

    def content(self, line: str) -> str:
        """Return a line without comments; "" if nothing is left."""
        return "" if line.startswith("#") else line

    def kind(self, text: str) -> str | None:
        """Return the kind of a template, or None if it has none."""
        return {"U": UNIGRAM, "B": BIGRAM}.get(text[0])

    def macro_of(self, match: re.Match) -> Macro:
        """Return a macro; ValueError if CRF++ refuses it."""
        offset = int(match[1])
        if abs(offset) > len(self.before):
            raise ValueError(f"row {offset}; CRF++ has rows from -8 to 8")
        return Macro(offset, int(match[2]))


class WapitiSyntax:
    """The language of the patterns of Wapiti."""

    name = "Wapiti"
    before = ("_x-1", "_x-2", "_x-3", "_x-4", "_x-#")
    after = ("_x+1", "_x+2", "_x+3", "_x+4", "_x+#")
    macro = re.compile(
        r'%([xXtTmM])\[(@?)\s*([+-]?[0-9]+),\s*\+?([0-9]+)(?:,"((?:\\.|[^"\\])*)")?\]'
    )
    expected = '%x[offset,column], %t[offset,column,"expression"] or %m[offset,column,"expression"]'
    kinds = "u, b or *"

    def content(self, line: str) -> str:
        """Return a line without comments and blanks at its end; "" if nothing is left."""
        text = line.partition("#")[0].rstrip()
        return text[:1].lower() + text[1:]

    def kind(self, text: str) -> str | None:
        """Return the kind of a pattern, or None if it has none."""
        return text[0] if text[0] in (UNIGRAM, BIGRAM, BOTH) else None

    def macro_of(self, match: re.Match) -> Macro:
        """Return a command; ValueError if its expression is invalid."""
        command, absolute, offset, column, expression = match.groups()
        has_expression = expression is not None
        if has_expression != (command not in "xX"):
            raise ValueError(f"{match[0]} has {'an' if has_expression else 'no'} expression")
        is_lower = command.isupper()
        change: Callable[[str], str] | None = str.lower if is_lower else None
        if has_expression:
            change = _matching(python_expression(expression), command in "tT", is_lower)
        return Macro(int(offset), int(column), bool(absolute), change)


SYNTAXES: dict[str, Any] = {"crf++": CrfppSyntax(), "wapiti": WapitiSyntax()}


def parse(lines: Iterable[str], syntax: str, name: str = "templates") -> list[Template]:
    """Read templates; raises ValueError that names the line."""
    language = SYNTAXES[syntax]
    templates = []
    for number, line in enumerate(lines, start=1):
        text = language.content(line.rstrip("\r\n"))
        if text:
            try:
                templates.append(_parsed(text, number, language))
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {line!r}: {error}") from None
    if not any(template.has_attributes for template in templates):
        raise ValueError(f"{name}: no template makes attributes; expected lines such as U:%x[0,0]")
    return templates


def _parsed(text: str, number: int, language: Any) -> Template:
    kind = language.kind(text)
    if kind is None:
        raise ValueError(f"templates of {language.name} start with {language.kinds}")
    form = ""
    macros = []
    end = 0
    for match in language.macro.finditer(text):
        form += _literal(text[end : match.start()], language) + "{}"
        macros.append(language.macro_of(match))
        end = match.end()
    form += _literal(text[end:], language)
    return Template(text, number, kind, form, tuple(macros))


def _literal(text: str, language: Any) -> str:
    """Return text between macros as a part of a format; ValueError if it has half a macro."""
    if "%" in text:
        rest = text[text.index("%") :]
        hint = ""
        if language.name == "CRF++" and rest[1:2] in ("X", "t", "T", "m", "M"):
            hint = '; patterns of Wapiti need syntax="wapiti"'
        raise ValueError(f"{rest!r} is no macro; expected {language.expected}{hint}")
    return text.replace("{", "{{").replace("}", "}}")


# Expressions of Wapiti

# The code points to look at; no letter, digit or punctuation mark is beyond.
N_CHARACTERS = 0x32400


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


CLASSES: dict[str, Callable[[str], bool]] = {
    "a": str.isalpha,
    "d": str.isdecimal,
    "l": str.islower,
    "p": _is_punctuation,
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}


def python_expression(expression: str) -> re.Pattern:
    r"""Translate an expression of Wapiti into one of Python.

    It has characters, ``.``, classes such as ``\u``, repetition of one of these by ``*``, which is
    as short as possible, or by ``?``, and the anchors ``^`` first and ``$`` last. All other
    characters stand for themselves.
    """
    text = expression.removeprefix("^")
    parts = ["" if text == expression else r"\A"]
    items = re.findall(r"\\.|.", text, flags=re.DOTALL)
    if items and items[-1] == "\\":
        raise ValueError(f'"{expression}" ends with a backslash')
    is_repeatable = False
    for i, item in enumerate(items):
        if item in ("*", "?"):
            if not is_repeatable:
                raise ValueError(f'"{expression}": nothing precedes {item!r}; \\{item} matches it')
            parts.append("*?" if item == "*" else "?")
            is_repeatable = False
        elif item == "$" and i == len(items) - 1:
            parts.append(r"\Z")
        else:
            parts.append(_one_character(item))
            is_repeatable = True
    return re.compile("".join(parts), flags=re.DOTALL)


def _one_character(item: str) -> str:
    """Return the expression of Python that matches the same characters."""
    if item == ".":
        return item
    if item[0] != "\\":
        return re.escape(item)
    letter = item[1]
    if letter.lower() not in CLASSES:
        return re.escape(letter)
    negation = "^" if letter.isupper() else ""
    return f"[{negation}{_members(letter.lower())}]"


@cache
def _members(letter: str) -> str:
    """Return the ranges of the characters of a class."""
    is_in = list(map(CLASSES[letter], map(chr, range(N_CHARACTERS))))
    changes = [i for i in range(1, N_CHARACTERS) if is_in[i] != is_in[i - 1]]
    if is_in[0]:
        changes.insert(0, 0)
    ends = [*changes, N_CHARACTERS]
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return "".join(f"\\U{first:08x}-\\U{stop - 1:08x}" for first, stop in pairs)


def _matching(expression: re.Pattern, is_test: bool, is_lower: bool) -> Callable[[str], str]:
    """Return a function that tests an expression, or returns the first part that matches."""

    def test(value: str) -> str:
        return "false" if expression.search(value) is None else "true"

    def find(value: str) -> str:
        match = expression.search(value)
        found = "" if match is None else match[0]
        return found.lower() if is_lower else found

    return test if is_test else find
