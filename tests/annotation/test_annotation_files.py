"""Files of doccano and Label Studio."""

import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treecrf.annotation import read_doccano, read_label_studio, write_doccano, write_label_studio

TEXTS = ["Ada met Mary", 'Añó\n😀 "x"', "no", ""]
ENTITIES = [[(0, 3, "PER"), (8, 12, "PER")], [(4, 5, "é"), (4, 9, "Q")], None, []]
TOOLS = {
    "doccano": (read_doccano, write_doccano),
    "Label Studio": (read_label_studio, write_label_studio),
}


def as_json(read, data, **options):
    return read(io.StringIO(json.dumps(data)), **options)


@pytest.mark.parametrize("tool", TOOLS)
def test_files_are_read_as_they_were_written(tool, tmp_path):
    read, write = TOOLS[tool]
    options = {} if tool == "doccano" else {"source": "annotations"}
    write(tmp_path / "file.json", TEXTS, ENTITIES, **options)
    content = (tmp_path / "file.json").read_bytes()
    (tmp_path / "packed").write_bytes(gzip.compress(content))
    text = content.decode()
    assert "é" in text
    write(tmp_path / "file.gz", TEXTS, ENTITIES, **options)
    assert gzip.decompress((tmp_path / "file.gz").read_bytes()) == content
    sources = [tmp_path / "file.json", tmp_path / "packed", io.BytesIO(content), io.StringIO(text)]
    for source in [*sources, io.StringIO("\ufeff" + text)]:
        assert read(source) == (TEXTS, ENTITIES)
    target = io.StringIO()
    write(target, TEXTS, ENTITIES, **options)
    assert target.getvalue() == text
    assert read(io.StringIO("")) == ([], [])
    write(tmp_path / "empty", [], [], **options)
    assert read(tmp_path / "empty") == ([], [])


@given(st.text(min_size=1, max_size=8), st.data())
def test_any_text_is_read_as_it_was_written(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    spans = [(start, data.draw(st.integers(start + 1, len(text))), data.draw(st.text(min_size=1)))]
    for read, write in TOOLS.values():
        options = {"source": "predictions"} if read is read_label_studio else {}
        target = io.StringIO()
        write(target, [text], [spans], **options)
        assert read(io.StringIO(target.getvalue()), **options) == ([text], [spans])


def test_forms_of_doccano():
    span = {"id": 7, "label": "P", "start_offset": 0, "end_offset": 2}
    lines = [
        {"id": 1, "text": "ab", "label": [[0, 2, "P"]], "Comments": []},
        {"text": "ab", "labels": [[0, 2, "P"]]},
        {"text": "ab", "entities": [span], "relations": []},
        {"text": "ab", "label": []},
        {"text": "ab"},
    ]
    expected = (["ab"] * 5, [[(0, 2, "P")]] * 3 + [[], None])
    assert read_doccano(io.StringIO("\n".join(map(json.dumps, lines)))) == expected
    assert as_json(read_doccano, lines) == expected
    assert as_json(read_doccano, [{"data": "ab"}], text_key="data") == (["ab"], [None])


def region(start, end, labels=("P",), **more):
    value = {"start": start, "end": end, "labels": list(labels), **more}
    return {"id": "x", "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def task(text, *regions, **more):
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": list(regions)}], **more}


def test_forms_of_label_studio():
    tasks = [
        task("ab cd", region(0, 2, text="ab"), {"type": "relation", "from_id": "x"}),
        task("ab", region(0, 2, ("P", "Q")), {"type": "choices", "value": {"choices": ["x"]}}),
        {"data": {"text": "ab"}, "annotations": [], "predictions": [4]},
        {"data": {"text": "ab"}, "annotations": [
            {"was_cancelled": True, "result": [region(0, 1)]}]},
        {"data": {"text": "ab"}, "annotations": [
            {"result": []}, {"ground_truth": True, "result": [region(1, 2)]}]},
        {"id": 2, "text": "ab", "label": [{"start": 0, "end": 1, "labels": ["P"]}], "annotator": 1},
        {"id": 2, "text": "ab", "annotator": 1},
        {"id": 2, "text": "ab"},
    ]  # fmt: skip
    spans = [[(0, 2, "P")], [(0, 2, "P"), (0, 2, "Q")], None, None, [(1, 2, "P")], [(0, 1, "P")]]
    texts, entities = as_json(read_label_studio, tasks)
    assert texts == ["ab cd", *["ab"] * 7]
    assert entities == [*spans, [], None]
    assert as_json(read_label_studio, tasks[0])[1] == spans[:1]
    assert as_json(read_label_studio, tasks[:2], from_name="other")[1] == [[], []]
    predicted = task("ab", region(0, 1), predictions=[{"result": [region(1, 2)], "score": 0.5}])
    assert as_json(read_label_studio, [predicted], source="predictions")[1] == [[(1, 2, "P")]]


@pytest.mark.parametrize("counted", ["characters", "units of UTF-16"])
def test_characters_beyond_16_bits_are_counted_as_in_python(counted):
    text = "😀 Ada\n😀😀 b"
    spans = [(2, 5, "P"), (6, 10, "Q")]
    shift = (lambda i: len(text[:i].encode("utf-16-le")) // 2) if "16" in counted else int
    regions = [
        region(shift(a), shift(b), (label,), text=text[a:b].replace("\n", "\\n"))
        for a, b, label in spans
    ]
    assert as_json(read_label_studio, [task(text, *regions)])[1] == [spans]


def test_line_feeds_in_regions_are_escaped():
    assert as_json(read_label_studio, [task("a\nb", region(0, 3, text="a\\nb"))])[1] == [
        [(0, 3, "P")]
    ]


def test_tasks_of_predictions():
    target = io.StringIO()
    spans = [(0, 3, "PER", 0.75), (8, 12, "LOC", 0.5)]
    write_label_studio(target, ["Ada met Mary"], [spans], model_version="m", from_name="ner")
    [written] = json.loads(target.getvalue())
    assert written["data"] == {"text": "Ada met Mary"}
    [prediction] = written["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("m", 0.5)
    first, second = prediction["result"]
    assert first["value"] == {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    assert (first["from_name"], first["to_name"], first["type"]) == ("ner", "text", "labels")
    assert (first["score"], second["score"]) == (0.75, 0.5)
    assert first["id"] != second["id"]


@pytest.mark.parametrize(
    ("tool", "text", "message"),
    [
        ("doccano", '{"text": "ab"}\n{"text": "a', "the file, line 2: not JSON"),
        ("doccano", '[{"text": "ab"},\n{]', "the file, line 2: "),
        ("doccano", '{"text": "ab"}\n\n[1]', r"the file, line 3: \[1\] is not a JSON object"),
        ("doccano", '{"data": "ab"}', "there is no text with the key 'text'; the keys are 'data'"),
        ("doccano", '{"text": 1}', "the file, item 0: there is no text with the key 'text'"),
        ("doccano", '{"text": "ab", "label": "P"}', "item 0: 'P' is not a list of spans"),
        ("doccano", '{"text": "ab", "label": ["P"]}', "item 0: 'P' is not a span"),
        ("doccano", '{"text": "ab", "label": [[0, 1]]}', r"item 0: \[0, 1\] is not a span"),
        ("doccano", '{"text": "ab", "label": [[0, 3, "P"]]}', "outside of the text of 2 char"),
        ("doccano", '{"text": "ab", "label": [["0", 2, "P"]]}', "item 0: 'str' object"),
        ("doccano", '{"text": "ab"}\n{"text": "b", "label": [[1, 1, "P"]]}', "line 2: the span "),
        ("Label Studio", json.dumps([task("ab", region(0, 2, text="a"))]),
         "item 0: the text of the region from 0 to 2 is 'ab', but according to the file 'a'"),
        ("Label Studio", json.dumps([task("ab", region(0, 3))]), "item 0: .* outside of the text"),
        ("Label Studio", json.dumps([task("ab", region(None, 1))]), "item 0: 'NoneType'"),
        ("Label Studio", json.dumps([task("ab", region("/p[1]", "/p[1]"))]), "item 0: 'str'"),
        ("Label Studio", json.dumps([{"data": {"x": "ab"}}]), "no text with the key 'text'"),
        ("Label Studio", json.dumps([{"data": {"text": "ab"}, "annotations": [{}, {}]}]),
         "item 0: the task has 2 annotations; expected one"),
        ("Label Studio", json.dumps([task("ab", region(0, 2) | {"value": {"labels": "PER"}})]),
         "item 0: 'labels' is 'PER'; expected a list"),
        ("Label Studio", json.dumps([task("ab", "P")]), "item 0: the region 'P' is not a JSON obj"),
        ("Label Studio", json.dumps([task("ab", {"type": "labels", "value": [0, 2]})]),
         r"item 0: the value \[0, 2\] of a region is not a JSON object"),
        ("Label Studio", json.dumps([{"data": {"text": "ab"}, "annotations": {"result": []}}]),
         "item 0: 'annotations' is .*; expected a list"),
        ("Label Studio", json.dumps([{"data": {"text": "ab"}, "annotations": [{"result": 1}]}]),
         "item 0: 'result' is 1; expected a list"),
    ],
)  # fmt: skip
def test_files_that_are_refused(tool, text, message):
    with pytest.raises(ValueError, match=message):
        TOOLS[tool][0](io.StringIO(text))


@pytest.mark.parametrize("tool", TOOLS)
def test_spans_that_are_not_written(tool, tmp_path):
    for texts, entities, error, message in (
        (["a"], [], ValueError, "1 texts, 0 lists of spans"),
        (["a", "b"], [[], [(0, 2, "P")]], ValueError, "text 1: the span .* is outside of the text"),
        (["a"], [[(0, 1, 3)]], TypeError, "text 0: the span .* has no str as its label"),
        ("ab", [[], []], TypeError, "texts is the string 'ab'; expected a list of texts"),
        (["a", None], [[], []], TypeError, "text 1: None is not a str"),
    ):
        with pytest.raises(error, match=message):
            TOOLS[tool][1](tmp_path / "file", texts, entities)
        assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_no_json_are_not_written(score, tmp_path):
    with pytest.raises(ValueError, match=r"has the score (nan|inf), which JSON does not have"):
        write_label_studio(tmp_path / "file", ["a"], [[(0, 1, "P", score)]])
    assert not (tmp_path / "file").exists()
