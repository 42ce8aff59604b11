"""Files of Label Studio: a JSON list of tasks, each with a text and regions of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import IO, Any

from treecrf.annotation.offsets import Entity
from treecrf.annotation.records import check_entity, open_to_write, pairs_of, read_records, text_of
from treecrf.datasets.lines import TextSource
from treecrf.utils.validation import StrOptions, validate_params

SOURCE = {"source": [StrOptions({"annotations", "predictions"})]}
# The type of regions in a text, and the key of their labels.
LABELS = "labels"


@validate_params(SOURCE, prefer_skip_nested_validation=True)
def read_label_studio(
    file: TextSource,
    *,
    source: str = "annotations",
    text_key: str = "text",
    from_name: str | None = None,
    encoding: str = "utf-8",
) -> tuple[list[str], list[list[Entity] | None]]:
    """Read the texts of tasks that Label Studio exported as JSON, and their labeled regions.

    The file is a list of tasks in the format JSON or JSON-MIN, or has one task per line.

    Parameters
    ----------
    file : path-like or file object
        File to read. It is decompressed if it starts with the gzip magic bytes.
    source : {"annotations", "predictions"}, default="annotations"
        Whether to read the annotations by people, or the predictions of a model. Canceled
        annotations are ignored. If a task has several annotations, one must be marked as the ground
        truth.
    text_key : str, default="text"
        Key of the text in the data of a task. With ``<Text value="$text">``, it is ``"text"``.
    from_name : str, optional
        Name of the control tag that labels regions, such as ``"label"``. The default is all such
        tags.
    encoding : str, default="utf-8"
        Encoding of the file.

    Returns
    -------
    texts : list of str
        The texts.
    entities : list of lists of (int, int, str), or None
        The regions of each text: the first character, the character after the last one, and the
        label. A region with two labels occurs twice. None if the task is not annotated.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not JSON, a task has no text or several annotations, or a region is not in
        its text. The message names the task.

    See Also
    --------
    offsets_to_tags : Convert spans of characters to tags of tokens.
    write_label_studio : Write predictions as tasks.

    Notes
    -----
    Early versions of Label Studio counted characters beyond U+FFFF, such as emoji, twice. A file
    also contains the texts of its regions. They show how the file counts, and offsets are
    converted.

    Examples
    --------
    >>> import io
    >>> from treecrf.annotation import read_label_studio
    >>> region = '{"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}'
    >>> task = '{"data": {"text": "Ada met Mary"}, "annotations": [{"result": [%s]}]}' % region
    >>> read_label_studio(io.StringIO(task))
    (['Ada met Mary'], [[(0, 3, 'PER')]])
    """
    texts: list[str] = []
    entities: list[list[Entity] | None] = []
    for where, task in read_records(file, encoding):
        if isinstance(task.get("data"), dict):
            text = text_of(task["data"], text_key, where)
            values = _regions(task, source, from_name, where)
        else:
            text = text_of(task, text_key, where)
            values = _minimal_regions(task, source, from_name, where)
        texts.append(text)
        if values is None:
            entities.append(None)
        else:
            entities.append([span for value in values for span in _spans_of(value, text, where)])
    return texts, entities


def _regions(task: dict, source: str, from_name: str | None, where: str) -> list[dict] | None:
    """Return the values of the labeled regions of a task, None if it is not annotated."""
    items = [item for item in _list_of(task, source, where) if isinstance(item, dict)]
    results = [item for item in items if not item.get("was_cancelled")]
    if len(results) > 1:
        results = [item for item in results if item.get("ground_truth")] or results
    if len(results) > 1:
        raise ValueError(
            f"{where}: the task has {len(results)} {source}; expected one, or one that is marked "
            "as the ground truth"
        )
    if not results:
        return None
    regions = _list_of(results[0], "result", where)
    for region in regions:
        if not isinstance(region, dict):
            raise ValueError(f"{where}: the region {region!r:.40} is not a JSON object")
    return [
        region.get("value") or {}
        for region in regions
        if region.get("type") == LABELS and from_name in (None, region.get("from_name"))
    ]


def _list_of(record: dict, key: str, where: str) -> list:
    """Return the list that a record has under a key, which may also be missing or null."""
    items = record.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError(f"{where}: {key!r} is {items!r:.40}; expected a list")
    return items


def _minimal_regions(
    task: dict, source: str, from_name: str | None, where: str
) -> list[dict] | None:
    """Return the values of regions in the format JSON-MIN, which holds them under their tags."""
    tags = [from_name] if from_name is not None else list(task)
    lists = [task[tag] for tag in tags if _has_regions(task.get(tag))]
    if not lists and "annotator" not in task:
        return None
    return [value for values in lists for value in values]


def _has_regions(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, dict) and LABELS in v for v in values)


def _spans_of(value: dict, text: str, where: str) -> list[Entity]:
    """Return the spans of a region, one for each of its labels."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: the value {value!r:.40} of a region is not a JSON object")
    labels = _list_of(value, LABELS, where)
    start = value.get("start")
    end = value.get("end")
    if isinstance(start, int) and isinstance(end, int):
        start, end = _counted_as_python(start, end, value.get("text"), text, where)
    return [check_entity((start, end, label), text, where) for label in labels]


def _counted_as_python(start: int, end: int, marked: Any, text: str, where: str) -> tuple[int, int]:
    """Return the offsets of a region in characters, given its text, if that is known."""
    if start < 0 or not isinstance(marked, str) or _is_same(text[start:end], marked):
        return start, end
    before = _characters(text, 0, start)
    region = _characters(text, start, end)
    if _is_same(region, marked):
        return len(before), len(before) + len(region)
    raise ValueError(
        f"{where}: the text of the region from {start} to {end} is {text[start:end]!r}, but "
        f"according to the file {marked!r}"
    )


def _characters(text: str, start: int, end: int) -> str:
    """Return a slice of a text, given its offsets in units of UTF-16."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * start : 2 * end].decode("utf-16-le", "replace")


def _is_same(text: str, marked: str) -> bool:
    """Return whether two texts differ in blanks only."""
    # Label Studio writes a line feed as a backslash and an n.
    return text.split() == marked.replace(r"\n", "\n").split()


@validate_params(SOURCE, prefer_skip_nested_validation=True)
def write_label_studio(
    file: str | os.PathLike | IO[str],
    texts: Sequence[str],
    entities: Sequence,
    *,
    source: str = "predictions",
    text_key: str = "text",
    from_name: str = "label",
    to_name: str = "text",
    model_version: str | None = None,
) -> None:
    """Write texts and their spans as tasks that Label Studio imports, a JSON list.

    The names must be those of the labeling configuration. The defaults are those of its template
    for named entities::

        <View>
          <Labels name="label" toName="text"><Label value="PER"/></Labels>
          <Text name="text" value="$text"/>
        </View>

    Parameters
    ----------
    file : path-like or text file object
        File to write. A path is written in UTF-8, and compressed if it ends with ``.gz``. An
        existing file is replaced. Label Studio requires a name that ends with ``.json``.
    texts : list of str
        The texts.
    entities : list of lists of (int, int, str) or (int, int, str, float), or None
        The spans of each text, in the form that `read_label_studio`, `tags_to_offsets` or
        `spans_to_offsets` returns. A fourth item is the probability, which becomes the score of the
        region. The score of a prediction is the lowest score of its regions. None if the text is
        not annotated.
    source : {"predictions", "annotations"}, default="predictions"
        Whether to write the spans as predictions to be checked, or as finished annotations.
    text_key : str, default="text"
        Key of the text in the data of a task.
    from_name : str, default="label"
        Name of the control tag.
    to_name : str, default="text"
        Name of the text.
    model_version : str, optional
        Name of the model that made the predictions.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError, TypeError
        If the numbers of texts and of lists of spans differ, or a span is not in its text.

    See Also
    --------
    read_label_studio : Read the annotations that people have corrected.
    spans_to_offsets : Make spans of characters from predictions.

    Examples
    --------
    >>> import sys
    >>> from treecrf.annotation import write_label_studio
    >>> write_label_studio(sys.stdout, ["Ada met Mary"], [[(0, 3, "PER", 0.75)]])
    [
    {"data": {"text": "Ada met Mary"}, "predictions": [{"result": [{"id": "0-0", "type": "labels", \
"from_name": "label", "to_name": "text", "value": {"start": 0, "end": 3, "text": "Ada", "labels": \
["PER"]}, "score": 0.75}], "score": 0.75}]}
    ]
    """
    tasks = []
    for i, (text, spans) in enumerate(pairs_of(texts, entities)):
        task: dict[str, Any] = {"data": {text_key: text}}
        if spans is not None:
            regions = [
                _region(f"{i}-{j}", span, text, from_name, to_name) for j, span in enumerate(spans)
            ]
            task[source] = [_result(regions, model_version if source == "predictions" else None)]
        tasks.append(json.dumps(task, ensure_ascii=False))
    with open_to_write(file) as target:
        target.write("[\n" + ",\n".join(tasks) + "\n]\n")


def _region(name: str, span: tuple, text: str, from_name: str, to_name: str) -> dict[str, Any]:
    start, end, label = span[:3]
    value = {"start": start, "end": end, "text": text[start:end], LABELS: [label]}
    region = {"id": name, "type": LABELS, "from_name": from_name, "to_name": to_name}
    region["value"] = value
    if len(span) > 3:
        score = float(span[3])
        if not math.isfinite(score):
            raise ValueError(f"{span} has the score {score}, which JSON does not have")
        region["score"] = score
    return region


def _result(regions: list[dict[str, Any]], model_version: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"result": regions}
    if model_version is not None:
        result["model_version"] = model_version
    scores = [region["score"] for region in regions if "score" in region]
    if scores:
        result["score"] = min(scores)
    return result
