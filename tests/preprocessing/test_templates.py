"""Templates of CRF++ and patterns of Wapiti: attributes as both programs make them."""

from __future__ import annotations

import io
import pickle
import random
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import treecrf
from treecrf import LinearCRF, TreeCRF
from treecrf.datasets import read_conll
from treecrf.preprocessing import AttributeTemplates
from treecrf.preprocessing.patterns import python_expression

CHARACTERS = "abXYZé09.-_'!"
# Commands of Wapiti on a word: the expression, and what is expected of it.
MATCHES = [
    ("^.?.?", "Straße", "St"),
    (".?.?$", "Straße", "ße"),
    ("^.?.?.?", "ab", "ab"),
    (r"\d*$", "a12", "12"),
    (r"\d*", "12", ""),  # repetition is as short as possible
    (r"\u", "éÉa", "É"),
    (r"\l*\d", "ab1", "ab1"),
    (r"\p", "a_b", "_"),
    (r"\P\p", "_a-", "a-"),
    (r"\.\s?", "a. b", ". "),
    ("$a", "x$a$", "$a"),
    ("a^", "a^", "a^"),
    ("(a|b)", "(a|b)", "(a|b)"),
    (r"\"", 'a"', '"'),
    ("^$", "", ""),
]


def attributes(lines, X, syntax="crf++"):
    """The names of the attributes of each position."""
    made = AttributeTemplates(lines, syntax=syntax).transform(X)
    assert all(value is True for x in made for row in x for value in row.values())
    return [[list(row) for row in x] for x in made]


def random_sequences(rng, n_columns):
    def word():
        return "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(0, 5)))

    lengths = [rng.randint(0, 7) for _ in range(4)] + [1]
    return [[[word() for _ in range(n_columns)] for _ in range(n)] for n in lengths]


# Independent expansions: a position and a character at a time


def padded(x, t, column, before, after):
    if t < 0:
        return before(-t)
    if t >= len(x):
        return after(t - len(x) + 1)
    return x[t][column]


def crfpp_attribute(line, x, t):
    result = ""
    while line:
        if line.startswith("%x["):
            macro, _, line = line[3:].partition("]")
            row, column = map(int, macro.split(","))
            result += padded(x, t + row, column, "_B-{}".format, "_B+{}".format)
        else:
            result += line[0]
            line = line[1:]
    return result


def matched(expression, text, start):
    """The end of a match at a place, or None: as Wapiti searches, but recursively."""
    if not expression:
        return start
    if expression == "$":
        return start if start == len(text) else None
    n = 2 if expression[0] == "\\" else 1
    item = expression[:n]
    rest = expression[n:]
    fits = start < len(text) and is_match(item, text[start])
    if rest[:1] == "*":
        end = matched(rest[1:], text, start)
        if end is None and fits:
            end = matched(expression, text, start + 1)
        return end
    if rest[:1] == "?":
        end = matched(rest[1:], text, start + 1) if fits else None
        return matched(rest[1:], text, start) if end is None else end
    return matched(rest, text, start + 1) if fits else None


def is_match(item, character):
    tests = {"a": "isalpha", "d": "isdecimal", "l": "islower", "s": "isspace", "u": "isupper"}
    letter = item[-1]
    if item == ".":
        return True
    if len(item) == 1 or letter.lower() not in "adlpsuw":
        return letter == character
    if letter.lower() == "p":
        found = not character.isalnum() and not character.isspace()
    else:
        found = getattr(character, tests.get(letter.lower(), "isalnum"))()
    return found == letter.islower()


def search(expression, text):
    is_first = expression.startswith("^")
    for start in range(1 if is_first else len(text) + 1):
        end = matched(expression[is_first:], text, start)
        if end is not None:
            return text[start:end]
    return None


def wapiti_attribute(line, x, t):
    def name(sign):
        return lambda distance: f"_x{sign}{distance if distance < 5 else '#'}"

    def value(match):
        command, absolute, offset, column, _, expression = match.groups()
        if not absolute:
            place = t + int(offset)
        else:
            place = len(x) + int(offset) if offset.strip().startswith("-") else int(offset) - 1
        text = padded(x, place, int(column), name("-"), name("+"))
        if command in "tT":
            return "false" if search(expression, text) is None else "true"
        if command in "mM":
            text = search(expression, text) or ""
        return text.lower() if command.isupper() else text

    return re.sub(r'%(\w)\[(@?)( ?[+-]?\d+), ?(\d+)(,"(.*?)")?\]', value, line)


def random_templates(rng, n_columns):
    lines = []
    for i in range(rng.randint(1, 6)):
        parts = [
            f"%x[{rng.randint(-8, 8)},{rng.randrange(n_columns)}]" for _ in range(rng.randint(0, 3))
        ]
        name = rng.choice([f"U{i:02}:", "U:", "U{}", "B1"])
        lines.append(name + rng.choice(["/", "", "{", " "]).join(parts) + rng.choice(["", "}x"]))
    return lines


def random_expression(rng):
    items = rng.choices(
        [".", r"\u", r"\l", r"\d", r"\A", r"\p", r"\W", r"\s", r"\.", "a", "X", "(", "[", "+"],
        k=rng.randint(1, 4),
    )
    text = "".join(item + rng.choice(["", "?", "*"]) for item in items)
    return rng.choice(["", "^"]) + text + rng.choice(["", "$"])


def random_patterns(rng, n_columns):
    lines = []
    for i in range(rng.randint(1, 6)):
        parts = []
        for _ in range(rng.randint(0, 3)):
            offset = rng.choice([f"{rng.randint(-7, 7)}", f" {rng.randint(0, 3)}", "+1"])
            place = f"{rng.choice(['', '@'])}{offset},{rng.choice(['', ' '])}"
            place += str(rng.randrange(n_columns))
            command = rng.choice("xXtTmM")
            rest = "" if command in "xX" else f',"{random_expression(rng)}"'
            parts.append(f"%{command}[{place}{rest}]")
        lines.append(rng.choice([f"u{i}:", "*:", "u{}"]) + "/".join(parts))
    return lines


@pytest.mark.parametrize("seed", range(20))
def test_templates_of_crfpp(seed):
    rng = random.Random(seed)
    n_columns = rng.randint(1, 3)
    X = random_sequences(rng, n_columns)
    lines = ["U0", *random_templates(rng, n_columns)]
    used = [line for line in lines if line[0] == "U" or "%" in line]
    expected = [
        [list(dict.fromkeys(crfpp_attribute(line, x, t) for line in used)) for t in range(len(x))]
        for x in X
    ]
    assert attributes(["# comment", "", *lines, "B"], X) == expected


@pytest.mark.parametrize("seed", range(20))
def test_patterns_of_wapiti(seed):
    rng = random.Random(seed)
    n_columns = rng.randint(1, 3)
    X = random_sequences(rng, n_columns)
    lines = ["*", *random_patterns(rng, n_columns)]
    expected = [
        [list(dict.fromkeys(wapiti_attribute(line, x, t) for line in lines)) for t in range(len(x))]
        for x in X
    ]
    given = [line[0].upper() + line[1:] + rng.choice(["", " ", " # comment"]) for line in lines]
    assert attributes(["", " # comment", *given, "b"], X, "wapiti") == expected


@pytest.mark.parametrize(("expression", "word", "expected"), MATCHES)
def test_expressions_of_wapiti(expression, word, expected):
    assert python_expression(expression).search(word)[0] == expected == search(expression, word)
    line = f'u:%m[0,0,"{expression}"]/%t[0,0,"{expression}"]'
    assert attributes([line], [[[word]]], "wapiti") == [[[f"u:{expected}/true"]]]


@pytest.mark.parametrize("letter", "adlpsuw")
def test_classes_of_characters(letter):
    """The compiled ranges against the methods of strings, and the complement."""
    characters = [chr(i) for i in [*range(0x300), 0x1780, 0x1040, 0x3042, 0x1D400, 0x20000]]
    inside = python_expression(f"^\\{letter}$")
    outside = python_expression(f"^\\{letter.upper()}$")
    for character in characters:
        if letter == "p":
            expected = character in "!-_+$'«€"
            if expected or (character.isascii() and character.isprintable()):
                expected = not (character.isalnum() or character.isspace())
            else:
                continue
        else:
            expected = is_match(f"\\{letter}", character)
        assert (inside.search(character) is not None) == expected
        assert (outside.search(character) is None) == expected


REFUSED = {
    "kind": ("crf++", "x:%x[0,0]", "templates of CRF\\+\\+ start with U or B"),
    "star": ("crf++", "*:%x[0,0]", "start with U or B"),
    "row": ("crf++", "U:%x[-9,0]", "row -9; CRF\\+\\+ has rows from -8 to 8"),
    "half": ("crf++", "U:%x[0]/%x[0,0]", r"'%x\[0\]/' is no macro; expected %x\[row,column\]"),
    "plus": ("crf++", "U:%x[+1,0]", "is no macro"),
    "command": ("crf++", 'U:%t[0,0,"a"]', 'Wapiti need syntax="wapiti"'),
    "percent": ("crf++", "U:100%", "'%' is no macro"),
    "negative column": ("crf++", "U:%x[0,-1]", "is no macro"),
    "pattern": ("wapiti", "x:%x[0,0]", "templates of Wapiti start with u, b or \\*"),
    "no expression": ("wapiti", "u:%t[0,0]", r"%t\[0,0\] has no expression"),
    "an expression": ("wapiti", 'u:%x[0,0,"a"]', 'has an expression'),
    "comment in an expression": ("wapiti", 'u:%t[0,0,"#"]', "is no macro"),
    "repetition": ("wapiti", 'u:%t[0,0,"^*"]', r"nothing precedes '\*'; \\\* matches it"),
    "two repetitions": ("wapiti", 'u:%t[0,0,"a*?"]', r"nothing precedes '\?'"),
    "unknown": ("wapiti", "u:%y[0,0]", "is no macro"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_lines_are_named(name):
    syntax, line, message = REFUSED[name]
    lines = ["U:%x[0,0]" if syntax == "crf++" else "u:%x[0,0]", "# a", line]
    with pytest.raises(ValueError, match=rf"^templates, line 3: .*{message}"):
        AttributeTemplates(lines, syntax=syntax).fit()
    file = io.StringIO("\n".join(lines))
    file.name = "chunks.txt"
    with pytest.raises(ValueError, match=rf"^chunks.txt, line 3: .*{message}"):
        AttributeTemplates.from_file(file, syntax=syntax)


@pytest.mark.parametrize("text", ["", "B\n", "# U\n"])
def test_templates_without_attributes_are_refused(text):
    with pytest.raises(ValueError, match="no template makes attributes"):
        AttributeTemplates(text).fit()


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="syntax"):
        AttributeTemplates("U", syntax="crfpp").fit()
    with pytest.raises(TypeError, match="templates holds 3; expected strings"):
        AttributeTemplates(["U", 3]).fit()
    with pytest.raises(ValueError, match="templates"):
        AttributeTemplates(None).fit()


def test_columns_that_the_sequences_lack_are_named():
    with pytest.raises(ValueError, match=r"line 2: 'U:%x\[0,2\]' reads column 2; .* have 2, which"):
        AttributeTemplates(["U:%x[0,1]", "U:%x[0,2]"]).transform([[["a", "b"]]])


X = [[["Ada", "NNP"], ["ran", "VBD"]], [], [["Mary", "NNP"]]]
NAMES = ["word", "tag"]
FORMS = {
    "tuples": lambda x: tuple(map(tuple, x)),
    "dicts": lambda x: [dict(zip(NAMES, row, strict=True)) for row in x],
    "arrays": lambda x: np.array(x, dtype=np.str_).reshape(-1, 2),
    "objects": lambda x: np.array(x, dtype=object).reshape(-1, 2),
    "rows of arrays": lambda x: [np.array(row) for row in x],
    "pandas": lambda x: pd.DataFrame(x, columns=NAMES),
    "polars": lambda x: pytest.importorskip("polars").DataFrame(
        {name: [row[j] for row in x] for j, name in enumerate(NAMES)}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_sequences(form):
    templates = AttributeTemplates(["U0:%x[0,0]/%x[-1,1]", "U1:%x[1,1]"])
    expected = templates.transform(X)
    assert expected[0][1] == {"U0:ran/NNP": True, "U1:_B+1": True}
    assert expected[1] == []
    made = templates.transform([FORMS[form](x) for x in X])
    assert made == expected
    assert {type(name) for x in made for row in x for name in row} == {str}


def test_sequences_of_words_have_one_column():
    templates = AttributeTemplates(["U:%x[0,0]", "U:%x[1,0]"])
    assert templates.transform([["a", "a", "b"], []]) == [
        [{"U:a": True}, {"U:a": True, "U:b": True}, {"U:b": True, "U:_B+1": True}], []
    ]  # fmt: skip
    assert templates.transform([]) == []
    assert templates.transform(iter([np.array(["a"])])) == [[{"U:a": True, "U:_B+1": True}]]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[["a", "b"], ["c"]]], "sequence 0, position 1 has 1 columns; expected 2"),
        ([[["a"]], [["a"], [3]]], "sequence 1, position 1, column 0: 3 is of type int; templates"),
        ([[["a", None]]], "sequence 0, position 0, column 1: None is of type NoneType"),
        ([[{"w": "a"}, {"v": "a"}]], r"sequence 0, position 1 has the keys \['v'\]; expected"),
        ([["a", ["b"]]], "sequence 0, position 0 is .*; expected sequences of rows of strings"),
        (["ab"], "sequence 0 is .*; expected sequences of rows of strings"),
        (pd.DataFrame({"w": ["a"]}), "X is .*; expected a list of sequences; treecrf.split"),
        ("ab", "expected a list of sequences"),
    ],
)
def test_other_sequences_are_refused(X, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AttributeTemplates("U:%x[0,0]").transform(X)


def test_templates_of_pairs_of_labels_are_named():
    with pytest.warns(UserWarning, match=r"line 2: 'B1:%x\[0,0\]' is about pairs of labels"):
        AttributeTemplates("B\nB1:%x[0,0]\nU").fit()
    with pytest.warns(UserWarning, match=r"line 1: '\*:%x\[0,0\]', the first of 2, is about"):
        AttributeTemplates("*:%x[0,0]\nb:%x[1,0]\n*", syntax="wapiti").fit()
    AttributeTemplates("B\nU:%x[0,0]").fit()
    AttributeTemplates("b\n*\n", syntax="wapiti").fit()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("syntax", ["crf++", "wapiti"])
def test_streams(syntax, seed):
    rng = random.Random(seed)
    make = random_templates if syntax == "crf++" else random_patterns
    kind = "U" if syntax == "crf++" else "u"
    lines = [kind, *(line.replace("@", "") for line in make(rng, 2))]
    templates = AttributeTemplates(lines, syntax=syntax)
    stream = templates.stream()
    templates.set_params(templates=[kind])  # which does not change the stream
    for x in random_sequences(rng, 2):
        found = [stream.push(row) for row in x]
        assert all((row is None) == (t < stream.delay) for t, row in enumerate(found))
        assert stream.n_pushed == len(x)
        found = [row for row in found if row is not None] + stream.finish()
        assert found == AttributeTemplates(lines, syntax=syntax).transform([x])[0]


def test_streams_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="counts from the start or the end of a sequence"):
        AttributeTemplates("u:%x[@-1,0]", syntax="wapiti").stream()
    stream = AttributeTemplates("U:%x[-1,0]").stream()
    assert stream.push(["a", "b"]) == {"U:_B-1": True}
    with pytest.raises(ValueError, match="position 1 has 1 columns; expected 2"):
        stream.push(["c"])
    assert stream.push(["d", "e"]) == {"U:a": True}
    assert stream.reset().push("a") == {"U:_B-1": True}


LINES = ["U00:%x[-1,0]", "U01:%x[0,0]", "U02:%x[0,1]/%x[1,1]", "B"]
TEXT = "Ada NNP B\nmet VBD O\nMary NNP B\n\nThey PRP O\nleft VBD O\n\n"


@pytest.mark.parametrize("model", [LinearCRF(), TreeCRF(max_iter=3, early_stopping=False)])
def test_pipelines(model):
    X, y = read_conll(io.StringIO(TEXT * 4), names=NAMES)
    pipe = make_pipeline(AttributeTemplates(LINES), clone(model)).fit(X, y)
    made = AttributeTemplates(LINES).transform(X)
    alone = clone(model).fit(made, y)
    for proba, expected in zip(pipe.predict_proba(X), alone.predict_proba(made), strict=True):
        np.testing.assert_array_equal(proba, expected)
    again = pickle.loads(pickle.dumps(pipe))
    assert again.predict(X)[0].tolist() == ["B", "O", "B"]
    stream = treecrf.stream(pipe, lag=1)
    online = [stream.push(row) for row in X[0]] + stream.finish()
    expected = []
    alone_stream = alone.stream(lag=1)
    for row in made[0]:
        expected.append(alone_stream.push(row))
    expected += alone_stream.finish()
    for p, q in zip(online[2:], expected[1:], strict=True):
        np.testing.assert_array_equal(p, q)


def test_it_is_an_estimator():
    templates = clone(AttributeTemplates.from_file(io.StringIO("U\r\n#\r\nB\r\n")))
    assert templates.get_params() == {"templates": ["U", "#", "B"], "syntax": "crf++"}
    assert templates.fit_transform([["a"]], [["y"]]) == [[{"U": True}]]
