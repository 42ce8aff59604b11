"""
Label bias: evidence that comes too late
========================================

A customer is pleased, annoyed or in two minds, and hardly ever changes. Remarks are heard: praise
``+``, complaints ``-``, or nothing of note ``0``. Who is in two minds praises as often as he
complains. After three remarks of praise the customer seems pleased; when a complaint follows, he
probably was in two minds from the beginning. That is a conclusion about the past, and a model which
goes from left to right and gives each label a probability for good cannot draw it.

The example is that of Hao's dissertation (2009, section 5.1); :ref:`the guide <label bias>`
computes it by hand for three remarks.
"""

# %%
# The data
# --------
# States stay with probability 0.9. The rows of ``SHOW`` say how often a state praises, says nothing
# of note, and complains.

import matplotlib.pyplot as plt
import numpy as np

from treecrf import HMMClassifier, RecurrentSlidingWindowClassifier, TreeCRF, TreeMEMM

STATES, REMARKS = np.array(["annoyed", "in two minds", "pleased"]), np.array(list("-0+"))
STAY = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
SHOW = np.array([[0.8, 0.1, 0.1], [0.45, 0.1, 0.45], [0.1, 0.1, 0.8]])


def draw(n_sequences: int, length: int, rng: np.random.Generator) -> tuple[list, list]:
    """Draw remarks and states."""
    X, y = [], []
    for _ in range(n_sequences):
        states = [rng.integers(3)]
        while len(states) < length:
            states.append(rng.choice(3, p=STAY[states[-1]]))
        X.append(REMARKS[[rng.choice(3, p=SHOW[state]) for state in states]])
        y.append(STATES[states])
    return X, y


rng = np.random.default_rng(0)
X_train, y_train = draw(400, 60, rng)
X_test, y_test = draw(200, 60, rng)
print("".join(X_test[0]))

# %%
# Four models
# -----------
# The true model is a hidden Markov model, and the HMM finds it by counting. The CRF and the MEMMs
# see the same: one remark and the state before it (from the right: behind it).

trees = {"max_iter": 60, "max_leaf_nodes": 10, "l2_regularization": 10}
models = {
    "HMM": HMMClassifier(),
    "CRF": TreeCRF(**trees),
    "MEMM": TreeMEMM(**trees),
    "MEMM from the right": RecurrentSlidingWindowClassifier(
        direction="right-to-left", decoding="marginal", **trees
    ),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    print(f"{name:20} {model.score(X_test, y_test):.1%} of the states are right")

# %%
# What does each believe of the middle one of three remarks?

for name, model in models.items():
    middle = model.predict_proba([list("+0-")])[0][1]
    believed = ", ".join(f"{state} {p:.2f}" for state, p in zip(STATES, middle, strict=True))
    print(f"{name:20} {believed}")

# %%
# Along a sequence
# ----------------
# Each band shows the probabilities of the three states, stacked; the remarks stand below. What the
# MEMM believes of a position does not depend on the remarks behind it: it grows sure slowly after a
# change, and stays divided where the next remarks would settle the matter. From the right it is the
# other way round. The CRF comes to what the HMM says, and that weighs all remarks together. The
# sequence is the one of the test data that shares its positions most evenly among the states.

COLORS = ["#c65d57", "#c9ced6", "#4f8fc0"]


def evenness(states: np.ndarray) -> tuple[int, int]:
    """How many positions the rarest state has, fewer changes being better."""
    counts = [np.sum(states == state) for state in STATES]
    return min(counts), -np.count_nonzero(states[1:] != states[:-1])


chosen = max(range(len(y_test)), key=lambda i: evenness(y_test[i]))
remarks, states = X_test[chosen], y_test[chosen]
places = np.arange(len(states) + 1)

figure, axes = plt.subplots(
    len(models) + 1, 1, figsize=(9, 6.4), sharex=True, layout="constrained",
    height_ratios=[0.45] + [1] * len(models),
)  # fmt: skip
truth = (states[:, None] == STATES).astype(float)
bands = {"truth": truth} | {name: m.predict_proba([remarks])[0] for name, m in models.items()}
for ax, (name, table) in zip(axes, bands.items(), strict=True):
    edges = np.vstack([np.zeros(len(table)), table.T.cumsum(axis=0)])
    for low, high, state, color in zip(edges[:-1], edges[1:], STATES, COLORS, strict=True):
        ax.stairs(high, places, baseline=low, fill=True, color=color, label=state)
    ax.set(xlim=(0, len(states)), ylim=(0, 1), xticks=[], yticks=[])
    ax.set_ylabel(name, rotation=0, ha="right", va="center")
    ax.spines[:].set_visible(False)
shades = dict(zip(REMARKS, COLORS, strict=True))
for t, remark in enumerate(remarks):
    axes[-1].text(t + 0.5, -0.2, remark, ha="center", weight="bold", color=shades[remark])
axes[0].legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1), frameon=False)
plt.show()
