"""Compares simulations with measured runs of real servers."""

__version__ = "0.1.0"
