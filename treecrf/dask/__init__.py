"""Training and prediction on a Dask cluster.

`DaskTreeCRF`, `DaskTreeMEMM` and `DaskSlidingWindowClassifier` train on data frames, bags and files
that are spread over many machines. The model is equal, to the bit, to the one that the local
estimator, such as `treecrf.TreeCRF`, trains on all data in one place.
"""

from __future__ import annotations

from importlib.util import find_spec

if not (find_spec("dask") and find_spec("distributed")):
    raise ImportError('treecrf.dask requires Dask: pip install "treecrf[dask]"')

from treecrf.dask.cluster import WorkersLostError
from treecrf.dask.estimators import DaskSlidingWindowClassifier, DaskTreeCRF, DaskTreeMEMM

__all__ = ["DaskSlidingWindowClassifier", "DaskTreeCRF", "DaskTreeMEMM", "WorkersLostError"]
