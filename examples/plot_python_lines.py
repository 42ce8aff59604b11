"""
Code, comment, docstring or blank?
==================================

A whole project: features, baselines, a look into the model and at its mistakes.

What is each line of a Python file? You can recognize most lines on their own, but not those inside
a docstring. An empty line, a line of an example, or a sentence could appear elsewhere as well, and
the opening quotes may be far outside any window. The data is the standard library of the current
Python interpreter, so nothing has to be downloaded.

In this example, you take the steps of most projects: describe each position by features, train,
compare with baselines, look into the model, and look at its mistakes.
:doc:`plot_syntax_highlighting` labels the characters of such files, without any features.
"""

# %%
# The labels
# ----------
# Each file is a sequence, and each line is a position. The modules `ast` and `tokenize` provide the
# true labels, because they read the whole file.

import ast
import io
import keyword
import random
import sysconfig
import tokenize
from pathlib import Path

import matplotlib.pyplot as plt

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF
from treecrf.metrics import token_classification_report, token_f1_score
from treecrf.plotting import plot_importances, plot_sequence, plot_transition_scores

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def label_lines(source: str) -> list[str]:
    """Return the kind of each line."""
    labels = ["code" if line.strip() else "blank" for line in source.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            labels[token.start[0] - 1] = "comment"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            text = node.body[0]
            for row in range(text.lineno - 1, text.end_lineno):
                labels[row] = "docstring"
    return labels


# %%
# The features
# ------------
# The features describe single lines. They are numbers (indentation, ...), categories (the kind of
# the first and of the last character), and booleans. A position is a dict of features. ``window``
# will add the lines before and after it.


def kind(character: str) -> str:
    """Return a class of characters, or the character itself."""
    if character.isalpha():
        return "capital" if character.isupper() else "letter"
    return "digit" if character.isdigit() else character or "none"


def describe(line: str) -> dict:
    """Return the features of a line."""
    text = line.strip()
    words = text.split()
    return {
        "indentation": len(line) - len(line.lstrip()),
        "length": len(text),
        "words": len(words),
        "first": kind(text[:1]),
        "last": kind(text[-1:]),
        "quotes": text.count('"""') + text.count("'''"),
        "keyword": bool(words) and words[0] in keyword.kwlist,
        "call": "(" in text,
        "assignment": " = " in text,
    }


def load(path: Path) -> tuple[list[str], list[str]] | None:
    """Read the lines of a file and their labels, unless the file is unsuitable."""
    try:
        source = path.read_text(encoding="utf-8")
        lines, labels = source.splitlines(), label_lines(source)
    except (SyntaxError, ValueError, tokenize.TokenError, IndexError):
        return None
    return (lines, labels) if 50 <= len(lines) <= 800 and len(lines) == len(labels) else None


paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
files = [file for file in map(load, paths) if file]
random.Random(0).shuffle(files)
X = [[describe(line) for line in lines] for lines, _ in files]
y = [labels for _, labels in files]
X_train, y_train, X_test, y_test = X[30:], y[30:], X[:30], y[:30]
print(f"{sum(map(len, X_train)):,} lines for training, {sum(map(len, X_test)):,} for testing")

lines, labels = files[0]
for line, label in list(zip(lines, labels, strict=True))[:12]:
    print(f"{label:9} | {line}")

# %%
# Three models
# ------------
# All models use the features of the line and of the two lines before and after it. The window
# classifier labels each line on its own. The others predict all labels of a file jointly: one with
# weighted sums of features, and one with trees, which combine features and find thresholds.

settings = {"window": 2, "max_iter": 60, "early_stopping": False, "n_jobs": 2}
models = {
    "window": SlidingWindowClassifier(**settings),
    "linear": LinearCRF(window=2, solver="sgd", max_iter=20, random_state=0),
    "TreeCRF": TreeCRF(**settings, init="zero"),
}
for name, model in models.items():
    predicted = model.fit(X_train, y_train).predict(X_test)
    f1 = token_f1_score(y_test, predicted, labels=["docstring"], average="macro")
    print(f"{name:8} accuracy {model.score(X_test, y_test):.3f}, F1 of docstrings {f1:.3f}")

# %%
# The details for the last model:
crf = models["TreeCRF"]
print(token_classification_report(y_test, predicted, digits=3))

# %%
# What the model has learned
# --------------------------
# After the first character of a line, the label of the previous line matters the most (the gray
# bar). The second plot shows the mean score of each label after another one: a docstring goes on
# until its closing quotes, so *docstring* after *docstring* has a high score.

fig, axes = plt.subplots(2, 1, figsize=(7, 7), layout="constrained")
plot_importances(crf, max_features=10, ax=axes[0])
plot_transition_scores(crf, X_train[:20], ax=axes[1])
plt.show()

# %%
# A file with its mistakes
# ------------------------
# Of the test files with mistakes, this is the one with the median number of them. The plot shows
# the probabilities of the labels of each line. Above it are the predicted and the true labels, with
# marks where they differ.

predictions = crf.predict(X_test)
wrong = [
    [t for t in range(len(truth)) if predicted[t] != truth[t]]
    for predicted, truth in zip(predictions, y_test, strict=True)
]
with_mistakes = sorted((i for i, rows in enumerate(wrong) if rows), key=lambda i: len(wrong[i]))
print(f"{len(with_mistakes)} of {len(wrong)} test files have mistakes")
typical = with_mistakes[(len(with_mistakes) - 1) // 2]
fig, ax = plt.subplots(figsize=(7.5, 3), layout="constrained")
plot_sequence(crf, X_test[typical], y_test[typical], ax=ax)
plt.show()

for t in wrong[typical][:8]:
    predicted, truth = predictions[typical][t], y_test[typical][t]
    print(f"{t:4} {predicted:9} should be {truth:9} | {files[typical][0][t]}")
