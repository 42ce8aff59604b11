"""
Code, comment, docstring or blank?
==================================

What is each line of a Python file? Most lines tell by themselves. The inside of a docstring does
not: an empty line, a line of an example or a sentence could be elsewhere too, and the quotes that
began it may be far outside of any window. The data is the standard library that this
interpreter runs with, so nothing has to be downloaded; `tokenize` and `ast` give the true labels.

``python -m treecrf demo`` is the same as a command.
"""

# %%
# The data
# --------
# A file is a sequence, a line is a position. The features describe a line by itself: numbers
# (its indentation, its length, ...), categories (the class of its first and of its last character,
# one indicator for each class) and booleans (whether it has triple quotes, a call, ...).
# Files, not lines, are kept apart for the test.

import matplotlib.pyplot as plt

from treecrf.cli import demo

files = demo.load_files(225, seed=0)
test, train = files[:75], files[75:]
n_lines = sum(len(file.lines) for file in train)
print(f"{n_lines:,} lines to train on, {len(demo.FEATURES)} features")

sample = demo.show_case(train)
for line, label in list(zip(sample.lines, sample.labels, strict=True))[:15]:
    print(f"{label:9s} | {line}")

# %%
# Two models
# ----------
# Both see the features of the line, of two lines before and of two lines after it. They differ in
# nothing but ``order``: with ``order=0`` each line is labeled by itself, with ``order=1`` a tree
# can also ask what the label before was, and all labels of a file are found together.

models = demo.make_models(window=2, iterations=60, n_jobs=2, seed=0)
for model in models.values():
    print(model)

results = [demo.evaluate(name, model, train, test) for name, model in models.items()]
print(demo.format_table(results))

# %%
# A picture
# ---------
# One test file, seen from afar: each word has the color of the label that its line was given, and
# wrong lines are marked. The file was chosen by its true labels, not by what the models made of it.

file = demo.show_case(test)
position = [other.name for other in test].index(file.name)
columns = {result.name: result.predictions[position] for result in results}
demo.draw_minimaps(plt.figure(), file, columns)
plt.show()
