"""The public names for plugin authors and library users; nothing else of blis_core is public.

Every name is imported on first use, so that a plugin module which needs only ``hookimpl`` does not
pay for numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blis_core.cluster.admission import AdmissionSetup
    from blis_core.cluster.decisions import (
        AdmissionRecord,
        Candidate,
        DecisionLog,
        RoutingRecord,
        TraceSummary,
    )
    from blis_core.cluster.routing import RoutingSetup
    from blis_core.config import ReplayConfig, RunConfig, SimulationConfig
    from blis_core.contracts import (
        COMPLETED,
        MAX_INT64,
        QUEUED,
        RUNNING,
        TIMED_OUT,
        AdmissionPolicy,
        ArrivalSampler,
        ArrivalSetup,
        BatchShape,
        CoefficientQuery,
        FleetView,
        HardwareDescription,
        ImportedRequest,
        Importer,
        ImportSetup,
        KVSequence,
        KVSetup,
        KVStore,
        LatencyModel,
        LatencySetup,
        LengthSampler,
        LengthSetup,
        ModelDescription,
        PDDecider,
        PDDeciderSetup,
        PrefillChunk,
        PriorityPolicy,
        Request,
        RoutingDecision,
        RoutingPolicy,
        Scheduler,
        Scorer,
    )
    from blis_core.errors import BlisError, UsageError
    from blis_core.hookspecs import Register, hookimpl
    from blis_core.latency import check_alpha, check_beta, truncate_us, truncate_us_array
    from blis_core.plugins import configure_plugins
    from blis_core.results import Results, slo_attainment, slo_attainment_by_class
    from blis_core.rng import GoRand, stream_seed
    from blis_core.run import simulate
    from blis_core.trace.calibration import Calibration, CalibrationOptions, calibrate
    from blis_core.trace.chunk_times import ChunkTime, format_chunk_times, read_chunk_times
    from blis_core.trace.simulated import SimulatedRequest, read_simulated
    from blis_core.trace.statistics import MetricComparison
    from blis_core.trace.tracev2 import Trace, read_trace

__all__ = [
    "COMPLETED",
    "MAX_INT64",
    "QUEUED",
    "RUNNING",
    "TIMED_OUT",
    "AdmissionPolicy",
    "AdmissionRecord",
    "AdmissionSetup",
    "ArrivalSampler",
    "ArrivalSetup",
    "BatchShape",
    "BlisError",
    "Calibration",
    "CalibrationOptions",
    "Candidate",
    "ChunkTime",
    "CoefficientQuery",
    "DecisionLog",
    "FleetView",
    "GoRand",
    "HardwareDescription",
    "ImportSetup",
    "ImportedRequest",
    "Importer",
    "KVSequence",
    "KVSetup",
    "KVStore",
    "LatencyModel",
    "LatencySetup",
    "LengthSampler",
    "LengthSetup",
    "MetricComparison",
    "ModelDescription",
    "PDDecider",
    "PDDeciderSetup",
    "PrefillChunk",
    "PriorityPolicy",
    "Register",
    "ReplayConfig",
    "Request",
    "Results",
    "RoutingDecision",
    "RoutingPolicy",
    "RoutingRecord",
    "RoutingSetup",
    "RunConfig",
    "Scheduler",
    "Scorer",
    "SimulatedRequest",
    "SimulationConfig",
    "Trace",
    "TraceSummary",
    "UsageError",
    "calibrate",
    "check_alpha",
    "check_beta",
    "configure_plugins",
    "format_chunk_times",
    "hookimpl",
    "read_chunk_times",
    "read_simulated",
    "read_trace",
    "simulate",
    "slo_attainment",
    "slo_attainment_by_class",
    "stream_seed",
    "truncate_us",
    "truncate_us_array",
]

_ELSEWHERE = {
    "AdmissionRecord": "cluster.decisions",
    "AdmissionSetup": "cluster.admission",
    "BlisError": "errors",
    "Calibration": "trace.calibration",
    "CalibrationOptions": "trace.calibration",
    "Candidate": "cluster.decisions",
    "ChunkTime": "trace.chunk_times",
    "DecisionLog": "cluster.decisions",
    "GoRand": "rng",
    "MetricComparison": "trace.statistics",
    "Register": "hookspecs",
    "ReplayConfig": "config",
    "Results": "results",
    "RoutingRecord": "cluster.decisions",
    "RoutingSetup": "cluster.routing",
    "RunConfig": "config",
    "SimulatedRequest": "trace.simulated",
    "SimulationConfig": "config",
    "Trace": "trace.tracev2",
    "TraceSummary": "cluster.decisions",
    "UsageError": "errors",
    "calibrate": "trace.calibration",
    "check_alpha": "latency",
    "check_beta": "latency",
    "configure_plugins": "plugins",
    "format_chunk_times": "trace.chunk_times",
    "hookimpl": "hookspecs",
    "read_chunk_times": "trace.chunk_times",
    "read_simulated": "trace.simulated",
    "read_trace": "trace.tracev2",
    "simulate": "run",
    "slo_attainment": "results",
    "slo_attainment_by_class": "results",
    "stream_seed": "rng",
    "truncate_us": "latency",
    "truncate_us_array": "latency",
}
"""Home module of each public name that is not in contracts."""


def __getattr__(name: str) -> Any:
    """Import a public name from its home module on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"blis_core.{_ELSEWHERE.get(name, 'contracts')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
