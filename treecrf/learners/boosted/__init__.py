"""Estimators trained by gradient tree boosting."""
