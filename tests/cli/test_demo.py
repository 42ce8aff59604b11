"""The demonstration: labels and features of lines, the output files, and the whole command."""

import re
import sysconfig
import textwrap

import numpy as np
import pytest

from treecrf.cli import demo
from treecrf.cli.demo import FEATURES, LABELS, SourceFile, label_lines, line_features
from treecrf.cli.demo.lines import feature_table, split_lines

LETTERS = {"code": "c", "comment": "#", "docstring": "d", "blank": "."}


def labels_of(source: str) -> str:
    """Label a source with one letter per line, for comparison with the expected letters."""
    return "".join(LETTERS[label] for label in label_lines(source))


def marked(source: str) -> tuple[str, str]:
    """Split lines such as ``d|text`` into the text of the source and the letters."""
    rows = textwrap.dedent(source).strip("\n").split("\n")
    return "\n".join(row[2:] for row in rows) + "\n", "".join(row[0] for row in rows)


CASES = {
    "module": '''
        d|"""A module.
        d|
        d|With more to say.
        d|"""
        .|
        c|import os
    ''',
    "comment before the docstring": '''
        #|#!/usr/bin/env python
        .|
        d|"""A module."""
        #|# after it
    ''',
    "function, class and method": """
        c|class A:
        d|    '''Of a class.'''
        .|
        c|    async def f(self):
        d|        '''Of a method.
        d|
        d|        '''
        c|        def g():
        d|            'Of a function inside, on one line.'
        c|            return 'no docstring'
    """,
    "decorator and arguments on many lines": '''
        c|@decorate(
        #|    # why
        c|    1,
        .|
        c|)
        c|def f(
        c|    a="""no
        c|
        c|    docstring""",
        c|):
        d|    """Of f."""
    ''',
    "raw, prefixed and bytes": r'''
        c|def f():
        d|    r"""Of f: \d.
        d|    # no comment"""
        c|def g():
        c|    b"""Bytes are
        c|    # no docstring"""
        c|def h():
        c|    f"""Nor is {1}
        c|
        c|    this."""
    ''',
    "string that is no docstring": '''
        c|x = """
        c|
        c|# no comment
        c|def f():
        c|"""
        c|"""Not the first statement,
        c|so no docstring."""
    ''',
    "expression that begins with a string": '''
        c|"""Not a docstring: %s
        c|""" % 1
    ''',
    "joined strings": """
        d|"one " \\
        d|"two"
        c|x = 1
    """,
    "continued lines": """
        c|x = 1 + \\
        c|    2
        #|    # a comment
        c|y = [  # not a comment alone
        #|    # one alone
        .|
        c|    1]
    """,
    "docstring on the line of def": '''
        c|def f(): "Of f."
        c|class A: """Of A
        d|    goes on."""
    ''',
    "docstring and a comment": '''
        c|def f():
        #|    # first
        d|    """Of f."""  # behind
        #|# last
    ''',
    "tabs": """
        c|if x:
        c|\tdef f():
        d|\t\t'Of f.'
        .|\t\t
        #|\t# a comment
    """,
}


@pytest.mark.parametrize("name", CASES)
def test_labels_of_written_cases(name):
    source, letters = marked(CASES[name])
    assert labels_of(source) == letters


@pytest.mark.parametrize(
    ("source", "letters"),
    [
        ("", ""),
        ("\n", "."),
        ("x = 1", "c"),
        ("x = 1\n\x0c\n# y\n", "c.#"),
        ("'''A\x0cB\x1cC\u2028D'''\nx = 1\n", "dc"),
        ("'''é''' ; x = 'ü'\n", "d"),
        ("x = 'é'; 'ü'\n", "c"),
        ("def f(é='é'): 'ü'\n", "c"),
    ],
)
def test_labels_of_odd_sources(source, letters):
    assert labels_of(source) == letters
    assert len(split_lines(source)) == len(letters)


def test_invalid_python_is_refused():
    with pytest.raises(SyntaxError):
        label_lines("print 'two'\n")


def test_features_have_names_and_are_finite():
    lines = ["", "    ", "\tx = f(1, y='a')  # z", "ß∂ 3", '"""', "\x0c"]
    table = feature_table(lines)
    assert table.shape == (len(lines), len(FEATURES))
    assert len(set(FEATURES)) == len(FEATURES)
    assert np.isfinite(table).all()


def test_features_of_a_line():
    found = dict(zip(FEATURES, line_features("    return f(x, "), strict=True))
    assert found["indentation"] == 4
    assert found["length"] == 11
    assert found["words"] == 2
    assert found["unclosed brackets"] == 1
    assert found["first: lowercase letter"] == found["last: comma"] == 1
    assert found["statement keyword"] == found["call"] == 1
    assert found["import"] == found["hash"] == 0


def test_every_line_has_one_first_and_one_last_category():
    table = feature_table(["", "x", "X", "1", "_", "#", "@", "()", ":", ",", ".", "\\", "=", "€"])
    for side in ("first", "last"):
        columns = [i for i, name in enumerate(FEATURES) if name.startswith(f"{side}: ")]
        np.testing.assert_array_equal(table[:, columns].sum(axis=1), 1)


def test_features_do_not_depend_on_neighbors():
    lines = ['"""Open', "", "x = 1", '"""', "# y"]
    shuffled = [3, 0, 4, 2, 1]
    np.testing.assert_array_equal(
        feature_table([lines[i] for i in shuffled]), feature_table(lines)[shuffled]
    )


@pytest.fixture
def folder(tmp_path):
    """A small library: two valid files, and one of each kind that is skipped."""
    body = "# Functions.\n\n" + "".join(
        f"def f{i}():\n    '''Do {i}.'''\n    return {i}\n\n" for i in range(15)
    )
    contents = {
        "a.py": body.encode(),
        "b/c.py": b"# -*- coding: latin-1 -*-\r\n" + body.replace("Do", "Dö").encode("latin-1"),
        "short.py": b"x = 1\n",
        "broken.py": body.encode() + b"print 'two'\n",
        "encoding.py": body.encode() + b"# \xff\xfe\n",
        "test/d.py": body.encode(),
        "site-packages/e.py": body.encode(),
        "nothing.txt": body.encode(),
    }
    for name, content in contents.items():
        path = tmp_path / "library" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "library"


def test_load_files_skips_unusable_files(folder):
    files = demo.load_files(10, folder=folder)
    assert sorted(file.name for file in files) == ["a.py", "b/c.py"]
    for file in files:
        assert len(file.lines) == len(file.labels) == len(file.features)
        assert set(file.labels) <= set(LABELS)
    assert "Dö" in "".join(line for file in files for line in file.lines)


def test_load_files_needs_two_files(folder):
    (folder / "a.py").unlink()
    with pytest.raises(FileNotFoundError, match="1 Python files of 40 to 1200 lines; expected at"):
        demo.load_files(10, folder=folder)


def test_the_seed_selects_the_files(folder):
    for i in range(12):
        (folder / f"copy{i}.py").write_bytes((folder / "a.py").read_bytes())
    names = [
        [file.name for file in demo.load_files(4, seed=seed, folder=folder)] for seed in (0, 0, 1)
    ]
    assert names[0] == names[1] != names[2]
    assert len(names[0]) == len(set(names[0])) == 4


def make_file(source: str) -> SourceFile:
    lines = split_lines(source)
    return SourceFile("a<b>.py", lines, np.array(label_lines(source)), feature_table(lines))


def test_show_case_depends_on_true_labels_only():
    plain = make_file("x = 1\n")
    full = make_file("'''d'''\n# c\n\nx = 1\n")
    fuller = make_file("'''d\nd'''\n# c\n\nx = 1\n")
    assert demo.show_case([plain, fuller, full]) is fuller
    assert demo.show_case([plain, fuller, full], max_lines=4) is full
    assert demo.show_case([plain], max_lines=0) is plain


def test_page_escapes_the_source_and_marks_errors():
    file = make_file("if a < b & c:\n    print('<script>\"')\n")
    page = demo.render_page(
        file, {"<one>": file.labels, "two": ["code", "comment"]}, [("a < b", ["<i>", "&"])]
    )
    assert "<script" not in page
    assert "if a &lt; b &amp; c:" in page
    assert "a&lt;b&gt;.py" in page and "a<b>" not in page
    assert "&lt;one&gt;" in page and "&lt;i&gt;" in page
    assert page.count('data-true="') == 1
    assert 'class="comment error" data-true="code"' in page
    assert "0 of 2 lines wrong" in page and "1 of 2 lines wrong" in page


def test_page_loads_no_other_files():
    page = demo.render_page(make_file("x = 1\n"), {"one": ["code"]})
    for word in ("http", "src=", "<link", "@import", "url("):
        assert word not in page


def test_links_lead_to_the_errors():
    file = make_file("x = 1\n" * 6)
    wrong = np.array(["code", "blank", "blank", "code", "comment", "blank"])
    page = demo.render_page(file, {"right": file.labels, "wrong": wrong})
    assert [(run.first, run.last, run.label) for run in demo.error_runs(file, wrong)] == [
        (2, 3, "blank"), (5, 5, "comment"), (6, 6, "blank")
    ]  # fmt: skip
    targets = set(re.findall('href="([^"]*)"', page))
    assert targets == {"#line-2", "#line-5", "#line-6"}
    for target in targets:
        assert page.count(f'id="{target[1:]}"') == 1
    summary, lines = page.split("<h2>The file</h2>")
    assert "<b>right</b>: all lines are correct" in summary
    assert '<a href="#line-2">lines 2 to 3</a> (code labeled blank), <a' in summary
    chain = re.findall('href="#line-([0-9])">(first|next) error', lines)
    assert chain == [("2", "first"), ("5", "next"), ("6", "next")]
    marks = re.findall('title="(line.*?)" style="top:(.*?)%;height:(.*?)%"', lines)
    assert marks[0] == ("lines 2 to 3: code labeled blank", "16.67", "33.33")
    assert len(marks) == 3


def test_confusions_are_counted_by_model():
    files = [make_file("x = 1\n# c\n"), make_file("x = 1\n\n")]
    one = [np.array(["comment", "comment"]), np.array(["comment", "code"])]
    right = [file.labels for file in files]
    assert demo.confusion_rows(files, [one, right]) == [
        ("code labeled comment", ["2", "0"]), ("blank labeled code", ["1", "0"])
    ]  # fmt: skip
    assert demo.confusion_rows(files, [right]) == []


def test_minimaps_mark_errors():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    file = make_file("x = '$1 $2'\n# y\n\n")
    demo.draw_minimaps(figure, file, {"model": ["code", "code", "code"]})
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["true labels", "model: 2 wrong"]
    assert [len(ax.lines) for ax in figure.axes] == [0, 2]


def test_models_differ_in_order_only():
    first, second = demo.make_models(window=3, iterations=7, n_jobs=2, seed=5).values()
    assert (first.order, second.order) == (0, 1)
    assert first.set_params(order=1).get_params() == second.get_params()


def test_both_models_learn():
    files = demo.load_files(9, seed=3)
    for name, model in demo.make_models(window=1, iterations=8).items():
        result = demo.evaluate(name, model, files[3:], files[:3])
        assert result.accuracy > 0.9
        assert -0.5 < result.log_likelihood < 0
        assert [len(labels) for labels in result.predictions] == [len(f.lines) for f in files[:3]]


def test_table_has_a_column_for_each_model():
    shares = dict(zip(LABELS, (0.5, 0.25, 0.125, 1.0), strict=True))
    results = [
        demo.Result(name, [], 0.987, -0.5, shares, shares, seconds=2.0, lines_per_second=12345.6)
        for name in ("one", "another")
    ]
    lines = demo.format_table(results).split("\n")
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == ["one", "another"]
    assert lines[1].split() == ["accuracy", "98.70%", "98.70%"]
    assert lines[2].split()[-2:] == ["13.0", "13.0"]
    assert "F1 of docstring" in lines[9] and lines[9].split()[-1] == "12.50%"
    assert lines[-1].split()[-1] == "12,346"


def test_the_whole_command(tmp_path, capsys, folder, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda _: folder)
    output = tmp_path / "new" / "picture.html"
    options = ["--files=1", "--iterations=2", "--jobs=1", "--quiet", f"--output={output}"]
    assert demo.main(options) == 0
    printed = capsys.readouterr().out
    assert printed.split()[:3] == ["window", "only", "TREECRF"]
    for label in LABELS:
        assert f"recall of {label}" in printed and f"F1 of {label}" in printed
    assert str(output) in printed
    assert printed.endswith(f"\nopen {output}\n")
    assert "</html>" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--files=0", "--iterations=-1", "--window=-1", "--jobs=two"])
def test_main_refuses_bad_options(option, capsys):
    with pytest.raises(SystemExit):
        demo.main([option])
    assert option.split("=")[0] in capsys.readouterr().err
