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
        KVSequence,
        KVSetup,
        KVStore,
        LatencyModel,
        LatencySetup,
        LengthSampler,
        LengthSetup,
        ModelDescription,
        PrefillChunk,
        PriorityPolicy,
        Request,
        RoutingDecision,
        RoutingPolicy,
        Scheduler,
        Scorer,
    )
    from blis_core.contracts_autoscaling import (
        CapacityAnalysis,
        InstanceStatus,
        ModelReplicas,
        ScalableCluster,
        ScaleDecision,
        ScalingActuator,
        ScalingAnalyzer,
        ScalingCollector,
        ScalingEngine,
        ScalingSetup,
        Variant,
        VariantCapacity,
    )
    from blis_core.errors import BlisError, UsageError
    from blis_core.hookspecs import Register, hookimpl
    from blis_core.latency import check_alpha, check_beta, truncate_us, truncate_us_array
    from blis_core.plugins import configure_plugins
    from blis_core.results import Results, slo_attainment, slo_attainment_by_class
    from blis_core.rng import GoRand, stream_seed
    from blis_core.run import simulate

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
    "Candidate",
    "CapacityAnalysis",
    "CoefficientQuery",
    "DecisionLog",
    "FleetView",
    "GoRand",
    "HardwareDescription",
    "InstanceStatus",
    "KVSequence",
    "KVSetup",
    "KVStore",
    "LatencyModel",
    "LatencySetup",
    "LengthSampler",
    "LengthSetup",
    "ModelDescription",
    "ModelReplicas",
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
    "ScalableCluster",
    "ScaleDecision",
    "ScalingActuator",
    "ScalingAnalyzer",
    "ScalingCollector",
    "ScalingEngine",
    "ScalingSetup",
    "Scheduler",
    "Scorer",
    "SimulationConfig",
    "TraceSummary",
    "UsageError",
    "Variant",
    "VariantCapacity",
    "check_alpha",
    "check_beta",
    "configure_plugins",
    "hookimpl",
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
    "Candidate": "cluster.decisions",
    "CapacityAnalysis": "contracts_autoscaling",
    "DecisionLog": "cluster.decisions",
    "GoRand": "rng",
    "InstanceStatus": "contracts_autoscaling",
    "ModelReplicas": "contracts_autoscaling",
    "Register": "hookspecs",
    "ReplayConfig": "config",
    "Results": "results",
    "RoutingRecord": "cluster.decisions",
    "RoutingSetup": "cluster.routing",
    "RunConfig": "config",
    "ScalableCluster": "contracts_autoscaling",
    "ScaleDecision": "contracts_autoscaling",
    "ScalingActuator": "contracts_autoscaling",
    "ScalingAnalyzer": "contracts_autoscaling",
    "ScalingCollector": "contracts_autoscaling",
    "ScalingEngine": "contracts_autoscaling",
    "ScalingSetup": "contracts_autoscaling",
    "SimulationConfig": "config",
    "TraceSummary": "cluster.decisions",
    "UsageError": "errors",
    "Variant": "contracts_autoscaling",
    "VariantCapacity": "contracts_autoscaling",
    "check_alpha": "latency",
    "check_beta": "latency",
    "configure_plugins": "plugins",
    "hookimpl": "hookspecs",
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
