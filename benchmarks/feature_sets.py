"""Features over several scales on public labeled sequences: accuracy in % and log loss.

The sets are those of `real_sets.py`. Each number is that of three folds of persons, or of weeks,
among those that `real.py` trains on in its first fold, so that choices by these numbers leave its
tests alone. The model is ``TreeCRF(window=0)``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pooch
from measure import markdown
from real_files import SOURCE, fetch
from real_sequences import LabeledSequences, divided
from real_sets import SETS
from sklearn.pipeline import make_pipeline

from treecrf import TreeCRF
from treecrf.preprocessing import RollingFeatures, SequenceScaler

BOTH = ("difference", "std")
FEATURES = {
    "none": [],
    "differences": [RollingFeatures(statistics="difference")],
    "differences, deviations": [RollingFeatures(statistics=BOTH)],
    "these alone": [RollingFeatures(statistics=BOTH, keep=False)],
    "these of the past": [RollingFeatures(statistics=BOTH, centered=False)],
    "z-scores": [SequenceScaler()],
    "z-scores and their differences, deviations": [
        SequenceScaler(), RollingFeatures(statistics=BOTH),
    ],
}  # fmt: skip
# Smaller probabilities count as this.
MIN_PROBABILITY = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["elec", "skab", "sleep", "facies"])
    parser.add_argument("--data", type=Path, default=Path(pooch.os_cache("treecrf"), "real"))
    parser.add_argument("--source", default=SOURCE, help="address that the files are under")
    arguments = parser.parse_args()
    read = {}
    for name in arguments.sets:
        chosen = SETS[name]
        folder = fetch(chosen.repository, chosen.commit, arguments.data, arguments.source)
        read[name] = chosen.read(folder)
    rows = [
        [features, *(measured(data, features) for data in read.values())] for features in FEATURES
    ]
    print(markdown(["features", *read], rows))


def measured(data: LabeledSequences, features: str) -> str:
    """Return accuracy and log loss over all folds."""
    hits, losses = [], []
    for train, test in divided(data, held_out=True):
        pipe = make_pipeline(*FEATURES[features], TreeCRF(window=0, random_state=0))
        pipe.fit([data.X[i] for i in train], [data.y[i] for i in train])
        y = np.concatenate([data.y[i] for i in test])
        p = np.concatenate(pipe.predict_proba([data.X[i] for i in test]))
        is_true = y[:, np.newaxis] == pipe.classes_
        hits.append(is_true[np.arange(len(y)), p.argmax(axis=1)])
        losses.append(-np.log(np.maximum((p * is_true).sum(axis=1), MIN_PROBABILITY)))
    accuracy = 100 * np.concatenate(hits).mean()
    return f"{accuracy:.1f} / {np.concatenate(losses).mean():.3f}"


if __name__ == "__main__":
    main()
