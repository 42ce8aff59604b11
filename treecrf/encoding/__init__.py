"""Sequences encoded into bins, bit sets and windows for the trees."""
