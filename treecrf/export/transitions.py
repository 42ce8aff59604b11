"""Tables of labels after labels: scores, rules and costs."""

from __future__ import annotations

import numpy as np

from treecrf.export.parts import Parts
from treecrf.export.tables import Tables
from treecrf.inputs.offsets import offsets_of

# As in the template: factors of scores farther apart are not multiplied.
LOWEST_LOG = -150.0


def transition_tables(parts: Parts, has_table: bool) -> Tables:
    """Return the scores of labels after contexts, and the rules of transitions.

    With ``has_table``, the scores are added to a table of all positions, and without previous
    labels to the scores of all positions. Otherwise, the labeler reads them in place of a table,
    and their exponentials.
    """
    by_context = scores_by_context(parts)
    if parts.order == 0 and by_context is not None:
        return Tables({"HAS_TRANSITIONS": 1}, {"transitions": by_context[0].ravel()})
    tables = rule_tables(parts)
    if by_context is None and (has_table or parts.order == 0):
        return tables
    n_labels = len(parts.classes)
    if by_context is None:
        by_context = [np.zeros((n_labels**d, n_labels)) for d in range(parts.order + 1)]
    sizes = [scores.size for scores in by_context]
    constants = {"HAS_TRANSITIONS": 1}
    arrays = {
        "transition_starts": offsets_of(sizes)[:-1],
        "transitions": np.concatenate([scores.ravel() for scores in by_context]),
    }
    if not has_table:
        relative = [relative_to_highest(scores) for scores in by_context]
        lowest = min(scores[scores > -np.inf].min(initial=0.0) for scores in relative)
        constants["TRANSITIONS_ARE_NEAR"] = int(lowest >= LOWEST_LOG)
        arrays["transition_factors"] = np.concatenate([np.exp(x).ravel() for x in relative])
    return tables | Tables(constants, arrays)


def relative_to_highest(scores: np.ndarray) -> np.ndarray:
    """Subtract the highest score."""
    highest = scores.max()
    return scores - highest if highest > -np.inf else scores


def scores_by_context(parts: Parts) -> list[np.ndarray] | None:
    """Return the scores of labels after contexts, for each number of previous labels.

    Arrays have the shape (n_contexts, n_labels). None stands for scores of 0.
    """
    terms = []
    if parts.scores.by_context is not None:
        terms.append(parts.scores.by_context)
    if parts.scores.linear is not None:
        transitions = parts.scores.linear.weights.transitions
        terms.append(by_nearest_label(transitions, parts.order))
    if parts.rules is not None:
        allowed = np.where(parts.rules.follows, 0.0, -np.inf)
        terms.append(by_nearest_label(allowed, parts.order))
    if not terms:
        return None
    return [np.sum([term[d] for term in terms], axis=0) for d in range(parts.order + 1)]


def by_nearest_label(table: np.ndarray, order: int) -> list[np.ndarray]:
    """Return the scores of contexts of which only the nearest label matters.

    ``table`` has a row for each previous label, and a last one for first positions.
    """
    n_labels = table.shape[1]
    # The nearest previous label is the lowest digit of a context.
    repeated = [np.tile(table[:-1], (n_labels ** (d - 1), 1)) for d in range(1, order + 1)]
    return [table[-1:], *repeated]


def rule_tables(parts: Parts) -> Tables:
    """Return which labels may follow each other, and which may come last."""
    if parts.rules is None:
        return Tables()
    arrays = {
        "rule_follows": parts.rules.follows[:-1].astype(np.uint8),
        "rule_ends": parts.rules.ends.astype(np.uint8),
    }
    return Tables({"HAS_RULES": 1}, arrays)
