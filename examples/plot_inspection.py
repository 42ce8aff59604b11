"""
What a model has learned
========================

Everything that `treecrf.inspection` says of a trained model, and `treecrf.plotting` draws: which
features matter and where in the window, single trees, the strongest rules, which labels follow each
other, how training went, and one sequence with all that the model believes of it.

The sentences come from a small grammar. Each word is to be labeled as the beginning of a noun
phrase (``B-NP``), inside one (``I-NP``), the same for verbs, or ``O``. Some words, such as *plan*
and *walks*, are nouns here and verbs there, so that a word alone does not tell.
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
    """Words of some kinds, each with a probability that it is there, and their labels."""
    chosen = [rng.choice(WORDS[part]) for part, share in parts if rng.random() < share]
    return [(str(word), f"{'I' if k else 'B'}-{kind}") for k, word in enumerate(chosen)]


def noun_phrase() -> list[tuple[str, str]]:
    """An article or none, adjectives or none, and a noun."""
    return phrase("NP", ("article", 0.7), ("adjective", 0.4), ("adjective", 0.1), ("noun", 1))


def sentence() -> tuple[list[dict], list[str]]:
    """The features of each word of a sentence, and its label."""
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

model = TreeCRF(window=2, max_iter=60, max_leaf_nodes=12, l2_regularization=5)
model.fit(X, y, X_test, y_test)
print(f"{model.score(X_test, y_test):.1%} of the labels are right")

# %%
# Which features
# --------------
# The gain of a feature is what its splits have reduced of the error in training, where noise can be
# of some use. A shuffled feature tells nothing any more; what the test likelihood loses by that is
# what the feature is worth on new sentences.
gain = gain_importance(model, per_label=True)
shuffled = permutation_importance(model, X_test, y_test, scoring="log_likelihood", random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
plot_importances(gain, ax=axes[0]).set_title("gain", loc="left")
plot_importances(shuffled, ax=axes[1]).set_title("permutation", loc="left")
plt.show()

# %%
# Where in the window
# -------------------
# Offset -1 is the word before. The gains of one label are those of its own trees; for one feature
# the rows are labels.
figure, axes = plt.subplots(1, 3, figsize=(13, 3), layout="constrained")
plot_importance_map(gain, ax=axes[0]).set_title("all labels", loc="left")
plot_importance_map(gain, label="B-VP", ax=axes[1]).set_title("B-VP", loc="left")
plot_importance_map(gain, feature="word", ax=axes[2]).set_title("word", loc="left")
plt.show()

# %%
# One tree
# --------
# Each iteration has a tree for each label, here the first for the beginning of a verb phrase. The
# text tells the examples that have reached a leaf (their weight) and what the splits have gained.
print(export_text(model, iteration=0, label="B-VP", max_depth=3))

# %%
# In the picture the upper branch is that of positions which pass the test, and the more of them
# there are, the wider it is.
plot_tree(model, iteration=0, label="B-VP")
plt.show()

# %%
# The strongest rules
# -------------------
# Every leaf is a rule, and leaves with the same condition are one. With data it is counted how
# often each holds.
rules = strongest_rules(model, X_test, y_test, n_rules=12)
print(*rules[:5], sep="\n")
plot_rules(rules)
plt.show()

# %%
# Label after label
# -----------------
# The mean score of each label after each other one. A number that is added to what follows a label,
# and taken from what leads to it, changes no probability; without such numbers, to the right, the
# table shows which labels attract each other.
scores, attraction = (transition_scores(model, X_test) for _ in range(2))
table = scores.scores
attraction.start = scores.start - scores.start.mean()
attraction.scores = table - table.mean(axis=0) - table.mean(axis=1)[:, None] + table.mean()

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
plot_transition_scores(scores, ax=axes[0]).set_title("mean scores", loc="left")
plot_transition_scores(attraction, ax=axes[1]).set_title("attraction", loc="left")
plt.show()

# %%
# How training went
# -----------------
# The likelihood of held-out sentences says when to stop.
plot_likelihood(model)
plt.show()

# %%
# One sentence
# ------------
# Probabilities of the labels in colors, with the predicted and the true labels above.
worst = int(np.argmin(model.predict_log_likelihood(X_test, y_test)))
plot_sequence(model, X_test[worst], y_test[worst], symbols=[row["word"] for row in X_test[worst]])
plt.show()
