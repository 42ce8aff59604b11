"""Evaluating trees on encoded rows."""
