"""Settings that tests name if they depend on them, so that they do not depend on the defaults."""

from __future__ import annotations

# As many iterations as `max_iter`, from scores of 0 or from the given `init`.
FIXED = {"early_stopping": False}
# First-order steps of full length.
FIRST_ORDER = {"second_order": False, "learning_rate": 1.0}
PLAIN = FIXED | FIRST_ORDER
