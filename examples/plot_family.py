"""
The whole family on one problem
===============================

The tree-based learners and a hidden Markov model, where labels depend on later positions.

In this example, you compare the tree-based learners and the hidden Markov model on labels that
depend on later positions. Each position has eight features, and six of them matter. Its label is 1
if at least four of the six are true, *or* if at most one of them is true at one of the next six
positions. All models use a single position as input, unless the table states otherwise, so
information about later positions must come from the labels. The problem comes from Hao's
dissertation (2009, section 5.4.1), where it is called OR.
"""

# %%
# The data
# --------

import time
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neural_network import MLPClassifier

from treecrf import (
    HMMClassifier,
    RecurrentSlidingWindowClassifier,
    SlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)
from treecrf.datasets import make_future_bags

X, y = make_future_bags("or", n_sequences=900, random_state=0)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[600:], y[600:]
truth = np.array(y_test)
print(f"{len(X_train)} sequences of {len(X[0])} positions to train on, {len(X_test)} for the test")


def as_symbols(sequences: list[np.ndarray]) -> list[np.ndarray]:
    """Pack the eight features into one symbol, since hidden Markov models only support symbols."""
    return [np.packbits(table, axis=1).ravel() for table in sequences]


# %%
# The models
# ----------
# Boosted models use first-order steps, as in the dissertation. They hold out a tenth of the
# training sequences and stop when the likelihood of these sequences no longer improves, or after
# 1,000 iterations, as the classifier with the wide window does. With few contexts, a beam is slow,
# so its number of iterations is kept small. The trees of the CRFs test previous labels, as those of
# the MEMM do. The network is a scikit-learn estimator.

trees = {
    "second_order": False,
    "learning_rate": 1.0,
    "max_iter": 1000,
    "max_leaf_nodes": 20,
    "l2_regularization": 10,
    "early_stopping": True,
    "random_state": 0,
}
crf_trees = trees | {"window": 0, "constant_transitions": False}
in_beam = trees | {"window": 0, "max_iter": 60, "early_stopping": False}
network = MLPClassifier(30, learning_rate_init=0.01, early_stopping=True, random_state=0)
models = {
    "HMM": HMMClassifier(),
    "window": SlidingWindowClassifier(**trees),
    "recurrent": RecurrentSlidingWindowClassifier(**trees),
    "recurrent, from the right": RecurrentSlidingWindowClassifier(
        direction="right-to-left", **trees
    ),
    "MEMM": TreeMEMM(**trees),
    "MEMM, order 4": TreeMEMM(order=4, **trees),
    "window, 6 ahead": SlidingWindowClassifier(window=(0, 6), **trees),
    "network, 6 ahead": SlidingWindowClassifier(network, window=(0, 6)),
    "CRF": TreeCRF(**crf_trees),
    "CRF, order 2": TreeCRF(order=2, **crf_trees),
    "CRF, order 4": TreeCRF(order=4, **crf_trees),
    "CRF, order 4, beam of 6": TreeCRF(order=4, beam_width=6, beam="forward-only", **in_beam),
}

# %%
# Training and labeling
# ---------------------


@dataclass
class Result:
    """Probabilities of the true labels, correctness of the predictions, and times in seconds."""

    believed: np.ndarray
    right: np.ndarray
    training: float
    labeling: float


def evaluate(model, X_train: list, X_test: list) -> Result:
    """Train and test a model in a single thread."""
    start = time.perf_counter()
    model.fit(X_train, y_train)
    trained = time.perf_counter()
    predicted = np.array(model.predict(X_test))
    labeled = time.perf_counter()
    believed = np.take_along_axis(np.array(model.predict_proba(X_test)), truth[..., None], axis=2)
    return Result(believed[..., 0], predicted == truth, trained - start, labeled - trained)


results = {}
for name, model in models.items():
    inputs = map(as_symbols, (X_train, X_test)) if name == "HMM" else (X_train, X_test)
    results[name] = evaluate(model, *inputs)

print(f"{'':26}    accuracy   training   labeling")
for name, result in results.items():
    print(f"{name:26}{result.right.mean():12.1%}{result.training:9.2f} s{result.labeling:9.3f} s")

# %%
# Looking ahead with labels
# -------------------------
# The causes lie ahead here. Models that condition each label on earlier labels only (sliding and
# recurrent windows, and the MEMM of any order) are no better than a classifier of single positions.
# In the CRF, evidence travels backward, and each higher order predicts better how long a run of
# ones will continue. A window that is wide enough does not need labels to use later positions.
# Here, six positions are enough, but you have to know that in advance. The beam keeps 6 of 16
# contexts. It loses accuracy, and its 60 iterations take about as long as several hundred exact
# ones, because 16 contexts are few. Beams are useful for thousands of contexts.
#
# Each panel shows one model, with test sequences as rows. The darker a position, the lower the
# probability that the model assigns to its true label.

figure, axes = plt.subplots(3, 4, figsize=(7.5, 8), layout="constrained")
for ax, (name, result) in zip(axes.flat, results.items(), strict=True):
    image = ax.imshow(result.believed[:60], cmap="magma", vmin=0, vmax=1, aspect="auto")
    ax.set_title(f"{name}\n{result.right.mean():.1%}  ·  {result.training:.1f} s", fontsize=9)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
figure.colorbar(
    image, ax=axes, location="bottom", shrink=0.5, label="probability of the true label"
)
figure.suptitle(
    "60 test sequences (rows) of 30 positions; accuracy · time of training", fontsize=10
)
plt.show()
