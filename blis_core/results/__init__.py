"""Aggregation of a finished run, and its renderings."""

from blis_core.results.model import Results

__all__ = ["Results"]
