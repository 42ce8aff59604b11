"""Files of doccano: a text and its spans in each line."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import IO, Any

from treecrf.annotation.offsets import Entity
from treecrf.annotation.records import check_entity, open_to_write, pairs_of, read_records, text_of
from treecrf.datasets.lines import TextSource

# The spans of a text: in files to import and most exports, of old versions, and of relations.
SPAN_KEYS = ("label", "labels", "entities")


def read_doccano(
    file: TextSource, *, text_key: str = "text", encoding: str = "utf-8"
) -> tuple[list[str], list[list[Entity] | None]]:
    """Read the texts of a file that doccano exported, and their spans.

    Each line is a JSON object: ``{"text": "Ada met Mary", "label": [[0, 3, "PER"]]}``. The list of
    spans can also have the key ``labels``. Under the key ``entities``, spans are objects with
    ``start_offset``, ``end_offset`` and ``label``. Other keys are ignored.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.
    text_key : str, default="text"
        Key of the texts.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    texts : list of str
        The texts.
    entities : list of lists of (int, int, str), or None
        The spans of each text: the first character, the character after the last one, and the
        label. None if the text has no list of spans, which means that it is not annotated.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a line is not a JSON object with a text, or a span is not in its text. The message names
        the file and the line.

    See Also
    --------
    offsets_to_tags : Convert spans of characters to tags of tokens.
    write_doccano : Write such files.

    Examples
    --------
    >>> import io
    >>> from treecrf.annotation import read_doccano
    >>> file = io.StringIO('{"id": 1, "text": "Ada met Mary", "label": [[0, 3, "PER"]]}')
    >>> read_doccano(file)
    (['Ada met Mary'], [[(0, 3, 'PER')]])
    """
    texts: list[str] = []
    entities: list[list[Entity] | None] = []
    for where, record in read_records(file, encoding):
        text = text_of(record, text_key, where)
        spans = next((record[key] for key in SPAN_KEYS if key in record), None)
        texts.append(text)
        entities.append(None if spans is None else _spans_of(spans, text, where))
    return texts, entities


def _spans_of(spans: Any, text: str, where: str) -> list[Entity]:
    """Check the spans of a record; ValueError if they are not spans of the text."""
    if not isinstance(spans, list):
        raise ValueError(f"{where}: {spans!r:.40} is not a list of spans")
    entities = []
    for span in spans:
        if isinstance(span, dict):
            span = [span.get(key) for key in ("start_offset", "end_offset", "label")]
        entities.append(check_entity(span, text, where))
    return entities


def write_doccano(
    file: str | os.PathLike | IO[str], texts: Sequence[str], entities: Sequence
) -> None:
    """Write texts and their spans to a file that doccano imports as JSONL for sequence labeling.

    Parameters
    ----------
    file : path-like or text file object
        File to write. A path is written in UTF-8, and compressed if it ends with ``.gz``. An
        existing file is replaced.
    texts : list of str
        The texts.
    entities : list of lists of (int, int, str), or None
        The spans of each text, in the form that `read_doccano` and `tags_to_offsets` return. A
        fourth item, the probability, is not written. None if the text is not annotated.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError, TypeError
        If the numbers of texts and of lists of spans differ, or a span is not in its text.

    See Also
    --------
    read_doccano : Read such files.
    spans_to_offsets : Make spans of characters from predictions.

    Examples
    --------
    >>> import sys
    >>> from treecrf.annotation import write_doccano
    >>> write_doccano(sys.stdout, ["Ada met Mary", "Yes"], [[(0, 3, "PER")], []])
    {"text": "Ada met Mary", "label": [[0, 3, "PER"]]}
    {"text": "Yes", "label": []}
    """
    pairs = list(pairs_of(texts, entities))
    with open_to_write(file) as target:
        for text, spans in pairs:
            record: dict[str, Any] = {"text": text}
            if spans is not None:
                record["label"] = [list(span[:3]) for span in spans]
            target.write(json.dumps(record, ensure_ascii=False) + "\n")
