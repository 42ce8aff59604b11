"""Commands with templates of CRF++ and patterns of Wapiti: the model file remembers them."""

import json

import numpy as np
import pytest

import treecrf
from treecrf import LinearCRF
from treecrf.datasets import read_conll
from treecrf.inputs.column_names import ColumnNames
from treecrf.preprocessing import AttributeTemplates

TEXT = "Ada NNP B\nmet VBD O\nMary NNP B\n\nThey PRP O\nleft VBD O\n\n"
TEMPLATES = "# words\nU00:%x[-1,0]\nU01:%x[0,0]\nU:%x[0,1]\nU:%x[1,1]\n\nB\n"
PATTERNS = '*\nU:%X[0,0]\nu:caps=%t[0,0,"^\\u"]\nU:%x[1,1] # the next tag\nb\n'
FILES = {"template": ("crf++", TEMPLATES), "pattern": ("wapiti", PATTERNS)}
TRAIN = ["train", "train.conll", "--model", "m.treecrf", "--learner", "linear", "--quiet"]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(TEXT * 4)
    (tmp_path / "new.conll").write_text("Bob NNP\nleft VBD\n")
    for name, (_, text) in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_the_model_remembers_templates(files, succeed, name):
    assert succeed(*TRAIN, f"--{name}", name) == ""
    syntax, text = FILES[name]
    X, y = read_conll("train.conll")
    templates = AttributeTemplates(text, syntax=syntax)
    expected = LinearCRF().fit(templates.transform(X), y)
    model = treecrf.load("m.treecrf")
    np.testing.assert_array_equal(model.get_attribute_names(), expected.get_attribute_names())
    np.testing.assert_array_equal(model.state_weights_, expected.state_weights_)

    (files / name).unlink()
    new, _ = read_conll("new.conll", label=None)
    labels = expected.predict(templates.transform(new))[0]
    found = succeed("predict", "new.conll", "--model", "m.treecrf", "--keep-all")
    assert found == "Bob\tNNP\t{}\nleft\tVBD\t{}\n\n".format(*labels)
    with_labels = succeed("predict", "train.conll", "--model", "m.treecrf", "--reference")
    assert all(len(set(line.split("\t"))) == 1 for line in with_labels.splitlines())
    scores = json.loads(succeed("evaluate", "train.conll", "--model", "m.treecrf", "--json"))
    assert scores["accuracy"] == 1
    n_lines = len(text.splitlines())
    assert f"templates      {n_lines} lines of {syntax}\n" in succeed("info", "m.treecrf")


def test_validation_data_have_the_same_attributes(succeed):
    settings = ["--template", "template", "--max-iter", "5", "--quiet"]
    words = ["train", "train.conll", "--model", "m.treecrf", "--validation", "train.conll"]
    assert succeed(*words, *settings) == ""
    X, y = read_conll("train.conll")
    made = AttributeTemplates(TEMPLATES).transform(X)
    model = treecrf.load("m.treecrf")
    assert list(map(list, model.predict(made))) == y
    assert len(model.validation_score_)


def test_attributes_of_two_templates_count_once(succeed):
    text = "a X\na Y\nb X\n\n"
    with open("twice.conll", "w") as file:
        file.write(text * 3)
    with open("bag", "w") as file:
        file.write("U:%x[0,0]\nU:%x[1,0]\n")
    words = ["train", "twice.conll", "--model", "m.treecrf", "--learner", "linear", "--quiet"]
    assert succeed(*words, "--template", "bag") == ""
    X, y = read_conll("twice.conll")
    expected = LinearCRF().fit(AttributeTemplates(["U:%x[0,0]", "U:%x[1,0]"]).transform(X), y)
    found = treecrf.load("m.treecrf")
    np.testing.assert_array_equal(found.state_weights_, expected.state_weights_)


def test_attributes_are_also_read_from_files_of_crfsuite(succeed):
    assert succeed(*TRAIN, "--template", "template") == ""
    with open("new.crfsuite", "w") as file:
        file.write("\tU00\\:_B-1\tU01\\:Ada\n\tU01\\:left\tU\\:VBD\n")
    found = succeed("predict", "new.crfsuite", "--model", "m.treecrf")
    assert found == "B\nO\n\n"


def test_other_files_and_templates_are_refused(fail):
    with open("wrong", "w") as file:
        file.write("U:%x[0,0]\nU:%x[0,2]\n")
    assert "train.conll: templates, line 2: 'U:%x[0,2]' reads column 2" in fail(
        *TRAIN, "--template", "wrong"
    )
    with open("wrong", "w") as file:
        file.write("U:%x[0,0]\nU:%x[0]\n")
    assert "wrong, line 2: 'U:%x[0]'" in fail(*TRAIN, "--template", "wrong")
    assert "No such file" in fail(*TRAIN, "--template", "missing")
    with open("t.crfsuite", "w") as file:
        file.write("X\ta\n")
    words = ["train", "t.crfsuite", "--model", "m.treecrf", "--template", "template"]
    assert "templates are for files of the format conll" in fail(*words)


@pytest.mark.filterwarnings("default")
def test_templates_of_pairs_of_labels_cause_a_warning(run):
    with open("pairs", "w") as file:
        file.write("U:%x[0,0]\nB:%x[0,0]\n")
    status, _, errors = run(*TRAIN, "--template", "pairs")
    assert status == 0
    assert errors.startswith("treecrf: warning: templates, line 2: 'B:%x[0,0]' is about pairs")


def test_files_with_other_columns_are_refused(succeed, fail):
    assert succeed(*TRAIN, "--template", "template") == ""
    with open("wide.conll", "w") as file:
        file.write("a b c d\n")
    message = fail("predict", "wide.conll", "--model", "m.treecrf")
    assert "line 1: 4 columns; the model was trained with 2 and the label" in message


def test_templates_do_not_overwrite_files(fail):
    words = ["train", "train.conll", "--template", "template", "--model", "template"]
    assert "the output is the same file as the input template" in fail(*words)


@pytest.mark.parametrize(
    "change", [{"syntax": 1}, {"templates": "U"}, {"templates": [1]}, {"n_columns": 0}, {"more": 1}]
)
def test_damaged_templates_are_refused(change):
    valid = {"templates": ["U"], "syntax": "crf++", "n_columns": 2}
    names = ColumnNames.from_state({"templates": valid})
    assert names.state()["templates"] == valid | {"templates": ("U",)}
    with pytest.raises(ValueError, match="templates"):
        ColumnNames.from_state({"templates": valid | change})
