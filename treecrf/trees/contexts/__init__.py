"""Scores of single contexts, for decoding label by label and in beams."""
