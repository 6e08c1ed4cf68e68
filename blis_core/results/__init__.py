"""Aggregation of a finished run, and its renderings."""

from blis_core.results.arrays import RequestArrays, RequestList
from blis_core.results.attainment import slo_attainment, slo_attainment_by_class
from blis_core.results.model import Results

__all__ = ["RequestArrays", "RequestList", "Results", "slo_attainment", "slo_attainment_by_class"]
