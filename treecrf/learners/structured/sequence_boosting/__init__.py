"""Boosting of single features by bounds on an exponential loss."""
