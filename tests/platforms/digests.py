"""Print what each learner predicts as digests, to compare platforms. Needs no test tools."""

from __future__ import annotations

import hashlib
import warnings

import numpy as np

import treecrf

TREES = {"window": 1, "max_iter": 6, "max_leaf_nodes": 8, "early_stopping": False}
ZERO = TREES | {"init": "zero"}
FUTURE = {"window": 1, "max_iter": 3, "bag_size": 2, "instance_max_iter": 2,
          "max_future_features": 1, "early_stopping": False, "random_state": 0}  # fmt: skip
MODELS = {
    "CRF": treecrf.TreeCRF(window=1, max_iter=6),
    "CRF, order 0": treecrf.TreeCRF(order=0, **ZERO),
    "CRF, order 1": treecrf.TreeCRF(**ZERO),
    "CRF, order 2": treecrf.TreeCRF(order=2, **ZERO),
    "CRF, first-order steps": treecrf.TreeCRF(second_order=False, **ZERO),
    "CRF, exponential": treecrf.TreeCRF(objective="exponential", **ZERO),
    "CRF, samples": treecrf.TreeCRF(sampling=0.5, random_state=0, **ZERO),
    "CRF, beam": treecrf.TreeCRF(beam_width=8, **ZERO),
    "MEMM": treecrf.TreeMEMM(**TREES),
    "sliding window": treecrf.SlidingWindowClassifier(**TREES),
    "recurrent window": treecrf.RecurrentSlidingWindowClassifier(**TREES),
    "future features": treecrf.FutureFeatureMEMM(**FUTURE),
    "HMM": treecrf.HMMClassifier(),
    "linear CRF": treecrf.LinearCRF(window=1),
    "linear CRF, gradient steps": treecrf.LinearCRF(
        window=1, solver="sgd", max_iter=5, random_state=0
    ),
    "perceptron": treecrf.StructuredPerceptron(window=1, random_state=0),
    "support vector machine": treecrf.StructuredSVM(window=1, random_state=0),
    "boosted features": treecrf.SequenceBoostingClassifier(window=1, max_iter=20),
}


def digest(*arrays: np.ndarray) -> str:
    """Hash the bits of arrays."""
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:12]


def main() -> None:
    """Fit all models; print digests of their labels and of their probabilities."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(0, 3, 12), 4) for _ in range(20)]
    X = [labels[:, None] + rng.normal(size=(48, 3)) for labels in y]
    symbols = [np.round(table[:, 0]).astype(int) for table in X]
    for name, model in MODELS.items():
        data = symbols if name == "HMM" else X
        model.fit(data, y)
        labels = digest(*(codes.astype(np.int64) for codes in model.predict(data)))
        exact = digest(*model.predict_proba(data), np.array(model.predict_log_likelihood(data, y)))
        print(f"{name}\t{labels}\t{exact}", flush=True)


if __name__ == "__main__":
    main()
