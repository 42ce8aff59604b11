"""Files in every format that commands read, and options for training on them."""

import pytest

COLORS = {"a": "red", "b": "blue", "c": "green", "d": "grey"}


def write_table(path, letters, separator=","):
    """Write a table of two columns, one of which identifies the letters."""
    lines = [separator.join(["id", "y", "color", "number"])]
    for i, (word, labels) in enumerate(zip(*letters, strict=True)):
        for letter, label in zip(word, labels, strict=True):
            lines.append(separator.join([f"w{i}", label, COLORS[letter], str(len(word))]))
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, letters):
    csv_module = pytest.importorskip("pyarrow.csv")
    write_table(path.with_suffix(".csv"), letters)
    table = csv_module.read_csv(path.with_suffix(".csv"))
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def write_lines(path, letters, template):
    sequences = [
        "".join(
            template.format(letter=letter, label=label, color=COLORS[letter])
            for letter, label in zip(word, labels, strict=True)
        )
        for word, labels in zip(*letters, strict=True)
    ]
    path.write_text("\n".join(sequences))


def write_sparse(path, letters):
    lines = [f"{len(letters[0])} 3 4"]
    for i, (word, labels) in enumerate(zip(*letters, strict=True), start=1):
        for t, (letter, label) in enumerate(zip(word, labels, strict=True), start=1):
            lines.append(f"{i} {t} 1 {'abcd'.index(letter)} {'xyz'.index(label)}")
    path.write_text("\n".join(lines))


WRITERS = {
    "csv": write_table,
    "tsv": lambda path, letters: write_table(path, letters, "\t"),
    "parquet": write_parquet,
    "conll": lambda path, letters: write_lines(path, letters, "{letter} {color} {label}\n"),
    "crfsuite": lambda path, letters: write_lines(path, letters, "{label}\t{letter}\t{color}:2\n"),
    "sparse": write_sparse,
}
TABLE = ["--label", "y", "--group", "id"]
ROWS = [
    (day, t, "ab"[t % 2], t % 2, "uv"[t % 2]) for day in ("mon", "tue", "wed") for t in range(6)
]
DAYS = "day,time,y,x,c\n" + "".join(",".join(map(str, row)) + "\n" for row in ROWS)
OF_DAYS = ["--label", "y", "--group", "day", "--drop", "time"]
TOKENS = "He PRP B\nruns VB O\n\nNo UH B\nwell UH O\n"
SMALL = ["--max-iter", "3", "--quiet", "--jobs", "1"]
SMALL += ["--set", "l2_regularization=1", "--set", "early_stopping=false"]


def options_of(name):
    if name in ("csv", "tsv", "parquet"):
        pytest.importorskip("pyarrow")
        return TABLE
    return []
