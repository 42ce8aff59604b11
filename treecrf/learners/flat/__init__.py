"""Trees flattened into weighted conjunctions."""
