"""The version, where the build finds it without importing compiled modules."""

__version__ = "0.1.0"
