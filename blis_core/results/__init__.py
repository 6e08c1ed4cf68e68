"""Aggregation of a finished run, and its renderings."""

from blis_core.results.attainment import slo_attainment, slo_attainment_by_class
from blis_core.results.model import Results

__all__ = ["Results", "slo_attainment", "slo_attainment_by_class"]
