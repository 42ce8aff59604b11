"""
Which method for missing values?
================================

Damage complete data on purpose, and compare the ways to treat missing values.

The parameter ``missing`` decides what trees do with missing values, such as ``"weighting"``,
``"surrogate"``, ``"impute"`` or ``"indicator"``. Which one suits your data? Take complete data,
damage it in the way in which real values get lost, and compare the methods. This is the design of
chapter 4 of Hao's dissertation (2009), here with sensors instead of letters. Replace the generated
data with your own.
"""

# %%
# Data
# ----
# Three sensors with noise, some of it common to all, measure a process with three states.

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import xlogy
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

from treecrf import TreeCRF
from treecrf.metrics import mcnemar_test

rng = np.random.default_rng(0)
LEVELS = np.array([[0.0, 0.0, 1.0], [1.5, 0.0, -1.0], [1.5, 2.0, 0.0]])


def process(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return measurements and states; a state lasts for six steps on average."""
    states = np.cumsum(rng.random(n) < 1 / 6) % 3
    noise = rng.normal(size=(n, 3)) + 0.7 * rng.normal(size=(n, 1))
    return LEVELS[states] + noise, states


X, y = map(list, zip(*(process(50) for _ in range(80)), strict=True))
X_train, X_test, y_train, y_test = X[:40], X[40:], y[:40], y[40:]

# %%
# Damage
# ------
# Values are missing at random, in blocks (a sensor fails for some time), or because they are large.
# In the last case, the fact that a value is missing says something about it.


def damage(X: list, mechanism: str, rate: float, seed: int) -> list:
    """Return copies of tables in which about this fraction of the values is missing."""
    rng, length = np.random.default_rng(seed), 10
    limits = np.quantile(np.concatenate(X), 1 - rate, axis=0)
    damaged = []
    for table in X:
        lost = rng.random(table.shape) < rate
        if mechanism == "blocks":
            starts = rng.random(table.shape) < 1 - (1 - rate) ** (1 / length)
            lost = np.array([starts[max(0, t + 1 - length) : t + 1].any(axis=0)
                             for t in range(len(table))])  # fmt: skip
        elif mechanism == "large values":
            lost = (table > limits) & (rng.random(table.shape) < 0.9)
        damaged.append(np.where(lost, np.nan, table))
    return damaged


# %%
# All combinations
# ----------------
# The training and the test data are damaged in the same way. The table shows the percentage of
# correct labels. A star marks a difference from weighting by McNemar's test, p < 0.05.

METHODS = ["weighting", "surrogate", "impute", "indicator"]
MECHANISMS, RATES = ["at random", "blocks", "large values"], [0.1, 0.4]
truth = np.concatenate(y_test)
rows, counts = {}, []
for mechanism, rate in product(MECHANISMS, RATES):
    train, test = damage(X_train, mechanism, rate, 1), damage(X_test, mechanism, rate, 2)
    labels = {}
    for method in METHODS:
        model = TreeCRF(missing=method, init="zero", max_iter=20, early_stopping=False)
        labels[method] = np.concatenate(model.fit(train, y_train).predict(test))
        counts.append((mechanism, rate, method, int(np.sum(labels[method] == truth))))
    rows[mechanism, rate] = [
        f"{100 * np.mean(labels[method] == truth):.1f}"
        + "*" * (mcnemar_test(truth, labels[method], labels["weighting"]).pvalue < 0.05)
        for method in METHODS
    ]
print(pd.DataFrame.from_dict(rows, orient="index", columns=METHODS))

# %%
# Analysis of deviance
# --------------------
# A logistic regression of correct labels on the damage and the method shows what matters. Each row
# adds terms to the model. If they had no effect, the fall of the deviance would follow chi-square.
# The method matters if its row has a small p-value, and no method is best for all damage if the
# last row has one. Here, neither is small, and no method is significantly better than weighting.

cells = pd.DataFrame(counts, columns=["mechanism", "rate", "method", "right"])
n = len(truth)


def deviance(terms: list) -> tuple[float, int]:
    """Return the deviance of a logistic regression, and its number of parameters."""
    names = [cells[list(term)].astype(str).agg(" ".join, axis=1) for term in terms]
    design = pd.get_dummies(pd.concat(names, axis=1), dtype=float).to_numpy() if terms else None
    p = np.full(len(cells), cells["right"].mean() / n)
    if terms:
        twice = np.vstack([design, design])
        is_right = np.repeat([1, 0], len(cells))
        weights = np.concatenate([cells["right"], n - cells["right"]])
        model = LogisticRegression(C=1e9, max_iter=10000, tol=1e-8)
        p = model.fit(twice, is_right, weights).predict_proba(design)[:, 1]
    k, rank = cells["right"], 1 if design is None else np.linalg.matrix_rank(design)
    fall = xlogy(k, k / (n * p)) + xlogy(n - k, (n - k) / (n * (1 - p)))
    return 2 * float(fall.sum()), rank


DAMAGE = ("mechanism", "rate")
steps = {
    "none": [],
    "damage": [DAMAGE],
    "+ method": [DAMAGE, ("method",)],
    "+ method by mechanism": [DAMAGE, ("mechanism", "method")],
}
before = deviance([])
print(f"{'terms':24}{'deviance':>10}{'fall':>8}{'df':>4}{'p':>9}")
for name, terms in steps.items():
    after = deviance(terms)
    fall, df = before[0] - after[0], after[1] - before[1]
    p = f"{chi2.sf(fall, df):9.2g}" if df else ""
    print(f"{name:24}{after[0]:10.1f}{fall:8.1f}{df:4}{p}")
    before = after

# %%
# Accuracy by rate
# ----------------
# Each panel shows one kind of damage. Where values are missing at random or in blocks, all methods
# lose accuracy as more is missing. Large values lose little with weighting and surrogates even if
# 40 % are missing, because a missing value is then known to be large.

figure, axes = plt.subplots(1, 3, figsize=(7.5, 3), sharey=True, layout="constrained")
for ax, (mechanism, part) in zip(axes, cells.groupby("mechanism", sort=False), strict=True):
    styles = ("o-", "s--", "^:", "v-.")
    for (method, of_method), style in zip(part.groupby("method", sort=False), styles, strict=True):
        ax.plot(100 * of_method["rate"], 100 * of_method["right"] / n, style, label=method)
    ax.set(title=mechanism, xlabel="missing values (%)")
axes[0].set_ylabel("correct labels (%)")
axes[0].legend()
plt.show()
