"""Shares of requests within their targets."""

from blis_core.results.attainment import slo_attainment, slo_attainment_by_class
from tests.results.records import record

REQUESTS = [
    record(e2e=100, slo_class="critical"),
    record(e2e=101, slo_class="critical"),
    record(e2e=10**9, slo_class="batch"),
    record(e2e=50),
    record(e2e=60),
    record(ttft=5, slo_class="critical"),  # never completed
    record(slo_class="background"),
]
TARGETS = {"critical": 100.0, "default": 55.0, "background": 1.0}


def test_attainment() -> None:
    assert slo_attainment(REQUESTS, TARGETS) == 3 / 5
    assert slo_attainment(REQUESTS, {}) == 1
    assert slo_attainment([], TARGETS) == 0
    assert slo_attainment(REQUESTS[5:], TARGETS) == 0


def test_attainment_by_class() -> None:
    found = slo_attainment_by_class(REQUESTS, TARGETS)
    assert list(found.items()) == [("batch", 1.0), ("critical", 0.5), ("default", 0.5)]
