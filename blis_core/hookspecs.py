"""What a plugin may register. This file is the whole extension surface.

A plugin is a module with some of these functions, marked ``@hookimpl``, made known by the
entry-point group ``blis`` (or by ``blis --plugin FILE.py``). Each function is called once, at
start-up, with a ``register`` function that adds one entry per call::

    from blis_core.api import hookimpl

    @hookimpl
    def blis_register_scorers(register):
        register("shortest", "my_package.scorers:Shortest", summary="prefer the shortest queue")

No hook is called while a simulation runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pluggy

hookspec = pluggy.HookspecMarker("blis")
hookimpl = pluggy.HookimplMarker("blis")

Factory = Callable[..., Any] | str
"""What makes the extension: a callable, or its address ``"package.module:attribute"``, which is
imported only when the name is chosen (prefer it: it keeps start-up fast)."""


class Register(Protocol):
    """Adds one named entry to the registry."""

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        summary: str = "",
        options: Mapping[str, str] | None = None,
        deprecated: str | None = None,
    ) -> None:
        """Register ``factory`` under ``name`` (lower-case words joined by ``-`` or ``_``).

        ``summary`` is one line for listings, ``options`` maps the names of what the factory can be
        tuned with to one-line descriptions, and ``deprecated`` names the replacement: the first
        use in a process then warns.
        """


@hookspec
def blis_register_latency_models(register: Register) -> None:
    """Latency models: ``factory(setup: LatencySetup) -> LatencyModel``."""


@hookspec
def blis_register_scorers(register: Register) -> None:
    """Scorers of the ``weighted`` routing policy: ``factory() -> Scorer``."""


@hookspec
def blis_register_kv_stores(register: Register) -> None:
    """KV stores: ``factory(setup: KVSetup) -> KVStore``."""


@hookspec
def blis_register_arrival_samplers(register: Register) -> None:
    """Inter-arrival times: ``factory(setup: ArrivalSetup) -> ArrivalSampler``."""


@hookspec
def blis_register_length_samplers(register: Register) -> None:
    """Prompt and output lengths: ``factory(setup: LengthSetup) -> LengthSampler``."""


@hookspec
def blis_register_routing_policies(register: Register) -> None:
    """Routing policies: ``factory(setup: RoutingSetup) -> RoutingPolicy``."""


@hookspec
def blis_register_admission_policies(register: Register) -> None:
    """Admission policies: ``factory(setup: AdmissionSetup) -> AdmissionPolicy``."""


@hookspec
def blis_register_schedulers(register: Register) -> None:
    """Order of the wait queue: ``factory(priority: PriorityPolicy) -> Scheduler``."""


@hookspec
def blis_register_autoscaler_collectors(register: Register) -> None:
    """What the autoscaler sees: ``factory(setup: ScalingSetup) -> ScalingCollector``."""


@hookspec
def blis_register_autoscaler_analyzers(register: Register) -> None:
    """What a model needs: ``factory(setup: ScalingSetup) -> ScalingAnalyzer``."""


@hookspec
def blis_register_autoscaler_engines(register: Register) -> None:
    """How many instances to start or drain: ``factory(setup: ScalingSetup) -> ScalingEngine``."""


@hookspec
def blis_register_autoscaler_actuators(register: Register) -> None:
    """How that is carried out: ``factory(setup: ScalingSetup) -> ScalingActuator``."""


@hookspec
def blis_register_pd_deciders(register: Register) -> None:
    """Which requests are disaggregated: ``factory(setup: PDDeciderSetup) -> PDDecider``."""


@hookspec
def blis_register_importers(register: Register) -> None:
    """Readers of recorded traffic, for ``blis convert NAME``:
    ``factory(setup: ImportSetup) -> Importer``. Each of ``options`` becomes a flag."""


@hookspec
def blis_register_commands(register: Register) -> None:
    """Subcommands of ``blis``: the factory is a ``click.Command`` (or its address)."""
