"""Prediction of the memory that training takes on each worker."""

from __future__ import annotations

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
    n_labels, schema = len(data.classes), described[0].schema
    # Features that every position stores: by position and by column, and while they are encoded,
    # also as numbers.
    n_features = schema.n_features if described[0].form == "dense" else 0
    # A table of the scores, or the residuals, of all labels in all contexts.
    table = (4 if isinstance(spec.kind, ExactKind) else 8) * spec.kind.n_scores(n_labels)
    of_position = FIXED_BYTES + table + max(2 * n_features + 8 * n_labels, 9 * n_features)
    width = sum(window_within(spec.window, data.training.described.longest)) + 1
    exchanged = (spec.max_examples or 0) * (EXAMPLE_BYTES + width * n_features)
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
