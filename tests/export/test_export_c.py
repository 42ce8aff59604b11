"""Which models `export_c` takes, and which files it writes."""

from __future__ import annotations

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from support.settings import FIXED

from treecrf import (
    FutureFeatureMEMM,
    LinearCRF,
    SlidingWindowClassifier,
    StructuredSVM,
    TreeCRF,
    TreeMEMM,
    export_c,
)

X, Y = ["abab", "ba", "aab"], ["xyxy", "yx", "xxy"]
SMALL = FIXED | {"max_iter": 3, "l2_regularization": 1.0}


@pytest.fixture(scope="module")
def crf():
    return LinearCRF().fit(X, Y)


UNSUPPORTED = {
    "a beam": (TreeCRF(beam_width=2, **SMALL), "a beam cannot .*beam_width=None"),
    "a search in a beam": (TreeMEMM(decoding="beam", **SMALL), 'decoding="beam".*"greedy"'),
    "an estimator of rows": (
        SlidingWindowClassifier(LogisticRegression(), window=1), "an estimator of rows.*trees",
    ),
    "a kernel": (StructuredSVM(kernel="rbf", max_iter=2), 'a kernel.*kernel="linear"'),
    "transition features": (
        LinearCRF(transition_features=True), "transition_features cannot .*=False",
    ),
    "features of the future": (
        FutureFeatureMEMM(max_iter=2, max_future_features=1, early_stopping=False),
        "features of the future.*TreeMEMM",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_models(name, tmp_path):
    model, message = UNSUPPORTED[name]
    model.fit(X, Y)
    with pytest.raises(NotImplementedError, match=f"{type(model).__name__} with {message}"):
        export_c(model, tmp_path / "labeler.c")
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        export_c(LinearCRF(), tmp_path / "labeler.c")


@pytest.mark.parametrize("path", ["labeler.h", "labeler", "labeler.cpp", "x.C"])
def test_other_extensions(path, crf, tmp_path):
    with pytest.raises(ValueError, match=f"{path}: expected a file with the extension .c"):
        export_c(crf, tmp_path / path)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "_a", "é", "a b"])
def test_invalid_names(name, crf, tmp_path):
    with pytest.raises(ValueError, match="expected a letter, followed by letters, digits"):
        export_c(crf, tmp_path / "labeler.c", name=name)
    if name:
        with pytest.raises(ValueError, match="name="):
            export_c(crf, tmp_path / f"{name}.c")
    assert not list(tmp_path.iterdir())


def test_the_name_is_that_of_the_file_or_a_given_one(crf, tmp_path):
    export_c(crf, tmp_path / "letters.c")
    export_c(crf, str(tmp_path / "other-file.c"), name="x9")
    assert "int letters_predict(void *" in (tmp_path / "letters.h").read_text()
    header = (tmp_path / "other-file.h").read_text()
    assert "int x9_predict(void *" in header and "#define X9_N_LABELS 2" in header
    source = (tmp_path / "other-file.c").read_text()
    assert source.startswith("/* Written by treecrf ") and '#include "other-file.h"' in source
    for text in (header, source):
        assert "labeler_" not in text and "LABELER_" not in text and "@" not in text


@pytest.mark.parametrize("extension", ["c", "h"])
def test_files_of_others_are_not_overwritten(extension, crf, tmp_path):
    file = tmp_path / f"labeler.{extension}"
    file.write_text("int main(void);\n")
    with pytest.raises(ValueError, match=rf"labeler.{extension}: the file exists and was not"):
        export_c(crf, tmp_path / "labeler.c")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.read_text() == "int main(void);\n"


def test_own_and_empty_files_are_overwritten(crf, tmp_path):
    path = tmp_path / "labeler.c"
    path.touch()
    export_c(TreeCRF(init="zero", **SMALL).fit(X, Y), path)
    assert "from a TreeCRF" in path.read_text()
    export_c(crf, path)
    assert "from a LinearCRF" in path.read_text()
    assert "from a LinearCRF" in path.with_suffix(".h").read_text()


def test_a_folder_is_an_error(crf, tmp_path):
    (tmp_path / "labeler.c").mkdir()
    with pytest.raises(IsADirectoryError):
        export_c(crf, tmp_path / "labeler.c")
    with pytest.raises(FileNotFoundError):
        export_c(crf, tmp_path / "none" / "labeler.c")
