"""Random commands on damaged files: they work, or end with a message and an exit status.

An exception of `main` is a traceback for the user, and fails a case.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from treecrf.cli import main

N_ROWS = 20
# Options that all learners of the cases have.
FIT = ["--jobs", "1", "--quiet", "--max-iter", "1", "--window", "1"]
HOSTILE_TEXT = (
    b"", b"\x00", b"\r", b"\n\n\n", b'"', b"'", b",,,,", b"\t", b"\xff\xfe", b"\xef\xbb\xbf",
    b"1e400", b"-1e308", b"nan", b"NaN", b"inf", b"9" * 400, b"18446744073709551615", b"0x10",
    b"True", b"None", b":", b":::", b"a:1e999", b"a:-0", b"\\", b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80", b"2004-02-30", b"x" * 5000, b" ", b"#", b"%s{}", b"\x1a", b"\x85",
    b"\xe2\x80\xa8",
)  # fmt: skip
HOSTILE_WORDS = (
    "", "-", "--", "-1", "0", "nan", "1e999", "9" * 400, "\x00", "\udcff", "y", "x", "id", "\n",
    "../..", "/dev/null", ".", "a=b", "=", "window=1", "learning_rate=" + "9" * 400, "crf", "csv",
    "utf-16", "idna", "rot13", "x" * 5000, "1,2", "-5,3", "[1]", "{", "None", "True", "*", "**",
    "[", "max_iter=[]", "class_weight={'a': 1}", "transitions=bio", "init=linear", "order=99",
)  # fmt: skip
OPTIONS = (
    "--learner", "--window", "--order", "--max-iter", "--random-state", "--set", "--category",
    "--jobs", "--format", "--label", "--group", "--drop", "--missing", "--separator", "--encoding",
    "--validation", "--keep", "--keep-all", "--reference", "--proba", "--output", "--digits",
    "--features", "--rules", "--weights", "--no-group", "--scratch", "--parameters", "--quiet",
)  # fmt: skip


def table(rng, separator: str) -> str:
    """Write a table of sequences of five rows."""
    rows = [["id", "y", "x", "word"]]
    for i in range(N_ROWS):
        rows.append([i // 5, "ab"[i % 2], round(float(rng.normal()), 3), "uvw"[rng.integers(3)]])
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def lines(rng, form: str) -> str:
    """Write sequences of five lines in CoNLL's, CRFsuite's or the sparse format."""
    out = [f"{N_ROWS // 5} 2 3\n"] if form == "sparse" else []
    for i in range(N_ROWS):
        word, label = "uvw"[rng.integers(3)], "ab"[i % 2]
        out.append({
            "conll": f"{word} {rng.integers(3)} {label}\n",
            "conllu": f"{1 + i % 5}\t{word}\t_\t{label}\t{'_' * (i % 7)}" + "\t_" * 5 + "\n",
            "crfsuite": f"{label}\tw={word}\tx:{rng.integers(3)}\n",
            "sparse": f"{1 + i // 5} {1 + i % 5} 1 {rng.integers(3)} {i % 2}\n",
        }[form])  # fmt: skip
        if i % 5 == 4 and form != "sparse":
            out.append("\n")
    return "".join(out)


def parquet(rng) -> bytes:
    """Write the table as Parquet."""
    import polars

    file = io.BytesIO()
    polars.read_csv(table(rng, ",").encode()).write_parquet(file)
    return file.getvalue()


def content(rng, form: str) -> bytes:
    """Write a valid file."""
    if form == "parquet":
        return parquet(rng)
    if form in ("csv", "tsv"):
        return table(rng, {"csv": ",", "tsv": "\t"}[form]).encode()
    return lines(rng, form).encode()


def damage(rng, data: bytes) -> bytes:
    """Change, insert, repeat or remove bytes at random places."""
    for _ in range(rng.integers(0, 4)):
        at = int(rng.integers(len(data) + 1))
        end = at + int(rng.integers(1, 60))
        kind = rng.integers(5)
        if kind == 0:
            data = data[:at] + HOSTILE_TEXT[rng.integers(len(HOSTILE_TEXT))] + data[at:]
        elif kind == 1:
            data = data[:at] + data[end:]
        elif kind == 2:
            data = data[:at] + data[at:end] * int(rng.integers(2, 20)) + data[end:]
        elif kind == 3:
            data = data[:at] + rng.bytes(int(rng.integers(1, 9))) + data[end:]
        else:
            data = data[:at]
    if rng.random() < 0.1:
        data = gzip.compress(data)[: None if rng.random() < 0.5 else 20]
    if rng.random() < 0.05:
        data = data.decode("latin-1").encode("utf-16")
    return data


def reading_options(form: str) -> list[str]:
    tables = ["--label", "y", "--group", "id"] if form in ("csv", "tsv", "parquet") else []
    return ["--format", form, *tables]


FORMS = ("csv", "tsv", "parquet", "conll", "conllu", "crfsuite", "sparse")


@functools.cache
def trained(form: str) -> bytes:
    """Train a model on a valid file; return its file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").write_bytes(content(np.random.default_rng(0), form))
        words = ["train", str(folder / "data"), "--model", str(folder / "m"), *FIT]
        status, message = call([*words, *reading_options(form)])
        assert status == 0, message
        return (folder / "m").read_bytes()


def call(words: list[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit status and messages."""
    out, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(b"id,y,x\n1,a,2\n"))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = main(words)
    except SystemExit as error:  # of the parser
        assert error.code in (0, 2), f"exit status {error.code!r}"
        status = int(error.code)
    finally:
        sys.stdin = stdin
    return status, errors.getvalue()


def draw_command(rng, folder: Path) -> list[str]:
    """Write files to a folder, and draw a command that reads them."""
    form = str(rng.choice(FORMS))
    data, model = folder / f"data.{form}", folder / "m"
    data.write_bytes(damage(rng, content(rng, form)))
    model.write_bytes(trained(str(rng.choice(FORMS)) if rng.random() < 0.1 else form))
    kind = str(rng.choice(["train", "train", "predict", "evaluate", "info"]))
    words = {
        "train": [str(data), "--model", str(model), *FIT, *reading_options(form)],
        "predict": [str(data), "--model", str(model), "--jobs", "1", "--format", form],
        "evaluate": [str(data), "--model", str(model), "--jobs", "1", "--format", form],
        "info": [str(model)],
    }[kind]
    for _ in range(rng.choice(3, p=[0.5, 0.3, 0.2])):
        at = int(rng.integers(len(words) + 1))
        word = HOSTILE_WORDS[rng.integers(len(HOSTILE_WORDS))]
        change = rng.choice(4, p=[0.6, 0.1, 0.2, 0.1])
        if change == 0:
            words[at:at] = [str(rng.choice(OPTIONS)), word]
        elif change == 1:
            words[at:at] = [str(rng.choice(OPTIONS))]
        elif change == 2 and at < len(words):
            words[at] = word
        elif change == 3:
            del words[at : at + 1]
    return [kind, *words]


def run_command(seed: int) -> str:
    """Run a command; return "worked", "refused" or "misused".

    Raises
    ------
    AssertionError
        If a command fails without a message, or changes a model file when it fails.
    """
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = draw_command(rng, folder)
        before = (folder / "m").read_bytes()
        here = os.getcwd()
        os.chdir(folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                status, message = call(words)
        finally:
            os.chdir(here)
        assert status in (0, 1, 2), f"exit status {status}"
        if status:
            assert message.strip(), f"no message: {words}"
            assert "Traceback" not in message, message[-300:]
            assert len(message) < 10_000, f"a message of {len(message)} characters"
            assert (folder / "m").read_bytes() == before, f"the model file changed: {words}"
    return ("worked", "refused", "misused")[status]
