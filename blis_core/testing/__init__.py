"""What a plugin author tests with: a fleet given by its figures, requests, conformance classes.

Each kind of extension has a class with the laws that every implementation must keep. Subclass it in
your tests and say how yours is made; pytest then runs all of its tests::

    from blis_core.testing import ScorerTests

    class TestMine(ScorerTests):
        def make(self):
            return Mine()

A failure says what was done, what came out, and why that is wrong. Nothing here measures time:
costs are counted, so that a busy machine makes no difference.

This package needs nothing but blis-core itself. pytest is not among the dependencies of blis-core;
your tests bring it.
"""

from __future__ import annotations

from blis_core.testing.asking import Asking
from blis_core.testing.autoscaling import (
    FixedCluster,
    ScalingActuatorTests,
    ScalingAnalyzerTests,
    ScalingCollectorTests,
    ScalingEngineTests,
)
from blis_core.testing.deciders import PDDeciderTests
from blis_core.testing.fleet import FixedFleet
from blis_core.testing.importers import ImporterTests
from blis_core.testing.kv import KVStoreTests
from blis_core.testing.latency import LatencyModelTests, latency_setup
from blis_core.testing.policies import AdmissionPolicyTests, RoutingPolicyTests
from blis_core.testing.requests import make_request, make_requests, sample_fleets
from blis_core.testing.samplers import ArrivalSamplerTests, LengthSamplerTests
from blis_core.testing.schedulers import SchedulerTests
from blis_core.testing.scorers import ScorerTests

__all__ = [
    "AdmissionPolicyTests",
    "ArrivalSamplerTests",
    "Asking",
    "FixedCluster",
    "FixedFleet",
    "ImporterTests",
    "KVStoreTests",
    "LatencyModelTests",
    "LengthSamplerTests",
    "PDDeciderTests",
    "RoutingPolicyTests",
    "ScalingActuatorTests",
    "ScalingAnalyzerTests",
    "ScalingCollectorTests",
    "ScalingEngineTests",
    "SchedulerTests",
    "ScorerTests",
    "latency_setup",
    "make_request",
    "make_requests",
    "sample_fleets",
]
