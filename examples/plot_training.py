"""
Following a training run
========================

Watch training and held-out data, change the learning rate, and resume from a checkpoint.

Boosting adds trees one iteration after another. In this example, you follow the likelihood and the
accuracy of two sets of sequences, change the learning rate on the way, give less weight to doubtful
labels, and resume training from a checkpoint (:doc:`/guide/training`). The data is noise around
labels that change rarely, and some of the training labels are wrong.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import treecrf
from treecrf import TreeCRF
from treecrf.callbacks import Checkpoint, LearningRateSchedule

rng = np.random.default_rng(0)
y = [np.cumsum(rng.random(60) < 0.1) % 3 for _ in range(150)]
X = [np.eye(3)[labels] + rng.normal(size=(60, 3)) for labels in y]
clean, doubtful, held_out = slice(50), slice(50, 100), slice(100, None)
wrong = [np.where(rng.random(60) < 0.4, rng.integers(0, 3, 60), t) for t in y[doubtful]]
train_X, train_y = X[clean] + X[doubtful], y[clean] + wrong

# %%
# Several sets
# ------------
# ``eval_set`` takes any number of sets, here clean training sequences and new ones. ``scoring``
# adds a metric to the objective. The learning rate falls as training goes on.

falling = LearningRateSchedule(lambda iteration: 0.3 * 0.95**iteration)
settings = {"window": 2, "max_leaf_nodes": 10, "l2_regularization": 5.0, "early_stopping": False}
crf = TreeCRF(max_iter=60, scoring="accuracy", **settings)
sets = {"training": (X[clean], y[clean]), "new": (X[held_out], y[held_out])}
crf.fit(train_X, train_y, eval_set=list(sets.values()), callbacks=[falling])

fig, axes = plt.subplots(1, 2, figsize=(8, 3), constrained_layout=True)
for name, scores in zip(sets, crf.evals_result_.values(), strict=True):
    for axis, (metric, values) in zip(axes, scores.items(), strict=True):
        axis.plot(values, "-" if name == "training" else "--", label=name)
        axis.set(xlabel="iterations", title=metric)
axes[0].legend()
plt.show()

# %%
# Both curves rise quickly and then level off, those of new sequences at a lower value.
#
# Weights
# -------
# Suppose you know that the second half of the training sequences was labeled carelessly. The lower
# its weight, the better the likelihood and the accuracy of new sequences.

for weight in (0, 0.2, 1):
    weights = np.repeat([1, weight], 50)
    crf = TreeCRF(max_iter=30, learning_rate=0.2, **settings)
    crf.fit(train_X, train_y, sample_weight=weights)
    log_p = crf.predict_log_likelihood(X[held_out], y[held_out]).mean() / 60
    accuracy = crf.score(X[held_out], y[held_out])
    print(f"weight {weight}: log-likelihood {log_p:.3f}, accuracy {accuracy:.1%}")

# %%
# A checkpoint
# ------------
# The model of iteration 20 is saved during training. Training that resumes from it ends with the
# same model as the uninterrupted run, to the last bit.

path = Path(tempfile.mkdtemp()) / "checkpoint.treecrf"
crf = TreeCRF(max_iter=30, learning_rate=0.2, subsample=0.5, **settings)
crf.fit(train_X, train_y, callbacks=[Checkpoint(path, every=20)])
resumed = treecrf.load(path)
print(f"resumed at iteration {resumed.n_iter_}")
resumed.set_params(warm_start=True).fit(train_X, train_y)
identical = all(map(np.array_equal, crf.predict_proba(X), resumed.predict_proba(X)))
print(f"identical after iteration {resumed.n_iter_}: {identical}")
