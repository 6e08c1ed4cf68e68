"""What the policy file says of a fleet that changes: nodes, life cycle, autoscaler, more models."""

from __future__ import annotations

import attrs

from blis_core import log
from blis_core.config import SimulationConfig
from blis_core.policies.bundle import (
    AutoscalerSection,
    FleetEventSection,
    LifecycleSection,
    ModelSection,
    NodePool,
    PolicyBundle,
)
from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FleetPlan(Record):
    """Sections of the policy file that make a cluster elastic."""

    source: str = ""
    """The file, for messages."""
    pools: tuple[NodePool, ...] = ()
    autoscaler: AutoscalerSection = attrs.field(factory=AutoscalerSection)
    """Its ``interval_us`` is the one that counts; 0 = off."""
    lifecycle: LifecycleSection = attrs.field(factory=LifecycleSection)
    models: tuple[ModelSection, ...] = ()
    events: tuple[FleetEventSection, ...] = ()


def make_fleet_plan(config: SimulationConfig, bundle: PolicyBundle) -> FleetPlan | None:
    """The plan of a simulation; None if its fleet is fixed. Warns of what has no effect."""
    interval = config.model_autoscaler_interval_us
    autoscaler = bundle.autoscaler
    if config.replays and not bundle.fleet_in_replay:
        ignored = _given(bundle)
        if autoscaler.interval_us > 0:
            ignored.append("autoscaler")
        if ignored:
            log.warning(
                f"{bundle.source}: replay ignores {', '.join(ignored)}"
                " (fleet_in_replay: true changes that)"
            )
        return None
    config.check_autoscaler()
    if autoscaler.interval_us == 0:
        # reference quirk 08-16: without an interval of its own the section does not count at all
        if autoscaler != AutoscalerSection() and interval:
            log.warning(
                f"{bundle.source}: autoscaler has no interval_us and is ignored;"
                " --model-autoscaler-interval-us switches on an autoscaler with default figures"
            )
        autoscaler = AutoscalerSection()
    if interval is not None:
        autoscaler = attrs.evolve(autoscaler, interval_us=interval)
    if not autoscaler.interval_us and not _given(bundle):
        return None
    return FleetPlan(
        source=bundle.source,
        pools=bundle.node_pools,
        autoscaler=autoscaler,
        lifecycle=bundle.instance_lifecycle,
        models=bundle.models,
        events=bundle.fleet_events,
    )


def _given(bundle: PolicyBundle) -> list[str]:
    """Sections, apart from the autoscaler's, that say anything."""
    empty = PolicyBundle()
    names = ("node_pools", "instance_lifecycle", "models", "fleet_events")
    return [name for name in names if getattr(bundle, name) != getattr(empty, name)]
