"""Samples of the examples that trees are fitted to."""
