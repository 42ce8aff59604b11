"""Objectives other than the log-likelihood."""
