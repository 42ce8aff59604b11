"""Files of JSON: a list of records, or a record in each line."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, TextIO

from treecrf.annotation.offsets import Entity, as_entity
from treecrf.datasets.lines import Lines, TextSource


def read_records(file: TextSource, encoding: str) -> Iterator[tuple[str, dict]]:
    """Yield the place of each record, for messages, and the record."""
    lines = Lines(file, encoding)
    texts = list(lines)
    whole = "\n".join(texts)
    if not whole.strip():
        return
    try:
        items = json.loads(whole)
    except json.JSONDecodeError as error:
        if whole.lstrip().startswith("["):
            raise ValueError(f"{lines.name}, line {error.lineno}: {error.msg}") from None
        yield from _records_of_lines(lines.name, texts)
        return
    for i, item in enumerate(items if isinstance(items, list) else [items]):
        where = f"{lines.name}, item {i}"
        yield where, _checked(item, where)


def _records_of_lines(name: str, lines: list[str]) -> Iterator[tuple[str, dict]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{where}: not JSON: {error.msg}") from None
        yield where, _checked(item, where)


def _checked(item: Any, where: str) -> dict:
    if not isinstance(item, dict):
        raise ValueError(f"{where}: {item!r:.40} is not a JSON object")
    return item


def text_of(record: dict, key: str, where: str) -> str:
    """Return the text in a record."""
    text = record.get(key)
    if not isinstance(text, str):
        keys = ", ".join(map(repr, record))
        raise ValueError(f"{where}: there is no text with the key {key!r}; the keys are {keys}")
    return text


def check_entity(span: Any, text: str, where: str) -> Entity:
    """Check a span of a text in a file."""
    try:
        return as_entity(span, len(text))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def pairs_of(texts: Sequence[str], entities: Sequence) -> Iterator[tuple[str, list[tuple] | None]]:
    """Yield texts and their checked spans in order, None if the text has no annotation."""
    if isinstance(texts, str):
        raise TypeError(f"texts is the string {texts!r:.40}; expected a list of texts")
    if len(texts) != len(entities):
        raise ValueError(f"{len(texts)} texts, {len(entities)} lists of spans")
    for i, (text, spans) in enumerate(zip(texts, entities, strict=True)):
        if not isinstance(text, str):
            raise TypeError(f"text {i}: {text!r:.40} is not a str")
        if spans is None:
            yield text, None
            continue
        try:
            checked = [(*as_entity(span, len(text)), *span[3:]) for span in spans]
        except (TypeError, ValueError) as error:
            raise type(error)(f"text {i}: {error}") from None
        yield text, sorted(checked)


@contextlib.contextmanager
def open_to_write(file: str | os.PathLike | IO[str]) -> Iterator[TextIO]:
    """Open a file for writing, compressed if its name ends with ".gz"; an object stays open."""
    if not isinstance(file, (str, os.PathLike)):
        yield file
        return
    is_gzip = os.fspath(file).endswith(".gz")
    with (gzip.open if is_gzip else open)(file, "wt", encoding="utf-8", newline="\n") as opened:
        yield opened
