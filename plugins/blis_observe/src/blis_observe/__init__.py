"""Real servers: is one there, what does it serve, and how far away is it."""

__version__ = "0.1.0"
