"""Deprecated latency models, kept exact: blackbox, crossmodel, trained-roofline."""

__version__ = "0.1.0"
