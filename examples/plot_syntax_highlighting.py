"""
A syntax highlighter learned from examples
==========================================

From raw characters to code, comments, strings and docstrings, without any features made by hand.

Is a character of a Python file part of code, of a comment, of a string, or of a docstring? Models
learn this from labeled files, without any hand-made features: a sequence is the text of a file, a
str, and each character is a position.

A docstring may contain code, and the quotes around it may be far away. Windows of characters cannot
see them unless they are very wide. A linear conditional random field takes the previous label into
account, but adds up its score and the scores of the characters: it cannot learn that ``#`` begins a
comment after code, but not inside a string. The trees of `treecrf.TreeCRF` combine the previous
label with the characters.

Nothing has to be downloaded, because the files belong to the running Python. ``make demo`` runs
this example, prints the picture below in the terminal, and writes a report
(:doc:`/guide/reports`).
"""

# %%
# Files and labels
# ----------------
# The files are the modules of the standard library with 1,000 to 7,000 characters. In alphabetical
# order, every third one is a test file. The true labels come from Python's own `tokenize`. A string
# at the beginning of a statement is a docstring.

import io
import os
import shutil
import sys
import sysconfig
import tokenize
from itertools import accumulate, groupby, pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF, report
from treecrf.metrics import token_accuracy_score, token_f1_score

LABELS = ["code", "comment", "docstring", "string"]
BETWEEN_STATEMENTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def line_starts(source: str) -> list[int]:
    """Return where each line starts, and the end of the last one."""
    return [0, *accumulate(map(len, io.StringIO(source)))]


def label_characters(source: str) -> np.ndarray:
    """Return the label of each character."""
    starts = line_starts(source)
    labels = np.full(len(source), "code", dtype="U9")
    opened = []  # where f-strings begin, which are several tokens from Python 3.12 on
    is_new_statement = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind.endswith("STRING_START"):
            opened.append(token.start)
        elif kind in ("COMMENT", "STRING") or kind.endswith("STRING_END"):
            row, column = opened.pop() if kind.endswith("_END") else token.start
            last_row, end = token.end
            is_docstring = kind == "STRING" and is_new_statement
            label = "docstring" if is_docstring else "comment" if kind == "COMMENT" else "string"
            labels[starts[row - 1] + column : starts[last_row - 1] + end] = label
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            is_new_statement = token.type in BETWEEN_STATEMENTS
    return labels


paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
sources = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
sources = [source for source in sources if 1_000 <= len(source) <= 7_000]
X_test, X_train = sources[::3], [source for i, source in enumerate(sources) if i % 3]
y_test, y_train = list(map(label_characters, X_test)), list(map(label_characters, X_train))
print(f"{sum(map(len, X_train)):,} characters for training, {sum(map(len, X_test)):,} for testing")

# %%
# Four models
# -----------
# The first model has the same window as the conditional random fields, five characters on each
# side. The second one sees 80 characters before a position and 40 after it. The trees of
# `~treecrf.TreeCRF` start from the scores of a linear model; without it, they need several times as
# many iterations. Other versions of Python have other files, and other seeds draw other examples
# for its trees, so the numbers may differ. A quote that a model misses changes the labels of a
# whole passage, so they vary from file to file, too: on every fourth training file, held out,
# ``TreeCRF`` labels 93.3 % of the characters correctly, `~treecrf.LinearCRF` 93.1 %, and wide
# windows 87.4 %.
#
# The settings were chosen by cross-validation on training files of up to 10,000 characters, not on
# the test files. No other setting that was compared was a point of accuracy better:
#
# - for the classifiers of windows: windows of 5 + 5 to 160 + 80, and 100 and 300 iterations;
# - for the linear model: windows of 3 + 3 to 20 + 10, penalties of 0.03 to 10, and transition
#   features;
# - for ``TreeCRF``: windows of 5 + 5 to 40 + 20, 50 to 400 iterations, penalties of 3 and 20, 64
#   and 200 leaves, and linear models with penalties of 0.1 to 10.

settings = {"early_stopping": False, "n_jobs": 2, "random_state": 0}
models = {
    "windows of 5 + 5": SlidingWindowClassifier(window=5, **settings),
    "windows of 80 + 40": SlidingWindowClassifier(window=(80, 40), **settings),
    "LinearCRF": LinearCRF(window=5, l2_regularization=0.03, n_jobs=2),
    "TreeCRF": TreeCRF(window=5, init=LinearCRF(window=5), max_iter=200, **settings),
}
predictions = {}
print(f"{'':19}accuracy     F1 of", *(f"{label:>9}" for label in LABELS))
for name, model in models.items():
    print(f"{name:19}", end="", flush=True)
    predictions[name] = predicted = model.fit(X_train, y_train).predict(X_test)
    accuracy = token_accuracy_score(y_test, predicted)
    scores = token_f1_score(y_test, predicted, labels=LABELS, average=None)
    print(f"{accuracy:8.2%}          ", *(f"{score:9.3f}" for score in scores))

# %%
# The highlighted source
# ----------------------
# Colors show the predicted labels, and errors are red. In this passage of the test files, the
# labels of the two conditional random fields differ the most, whichever is right.

N_LINES, WIDTH = 32, 60
COLORS = {"code": "#24292f", "comment": "#1a7f4b", "docstring": "#a0590a", "string": "#2b62b5"}
WRONG = "#d1242f"


def runs(start: int, stop: int, predicted: np.ndarray, truth: np.ndarray):
    """Split a line into runs of one predicted label that are all right, or all wrong."""
    is_wrong = predicted != truth
    for key, run in groupby(range(start, stop), lambda t: (predicted[t], is_wrong[t])):
        first, *_, last = [*run] * 2
        yield first, last + 1, *key


def passage(source: str, first: np.ndarray, second: np.ndarray) -> tuple[int, list]:
    """Return the number of differences in the passage with the most, and the ends of its lines."""
    starts = line_starts(source)
    counts = np.append(0, np.cumsum(first != second))[starts]
    differences = counts[N_LINES:] - counts[:-N_LINES]
    best = int(differences.argmax()) if len(differences) else 0
    return max(differences, default=0), list(pairwise(starts[best : best + N_LINES + 1]))


shown = list(models)[1:]
passages = list(map(passage, X_test, predictions["LinearCRF"], predictions["TreeCRF"]))
chosen = max(range(len(X_test)), key=lambda i: passages[i][0])
source, truth, lines = X_test[chosen], y_test[chosen], passages[chosen][1]

plt.rcParams["text.hinting"] = "none"  # otherwise, the widths of characters are rounded
figure, axes = plt.subplots(1, len(shown), figsize=(12, 5.2))
figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.94, wspace=0.02)
font_size = axes[0].get_window_extent().width * 72 / figure.dpi / WIDTH / 0.602
for ax, name in zip(axes, shown, strict=True):
    ax.set(xlim=(0, WIDTH), ylim=(N_LINES, 0), title=name)
    ax.axis("off")
    predicted = predictions[name][chosen]
    for row, (start, end) in enumerate(lines):
        for i, j, label, is_wrong in runs(start, min(end - 1, start + WIDTH), predicted, truth):
            if is_wrong:
                ax.barh(row + 0.5, j - i, 1, i - start, color=WRONG)
            color = "white" if is_wrong else COLORS[label]
            text = {"family": "monospace", "size": font_size, "color": color, "va": "center"}
            ax.text(i - start, row + 0.5, source[i:j], parse_math=False, **text)
plt.show()

# %%
# ``make demo`` passes the path of a report. It then prints the same passage, as predicted by the
# models for which the terminal has room. Without colors, the signs ^ mark errors.

ANSI = {"code": "39", "comment": "32", "docstring": "33", "string": "36"}
GAP = "  "
has_colors = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def painted(start: int, stop: int, predicted: np.ndarray) -> str:
    """Return the characters of a line in the colors of their labels, errors in white on red."""
    if not has_colors:
        return source[start:stop]
    return "".join(
        f"\033[{'37;41' if is_wrong else ANSI[label]}m{source[i:j]}\033[0m"
        for i, j, label, is_wrong in runs(start, stop, predicted, truth)
    )


def print_passage() -> None:
    """Print the passage for several models, side by side."""
    columns = shutil.get_terminal_size().columns
    names = shown[-min(len(shown), max(2, columns // 40)) :]
    width = (columns - len(GAP) * (len(names) - 1)) // len(names)
    print("\n" + GAP.join(f"{name:{width}}" for name in names).rstrip())
    for start, end in lines:
        stop = min(end - 1, start + width)
        padding = " " * (width - (stop - start))
        parts = [painted(start, stop, predictions[name][chosen]) + padding for name in names]
        print(GAP.join(parts).rstrip())
        if not has_colors:
            marks = [np.where(predictions[name][chosen] != truth, "^", " ") for name in names]
            below = GAP.join("".join(mark[start:stop]) + padding for mark in marks).rstrip()
            print(below, end="\n" if below else "")


# %%
# The report is about all test files, and also compares ``TreeCRF`` with the wide windows.

if len(sys.argv) > 1:
    print_passage()
    print("\nWriting a report on all test files, with reasons for the worst predictions ...")
    page = report(
        models["TreeCRF"],
        X_test,
        y_test,
        other=models["windows of 80 + 40"],
        title="Code, comments, docstrings and strings in Python files",
    )
    page.save(sys.argv[1])
    print(f"\nOpen the report in a browser: {Path(sys.argv[1]).resolve()}")
