"""Columns that a model remembers, that predictions keep, and that lack labels; their errors."""

import csv

import numpy as np
import pytest
from support.command_files import DAYS, OF_DAYS, ROWS, SMALL, TOKENS

import treecrf
from treecrf.cli import main
from treecrf.inputs.column_names import ColumnNames
from treecrf.learners.base.fitted import fitted_model
from treecrf.learners.registry import LEARNERS

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

# Columns of the model


def names_of_columns(model):
    return fitted_model(model).predictor.columns


def test_a_model_remembers_the_columns_of_labels_and_groups(folder, succeed):
    expected = succeed("predict", "data.csv", "--model", "m", "--group", "day")
    assert succeed("predict", "data.csv", "--model", "m") == expected
    assert expected.startswith("day,prediction\nmon,")
    scores = succeed("evaluate", "data.csv", "--model", "m", "--label", "y", "--group", "day")
    assert succeed("evaluate", "data.csv", "--model", "m") == scores
    assert "sequences          3\n" in scores
    text = succeed("info", "m")
    assert "label column   y\ngroup column   day\n" in text


def test_other_columns_than_those_of_the_model(folder, succeed, fail):
    expected = succeed("predict", "data.csv", "--model", "m")
    other = DAYS.replace("day,time,y,", "date,time,state,")
    (folder / "other.csv").write_text(other)
    errors = fail("predict", "other.csv", "--model", "m")
    assert (
        "other.csv: there is no column 'day', which identified the sequences in training" in errors
    )
    assert "--group, or --no-group if all rows are one sequence; the columns are: date," in errors
    found = succeed("predict", "other.csv", "--model", "m", "--group", "date")
    assert found == expected.replace("day,", "date,")
    words = ["evaluate", "other.csv", "--model", "m", "--group", "date"]
    assert "there is no column 'y' as in training" in fail(*words)
    assert "accuracy" in succeed(*words, "--label", "state")
    words = ["evaluate", "data.csv", "--model", "m", "--no-group"]
    assert "sequences          1\n" in succeed(*words)
    with pytest.raises(SystemExit):
        main([*words, "--group", "day"])


def test_predictions_need_no_labels(folder, succeed):
    expected = succeed("predict", "data.csv", "--model", "m")
    for old, new in ((",y,", ",z,"), (",a,", ",,"), (",a,", ",other,")):
        (folder / "new.csv").write_text(DAYS.replace(old, new))
        assert succeed("predict", "new.csv", "--model", "m") == expected


def test_a_model_of_tables_labels_other_formats(folder, fail):
    errors = fail("predict", "data.conll", "--model", "m")
    assert "data.conll: column 'x' was a number in training, but is a category" in errors


@pytest.mark.filterwarnings("ignore:LinearCRF did not converge")
@pytest.mark.parametrize("learner", ["crf", "linear", "hmm"])
def test_fits_on_data_frames_store_the_names(learner, folder, succeed):
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv("data.csv")
    X = frame[["day", "c"]] if learner == "hmm" else frame[["day", "x"]]
    model = LEARNERS[learner]()
    if learner == "hmm":
        model.fit(X["c"].to_numpy(), frame["y"], groups=frame["day"].to_numpy())
        assert names_of_columns(model) == treecrf.inputs.dataset.ColumnNames("y", None)
    else:
        model.set_params(max_iter=2).fit(X, frame["y"], groups="day")
        assert names_of_columns(model) == treecrf.inputs.dataset.ColumnNames("y", "day")
    model.save("other")
    assert names_of_columns(treecrf.load("other")) == names_of_columns(model)
    if learner == "crf":
        assert "label column   y\ngroup column   day\n" in succeed("info", "other")
        flat = treecrf.flatten(model)
        flat.save("flat")
        assert (
            names_of_columns(treecrf.load("flat"))
            == names_of_columns(flat.prune(0.0))
            == names_of_columns(model)
        )
        assert succeed("predict", "data.csv", "--model", "flat").startswith("day,prediction\n")


def test_names_of_a_model_file_are_checked(letters, tmp_path, monkeypatch):
    model = treecrf.TreeCRF(max_iter=1).fit(*letters)
    for values in ("y", {"other": "y"}, {"label": 1}):
        monkeypatch.setattr(ColumnNames, "state", lambda _, values=values: values)
        with pytest.raises(ValueError, match="column names"):
            model.save(tmp_path / "m")


# Columns of the output


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_columns_of_a_table_are_kept(folder, succeed, fail):
    words = ["predict", "data.csv", "--model", "m"]
    expected = rows_of(succeed(*words))
    kept = rows_of(succeed(*words, "--keep", "time", "--keep", "c"))
    assert list(kept[0]) == ["day", "time", "c", "prediction"]
    assert [row["time"] for row in kept] == [str(row[1]) for row in ROWS]
    assert [row["prediction"] for row in kept] == [row["prediction"] for row in expected]
    text = succeed(*words, "--keep-all", "--proba")
    assert text.startswith("day,time,y,x,c,prediction,p_a,p_b\nmon,0,a,0,u,")
    assert succeed(*words, "--keep-all", "--drop", "time", "--drop", "y", "--no-group").startswith(
        "day,x,c,prediction\nmon,0,u,"
    )
    errors = fail(*words, "--keep", "hour")
    assert "data.csv: --keep names 'hour'; the columns are: day, time, y, x, c" in errors


def test_references_are_written_beside_predictions(folder, succeed, fail):
    words = ["predict", "data.csv", "--model", "m", "--reference"]
    rows = rows_of(succeed(*words))
    assert list(rows[0]) == ["day", "y", "prediction"]
    assert [row["y"] for row in rows] == [row[2] for row in ROWS]
    assert succeed(*words, "--keep-all").startswith("day,time,y,x,c,prediction\n")
    (folder / "new.csv").write_text(DAYS.replace(",y,", ",z,"))
    errors = fail("predict", "new.csv", "--model", "m", "--reference")
    assert "new.csv: --reference needs labels; there is no column 'y' as in training" in errors
    (folder / "new.csv").write_text(DAYS.replace("mon,0,a,", "mon,0,,"))
    text = succeed("predict", "new.csv", "--model", "m", "--reference")
    assert text.startswith("day,y,prediction\nmon,,")


def test_values_are_kept_as_they_are(folder, succeed):
    odd = 'key,day,x,c\n"1,5",mon,1,u\n"a ""b""\nc",mon,01.50,"u"\n,mon,,u\n'
    (folder / "odd.csv").write_text(odd)
    text = succeed("predict", "odd.csv", "--model", "m", "--keep-all")
    rows = list(csv.reader(text.splitlines(keepends=True)))
    expected = [["1,5", "mon", "1", "u"], ['a "b"\nc', "mon", "01.50", "u"], ["", "mon", "", "u"]]
    assert [row[:4] for row in rows[1:]] == expected


def test_values_of_parquet_are_kept_as_text(folder, succeed):
    import datetime

    table = pa.table(
        {
            "t": [datetime.datetime(2024, 5, 1, 12, 30), None],
            "i": pa.array([7, None]),
            "f": [0.1, 1e300],
            "l": [[1, 2], None],
            "b": [b"x", None],
            "k": pa.array(["p", "q"]).dictionary_encode(),
            "x": [0, 1],
            "c": ["u", "v"],
        }
    )
    pyarrow.parquet.write_table(table, "odd.parquet")
    words = ["predict", "odd.parquet", "--model", "m", "--no-group", "--keep-all"]
    first, second = list(csv.reader(succeed(*words).splitlines()))[1:]
    assert first[0].startswith("2024-05-01 12:30:00")
    assert first[1:6] == ["7", "0.1", "[1, 2]", "x", "p"]
    assert second[:6] == ["", "", "1e+300", "", "", "q"]


def test_a_prediction_does_not_occur_twice(folder, succeed, fail):
    text = succeed("predict", "data.csv", "--model", "m", "--keep-all")
    (folder / "labeled.csv").write_text(text)
    words = ["predict", "labeled.csv", "--model", "m", "--keep-all"]
    errors = fail(*words)
    assert "column 'prediction' would occur twice in the output; --drop prediction" in errors
    assert succeed(*words, "--drop", "prediction") == text


def test_tokens_are_kept_beside_labels(folder, succeed, fail):
    words = ["predict", "data.conll", "--model", "chunks"]
    labels = succeed(*words).splitlines()
    lines = succeed(*words, "--keep-all", "--reference").splitlines()
    tokens = [line.split() for line in TOKENS.splitlines()]
    assert [line.split("\t")[:3] if line else [] for line in lines] == [*tokens, []]
    assert [line.split("\t")[-1] for line in lines] == labels
    assert succeed(*words, "--keep", "x1").startswith(f"PRP\t{labels[0]}\n")
    assert "--keep names 'y'; the columns are: x0, x1" in fail(*words, "--keep", "y")
    (folder / "new.conll").write_text("He PRP\n")
    errors = fail("predict", "new.conll", "--model", "chunks", "--reference")
    assert "new.conll: --reference needs labels; the file has no column of labels" in errors


def test_attributes_are_kept_and_sparse_windows_are_not(folder, succeed, fail):
    (folder / "a.crfsuite").write_text("X\ta\tb:2\nY\tb\n\nY\tc\n")
    assert main(["train", "a.crfsuite", "--model", "other", *SMALL]) == 0
    words = ["predict", "a.crfsuite", "--model", "other", "--reference", "--proba"]
    lines = succeed(*words, "--keep-all").splitlines()
    assert lines[0].startswith("a\tb:2\tX\t")
    assert lines[3].startswith("c\tY\t")
    (folder / "a.sparse").write_text("1 2 2\n1 1 1 0 0\n1 2 0 1\n")
    assert main(["train", "a.sparse", "--model", "other", *SMALL]) == 0
    words = ["predict", "a.sparse", "--model", "other", "--reference"]
    assert succeed(*words).startswith("0\t")
    assert "a.sparse: the format has no columns to keep" in fail(*words, "--keep-all")


# Labels that are missing or wrong


PARTLY = DAYS.replace("mon,3,b,", "mon,3,,").replace("wed,0,a,", "wed,0,,")


def test_labels_may_be_missing_in_training(folder, succeed):
    (folder / "part.csv").write_text(PARTLY)
    words = ["train", "part.csv", "--model", "other", *OF_DAYS, *SMALL]
    assert succeed(*words) == ""
    days = [ROWS[start : start + 6] for start in (0, 6, 12)]
    X = [np.array([[float(row[3])] for row in day]) for day in days]
    y = [[row[2] for row in day] for day in days]
    y[0][3] = y[2][0] = None
    found = treecrf.load("other")
    words = ["--drop", "c", "--model", "plain"]
    assert succeed("train", "part.csv", *words, *OF_DAYS, *SMALL) == ""
    expected = treecrf.TreeCRF(max_iter=3, l2_regularization=1.0, early_stopping=False).fit(X, y)
    assert treecrf.load("plain").train_score_.tolist() == expected.train_score_.tolist()
    assert found.classes_.tolist() == ["a", "b"]
    text = succeed("evaluate", "part.csv", "--model", "other")
    assert "labels missing     2; these positions have no part in the scores\n" in text
    assert text.split("accuracy ")[-1].split()[1] == "16"


def test_labels_of_tokens_may_be_missing(folder, succeed):
    (folder / "part.conll").write_text(TOKENS.replace(" ", "\t").replace("PRP\tB", "PRP\t"))
    words = ["train", "part.conll", "--separator", r"\t", "--model", "other", *SMALL]
    assert succeed(*words) == ""
    assert treecrf.load("other").classes_.tolist() == ["B", "O"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--learner", "perceptron"], "StructuredPerceptron needs all labels in training"),
        (["--learner", "svm"], "StructuredSVM needs all labels in training"),
        (["--set", "init=pseudo_likelihood"], "init='pseudo_likelihood' needs all labels in"),
    ],
)
def test_learners_that_need_all_labels(options, reason, folder, fail):
    (folder / "part.csv").write_text(PARTLY)
    errors = fail("train", "part.csv", "--model", "other", *OF_DAYS, "--quiet", *options)
    assert f"part.csv: row 5, column 'y': the label is missing; {reason}" in errors


def test_labels_that_are_all_missing(folder, fail):
    (folder / "none.csv").write_text(DAYS.replace(",a,", ",,").replace(",b,", ",,"))
    errors = fail("train", "none.csv", "--model", "other", *OF_DAYS, *SMALL)
    assert "none.csv: y holds no labels" in errors or "none.csv: y holds no known labels" in errors
    errors = fail("evaluate", "none.csv", "--model", "m")
    assert "none.csv: column 'y' holds no labels; the labels of the model are 'a', 'b'" in errors


def test_the_wrong_column_of_labels_is_named(folder, fail):
    words = ["evaluate", "data.csv", "--model", "m", "--label"]
    expected = (
        "--label names 'x', a feature of the model; the labels of its training data were in 'y'"
    )
    assert expected in fail(*words, "x")
    errors = fail(*words, "time")
    assert "data.csv: column 'time' holds '0', '1', '2', '3', '4', ...; the labels of the" in errors
    assert "there is no column 'yy'; did you mean 'y'?" in fail(*words, "yy")


def test_labels_of_another_type_are_named(folder, fail):
    whole = DAYS.replace(",a,", ",1,").replace(",b,", ",2,")
    (folder / "whole.csv").write_text(whole)
    assert main(["train", "whole.csv", "--model", "other", *OF_DAYS, *SMALL]) == 0
    errors = fail("evaluate", "data.csv", "--model", "other")
    assert "data.csv: row 2, column 'y': 'a' is not a whole number" in errors
    errors = fail("evaluate", "whole.csv", "--model", "m")
    assert "whole.csv: column 'y' holds '1', '2'; the labels of the model are 'a', 'b'" in errors


def test_labels_that_did_not_occur_in_training_are_named_in_validation_data(folder, fail):
    (folder / "other.csv").write_text(DAYS.replace(",a,", ",z,"))
    words = ["--validation", "other.csv", "--model", "other"]
    errors = fail("train", "data.csv", *words, *OF_DAYS, *SMALL)
    assert "other.csv: sequence 0, position 0: label 'z' was not seen in training" in errors


def test_errors_of_training_name_the_file(folder, fail):
    (folder / "one.csv").write_text(DAYS.replace(",b,", ",a,"))
    errors = fail("train", "one.csv", "--model", "other", *OF_DAYS, *SMALL)
    assert "one.csv: y holds only the label 'a'" in errors


def test_timestamps_can_be_dropped(folder, fail, succeed):
    import datetime

    times = [datetime.datetime(2024, 5, 1, hour) for hour in range(4)]
    table = pa.table({"date": times, "x": [0, 1, 0, 1], "y": ["a", "b", "a", "b"]})
    pyarrow.parquet.write_table(table, "dates.parquet")
    words = ["train", "dates.parquet", "--label", "y", "--model", "other", *SMALL]
    errors = fail(*words)
    assert "column 'date' is of type timestamp[us]; expected numbers, booleans or" in errors
    assert "; --drop date leaves it out" in errors
    assert succeed(*words, "--drop", "date") == ""


def test_large_integers_are_refused(folder, fail):
    large = pa.array([1, 2**63], pa.uint64())
    table = pa.table({"x": [0, 1], "y": ["a", "b"], "k": large})
    pyarrow.parquet.write_table(table, "large.parquet")
    expected = "large.parquet: row 2, column 'k': 9223372036854775808 is larger than 64 bits"
    for words in (["--label", "y", "--category", "k"], ["--label", "k", "--drop", "y"]):
        assert expected in fail("train", "large.parquet", "--model", "other", *words, *SMALL)


@pytest.mark.parametrize(("separator", "option"), [(";", ";"), ("\t", "\\t"), ("|", "|")])
def test_another_separator_is_suggested(separator, option, folder, run):
    (folder / "other.csv").write_text(DAYS.replace(",", separator))
    words = ["train", "other.csv", "--model", "new", *OF_DAYS, *SMALL]
    assert f"; try --separator '{option}'" in run(*words)[2]
    assert run(*words, "--separator", option)[0] == 0


def test_a_model_without_trees_has_neither_rules_nor_importances(folder, run):
    X, y = [np.arange(6.0)[:, None]] * 2, ["ababab", "bababa"]
    treecrf.TreeCRF(max_iter=1, early_stopping=False).fit(X, y).truncated(0).save("none")
    status, text, _ = run("info", "none")
    assert status == 0 and "start          none\niterations     0" in text
    assert "strongest" not in text and "importances" not in text
