"""
What a model has learned
========================

A tour of importances, trees, rules, transitions and probabilities.

In this example, you look into a model with the tools of `treecrf.inspection` and
`treecrf.plotting`. They show which features matter and where in the window, single trees, the
strongest rules, which labels follow each other, the course of training, and the label probabilities
of a single sequence.

The sentences come from a small grammar. The task is to label each word as the beginning of a noun
phrase (``B-NP``) or inside one (``I-NP``), likewise for verb phrases, or as ``O``. Some words,
such as *plan* and *walks*, can be nouns or verbs, so a word alone does not determine its label.
"""

# %%
# Sentences
# ---------

import matplotlib.pyplot as plt
import numpy as np

from treecrf import TreeCRF
from treecrf.inspection import (
    export_text,
    gain_importance,
    permutation_importance,
    strongest_rules,
    transition_scores,
)
from treecrf.plotting import (
    plot_importance_map,
    plot_importances,
    plot_likelihood,
    plot_rules,
    plot_sequence,
    plot_transition_scores,
    plot_tree,
)

BOTH = ["plan", "walks", "talk", "work", "visits", "drive", "report"]
WORDS = {
    "article": ["the", "a", "every", "this"],
    "adjective": ["old", "quick", "green", "careful", "human"],
    "noun": ["dog", "city", "teacher", "river", "idea", *BOTH],
    "auxiliary": ["will", "can", "did", "may"],
    "verb": ["sees", "likes", "found", "makes", *BOTH],
    "preposition": ["in", "near", "with", "after"],
}

rng = np.random.default_rng(0)


def phrase(kind: str, *parts: tuple[str, float]) -> list[tuple[str, str]]:
    """Draw words, each part of speech with its own probability, and label them."""
    chosen = [rng.choice(WORDS[part]) for part, share in parts if rng.random() < share]
    return [(str(word), f"{'I' if k else 'B'}-{kind}") for k, word in enumerate(chosen)]


def noun_phrase() -> list[tuple[str, str]]:
    """Draw an optional article, optional adjectives, and a noun, with labels."""
    return phrase("NP", ("article", 0.7), ("adjective", 0.4), ("adjective", 0.1), ("noun", 1))


def sentence() -> tuple[list[dict], list[str]]:
    """Draw a sentence. Return the features and the label of each word."""
    words = noun_phrase() + phrase("VP", ("auxiliary", 0.4), ("verb", 1)) + noun_phrase()
    while rng.random() < 0.4:
        words += [(str(rng.choice(WORDS["preposition"])), "O"), *noun_phrase()]
    rows = [
        {"word": word, "ends in s": word[-1] == "s", "letters": len(word), "noise": rng.random()}
        for word, _ in words
    ]
    return rows, [label for _, label in words]


X, y = (list(part) for part in zip(*(sentence() for _ in range(350)), strict=True))
X, X_test, y, y_test = X[:150], X[150:], y[:150], y[150:]

# Without a linear start and constant transitions, the trees are the whole model.
model = TreeCRF(
    window=2, max_iter=60, max_leaf_nodes=12, l2_regularization=5, init="zero",
    constant_transitions=False,
)  # fmt: skip
model.fit(X, y, X_test, y_test)
print(f"{model.score(X_test, y_test):.1%} of the labels are correct")

# %%
# Which features
# --------------
# The gain of a feature is the reduction of the training error by its splits. Even noise has some,
# because trees also fit the accidents of the training data. Permutation importance shuffles a
# feature of the test data, and measures by how much the likelihood decreases. On new sentences, the
# noise is useless.
gain = gain_importance(model, per_label=True)
shuffled = permutation_importance(model, X_test, y_test, scoring="log_likelihood", random_state=0)

figure, axes = plt.subplots(2, 1, figsize=(7, 5), layout="constrained")
plot_importances(gain, ax=axes[0])
plot_importances(shuffled, ax=axes[1])
plt.show()

# %%
# Where in the window
# -------------------
# The columns are offsets: -1 is the previous word. The second map is of the trees of one label, and
# the third one of a single feature, with a row for each label. Hatched cells have no gain.
figure, axes = plt.subplots(3, 1, figsize=(7, 7.5), layout="constrained")
plot_importance_map(gain, ax=axes[0])
plot_importance_map(gain, label="B-VP", ax=axes[1])
plot_importance_map(gain, feature="word", ax=axes[2])
plt.show()

# %%
# One tree
# --------
# Each iteration grows one tree per label. This is the first tree for the beginning of a verb
# phrase. The text shows the gain of each split, and the fraction of the examples that reach each
# leaf. The weight of a leaf is the sum of their curvatures, because these are Newton steps.
print(export_text(model, iteration=0, label="B-VP", max_depth=3))

# %%
# In the plot, the upper branch is for positions that pass the test. The more positions, the wider
# the branch. ``max_depth`` keeps large trees readable: leaves below it are only counted.
plot_tree(model, iteration=0, label="B-VP", max_depth=3)
plt.show()

# %%
# The strongest rules
# -------------------
# Every leaf is a rule. Leaves with the same condition are merged into one rule. If you pass data,
# the function also counts how often each rule holds. The strongest rules here are about the order
# of labels: ``I-VP`` only follows ``B-VP``, and a noun phrase does not begin within another one.
rules = strongest_rules(model, X_test, y_test, n_rules=12)
print(*rules[:5], sep="\n")
plot_rules(rules)
plt.show()

# %%
# Label after label
# -----------------
# The first plot shows the mean score of each label, given the previous label. Such scores are not
# unique: if you add a constant to all scores that follow a label, and subtract it from all scores
# that lead to that label, no probability changes. The second plot removes such constants and shows
# which labels attract each other.
scores, attraction = (transition_scores(model, X_test) for _ in range(2))
table = scores.scores
attraction.start = scores.start - scores.start.mean()
attraction.scores = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()

figure, axes = plt.subplots(2, 1, figsize=(7, 8), layout="constrained")
plot_transition_scores(scores, ax=axes[0]).set_title("mean scores")
plot_transition_scores(attraction, ax=axes[1]).set_title("attraction")
plt.show()

# %%
# How training went
# -----------------
# The likelihood of held-out sentences still rises a little at the last iteration, so this model
# could be trained for longer.
plot_likelihood(model)
plt.show()

# %%
# One sentence
# ------------
# This is the test sentence whose true labels are the least probable. The colors show the label
# probabilities, with the predicted and the true labels above. All predictions are correct, but the
# model considers another reading: *work* as the verb, followed by a noun phrase.
worst = int(np.argmin(model.predict_log_likelihood(X_test, y_test)))
plot_sequence(model, X_test[worst], y_test[worst], symbols=[row["word"] for row in X_test[worst]])
plt.show()
