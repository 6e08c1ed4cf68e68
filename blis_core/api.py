"""The public names for plugin authors and library users; nothing else of blis_core is public.

Every name is imported on first use, so that a plugin module which needs only ``hookimpl`` does not
pay for numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blis_core.accuracy import Accuracy, RunFacts, StepInterval, ValidatedRun
    from blis_core.catalog.defaults import Preset, load_defaults
    from blis_core.cli.options import ConfigCommand
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
        ModelDetails,
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
    from blis_core.deployment import Deployment, resolve
    from blis_core.errors import BlisError, UsageError
    from blis_core.files import atomic_write
    from blis_core.hookspecs import Register, hookimpl
    from blis_core.latency import check_alpha, check_beta, truncate_us, truncate_us_array
    from blis_core.live import LiveInstance, LiveRequest
    from blis_core.log import info, set_log_level, warning
    from blis_core.option import ValueKind, option
    from blis_core.plugins import configure_plugins, loaded_plugins, plugin_settings
    from blis_core.recording.file import read_recording, write_recording
    from blis_core.recording.phases import PARTS, Outcome, Phase
    from blis_core.recording.tables import Recording
    from blis_core.results.arrays import RequestArrays
    from blis_core.results.attainment import slo_attainment, slo_attainment_by_class
    from blis_core.results.model import Results
    from blis_core.results.request_list import CompactRequests, RequestList
    from blis_core.rng import GoRand, stream_seed
    from blis_core.run import check_simulation, simulate
    from blis_core.structuring import structure
    from blis_core.trace.calibration import Calibration, CalibrationOptions, calibrate
    from blis_core.trace.chunk_times import ChunkTime, format_chunk_times, read_chunk_times
    from blis_core.trace.rows import TraceRow, format_rows
    from blis_core.trace.simulated import SimulatedRequest, read_simulated
    from blis_core.trace.statistics import MetricComparison
    from blis_core.trace.tracev2 import (
        NetworkInfo,
        ServerInfo,
        Trace,
        TraceHeader,
        format_header,
        read_trace,
    )
    from blis_core.workload.sessions import SessionManager
    from blis_core.workload.think_time import parse_think_time
    from blis_core.workload.traffic import Traffic, traffic_of_file, traffic_of_flags
    from blis_core.yaml_reading import read_yaml

__all__ = [
    "COMPLETED",
    "MAX_INT64",
    "PARTS",
    "QUEUED",
    "RUNNING",
    "TIMED_OUT",
    "Accuracy",
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
    "CapacityAnalysis",
    "ChunkTime",
    "CoefficientQuery",
    "CompactRequests",
    "ConfigCommand",
    "DecisionLog",
    "Deployment",
    "FleetView",
    "GoRand",
    "HardwareDescription",
    "ImportSetup",
    "ImportedRequest",
    "Importer",
    "InstanceStatus",
    "KVSequence",
    "KVSetup",
    "KVStore",
    "LatencyModel",
    "LatencySetup",
    "LengthSampler",
    "LengthSetup",
    "LiveInstance",
    "LiveRequest",
    "MetricComparison",
    "ModelDescription",
    "ModelDetails",
    "ModelReplicas",
    "NetworkInfo",
    "Outcome",
    "PDDecider",
    "PDDeciderSetup",
    "Phase",
    "PrefillChunk",
    "Preset",
    "PriorityPolicy",
    "Recording",
    "Register",
    "ReplayConfig",
    "Request",
    "RequestArrays",
    "RequestList",
    "Results",
    "RoutingDecision",
    "RoutingPolicy",
    "RoutingRecord",
    "RoutingSetup",
    "RunConfig",
    "RunFacts",
    "ScalableCluster",
    "ScaleDecision",
    "ScalingActuator",
    "ScalingAnalyzer",
    "ScalingCollector",
    "ScalingEngine",
    "ScalingSetup",
    "Scheduler",
    "Scorer",
    "ServerInfo",
    "SessionManager",
    "SimulatedRequest",
    "SimulationConfig",
    "StepInterval",
    "Trace",
    "TraceHeader",
    "TraceRow",
    "TraceSummary",
    "Traffic",
    "UsageError",
    "ValidatedRun",
    "ValueKind",
    "Variant",
    "VariantCapacity",
    "atomic_write",
    "calibrate",
    "check_alpha",
    "check_beta",
    "check_simulation",
    "configure_plugins",
    "format_chunk_times",
    "format_header",
    "format_rows",
    "hookimpl",
    "info",
    "load_defaults",
    "loaded_plugins",
    "option",
    "parse_think_time",
    "plugin_settings",
    "read_chunk_times",
    "read_recording",
    "read_simulated",
    "read_trace",
    "read_yaml",
    "resolve",
    "set_log_level",
    "simulate",
    "slo_attainment",
    "slo_attainment_by_class",
    "stream_seed",
    "structure",
    "traffic_of_file",
    "traffic_of_flags",
    "truncate_us",
    "truncate_us_array",
    "warning",
    "write_recording",
]

_ELSEWHERE = {
    "PARTS": "recording.phases",
    "Accuracy": "accuracy",
    "AdmissionRecord": "cluster.decisions",
    "AdmissionSetup": "cluster.admission",
    "BlisError": "errors",
    "Calibration": "trace.calibration",
    "CalibrationOptions": "trace.calibration",
    "Candidate": "cluster.decisions",
    "CapacityAnalysis": "contracts_autoscaling",
    "ChunkTime": "trace.chunk_times",
    "ConfigCommand": "cli.options",
    "DecisionLog": "cluster.decisions",
    "Deployment": "deployment",
    "GoRand": "rng",
    "InstanceStatus": "contracts_autoscaling",
    "LiveInstance": "live",
    "LiveRequest": "live",
    "MetricComparison": "trace.statistics",
    "ModelReplicas": "contracts_autoscaling",
    "NetworkInfo": "trace.tracev2",
    "Outcome": "recording.phases",
    "Phase": "recording.phases",
    "Preset": "catalog.defaults",
    "Recording": "recording.tables",
    "Register": "hookspecs",
    "ReplayConfig": "config",
    "RequestArrays": "results.arrays",
    "CompactRequests": "results.request_list",
    "RequestList": "results.request_list",
    "Results": "results.model",
    "RoutingRecord": "cluster.decisions",
    "RoutingSetup": "cluster.routing",
    "RunConfig": "config",
    "RunFacts": "accuracy",
    "ScalableCluster": "contracts_autoscaling",
    "ScaleDecision": "contracts_autoscaling",
    "ScalingActuator": "contracts_autoscaling",
    "ScalingAnalyzer": "contracts_autoscaling",
    "ScalingCollector": "contracts_autoscaling",
    "ScalingEngine": "contracts_autoscaling",
    "ScalingSetup": "contracts_autoscaling",
    "ServerInfo": "trace.tracev2",
    "SessionManager": "workload.sessions",
    "SimulatedRequest": "trace.simulated",
    "SimulationConfig": "config",
    "StepInterval": "accuracy",
    "Trace": "trace.tracev2",
    "TraceHeader": "trace.tracev2",
    "TraceRow": "trace.rows",
    "TraceSummary": "cluster.decisions",
    "Traffic": "workload.traffic",
    "UsageError": "errors",
    "ValidatedRun": "accuracy",
    "ValueKind": "option",
    "Variant": "contracts_autoscaling",
    "VariantCapacity": "contracts_autoscaling",
    "atomic_write": "files",
    "calibrate": "trace.calibration",
    "check_alpha": "latency",
    "check_beta": "latency",
    "check_simulation": "run",
    "configure_plugins": "plugins",
    "format_chunk_times": "trace.chunk_times",
    "format_header": "trace.tracev2",
    "format_rows": "trace.rows",
    "hookimpl": "hookspecs",
    "info": "log",
    "load_defaults": "catalog.defaults",
    "loaded_plugins": "plugins",
    "option": "option",
    "parse_think_time": "workload.think_time",
    "plugin_settings": "plugins",
    "read_chunk_times": "trace.chunk_times",
    "read_recording": "recording.file",
    "read_simulated": "trace.simulated",
    "read_trace": "trace.tracev2",
    "read_yaml": "yaml_reading",
    "resolve": "deployment",
    "set_log_level": "log",
    "simulate": "run",
    "slo_attainment": "results.attainment",
    "slo_attainment_by_class": "results.attainment",
    "stream_seed": "rng",
    "structure": "structuring",
    "traffic_of_file": "workload.traffic",
    "traffic_of_flags": "workload.traffic",
    "truncate_us": "latency",
    "truncate_us_array": "latency",
    "warning": "log",
    "write_recording": "recording.file",
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
