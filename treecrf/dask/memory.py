"""Prediction of the memory that training takes on each worker."""

from __future__ import annotations

from typing import Any

from treecrf.dask.cluster import Cluster
from treecrf.encoding.encoded import window_within
from treecrf.learners.boosted.labeled import TrainingParts
from treecrf.learners.boosted.spec import BoostingSpec, ExactKind

# Fraction of its memory limit at which Dask ends a worker.
USABLE = 0.95
# Bytes of a position besides its features and scores: labels, offsets, keys, rows.
FIXED_BYTES = 40
# Bytes of an example besides the rows of features in its window: values, labels, numbers.
EXAMPLE_BYTES = 64


def require_memory(cluster: Cluster, spec: BoostingSpec, data: TrainingParts) -> None:
    """Raise MemoryError unless the shards of the data fit in the memory of the workers.

    A worker's share of the positions is proportional to its number of threads.
    """
    described = [data.training.described]
    if data.validation is not None:
        described.append(data.validation.described)
    n_positions = sum(each.n_positions for each in described)
    n_labels, n_features = len(data.classes), _n_dense(described[0])
    of_position = bytes_of_position(spec, n_labels, n_features)
    window = window_within(spec.window, data.training.described.longest)
    exchanged = bytes_of_iteration(spec, sum(window) + 1, n_features)
    workers = cluster.workers()
    n_threads = sum(worker["nthreads"] for worker in workers.values())
    for address, worker in workers.items():
        limit, share = worker.get("memory_limit"), worker["nthreads"] / n_threads
        needed = n_positions * of_position * share + exchanged
        if limit and needed > USABLE * limit:
            raise MemoryError(
                f"training on {n_positions} positions needs about {needed / 1e9:.3g} GB on worker "
                f"{address}, which may use {limit / 1e9:.3g} GB: {of_position} bytes for each "
                f"position, on {len(workers)} workers, and up to {exchanged / 1e6:.3g} MB of "
                "examples in an iteration; expected more workers, more memory for each, or a lower "
                "max_examples"
            )


def bytes_of_position(spec: BoostingSpec, n_labels: int, n_features: int) -> int:
    """Return the maximum number of bytes of a position while it is encoded, or draws examples."""
    # A table of the scores, or the residuals, of all labels in all contexts.
    item = 4 if isinstance(spec.kind, ExactKind) else 8
    table = item * spec.kind.n_scores(n_labels)
    # Features are stored by position and by column, and while they are encoded, also as numbers.
    return FIXED_BYTES + table + max(2 * n_features + 8 * n_labels, 9 * n_features)


def bytes_of_iteration(spec: BoostingSpec, width: int, n_features: int) -> int:
    """Return the bytes of the examples of an iteration by the width of windows; 0 if unlimited."""
    of_example = EXAMPLE_BYTES + width * n_features
    return (spec.max_examples or 0) * of_example


def _n_dense(described: Any) -> int:
    """Return the number of features that every position stores."""
    return described.schema.n_features if described.form == "dense" else 0
