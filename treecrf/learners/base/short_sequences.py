"""The door to `treecrf.learners.short`, a form of models that scores short sequences faster.

No other module imports that folder. Without it, all predictions are the same, and those of a few
short sequences take longer.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treecrf.encoding.encoder import Encoder
    from treecrf.inputs.schema import InputSchema
    from treecrf.learners.linear.model import LinearModel
    from treecrf.trees.forest import Forest


def short_model(
    schema: InputSchema,
    n_labels: int,
    order: int,
    trees: tuple[Forest, Encoder] | None,
    linear: LinearModel | None,
    ignored: set[str],
) -> Any:
    """Return the `ShortModel` of trees, of a linear model, or of their sum; None if there is none.

    The scores of a linear model that trees are added to are rounded. Columns with names in
    ``ignored`` may be in data frames, though not in the training data.
    """
    if find_spec("treecrf.learners.short") is None:
        return None
    from treecrf.learners.short.compilation import compiled

    return compiled(schema, n_labels, order, trees, linear, ignored)
