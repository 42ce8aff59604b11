"""Boosted trees in model files: what an estimator has learned, and its chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treecrf.chains.contexts import check_label_codes, check_lags, check_order
from treecrf.encoding.encoder import Encoder
from treecrf.learners.boosted.chains import ForestChain
from treecrf.trees.forest import Forest, check_forest, from_file
from treecrf.utils.model_file import Section, check_classes, check_counts, require

if TYPE_CHECKING:
    from treecrf.learners.linear.model import LinearModel

# What helps if a `TreeCRF` has too many contexts, for error messages.
ALTERNATIVE = "lower the order or keep a beam of contexts with beam_width"


@dataclass(frozen=True)
class LearnedTrees:
    """What an estimator has learned."""

    classes: np.ndarray
    encoder: Encoder
    forest: Forest
    # The linear model that the trees are added to.
    start: LinearModel | None = None

    def settings(self, transitions: Any, is_backward: bool, alternative: str) -> dict[str, Any]:
        """Return the fields of a `ForestChain`; ``transitions`` is a parameter of the estimator."""
        return {
            "schema": self.encoder.schema,
            "classes": self.classes,
            "order": self.forest.order,
            "transitions": transitions,
            "is_backward": is_backward,
            "forest": self.forest,
            "encoder": self.encoder,
            "start": self.start,
            "alternative": alternative,
        }


def restored_trees(
    values: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    encoder_class: type[Encoder],
    check_size: Callable[[int, int], None],
) -> LearnedTrees:
    """Return trees and their encoder; ValueError if parts of the file do not fit together.

    ``check_size`` raises an error for too many labels, or too high an order.
    """
    classes = arrays["classes"]
    encoder = encoder_class.from_state(values["encoder"], arrays)
    n_iter = values["n_iter"]
    order = values["order"]
    check_counts(n_iter, order)
    check_classes(classes)
    n_labels = len(classes)
    check_size(n_labels, order)
    packed = from_file(Section(arrays, "forest"), n_labels)
    check_forest(packed, n_iter, n_labels, order, encoder)
    return LearnedTrees(classes, encoder, Forest.unpack(n_labels, order, packed))


# The chain of a conditional random field


def crf_chain(
    *, beam_width: int | None, forward_only: bool, forest: Forest, **settings: Any
) -> ForestChain:
    """Return the scores of a fitted `TreeCRF`."""
    if beam_width is not None:
        from treecrf.learners.boosted.beams.beam import Beam
        from treecrf.learners.boosted.beams.prediction import BeamChain

        return BeamChain(forest=forest, **settings, beam=Beam(beam_width, forward_only))
    if forest.transitions is not None:
        from treecrf.learners.boosted.constant.chain import FactoredChain

        return FactoredChain(forest=forest, **settings)
    return ForestChain(forest=forest, **settings)


def restored_chain(
    parameters: Mapping[str, Any], values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> ForestChain:
    """Return the chain of a `TreeCRF`, given its parameters."""
    width = parameters.get("beam_width")

    def check_size(n_labels: int, order: int) -> None:
        if width is None:
            check_order(n_labels, order, ALTERNATIVE)
            return
        from treecrf.learners.boosted.beams.beam import Beam

        check_label_codes(n_labels, "a beam")
        check_lags(order)
        Beam(width).width_for(n_labels, order)

    trees = restored_trees(values, arrays, Encoder, check_size)
    start_arrays = Section(arrays, "init")
    require(("init" in values) == bool(start_arrays), "start")
    if start_arrays:
        from treecrf.learners.linear.saved import restored_model

        start = restored_model(values["init"], start_arrays, trees.classes)
        require(not values["init"]["transition_features"], "start")
        trees = replace(trees, start=start)
    return crf_chain(
        beam_width=width,
        forward_only=parameters.get("beam") == "forward-only",
        **trees.settings(parameters.get("transitions"), False, ALTERNATIVE),
    )
