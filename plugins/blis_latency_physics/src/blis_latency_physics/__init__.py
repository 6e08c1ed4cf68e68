"""Latency models from first principles: roofline, and the trained physics model."""

__version__ = "0.1.0"
