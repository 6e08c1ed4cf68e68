"""Writes a workload specification as the YAML text that the reference writes.

Keys stand in the order of the schema. The few of :data:`_ALWAYS` are written even when they say
nothing; all others are left out then.
"""

from __future__ import annotations

from typing import Any

import attrs

from blis_core.workload.spec import (
    Arrival,
    Client,
    Cohort,
    Distribution,
    Multimodal,
    MultiTurn,
    Network,
    Reasoning,
    Window,
    WorkloadSpec,
)
from blis_core.yaml_writing import dump_yaml, sorted_keys

_CLIENT = (
    *("id", "tenant_id", "slo_class", "rate_fraction", "arrival"),
    *("input_distribution", "output_distribution", "streaming"),
)
_ALWAYS: dict[type, tuple[str, ...]] = {
    WorkloadSpec: ("version", "seed", "category", "clients", "aggregate_rate"),
    Client: _CLIENT,
    Cohort: (*_CLIENT, "population"),
    Arrival: ("process",),
    Distribution: ("type",),
    Network: ("rtt_ms",),
    Window: ("start_us", "end_us"),
    Multimodal: tuple(field.name for field in attrs.fields(Multimodal)),
    Reasoning: ("reason_ratio_distribution",),
    MultiTurn: ("max_rounds", "think_time_us", "context_growth"),
}
"""Keys that are written whatever their value, by class."""


def spec_text(spec: WorkloadSpec) -> str:
    """``spec`` as a YAML document; what expansions keep in memory only is not in it."""
    return dump_yaml(_document(spec))


def _document(value: Any) -> Any:
    """An attrs instance as a mapping of what is to be written, anything else as it is."""
    if isinstance(value, tuple):
        return [_document(item) for item in value]
    if isinstance(value, dict):
        return {key: value[key] for key in sorted_keys(list(value))}
    if not attrs.has(type(value)):
        return value
    always = _ALWAYS.get(type(value), ())
    document: dict[str, Any] = {}
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if field.metadata.get("key", field.name) is None:
            continue
        # An optional value that is given is written, be it 0 or false; other zeros are not.
        if field.name in always or (field.default is None and item is not None) or item:
            document[field.name] = _document(item)
    return document
