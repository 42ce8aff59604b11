"""Tables as text of C99."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from treecrf.export.tables import Tables

# Maximum number of characters of a line.
WIDTH = 100
# Bits of the integers of C, the smallest first.
BITS = (8, 16, 32)
# Characters that literals hold as they are; a question mark could begin a trigraph.
PLAIN = frozenset(range(32, 127)) - frozenset(b"\"'\\?")
# Maximum number of characters of a literal, with the 0 at its end: compilers need not take more
# than 4095.
MAX_LITERAL = 4000


def macros_of(tables: Tables) -> str:
    """Return the definitions of constants."""
    return "\n".join(f"#define {name} {number(x)}" for name, x in tables.constants.items())


def arrays_of(tables: Tables) -> str:
    """Return the definitions of arrays."""
    return "\n".join(array(name, values) for name, values in tables.arrays.items())


def number(x: float) -> str:
    """Write a number; a float is the shortest text that stands for it."""
    if isinstance(x, int):
        return str(x) if x >= 0 else f"({x})"
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "HUGE_VAL" if x > 0 else "-HUGE_VAL"
    return repr(float(x))


def array(name: str, values: np.ndarray) -> str:
    """Define a constant array of one or two dimensions."""
    kind = type_of(values)
    sizes = "".join(f"[{n}]" for n in values.shape)
    rows = values.tolist()
    if values.ndim == 1:
        content = wrapped(map(number, rows))
    else:
        content = ",\n".join(f"{{\n{wrapped(map(number, row))}}}" for row in rows)
    return f"static const {kind} {name}{sizes} = {{\n{content}}};"


def type_of(values: np.ndarray) -> str:
    """Return the smallest type of C that holds the values."""
    if values.dtype.kind == "f":
        return "double"
    least = int(values.min())
    greatest = int(values.max())
    for bits in BITS:
        if least >= 0 and greatest < 1 << bits:
            return f"uint{bits}_t"
        if -(1 << bits - 1) <= least and greatest < 1 << bits - 1:
            return f"int{bits}_t"
    raise OverflowError(f"integers from {least} to {greatest} do not fit in 32 bits")


def wrapped(items: Iterable[str]) -> str:
    """Join items by commas, in lines of limited width."""
    lines = []
    line: list[str] = []
    width = 0
    for item in items:
        if line and width + len(item) + 2 > WIDTH:
            lines.append(", ".join(line))
            line = []
            width = 0
        line.append(item)
        width += len(item) + 2
    lines.append(", ".join(line))
    return ",\n".join(lines)


def literal(text: bytes) -> str:
    """Write a string literal; bytes other than plain characters are octal."""
    return f'"{"".join(map(character, text))}"'


def character(byte: int) -> str:
    """Write a character of a literal."""
    return chr(byte) if byte in PLAIN else f"\\{byte:03o}"


def array_of_strings(declaration: str, texts: Iterable[bytes]) -> str:
    """Define an array of strings."""
    return f"{declaration} = {{\n{wrapped(map(literal, texts))}}};"


def array_of_blocks(name: str, blocks: list[list[bytes]], size: int) -> str:
    """Define an array of blocks of characters, each of several strings."""
    write = literals_of if size <= MAX_LITERAL else characters_of
    joined = ",\n".join(map(write, blocks))
    return f"static const char {name}[{len(blocks)}][{size}] = {{\n{joined}}};"


def literals_of(texts: list[bytes]) -> str:
    """Write strings as parts of one literal; the 0 after the last one is that of the literal."""
    parts = [literal(text + b"\0") for text in texts[:-1]]
    return "\n".join([*parts, literal(texts[-1])])


def characters_of(texts: list[bytes]) -> str:
    """Write strings that are too long for a literal."""
    characters = (f"'{character(byte)}'" for text in texts for byte in text + b"\0")
    return f"{{\n{wrapped(characters)}}}"
