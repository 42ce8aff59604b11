"""Regression trees over windows and contexts."""
