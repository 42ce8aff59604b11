"""Samples of the examples that trees are fitted to, and the factored scores they are drawn at."""
