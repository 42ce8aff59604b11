"""The engine of trees for all labels, which are fitted to all examples in this process."""

from __future__ import annotations

from treecrf.learners.boosted.booster import Booster
from treecrf.learners.boosted.engine import AllExamples
from treecrf.learners.boosted.kinds import ChainKind
from treecrf.learners.boosted.multi_output.booster import with_multi_output_trees


class MultiOutputEngine(AllExamples):
    """One tree an iteration is fitted to the examples of all labels."""

    def booster_class(self, kind: ChainKind) -> type[Booster]:
        """Return the class of what adds trees."""
        return with_multi_output_trees(super().booster_class(kind))
