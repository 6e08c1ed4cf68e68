"""One registry for every kind of extension: what there is, where it came from, how to make it.

Filled once by :mod:`blis_core.plugins`; read by whoever turns a name on the command line or in a
file into an object. Factories given as ``"module:attribute"`` are imported when first chosen.

The records are named tuples rather than attrs classes, because ``blis --help`` builds them and
would feel the import of attrs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeGuard

from blis_core import log
from blis_core.errors import BlisError, UsageError

Kind = Literal[
    "latency-model",
    "scorer",
    "kv-store",
    "arrival-sampler",
    "length-sampler",
    "routing-policy",
    "admission-policy",
    "scheduler",
    "autoscaler-collector",
    "autoscaler-analyzer",
    "autoscaler-engine",
    "autoscaler-actuator",
    "pd-decider",
    "importer",
    "command",
]


class KindInfo(NamedTuple):
    """How a kind of extension is registered and checked."""

    hook: str
    interface: str
    """Name in ``module`` of what the factory must make; "" = not checked here."""
    module: str = "blis_core.contracts"


_SCALING = "blis_core.contracts_autoscaling"
KINDS: Final[Mapping[Kind, KindInfo]] = {
    "latency-model": KindInfo("blis_register_latency_models", "LatencyModel"),
    "scorer": KindInfo("blis_register_scorers", "Scorer"),
    "kv-store": KindInfo("blis_register_kv_stores", "KVStore"),
    "arrival-sampler": KindInfo("blis_register_arrival_samplers", "ArrivalSampler"),
    "length-sampler": KindInfo("blis_register_length_samplers", "LengthSampler"),
    "routing-policy": KindInfo("blis_register_routing_policies", "RoutingPolicy"),
    "admission-policy": KindInfo("blis_register_admission_policies", "AdmissionPolicy"),
    "scheduler": KindInfo("blis_register_schedulers", "Scheduler"),
    "autoscaler-collector": KindInfo(
        "blis_register_autoscaler_collectors", "ScalingCollector", _SCALING
    ),
    "autoscaler-analyzer": KindInfo(
        "blis_register_autoscaler_analyzers", "ScalingAnalyzer", _SCALING
    ),
    "autoscaler-engine": KindInfo("blis_register_autoscaler_engines", "ScalingEngine", _SCALING),
    "autoscaler-actuator": KindInfo(
        "blis_register_autoscaler_actuators", "ScalingActuator", _SCALING
    ),
    "pd-decider": KindInfo("blis_register_pd_deciders", "PDDecider"),
    "importer": KindInfo("blis_register_importers", "Importer"),
    "command": KindInfo("blis_register_commands", ""),
}

_SCORERS = (
    "active-requests kv-utilization load-aware load-balance no-hit-lru precise-prefix-cache "
    "prefix-affinity queue-depth running-requests vllm-dp"
)
KNOWN_SOURCES: Final[Mapping[tuple[Kind, str], str]] = {
    ("latency-model", "roofline"): "blis-latency-physics",
    ("latency-model", "trained-physics"): "blis-latency-physics",
    ("latency-model", "kernels"): "blis-latency-kernels",
    ("latency-model", "blackbox"): "blis-latency-legacy",
    ("latency-model", "crossmodel"): "blis-latency-legacy",
    ("latency-model", "trained-roofline"): "blis-latency-legacy",
    **{("scorer", name): "blis-routing" for name in _SCORERS.split()},
    ("command", "observe"): "blis-observe",
    ("command", "probe"): "blis-observe",
    ("command", "serve"): "blis-observe",
    ("command", "plan"): "blis-plan",
    ("command", "saturate"): "blis-plan",
    ("command", "explain"): "blis-report",
    ("command", "report"): "blis-report",
    ("command", "fit"): "blis-validate",
    ("command", "sweep"): "blis-sweep",
    ("command", "validate"): "blis-validate",
}
"""The first-party distribution that brings a name, so that an error can say what to install."""


def _is_name(text: object) -> TypeGuard[str]:
    """Lower-case letters and digits in words that are joined by "-" or "_"."""
    if not isinstance(text, str) or not text.isascii() or text != text.lower():
        return False
    return all(word.isalnum() for word in text.replace("_", "-").split("-"))


class Origin(NamedTuple):
    """Where an extension came from."""

    plugin: str
    distribution: str = ""
    """Empty for a plugin loaded from a file."""
    version: str = ""

    def __str__(self) -> str:
        source = f"{self.distribution} {self.version}".strip() or "a file"
        return f"plugin {self.plugin} ({source})"


class Extension(NamedTuple):
    """One registered name."""

    kind: Kind
    name: str
    factory: Callable[..., Any] | str
    summary: str
    options: Mapping[str, str]
    deprecated: str | None
    """What to use instead; None = not deprecated."""
    origin: Origin

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} of {self.origin}"


class Problem(NamedTuple):
    """Why a plugin is not in use."""

    origin: Origin
    message: str

    def __str__(self) -> str:
        return f"{self.origin} was not loaded: {self.message}"


class PluginRecord(NamedTuple):
    """One plugin that was found, whether or not it is in use."""

    origin: Origin
    status: Literal["ok", "broken", "disabled"]
    extensions: tuple[Extension, ...] = ()
    error: str = ""


def make_extension(
    kind: Kind,
    origin: Origin,
    name: object,
    factory: object,
    summary: object,
    options: object,
    deprecated: object,
) -> Extension:
    """Check what a plugin registers. ValueError says what is wrong with it."""
    if not _is_name(name):
        raise ValueError(
            f"{kind} name {name!r} is not lower-case words joined by '-' or '_' (such as my-scorer)"
        )
    what = f"{kind} {name!r}"
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        if not all(word.isidentifier() for text in (module, attribute) for word in text.split(".")):
            raise ValueError(f"{what}: factory {factory!r} is not of the form package.module:name")
    elif not callable(factory):
        raise ValueError(f"{what}: factory {factory!r} is neither callable nor module:name text")
    if not isinstance(summary, str):
        raise ValueError(f"{what}: summary {summary!r} is not text")
    if options is None:
        options = {}
    elif not isinstance(options, Mapping) or not all(
        isinstance(text, str) for item in options.items() for text in item
    ):
        raise ValueError(f"{what}: options {options!r} is not a mapping of text to text")
    if deprecated is not None and (not isinstance(deprecated, str) or not deprecated.strip()):
        raise ValueError(f"{what}: deprecated {deprecated!r} does not name a replacement")
    return Extension(
        kind=kind,
        name=name,
        factory=factory,
        summary=" ".join(summary.split()),
        options=dict(options),
        deprecated=deprecated,
        origin=origin,
    )


class Registry:
    """Extensions by kind and name, and the plugins they come from, in load order."""

    def __init__(self) -> None:
        self.plugins: list[PluginRecord] = []
        self.absent: list[str] = []
        """Names that were to be left out, and that no plugin has."""
        self._extensions: dict[Kind, dict[str, Extension]] = {kind: {} for kind in KINDS}
        self._resolved: dict[tuple[Kind, str], Callable[..., Any]] = {}

    # ---- filling

    def add(self, origin: Origin, extensions: Iterable[Extension]) -> None:
        """Take a plugin in as a whole; ValueError, and nothing changed, if a name is taken."""
        extensions = tuple(extensions)
        seen: dict[tuple[Kind, str], Extension] = {}
        for extension in extensions:
            kind, name = extension.kind, extension.name
            if (kind, name) in seen:
                raise ValueError(f"registers {kind} {name!r} twice")
            seen[kind, name] = extension
            taken = self._extensions[kind].get(name)
            if taken is not None:
                raise ValueError(f"claims {kind} {name!r}, which {taken.origin} already provides")
        for extension in extensions:
            self._extensions[extension.kind][extension.name] = extension
        self.plugins.append(PluginRecord(origin, "ok", extensions))

    def reject(self, origin: Origin, message: str) -> None:
        """Note that a plugin is not in use, and why."""
        self.plugins.append(PluginRecord(origin, "broken", error=message))

    def skip(self, origin: Origin) -> None:
        """Note that a plugin was switched off by the user."""
        self.plugins.append(PluginRecord(origin, "disabled"))

    # ---- reading

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Plugins that could not be used."""
        broken = (record for record in self.plugins if record.status == "broken")
        return tuple(Problem(record.origin, record.error) for record in broken)

    def names(self, kind: Kind) -> list[str]:
        """Registered names, sorted."""
        return sorted(self._extensions[kind])

    def entries(self, kind: Kind) -> list[Extension]:
        """Registered extensions, sorted by name."""
        return [self._extensions[kind][name] for name in self.names(kind)]

    def get(self, kind: Kind, name: str) -> Extension:
        """The extension called ``name``. Unknown: BlisError that says what would be valid."""
        extension = self._extensions[kind].get(name)
        if extension is None:
            error = UsageError if kind == "command" else BlisError
            raise error(self._unknown(kind, name))
        return extension

    def factory(self, kind: Kind, name: str) -> Callable[..., Any]:
        """What makes the extension, imported if need be. BlisError names the plugin at fault."""
        key = (kind, name)
        if key not in self._resolved:
            extension = self.get(kind, name)
            self._resolved[key] = _resolve(extension)
        return self._resolved[key]

    def create(self, kind: Kind, name: str, *args: Any, **kwargs: Any) -> Any:
        """Make the extension. The first deprecated one in a process is warned about, by name."""
        extension = self.get(kind, name)
        factory = self.factory(kind, name)
        if extension.deprecated is not None:
            _warn_deprecated(extension)
        try:
            made = factory(*args, **kwargs)
        except BlisError:
            raise
        except Exception as error:
            if extension.origin.distribution == "blis-core":
                raise
            raise BlisError(f"{extension} failed: {describe(error)}") from error
        info = KINDS[kind]
        if info.interface:
            expected = getattr(import_module(info.module), info.interface)
            if not isinstance(made, expected):
                raise BlisError(f"{extension} made a {type(made).__name__}, not a {info.interface}")
        return made

    # ---- messages

    def _unknown(self, kind: Kind, name: str) -> str:
        import difflib  # errors only

        names = self.names(kind)
        source = KNOWN_SOURCES.get((kind, name))
        if not names:
            text = f"no {kind.replace('-', ' ')} is available"
            if kind == "latency-model":
                source = source or "blis-latency-physics"
        else:
            text = f"unknown {kind.replace('-', ' ')} {name!r}"
            close = difflib.get_close_matches(name, names, n=1)
            if close and not source:
                text += f", did you mean {close[0]!r}?"
            text += f" (available: {', '.join(names)})"
        return f"{text}; {self._how_to_get(name, source)}" if source else text

    def _how_to_get(self, name: str, distribution: str) -> str:
        """What stands between the user and a name that a first-party distribution brings."""
        for record in self.plugins:
            if record.origin.distribution != distribution:
                continue
            if record.status == "disabled":
                return f"{distribution} is switched off (-p no:... or BLIS_DISABLE_PLUGINS)"
            if record.status == "broken":
                return f"{record.origin} was not loaded: {record.error}"
            return (
                f"{record.origin} does not provide {name!r}: pip install --upgrade {distribution}"
            )
        return f"to get it: pip install {distribution}"


def describe(error: BaseException) -> str:
    """An exception as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace(event: str, start: float) -> None:
    """With BLIS_TRACE_PLUGINS set, say on stderr what happened and how long it took."""
    if os.environ.get("BLIS_TRACE_PLUGINS", "0") not in ("", "0"):
        print(
            f"blis: plugins: {(time.perf_counter() - start) * 1e3:8.2f} ms  {event}",
            file=sys.stderr,
        )


def _resolve(extension: Extension) -> Callable[..., Any]:
    """Import a factory given by its address."""
    factory = extension.factory
    if not isinstance(factory, str):
        return factory
    start = time.perf_counter()
    module, _, path = factory.partition(":")
    try:
        target: Any = import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except (Exception, SystemExit) as error:  # whatever foreign code raises while it is imported
        raise BlisError(f"{extension} cannot be imported: {describe(error)}") from error
    if not callable(target):
        raise BlisError(f"{extension}: {factory} is not callable")
    trace(f"import {factory} for {extension.kind} {extension.name}", start)
    made: Callable[..., Any] = target
    return made


_warned: set[tuple[str, str]] = set()


def _warn_deprecated(extension: Extension) -> None:
    key = (extension.kind, extension.name)
    text = (
        f"{extension.kind.replace('-', ' ')} {extension.name!r} is deprecated, "
        f"use {extension.deprecated!r} instead"
    )
    if key in _warned:
        log.keep(text)  # the results of every run say so, the log once
        return
    _warned.add(key)
    log.warning(text, distribution=extension.origin.distribution or extension.origin.plugin)


def forget_warnings() -> None:
    """Let deprecated extensions warn again (for tests)."""
    _warned.clear()
