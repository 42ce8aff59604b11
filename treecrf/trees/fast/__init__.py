"""Evaluators of trees that are faster than the reference, and scores of short sequences.

Nothing depends on this folder: without it, all scores are equal to the bit, and take longer. Only
`treecrf.trees.evaluators` imports it.

- `lookup` computes the leaf numbers of thousands of positions, bit by bit, and looks up the values
  of the leaves.
- `walking` takes one position at a time down each tree, in all contexts at once.
- `_quick` only looks at the tests that hold. `short` chooses between it and walking for short
  sequences, whose tests `treecrf.learners.short` computes; long ones of these are for the lookup.
"""

from treecrf.trees.fast.lookup import Lookup
from treecrf.trees.fast.short import short_evaluator
from treecrf.trees.fast.walking import Walking

__all__ = ["EVALUATORS", "short_evaluator"]

#: The evaluators among which `treecrf.trees.evaluators` chooses.
EVALUATORS = (Walking, Lookup)
