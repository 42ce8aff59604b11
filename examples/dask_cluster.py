"""
Training on a Dask cluster
==========================

Four files, two workers, and the same model as in one process.

In this example, you train one model on four files with measurements of many machines. The workers
of the cluster are two processes of this machine, and the model is the same as if one process had
trained on all files. Run the script with Python; it takes about half a minute. The guide
:doc:`/guide/dask` explains what happens.
"""

# sphinx_gallery_thumbnail_path = "_static/thumbnail_dask.svg"
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from treecrf import TreeCRF
from treecrf.dask import DaskTreeCRF

MEANS = {"off": 0.0, "idle": 1.0, "busy": 2.0}


def simulate(machines, rng, length=300):
    """Return a table of the state of machines, and of two noisy sensors."""
    states = np.array(list(MEANS))[np.cumsum(rng.random((machines, length)) < 0.05, axis=1) % 3]
    means = np.vectorize(MEANS.get)(states.ravel())
    return pd.DataFrame(
        {
            "machine": np.repeat([f"m{i}" for i in rng.permutation(10**6)[:machines]], length),
            "vibration": means + rng.normal(size=means.size),
            "power": means > rng.normal(1, 0.5, size=means.size),
            "state": states.ravel(),
        }
    )


def main():
    """Write files, train on them, and compare the models."""
    rng = np.random.default_rng(0)
    folder = Path(tempfile.mkdtemp())
    for i in range(4):
        simulate(100, rng).to_parquet(folder / f"part-{i}.parquet")
    settings = {"window": 3, "max_iter": 20, "early_stopping": False, "random_state": 0}
    settings |= {"init": "zero", "sampling": 0.1, "max_leaf_nodes": 20}

    with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        crf = DaskTreeCRF(client=client, verbose=1, **settings)
        crf.fit(folder, "state", groups="machine")
        print(f"accuracy on the training data: {crf.score(folder, 'state'):.1%}")
        # Predictions are computed when they are needed.
        labels = crf.predict(folder)
        print(labels.compute().value_counts())

    files = sorted(folder.glob("*.parquet"))
    table = pd.concat([pd.read_parquet(file) for file in files])
    local = TreeCRF(**settings).fit(table, "state", groups="machine")
    assert np.array_equal(local.train_score_, crf.train_score_)
    print("The model of one process is the same.")


if __name__ == "__main__":
    main()
