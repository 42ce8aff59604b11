"""Inference with only the best contexts at each position."""
