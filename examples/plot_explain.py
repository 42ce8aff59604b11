"""
Why a position has its label
============================

Divide the score of a label exactly among the inputs that it came from.

The score of a label is a sum over trees, which test the features in a window and the previous
label. `treecrf.inspection.explain` divides a score among these inputs, exactly. In this example,
you explain the predictions for an oven that is watched by sensors, first at single minutes, then on
average.

The oven is *heating* if it draws power and gets warmer. In a state of *fault*, it draws power and
cools down. When it is *idle*, it draws little power, and its temperature may rise or fall with that
of the room. Neither the power nor the temperature alone reveals a fault. Sensors sometimes fail to
report a value.
"""

# %%
# The oven
# --------

import matplotlib.pyplot as plt
import numpy as np

from treecrf import LinearCRF, TreeCRF
from treecrf.inspection import contributions, explain, partial_dependence
from treecrf.plotting import (
    plot_explanation,
    plot_partial_dependence,
    plot_sequence,
    plot_transition_scores,
    plot_weights,
)

rng = np.random.default_rng(0)
STATES = ["fault", "heating", "idle"]
MOVES = {"fault": [0.7, 0.1, 0.2], "heating": [0.1, 0.7, 0.2], "idle": [0.05, 0.25, 0.7]}
# Mean power, and mean change of the temperature.
SIGNALS = {"idle": [(0.5, -2), (0.5, 2)], "heating": [(2.5, 2)], "fault": [(2.5, -2)]}


def day(n_minutes: int = 60) -> tuple[list[dict], list[str]]:
    """Simulate the measurements and the states of some minutes."""
    states = ["idle"]
    while len(states) < n_minutes:
        states.append(str(rng.choice(STATES, p=MOVES[states[-1]])))
    rows = []
    for state in states:
        power, change = rng.choice(SIGNALS[state])
        rows.append(
            {
                "power": power + rng.normal(scale=0.7),
                "change": change + rng.normal(scale=1.5),
                "door": str(rng.choice(["open", "closed"], p=[0.1, 0.9])),
                "humidity": rng.normal(),
            }
        )
        for name in ("power", "change"):
            if rng.random() < 0.1:
                rows[-1][name] = None
    return rows, states


X, y = (list(part) for part in zip(*(day() for _ in range(80)), strict=True))
X, X_test, y, y_test = X[:50], X[50:], y[:50], y[50:]

model = TreeCRF(
    window=1, max_iter=40, max_leaf_nodes=12, second_order=True, learning_rate=0.3,
    l2_regularization=10, init="zero", missing="weighting-only", constant_transitions=False,
).fit(X, y)  # fmt: skip
print(f"{model.score(X_test, y_test):.1%} of the labels are correct")

# %%
# One minute
# ----------
# Here the temperature falls although the oven draws power.
predicted = model.predict(X_test)


def first_fault(is_wanted) -> tuple[int, int]:
    """Find a predicted fault with certain measurements: the number of the day, and the minute."""
    return next(
        (i, t)
        for i, labels in enumerate(predicted)
        for t in range(1, len(labels) - 1)
        if labels[t] == "fault" and is_wanted(X_test[i][t])
    )


day_number, minute = first_fault(lambda row: (row["power"] or 0) > 2 and (row["change"] or 0) < -2)
x = X_test[day_number]
explanation = explain(model, x, minute)
print(explanation)

# %%
# The base value is the expected score if nothing is known about the window and the previous label.
# Each contribution is the change of the expected score when a value becomes known, averaged over
# all orders in which the values may become known.
#
# A waterfall shows the same numbers. The lower plot explains the difference between two scores: why
# the minute is a fault rather than heating. What matters most for the difference is the falling
# temperature.
figure, axes = plt.subplots(2, 1, figsize=(7, 5.6), layout="constrained")
plot_explanation(explanation, max_features=6, ax=axes[0])
plot_explanation(explanation, against="heating", max_features=6, ax=axes[1])
plt.show()

# %%
# A missing value contributes exactly 0: trees with ``missing="weighting-only"`` send a position
# without a value to both sides of a test, as if its value were unknown. By default, they also test
# whether a value is missing, and these tests contribute.
i, t = first_fault(lambda row: row["power"] is None)
gap = explain(model, X_test[i], t, label="fault")
contribution_of = dict(zip(gap.descriptions, gap.values[0].tolist(), strict=True))
print(contribution_of["power[0] is missing"])

# %%
# The label before the position is the predicted one. A conditional random field chooses the labels
# of a sequence together, so that the scores at other positions matter too.
plot_sequence(model, x, y_test[day_number])
plt.show()

# %%
# All minutes
# -----------
# `treecrf.inspection.contributions` explains all positions of many sequences. The mean absolute
# contribution of an input measures its importance for each label. The power of the same minute and
# the previous label matter the most; the humidity hardly matters.
found = contributions(model, X_test)
print(found)

strength = found.mean_absolute
order = np.argsort(strength.sum(axis=0))[-10:]
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
left = np.zeros(len(order))
for label, row, hatch in zip(found.labels, strength, ("", "", "..."), strict=True):
    style = {"label": label, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
    ax.barh(found.feature_names[order], row[order], left=left, **style)
    left += row[order]
ax.set_xlabel("mean absolute contribution")
ax.legend(title="label", frameon=False)
plt.show()

# %%
# The contribution of a value depends on the other values. Where the oven draws power, a falling
# temperature is evidence of a fault; where it does not, the temperature matters less.
fault = found.labels.tolist().index("fault")
column = found.feature_names.tolist().index("change[0]")
rows = [row for x in X_test for row in x]
change, power = (
    np.array([np.nan if row[name] is None else row[name] for row in rows])
    for name in ("change", "power")
)
of_change = np.concatenate(found.values)[:, fault, column]
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
points = ax.scatter(change, of_change, c=power, s=8, cmap="cividis")
ax.set_xlabel("change")
ax.set_ylabel("contribution of change[0] to fault")
figure.colorbar(points, label="power")
plt.show()

# %%
# Other values
# ------------
# Partial dependence is the mean probability of each label if a feature had a certain value at an
# offset of every window.
figure, axes = plt.subplots(2, 1, figsize=(7, 6), layout="constrained")
plot_partial_dependence(partial_dependence(model, X_test, "power"), ax=axes[0])
plot_partial_dependence(partial_dependence(model, X_test, "change"), ax=axes[1])
plt.show()

# %%
# A linear model
# --------------
# A linear model adds up the evidence of power and of temperature, and cannot combine them. Here, it
# is almost as accurate, and its weights are easier to read. Its explanations have the same form.
linear = LinearCRF(window=1).fit(X, y)
print(f"{linear.score(X_test, y_test):.1%} of the labels are correct")
print(explain(linear, x, minute))

# %%
plot_weights(linear, n_weights=12)
plt.show()

# %%
plot_transition_scores(linear)
plt.show()
