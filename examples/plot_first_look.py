"""
A first look
============

A noisy sensor with a switch that inverts it, and the picture of the front page.

A machine is off or on, and rarely changes. A sensor measures this state with a lot of noise, and a
switch inverts its signal, so the sensor alone reveals nothing. A model has to combine it with the
switch, and to reduce the noise with the help of neighboring positions.

In this example, you compare three models, and draw the picture on the :doc:`front page </index>`.
"""

# %%
# Each sequence is an array with one row per position and two columns, the switch and the sensor.

import matplotlib.pyplot as plt
import numpy as np

from treecrf import LinearCRF, SlidingWindowClassifier, TreeCRF
from treecrf.plotting import plot_sequence

rng = np.random.default_rng(0)
X, y = [], []
for _ in range(60):
    on = np.cumsum(rng.random(100) < 0.05) % 2
    switch = rng.random(100) < 0.5
    sensor = np.where(switch, 1, -1) * (2 * on - 1) + rng.normal(size=100)
    X.append(np.column_stack([switch, sensor]))
    y.append(np.where(on, "on", "off"))

# %%
# With ``window=1``, all models use a position and its two neighbors. A linear model cannot combine
# the switch with the sensor. The window classifier can, but it labels each position on its own.

models = [TreeCRF(window=1), SlidingWindowClassifier(window=1), LinearCRF(window=1)]
for model in models:
    model.fit(X[:40], y[:40])
    print(f"{type(model).__name__:24} {model.score(X[40:], y[40:]):.3f}")

# %%
# The linear model is hardly better than guessing. TreeCRF makes little more than half the errors of
# the window classifier, because it also uses the states before and after.
#
# The plot shows the measurements of a test sequence, the probabilities of the states, and the
# predicted and the true states.

fig, (above, below) = plt.subplots(
    2, figsize=(9, 3.6), sharex=True, height_ratios=[1, 1.6], layout="constrained"
)
switch, sensor = X[45].T
for value, face in (1, "0.2"), (0, "white"):
    where = np.flatnonzero(switch == value)
    above.scatter(
        where, sensor[where], 12, facecolor=face, edgecolor="0.2", label=f"switch {value}"
    )
above.set_ylabel("sensor")
above.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
above.spines[["top", "right"]].set_visible(False)
plot_sequence(models[0], X[45], y[45], ax=below)
plt.show()
