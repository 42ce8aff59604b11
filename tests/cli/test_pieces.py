"""Training of the command line on tables that are read in pieces."""

import pytest
from support.command_files import SMALL, TABLE
from support.family import assert_same_forest

import treecrf
from treecrf.learners.base.fitted import fitted_model


@pytest.fixture
def parts(table):
    """The table in two files of a folder."""
    folder = table.parent / "parts"
    folder.mkdir()
    header, *lines = table.read_text().splitlines(keepends=True)
    (folder / "part-2.csv").write_text("".join([header, *lines[:40]]))
    (folder / "part-10.csv").write_text("".join([header, *lines[40:]]))
    return folder


@pytest.mark.parametrize("data", ["parts", "parts/*.csv", "data.csv"])
def test_tables_in_pieces(data, parts, model, run):
    folder = parts.parent
    scratch = ["--scratch", folder] if data == "data.csv" else []
    path = folder / "of_pieces.treecrf"
    status, output, errors = run("train", folder / data, *scratch, *TABLE, "--model", path, *SMALL)
    assert (status, output, errors) == (0, "", "")
    fitted, expected = treecrf.load(path), treecrf.load(model)
    assert fitted_model(fitted).predictor.columns == fitted_model(expected).predictor.columns
    assert_same_forest(fitted, expected)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--label", "tag"], "require --label and --group"),
        (["--learner", "hmm", *TABLE], "HMMClassifier does not read tables in pieces"),
        (["--validation", "-", *TABLE], "standard input is not read in pieces"),
        (["--format", "conll", *TABLE], "--format conll is not that of tables in pieces"),
        (["--drop", "thing", *TABLE], "drop='thing' is not a column"),
        (["--category", "thing", *TABLE], "category='thing' is not a column"),
        (["--scratch", "nowhere", "--drop", "thing", *TABLE], "nowhere: there is no such folder"),
        (["--scratch", __file__, *TABLE], "expected a folder for temporary files, not a file"),
    ],
)
def test_options_that_do_not_fit_pieces(options, match, parts, fail):
    model = parts.with_name("m.treecrf")
    errors = fail("train", parts, *options, "--model", model, "--quiet")
    assert match in errors
    assert not model.exists()


def test_a_folder_in_place_of_one_file(tmp_path, model, fail):
    errors = fail("predict", tmp_path, "--model", model)
    assert "expected one file, not a folder" in errors
