"""Training on the parts of a fleet on a Dask cluster."""

from __future__ import annotations

from typing import Any

from treecrf.dask.cluster import Cluster
from treecrf.dask.fleet import DaskFleet
from treecrf.dask.memory import require_memory
from treecrf.learners.boosted.parted.training import Preparation
from treecrf.learners.iterations import Callbacks


def train(
    cluster: Cluster,
    estimator: Any,
    raws: DaskFleet,
    validation: DaskFleet | None,
    callbacks: Callbacks,
) -> dict:
    """Train a local estimator, which does not change, and return its fitted attributes."""
    preparation = Preparation.of(estimator, raws, validation, None)
    if preparation.sampling is None:
        return preparation.train_in_one_place(callbacks)
    require_memory(cluster, preparation)
    return preparation.train_on_shards(callbacks)
