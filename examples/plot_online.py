"""
Labeling while data is still arriving
=====================================

Label each measurement when it arrives, and see what waiting a little is worth.

A machine is off, idle or busy. You want to recognize its state from two noisy sensors, as early as
possible. A stream labels each measurement when it arrives. If it waits for a few more measurements,
its labels are more accurate. In this example, you see how long waiting is worth it.
"""

import matplotlib.pyplot as plt
import numpy as np

from treecrf import TreeCRF

# %%
# Simulated sensors
# -----------------
# A state lasts for about twenty measurements. Each sensor tells only one state from the other two,
# and poorly.

rng = np.random.default_rng(0)
STATES = np.array(["off", "idle", "busy"])
MEANS = np.array([[0.0, 0.0], [1.5, 0.0], [1.5, 1.5]])


def simulate(n_sequences, length=200):
    """Draw states, and measurements given the states."""
    X, y = [], []
    for _ in range(n_sequences):
        changes = rng.random(length) < 0.05
        states = np.cumsum(changes * rng.integers(1, 3, length)) % 3
        X.append(MEANS[states] + rng.normal(size=(length, 2)))
        y.append(STATES[states])
    return X, y


X, y = simulate(40)
X_test, y_test = simulate(20)

# %%
# The window of the model contains only previous measurements, so it causes no delay.

crf = TreeCRF(window=(3, 0), max_leaf_nodes=10, max_iter=50).fit(X, y)
print(f"accuracy on whole sequences: {crf.score(X_test, y_test):.1%}")

# %%
# One measurement after another
# -----------------------------
# ``push`` returns the probabilities of the states given the measurements so far. With ``lag=k``
# they are those of the state k measurements ago, and ``finish`` returns the last k of them.


def online(x, lag):
    """Label a sequence online; the result is that of each position, k measurements later."""
    stream = crf.stream(lag)
    found = [stream.push(measurement) for measurement in x]
    return np.array([p for p in found if p is not None] + stream.finish())


lags = [0, 1, 2, 3, 5, 8, 12, 20]
accuracy = []
for lag in lags:
    labels = [crf.classes_[online(x, lag).argmax(axis=1)] for x in X_test]
    accuracy.append(np.mean(np.concatenate(labels) == np.concatenate(y_test)))

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(lags, accuracy, marker="o", label="online")
axes.axhline(crf.score(X_test, y_test), color="gray", linestyle="--", label="whole sequences")
axes.set(xlabel="lag (measurements)", ylabel="accuracy")
_ = axes.legend()

# %%
# Waiting for one or two measurements helps the most. With a lag of eight, the labels are as
# accurate as if the whole sequence had been known in advance.
#
# The next plot shows why. Without a lag, the probability of *busy* needs some measurements to
# follow a change, and single noisy measurements make it jump. Five measurements later, it follows
# the changes closely, and jumps less.

figure, axes = plt.subplots(3, 1, figsize=(8, 5), sharex=True, layout="constrained")
busy = list(crf.classes_).index("busy")
for values, color in zip(X_test[0].T, ("black", "tab:orange"), strict=True):
    axes[0].plot(values, color=color, linewidth=0.8)
axes[0].set_ylabel("sensors")
for ax, lag in zip(axes[1:], (0, 5), strict=True):
    ax.fill_between(range(200), y_test[0] == "busy", step="mid", color="lightgray", label="busy")
    ax.plot(online(X_test[0], lag)[:, busy], label=f"P(busy), lag {lag}")
    ax.legend(loc="upper right")
_ = axes[2].set_xlabel("measurement")
