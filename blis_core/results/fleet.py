"""What became of a fleet that changes: lives of instances, GPU time, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.results.parts import FleetReport, InstanceLife

if TYPE_CHECKING:
    from blis_core.autoscaling.autoscaler import Autoscaler
    from blis_core.cluster.elastic import ElasticFleet
    from blis_core.cluster.lifecycle import Unit


def fleet_report(fleet: ElasticFleet, autoscaler: Autoscaler | None) -> FleetReport:
    """The report of a finished run. GPU time is counted to the last event of any instance."""
    end = max((unit.instance.clock for unit in fleet.units), default=0)
    lives = [_life(unit, end) for unit in fleet.units]
    return FleetReport(
        instances=lives,
        pending=list(fleet.pending),
        events=sorted(fleet.events, key=lambda event: event.time),
        ticks=list(autoscaler.ticks) if autoscaler is not None else [],
        looks=autoscaler.looks if autoscaler is not None else 0,
        most_instances=_most(fleet.units),
        gpu_seconds=sum(life.gpu_seconds for life in lives),
        cost=sum(life.cost for life in lives),
    )


def _life(unit: Unit, end: int) -> InstanceLife:
    placement = unit.placement
    end = max(end, unit.started_at)
    until = min(unit.ended_at, end) if unit.ended_at >= 0 else end
    seconds = (until - unit.started_at) / 1e6
    share = 0.0
    if placement is not None:
        share = unit.degree / len(placement.node.holders)
    return InstanceLife(
        id=unit.name,
        model=unit.model,
        gpu=unit.gpu,
        gpus=placement.gpu_names if placement is not None else [],
        node=placement.node.name if placement is not None else "",
        state=unit.state.value,
        placed_us=unit.started_at,
        ready_us=unit.ready_at,
        released_us=unit.ended_at,
        gpu_seconds=seconds * max(1, unit.degree),
        cost_per_hour=unit.cost_per_hour,
        cost=seconds / 3600 * unit.cost_per_hour * share,
    )


def _most(units: list[Unit]) -> int:
    """Most instances between being ready and beginning to drain."""
    changes = []
    for unit in units:
        if unit.ready_at >= 0:
            changes.append((unit.ready_at, 1))
            if unit.drained_at >= 0:
                changes.append((unit.drained_at, -1))
    most = count = 0
    for _, change in sorted(changes):
        count += change
        most = max(most, count)
    return most
