"""What a saved model holds of its features of bags, and whether the parts fit together."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from treecrf.encoding.encoder import Encoder
from treecrf.encoding.plan import MAX_CODES
from treecrf.learners.future.bags import DIRECTIONS
from treecrf.learners.future.encoder import BagFeature, FutureEncoder
from treecrf.trees.forest import Forest, check_forest
from treecrf.utils import checks

PLAIN = ("size", "direction", "initial_score", "gain")


def state_of(encoder: FutureEncoder) -> tuple[dict, dict[str, np.ndarray]]:
    """Values for JSON, and arrays."""
    values, arrays = encoder.base.state()
    features = [{name: getattr(f, name) for name in PLAIN} for f in encoder.features]
    for k, feature in enumerate(encoder.features):
        arrays[f"future.{k}.effects"] = feature.effects
        packed = feature.trees.pack()
        arrays |= {f"future.{k}.trees.{name}": array for name, array in packed.items()}
    return values | {"n_future_bins": encoder.n_bins, "features": features}, arrays


def restored(
    base: Encoder, values: dict, arrays: dict[str, np.ndarray], n_labels: int
) -> FutureEncoder:
    """The inverse of `state_of`, once the encoder of the input is there.

    Raises
    ------
    ValueError
        If the parts are not those of a model.
    """
    n_bins = values["n_future_bins"]
    checks.check_counts(n_bins)
    checks.require(2 <= n_bins <= MAX_CODES, "bins")
    features = [
        _feature(base, k, plain, arrays, n_labels) for k, plain in enumerate(values["features"])
    ]
    return FutureEncoder(base, tuple(features), n_bins)


def _feature(
    base: Encoder, k: int, plain: dict, arrays: dict[str, np.ndarray], n_labels: int
) -> BagFeature:
    prefix = f"future.{k}.trees."
    packed = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    effects, size = arrays[f"future.{k}.effects"], plain["size"]
    if size is not None:
        checks.check_counts(size)
    checks.require(size is None or size > 0, "bags")
    checks.require(plain["direction"] in DIRECTIONS, "bags")
    checks.require(all(map(_is_number, (plain["initial_score"], plain["gain"]))), "features")
    checks.require(effects.shape == (2, n_labels) and effects.dtype == np.float64, "features")
    checks.require(bool(np.isfinite(effects).all()), "features")
    n_trees = len(packed["starts"]) - 1
    check_forest(packed, n_trees, 1, 0, base)
    trees = Forest.unpack(1, 0, packed)
    return BagFeature(effects=effects, trees=trees, **{name: plain[name] for name in PLAIN})


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and bool(np.isfinite(value))
