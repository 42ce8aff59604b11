"""
Features that lie ahead
=======================

Discover from labels alone that something further ahead matters.

A label may depend on whether something occurs later, at no fixed distance. In this example, half of
the information about a label is in the features of its position. The other half is whether any of
the next six positions is of a rare kind. Neither the position itself nor the previous labels
contain this information. `~treecrf.FutureFeatureMEMM` discovers the rare kind from the labels
alone, and you see what it has found.
"""

# %%
from matplotlib import pyplot as plt

from treecrf import (
    FutureFeatureMEMM,
    FutureFeatures,
    RecurrentSlidingWindowClassifier,
    TreeCRF,
    TreeMEMM,
)
from treecrf.datasets import make_future_bags
from treecrf.plotting import plot_future_features, plot_sequence

X, y = make_future_bags("xor", n_sequences=400, random_state=0)
X, X_test, y, y_test = X[:300], X[300:], y[:300], y[300:]

model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
others = {
    "TreeMEMM": TreeMEMM(max_iter=40),
    "TreeMEMM, window of six ahead": TreeMEMM(max_iter=40, window=(0, 6)),
    "TreeCRF": TreeCRF(max_iter=40, window=0),
}
scores = {name: other.fit(X, y).score(X_test, y_test) for name, other in others.items()}
scores["FutureFeatureMEMM"] = model.score(X_test, y_test)
for name, score in scores.items():
    print(f"{name:30} {score:.1%}")

# %%
# All other models are far from perfect, even the one that sees the six positions ahead.
#
# The model has also found the number of positions ahead. Trees determine whether a position is of
# the rare kind. Their leaves are rules, and the output lists those with the largest weights. In
# truth, a position is of the rare kind if at most one of the features ``x0`` to ``x5`` is true.
print(model.future_features_[0].describe(7))

# %%
# The lower plot shows the positions of the rare kind (instance 0). Each of them also activates the
# bags of the six positions before it (bag 0). The upper plot shows the predicted and the true
# labels.
figure, (above, below) = plt.subplots(
    2, figsize=(8, 4.5), height_ratios=[2, 1], layout="constrained"
)
plot_sequence(model, X_test[0], y_test[0], ax=above)
plot_future_features(model, X_test[0], ax=below)
plt.show()

# %%
# Other models can use the same features. A model that labels from left to right chooses a label
# before it reaches the positions that follow, so the features are its only view of them.
ahead = FutureFeatures(FutureFeatureMEMM(order=0, bag_size=6, random_state=0), append=True)
wide, wide_test = ahead.fit_transform(X, y), ahead.transform(X_test)
search = {"decoding": "beam", "beam_width": 5, "max_iter": 100}
for name, (train, test) in {"without": (X, X_test), "with": (wide, wide_test)}.items():
    recurrent = RecurrentSlidingWindowClassifier(**search).fit(train, y)
    print(f"{name:8} future features {recurrent.score(test, y_test):.1%}")
