"""Validation of parameters: the only module that imports it from scikit-learn.

scikit-learn keeps these names private, so a version that moves them requires a change here alone.
"""

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_params

__all__ = ["HasMethods", "Interval", "StrOptions", "validate_params"]
