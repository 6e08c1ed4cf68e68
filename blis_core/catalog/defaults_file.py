"""The form of a user's ``defaults.yaml``."""

from __future__ import annotations

from typing import Any

import attrs

from blis_core.catalog.defaults import ModelDefaults, Preset
from blis_core.records import Record
from blis_core.structuring import read_yaml, structure


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Coefficients(Record):
    """Coefficients of a latency model."""

    alpha_coeffs: list[float] = attrs.field(factory=list)
    beta_coeffs: list[float] = attrs.field(factory=list)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelCoefficients(Coefficients):
    """Blackbox coefficients of one model, GPU, TP and version."""

    id: str = ""
    gpu: str = attrs.field(default="", metadata={"key": "GPU"})
    tp: int = attrs.field(default=0, metadata={"key": "tensor_parallelism"})
    version: str = attrs.field(default="", metadata={"key": "vllm_version"})
    best_loss: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DefaultsFile(Record):
    """Keys of a defaults file."""

    version: str = ""
    defaults: dict[str, ModelDefaults] = attrs.field(factory=dict)
    models: list[ModelCoefficients] = attrs.field(factory=list)
    workloads: dict[str, Preset] = attrs.field(factory=dict)
    trained_physics_coefficients: Coefficients | None = None
    crossmodel_defaults: Coefficients | None = None
    trained_roofline_defaults: Coefficients | None = None

    def sections(self) -> dict[str, Any]:
        """The contents by top-level key, without absent sections."""
        return dict(_raw(self))


def read_defaults(path: str) -> DefaultsFile:
    """The contents of a defaults file; BlisError naming file and key if it cannot be used."""
    return structure(read_yaml(path, "defaults file"), DefaultsFile, path)


def _raw(value: Any) -> Any:
    """attrs instances as dicts with a file's keys; absent sections are left out."""
    if isinstance(value, list):
        return [_raw(item) for item in value]
    if isinstance(value, dict):
        return {name: _raw(item) for name, item in value.items()}
    if not attrs.has(type(value)):
        return value
    pairs = ((field, getattr(value, field.name)) for field in attrs.fields(type(value)))
    return {
        field.metadata.get("key", field.name): _raw(item)
        for field, item in pairs
        if item is not None
    }
