"""Beam search: training and prediction with only the best contexts at each position."""
