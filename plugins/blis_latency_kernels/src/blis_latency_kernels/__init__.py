"""A latency model that adds up the kernels of a step."""

__version__ = "0.1.0"
