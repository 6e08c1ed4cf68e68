"""Reports on recorded runs, and explanations of single requests."""

__version__ = "0.1.0"
