"""Training and prediction on a Dask cluster.

`DaskTreeCRF`, `DaskTreeMEMM` and `DaskSlidingWindowClassifier` train on data frames, bags and files
that are spread over many machines. The model is equal, to the bit, to that of `treecrf.TreeCRF` and
its relatives on all data in one place.
"""

from __future__ import annotations

try:
    import dask
    import distributed
except ImportError as error:
    raise ImportError('treecrf.dask requires Dask: pip install "treecrf[dask]"') from error

from treecrf.dask.cluster import WorkersLostError
from treecrf.dask.estimators import DaskSlidingWindowClassifier, DaskTreeCRF, DaskTreeMEMM

__all__ = ["DaskSlidingWindowClassifier", "DaskTreeCRF", "DaskTreeMEMM", "WorkersLostError"]
