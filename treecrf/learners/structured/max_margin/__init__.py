"""Structured support vector machines."""
