"""Options of single latency models: ``--latency-option KEY=VALUE`` and profiles.

A backend declares its options as an attrs class (``LatencyModel.options_class``), with the same
:func:`blis_core.option.option` that declares the options of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from blis_core import go_text
from blis_core.errors import BlisError, did_you_mean
from blis_core.option import OptionSpec, ValueKind, options_of
from blis_core.records import Record

_PARSERS: Mapping[ValueKind, Callable[[str], Any]] = {
    ValueKind.INT64: go_text.parse_int,
    ValueKind.INT: go_text.parse_int,
    ValueKind.FLOAT: go_text.parse_float,
    ValueKind.FLOATS: go_text.parse_floats,
    ValueKind.BOOL: go_text.parse_bool,
    ValueKind.TEXT: str,
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LatencyProfile(Record):
    """A file for ``--latency-profile``: a backend with its options, and what they are good for."""

    latency_model: str = ""
    """Name of the backend; it must be given."""
    options: dict[str, str] = attrs.field(factory=dict)
    """Values of its options, as for --latency-option."""
    model: str = ""
    """The deployment that the options were fitted to: served model,"""
    hardware: str = ""
    """GPU,"""
    tp: int = 0
    """and tensor parallel degree."""
    calibration: dict[str, Any] = attrs.field(factory=dict)
    """How the options came about; not read."""


def load_profile(path: str) -> LatencyProfile:
    """The profile in the file ``path``; BlisError for one that cannot be used."""
    from blis_core.structuring import read_yaml, structure

    profile = structure(read_yaml(path, "latency profile"), LatencyProfile, path)
    if not profile.latency_model:
        raise BlisError(f"{path}: latency_model: name the latency model of the options")
    return profile


def specs_of(factory: Any) -> tuple[OptionSpec, ...]:
    """The options that a backend declares; ``factory`` makes it."""
    declared = getattr(factory, "options_class", None)
    return options_of(declared) if declared is not None else ()


def parse_options(
    factory: Any, backend: str, given: Sequence[str], profile: LatencyProfile | None, path: str
) -> Any:
    """The options of a backend, an instance of its ``options_class``; None if it has no options.

    ``given`` are the texts of --latency-option, which win over ``profile``, the file ``path``.
    BlisError for an option that the backend does not declare, or a value that it does not allow.
    """
    specs = {spec.name: spec for spec in specs_of(factory)}
    values: dict[str, Any] = {}
    if profile is not None:
        for name, text in profile.options.items():
            values[name] = _value(specs, backend, name, text, f"{path}: options.{name}")
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise BlisError(f"--latency-option {item}: must have the form KEY=VALUE")
        values[name] = _value(specs, backend, name, text, f"--latency-option {name}")
    declared = getattr(factory, "options_class", None)
    return declared(**values) if declared is not None else None


def _value(specs: Mapping[str, OptionSpec], backend: str, name: str, text: str, where: str) -> Any:
    """The value of one option, checked."""
    spec = specs.get(name)
    if spec is None:
        known = f"no such option (it has: {', '.join(specs)})" if specs else "no options"
        raise BlisError(f"{where}: latency model {backend} has {known}{did_you_mean(name, specs)}")
    try:
        value = _PARSERS[spec.kind](text)
    except ValueError as problem:
        raise BlisError(f"{where}: {problem}") from None
    try:
        spec.check(value)
    except BlisError as problem:
        raise BlisError(str(problem).replace(spec.flag, where, 1)) from None
    return value
