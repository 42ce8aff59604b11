"""Constant transitions: trees test the input only, and one matrix scores labels after labels."""
