"""
Features that lie ahead
=======================

A label may depend on whether something comes later, at no fixed place. Here the features of a
position tell half of its label, and the other half is whether any of the next six positions is of
a rare kind. Neither a window of the position nor the labels before it can know.

`FutureFeatureMEMM` discovers what is rare, without ever being told of it.
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
from treecrf.plotting import plot_future_features

X, y = make_future_bags("xor", n_sequences=400, random_state=0)
X, X_test, y, y_test = X[:300], X[300:], y[:300], y[300:]

model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
others = {
    "TreeMEMM": TreeMEMM(max_iter=40),
    "TreeMEMM, window of six ahead": TreeMEMM(max_iter=40, window=(0, 6)),
    "TreeCRF": TreeCRF(max_iter=40),
}
scores = {name: other.fit(X, y).score(X_test, y_test) for name, other in others.items()}
scores["FutureFeatureMEMM"] = model.score(X_test, y_test)
for name, score in scores.items():
    print(f"{name:30} {score:.1%}")

# %%
# The size of the bags was found, too. What makes an instance positive are trees; their leaves are
# rules, here the weightiest. An instance is positive if at most one of the features ``x0`` to
# ``x5`` is true.
print(model.future_features_[0].describe(7))

# %%
# A position fires alone, and with it the bags of the six before.
plot_future_features(model, X_test[0])
plt.show()

# %%
# Other models can look ahead with the same features. A search from left to right is one that else
# never could: it has decided on a label before it sees what follows.
ahead = FutureFeatures(FutureFeatureMEMM(order=0, bag_size=6, random_state=0), append=True)
wide, wide_test = ahead.fit_transform(X, y), ahead.transform(X_test)
search = {"decoding": "beam", "beam_width": 5, "max_iter": 100}
for name, (train, test) in {"without": (X, X_test), "with": (wide, wide_test)}.items():
    recurrent = RecurrentSlidingWindowClassifier(**search).fit(train, y)
    print(f"{name:8} future features {recurrent.score(test, y_test):.1%}")
