"""
Label bias: evidence that comes too late
========================================

Why a model of whole sequences can change its mind about the past.

A customer is pleased, annoyed, or of two minds, and rarely changes state. The customer makes
remarks: praise ``+``, complaints ``-``, or something neutral ``0``. Customers of two minds praise
as often as they complain. After three remarks of praise, the customer seems pleased. If a complaint
follows, the customer was probably of two minds from the beginning. This is a conclusion about the
past. A model that moves from left to right and fixes the probability of each label as it goes
cannot draw it.

The example follows Hao's dissertation (2009, section 5.1). :ref:`The guide <label bias>` works
through the case of three remarks by hand.
"""

# %%
# The data
# --------
# A state stays the same with probability 0.9. Each row of ``SHOW`` holds the probabilities of a
# complaint, a neutral remark, and praise in one state.

import matplotlib.pyplot as plt
import numpy as np

from treecrf import HMMClassifier, RecurrentSlidingWindowClassifier, TreeCRF, TreeMEMM

STATES, REMARKS = np.array(["annoyed", "of two minds", "pleased"]), np.array(list("-0+"))
STAY = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
SHOW = np.array([[0.8, 0.1, 0.1], [0.45, 0.1, 0.45], [0.1, 0.1, 0.8]])


def draw(n_sequences: int, length: int, rng: np.random.Generator) -> tuple[list, list]:
    """Draw sequences of remarks and states."""
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
# The data comes from a hidden Markov model, and the HMM estimates it by counting. The CRF and the
# MEMMs have the same inputs: one remark and the previous state, or the next state when reading from
# the right.

trees = {"window": 0, "max_iter": 60, "max_leaf_nodes": 10, "l2_regularization": 10}
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
    print(f"{name:20} {model.score(X_test, y_test):.1%} of the states are correct")

# %%
# Next, compare the state probabilities of the models for the middle one of three remarks.

for name, model in models.items():
    middle = model.predict_proba([list("+0-")])[0][1]
    believed = ", ".join(f"{state} {p:.2f}" for state, p in zip(STATES, middle, strict=True))
    print(f"{name:20} {believed}")

# %%
# Along a sequence
# ----------------
# Each band shows the stacked probabilities of the three states, with the remarks below. The MEMM's
# probabilities at a position do not depend on later remarks. After a change of state, it becomes
# confident only slowly, and it remains undecided where the next remarks would resolve the question.
# Reading from the right has the opposite effect. The CRF agrees with the HMM, which takes all
# remarks into account. The plot shows the test sequence whose positions are most evenly distributed
# over the states.

# Dark, light, and in between: they differ in gray, too.
COLORS = ["#8c2d2a", "#c9ced6", "#4f8fc0"]


def evenness(states: np.ndarray) -> tuple[int, int]:
    """Sort key: number of positions of the rarest state, then fewer state changes."""
    counts = [np.sum(states == state) for state in STATES]
    return min(counts), -np.count_nonzero(states[1:] != states[:-1])


chosen = max(range(len(y_test)), key=lambda i: evenness(y_test[i]))
remarks, states = X_test[chosen], y_test[chosen]
places = np.arange(len(states) + 1)

figure, axes = plt.subplots(
    len(models) + 1, 1, figsize=(7.5, 6.4), sharex=True, layout="constrained",
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
