"""
A room whose sensors drop out
=============================

Real measurements of a room: what happens to predictions when sensors fail.

Is someone in the room? Four sensors measure its air and light every minute (Candanedo and Feldheim
2016; :doc:`/guide/datasets`). In this example, you make the sensors fail on purpose, for an hour or
two at a time, and see which way of handling the missing values loses the least accuracy.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_occupancy.png"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from treecrf import SlidingWindowClassifier, TreeCRF
from treecrf.datasets import fetch_occupancy

# %%
# From data frames to a model
# ---------------------------
# Each sequence is a data frame. One week is used for training, and two other periods for testing.

train = fetch_occupancy(as_frame=True)
test = fetch_occupancy(subset="test", as_frame=True)
train.data[0].head(3)

# %%
settings = {"window": 2, "max_leaf_nodes": 10}
crf = TreeCRF(**settings, max_iter=50, init="zero").fit(train.data, train.target)
print(f"accuracy: {crf.score(test.data, test.target):.1%} of {sum(map(len, test.target))} minutes")

# %%
# Sensors drop out
# ----------------
# Each sensor occasionally fails for one or two hours, and all of its measurements are missing
# during that time. When the hygrometer fails, the humidity ratio is missing as well. You only need
# to leave ``NaN`` in place of the missing measurements. The training data is damaged in the same
# way, so the model has to learn from incomplete data.

SENSORS = {
    "thermometer": ["Temperature"],
    "hygrometer": ["Humidity", "HumidityRatio"],
    "photometer": ["Light"],
    "CO2 sensor": ["CO2"],
}


def drop_out(frames, share, seed):
    """Copy data frames and silence each sensor for a fraction of the time."""
    rng = np.random.default_rng(seed)
    damaged = []
    for frame in frames:
        frame = frame.copy()
        for columns in SENSORS.values():
            silent = np.zeros(len(frame), dtype=bool)
            while silent.mean() < share:
                start = rng.integers(len(frame))
                silent[start : start + rng.integers(60, 120)] = True
            frame.loc[silent, columns] = np.nan
        damaged.append(frame)
    return damaged


# %%
# The following comparison includes TreeCRF with four methods for missing values
# (:doc:`/guide/missing_values`) and two models that also support missing values but label each
# minute on its own: one sees that minute only, the other the same window as TreeCRF. All but the
# first have the number of iterations that cross-validation chose above.

crf.set_params(max_iter=crf.n_iter_, early_stopping=False)
window = SlidingWindowClassifier(**settings, max_iter=crf.n_iter_, early_stopping=False)
METHODS = ("weighting", "surrogate", "impute", "indicator")
SHARES = (0.0, 0.2, 0.4)
truth = np.concatenate(test.target)
accuracy = {name: [] for name in ("single rows", "windows", *METHODS)}
for share in SHARES:
    X, X_test = drop_out(train.data, share, seed=0), drop_out(test.data, share, seed=1)
    rows = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X[0], train.target[0])
    predicted = np.concatenate([rows.predict(frame) for frame in X_test])
    accuracy["single rows"].append(np.mean(predicted == truth))
    accuracy["windows"].append(window.fit(X, train.target).score(X_test, test.target))
    for method in METHODS:
        crf.set_params(missing=method).fit(X, train.target)
        accuracy[method].append(crf.score(X_test, test.target))

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
styles = ("s:", "D:", "o-", "^--", "v-.", "x-")
for (name, shares), style in zip(accuracy.items(), styles, strict=True):
    label = f"TreeCRF, {name}" if name in METHODS else name
    ax.plot(
        [100 * share for share in SHARES], [100 * right for right in shares], style, label=label
    )
ax.set(xlabel="time that each sensor is silent (%)", ylabel="accuracy (%)")
_ = ax.legend()

# %%
# If much is missing, weighting and surrogates are better than filled values. The previous labels do
# not help much here: the windows, which do not use them, are about as good as TreeCRF, because the
# light of a minute almost determines its label. Always compare with such a model
# (:doc:`/guide/models`). In :doc:`plot_first_look`, it makes almost twice as many errors.

# %%
# A day of the second test sequence
# ---------------------------------
# The plot shows the probability that someone is in the room, with each sensor silent for 40 % of
# the time. Gray marks missing measurements, and the green band at the top marks the true labels.

day = slice(0, 24 * 60)
probability = crf.predict_proba(X_test)[1][day, 1]
missing = X_test[1][day].isna()
hours = np.arange(len(probability)) / 60

fig, (above, below) = plt.subplots(
    2, sharex=True, figsize=(8, 4), height_ratios=[2, 1], layout="constrained"
)
above.fill_between(hours, 1.05, 1.12, where=test.target[1][day] == 1, color="tab:green", lw=0)
above.plot(hours, probability)
above.set(ylabel="P(someone is there)", ylim=(-0.05, 1.15))
names = [columns[0] for columns in SENSORS.values()]
below.imshow(
    missing[names].T,
    aspect="auto",
    cmap="Greys",
    vmax=2,
    extent=(0, hours[-1], 4, 0),
    interpolation="none",
)
below.set(xlabel="hours since the start", yticks=np.arange(4) + 0.5, yticklabels=SENSORS)
plt.show()
