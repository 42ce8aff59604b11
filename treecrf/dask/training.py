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
    """Train an estimator, and return its fitted attributes.

    Parameters
    ----------
    cluster : Cluster
    estimator : BoostedSequenceClassifier
        A local one, which does not change.
    raws : DaskFleet of RawData
    validation : DaskFleet of RawData, or None
    callbacks : Callbacks

    Raises
    ------
    MemoryError
        If the data would not fit in the memory of the workers.
    """
    preparation = Preparation.of(estimator, raws, validation, None)
    if preparation.sampling is None:
        return preparation.train_in_one_place(callbacks)
    require_memory(cluster, preparation)
    return preparation.train_on_shards(callbacks)
