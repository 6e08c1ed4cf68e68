"""Scorers for the weighted routing policy."""

__version__ = "0.1.0"
