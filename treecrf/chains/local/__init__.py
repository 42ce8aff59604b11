"""Likelihood and search of models that are normalized at each position."""
