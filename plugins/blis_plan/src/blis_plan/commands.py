"""The ``blis run`` that repeats a trial, so that everybody can look at it more closely."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from blis_core.api import RunConfig, ValueKind
from blis_plan.options import LoadConfig
from blis_plan.probing import Probe, Trials

_OF_LOAD: Final = ("rate", "num_requests", "seed", "horizon", "workload_spec", "output", "log")
"""Options that the load gives, or that make no difference."""
RUN_OPTIONS: Final = {f.name for f in attrs.fields(RunConfig)} - set(_OF_LOAD)


def run_command(
    config: LoadConfig,
    trials: Trials,
    probe: Probe,
    specs: Sequence[Any],
    deployment: Mapping[str, Any],
) -> str:
    """The command for the first run of a trial; empty if no single command does it.

    ``specs`` declare the options of the command at hand; ``deployment`` has those of ``blis run``
    that replace what the configuration says.
    """
    run = probe.runs[0]
    load = trials.load.command(probe.rate, config.seed, run.sent)
    if load is None or config.arrivals != "constant":
        return ""
    words = ["blis", "run"]
    for spec in specs:
        if spec.name in RUN_OPTIONS and spec.name not in deployment:
            value = getattr(config, spec.name)
            if value != spec.default:
                words += _words(spec.flag, value, several=spec.kind is ValueKind.TEXTS)
    defaults = attrs.fields_dict(RunConfig)
    for name, value in deployment.items():
        if value != defaults[name].default:
            words += _words("--" + name.replace("_", "-"), value)
    return shlex.join(words + load)


def _words(flag: str, value: Any, *, several: bool = False) -> list[str]:
    if several:
        return [word for item in value for word in _words(flag, item)]
    if isinstance(value, bool):
        return [f"{flag}={str(value).lower()}"]
    if isinstance(value, tuple):
        return [flag, ",".join(map(repr, value))]
    return [flag, str(value)]
