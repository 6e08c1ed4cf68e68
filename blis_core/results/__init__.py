"""Aggregation of a finished run, and its renderings."""
