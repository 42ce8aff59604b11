"""
Code, comment, docstring or blank?
==================================

What is each line of a Python file? Most lines can be recognized on their own. Lines inside a
docstring cannot. An empty line, a line of an example, or a sentence could appear elsewhere as well,
and the opening quotes may be far outside any window. The data is the standard library of the
current Python interpreter, so nothing has to be downloaded. `tokenize` and `ast` provide the true
labels.

The command ``treecrf demo`` runs the same comparison.
"""

# %%
# The data
# --------
# Each file is a sequence, and each line is a position. The features describe single lines. They are
# numbers (indentation, length, ...), categories (the class of the first and of the last character,
# with one indicator per class), and booleans (whether the line contains triple quotes, a call,
# ...). The test set consists of whole files, not of single lines.

import matplotlib.pyplot as plt

from treecrf.cli import demo

files = demo.load_files(225, seed=0)
test, train = files[:75], files[75:]
n_lines = sum(len(file.lines) for file in train)
print(f"{n_lines:,} training lines, {len(demo.FEATURES)} features")

sample = demo.show_case(train)
for line, label in list(zip(sample.lines, sample.labels, strict=True))[:15]:
    print(f"{label:9s} | {line}")

# %%
# Two models
# ----------
# Both models use the features of the line and of the two lines before and after it. They differ
# only in ``order``. With ``order=0``, each line is labeled on its own. With ``order=1``, the trees
# can also test the previous label, and all labels of a file are predicted jointly.

models = demo.make_models(window=2, iterations=60, n_jobs=2, seed=0)
for model in models.values():
    print(model)

results = [demo.evaluate(name, model, train, test) for name, model in models.items()]
print(demo.format_table(results))

# %%
# A picture
# ---------
# This is one test file at a reduced size. The color of each word shows the predicted label of its
# line, and errors are marked. The file was selected by its true labels, not by the predictions of
# the models.

file = demo.show_case(test)
position = [other.name for other in test].index(file.name)
columns = {result.name: result.predictions[position] for result in results}
demo.draw_minimaps(plt.figure(), file, columns)
plt.show()
