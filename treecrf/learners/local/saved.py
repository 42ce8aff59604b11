"""Models that are normalized at each position, in model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treecrf.chains.contexts import check_label_codes, check_lags
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.saved import restored_trees
from treecrf.learners.local.chains import LocalForestChain
from treecrf.utils.model_file import require

# What helps if a model has too many contexts, for error messages.
ALTERNATIVE = "lower the order, or predict with decoding='greedy' or 'beam'"
# Values of ``decoding`` that follow predictions.
SEARCHES = ("greedy", "beam")
# Directions in which sequences are labeled.
DIRECTIONS = ("left-to-right", "right-to-left")


def search_width(parameters: Mapping[str, Any]) -> int | None:
    """Return the number of label sequences that prediction follows; None if it sums."""
    if parameters["decoding"] not in SEARCHES:
        return None
    return parameters["beam_width"] if parameters["decoding"] == "beam" else 1


def restored_chain(
    parameters: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> LocalForestChain:
    """Return the chain of a `TreeMEMM` or of a window classifier, given its parameters."""
    direction = values.get("direction", DIRECTIONS[0])
    require(direction in DIRECTIONS, "direction")

    def check_size(n_labels: int, order: int) -> None:
        check_label_codes(n_labels, values["class"])
        check_lags(order)

    trees = restored_trees(values, arrays, Encoder, check_size)
    is_backward = direction != DIRECTIONS[0]
    return LocalForestChain(
        **trees.settings(parameters.get("transitions"), is_backward, ALTERNATIVE),
        width=search_width(parameters),
    )
