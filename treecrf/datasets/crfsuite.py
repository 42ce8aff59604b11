"""The format of CRFsuite: a label and attributes in each line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from treecrf.datasets.lines import Lines, TextSource, as_lists, read_label

# A backslash escapes a colon or a backslash; before any other character it is literal.
_PART = re.compile(r"(?:\\[:\\]|[^:])*")
_ESCAPED = re.compile(r"\\([:\\])")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE
)

Attributes = dict[str, float]


def read_crfsuite(
    file: TextSource, *, encoding: str = "utf-8"
) -> tuple[list[list[Attributes]], list[list[str | None]]]:
    r"""Read the sequences of a file in the format of CRFsuite.

    Parameters
    ----------
    file : path-like or file object
        File to read, as in `iter_crfsuite`, which also describes the format.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    X : list of lists of dict
        The attribute values of each position by name.
    y : list of lists of str or None
        The labels. None stands for a missing label.

    Raises
    ------
    OSError, ValueError
        As in `iter_crfsuite`.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import read_crfsuite
    >>> X, y = read_crfsuite(io.StringIO("B-NP\tw=He\tcap\n\nO\tw=\\:\n"))
    >>> X, y
    ([[{'w=He': 1.0, 'cap': 1.0}], [{'w=:': 1.0}]], [['B-NP'], ['O']])
    """
    return as_lists(iter_crfsuite(file, encoding=encoding))


def iter_crfsuite(
    file: TextSource, *, encoding: str = "utf-8"
) -> Iterator[tuple[list[Attributes], list[str | None]]]:
    r"""Read sequences in the format of CRFsuite, one at a time.

    The fields of a line are separated by tabs: the label, then the attributes, ``name`` or
    ``name:value``. Blank lines end a sequence. The label is missing if the line starts with a tab.
    In names, ``\:`` is a colon and ``\\`` a backslash.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.
    encoding : str, default="utf-8"
        Encoding of the file.

    Yields
    ------
    x : list of dict
        The attribute values of each position by name: 1.0 if no value is given, and the sum if an
        attribute is repeated.
    y : list of str or None
        The labels, without blanks around them. None stands for a missing label.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line has neither a label nor an attribute, an attribute has no name, a value is not a
        number, or a field has too many colons; if the file has sequence weights (``@weight``),
        which are not supported; or if it is not text in the encoding. The message names the file
        and the line.

    Examples
    --------
    >>> import io
    >>> from treecrf.datasets import iter_crfsuite
    >>> text = "B-NP\tw=He\tcap\nB-VP\tw=reckons\tlength:7\n\nO\tw=\\:\n"
    >>> for x, y in iter_crfsuite(io.StringIO(text)):
    ...     print(x, y)
    [{'w=He': 1.0, 'cap': 1.0}, {'w=reckons': 1.0, 'length': 7.0}] ['B-NP', 'B-VP']
    [{'w=:': 1.0}] ['O']
    """
    lines = Lines(file, encoding)
    x: list[Attributes] = []
    y: list[str | None] = []
    for line in lines:
        if ends_sequence(line):
            if x:
                yield x, y
            x = []
            y = []
            continue
        if x and lines.is_joint:
            raise lines.joint()
        label, attributes = _parse(line, lines)
        x.append(attributes)
        y.append(label)
    if x:
        yield x, y


def ends_sequence(line: str) -> bool:
    """Return whether a line ends a sequence."""
    return not line.strip(" ")


def split_fields(line: str) -> tuple[str, list[str]]:
    """Split a line into the field of the label, which may be empty, and those of the attributes."""
    label, *fields = line.split("\t")
    return label, [field for field in fields if field]


def _parse(line: str, lines: Lines) -> tuple[str | None, Attributes]:
    """Return the label, None if it is missing, and the attributes of a line."""
    field, fields = split_fields(line)
    name, value = _split(field, lines)
    label = read_label(name)
    if label is None and not fields:
        raise lines.error("no label")
    if name.startswith("@"):
        raise lines.error(f"declarations such as {field!r} are not supported")
    if value is not None:
        raise lines.error(rf"the label {field!r} has a value; escape a colon in a label as \:")
    attributes: Attributes = {}
    for field in fields:
        name, value = _split(field, lines)
        if not name:
            raise lines.error(rf"an attribute has no name in {field!r}; escape a colon as \:")
        if value and not _NUMBER.fullmatch(value):
            raise lines.error(f"the value {value!r} of {name!r} is not a number")
        attributes[name] = attributes.get(name, 0.0) + (float(value) if value else 1.0)
    return label, attributes


def _split(field: str, lines: Lines) -> tuple[str, str | None]:
    """Return the name and the value of a field."""
    if "\\" not in field:
        name, colon, value = field.partition(":")
    else:
        end = _PART.match(field).end()
        name = field[:end]
        colon = field[end : end + 1]
        value = field[end + 1 :]
        name = _ESCAPED.sub(r"\1", name)
    if ":" in value:
        raise lines.error(rf"too many colons in {field!r}; escape a colon in a name as \:")
    return name, value if colon else None
