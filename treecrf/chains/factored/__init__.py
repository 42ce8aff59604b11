"""Factored scores: sums of scores of labels at positions, and of labels after labels."""
