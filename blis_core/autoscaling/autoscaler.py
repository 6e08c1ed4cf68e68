"""The autoscaler's clock: ticks, the stages in their order, actuation after a delay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from blis_core.autoscaling.stabilization import StabilizationGate
from blis_core.cluster.agenda import SCALE_ACTUATION, SCALING_TICK
from blis_core.cluster.delays import NO_DELAY, NormalDelay
from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    ScalableCluster,
    ScaleDecision,
    ScalingActuator,
    ScalingAnalyzer,
    ScalingCollector,
    ScalingEngine,
    Variant,
)
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.cluster.elastic import ElasticFleet
    from blis_core.rng import PartitionedRandom


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Stages(Record):
    """What decides and acts."""

    collector: ScalingCollector
    analyzer: ScalingAnalyzer
    engine: ScalingEngine
    actuator: ScalingActuator


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScalingTick(Record):
    """One look of the autoscaler at the cluster."""

    time: int
    """us."""
    analyses: tuple[CapacityAnalysis, ...]
    """One per model."""
    decisions: tuple[ScaleDecision, ...]
    """What the engine wanted."""
    passed: tuple[ScaleDecision, ...]
    """What the stabilisation windows let pass."""
    actuation_time: int = -1
    """When those take effect, in us; -1 if there are none."""


class _FreeSlots(Mapping[Variant, int]):
    """Free GPUs by variant, counted if an engine looks at them."""

    def __init__(self, cluster: ScalableCluster) -> None:
        self._cluster = cluster
        self._counted: Mapping[Variant, int] | None = None

    def _slots(self) -> Mapping[Variant, int]:
        if self._counted is None:
            self._counted = self._cluster.free_slots()
        return self._counted

    def __getitem__(self, variant: Variant) -> int:
        return self._slots()[variant]

    def __iter__(self) -> Iterator[Variant]:
        return iter(self._slots())

    def __len__(self) -> int:
        return len(self._slots())


class Autoscaler:
    """Looks at the cluster at regular times and changes the number of instances."""

    def __init__(
        self,
        fleet: ElasticFleet,
        stages: Stages,
        *,
        interval: float,
        gate: StabilizationGate | None = None,
        scrape_delay: NormalDelay = NO_DELAY,
        random: PartitionedRandom,
        keep_ticks: bool = False,
    ) -> None:
        """``interval`` in us, at least 1; ``keep_ticks``: all ticks, not only those that act."""
        self._fleet = fleet
        self._cluster = fleet.cluster
        self._stages = stages
        self._interval = int(interval)
        self._gate = gate or StabilizationGate()
        self._scrape_delay = scrape_delay
        self._random = random
        self._keep = keep_ticks
        self.ticks: list[ScalingTick] = []
        self.looks = 0
        """Number of ticks, kept or not."""

    def start(self) -> None:
        """Plan the first tick, at time 0."""
        self._cluster.agenda.add(0, SCALING_TICK, self._tick)

    def _tick(self, _: object, now: int) -> None:
        fleet, cluster, stages = self._fleet, self._cluster, self._stages
        fleet.now = now
        cluster.fleet.build(now, cluster.fleet.routable)
        collected = stages.collector.collect(fleet, now)
        analyses = tuple(stages.analyzer.analyze(model) for model in collected)
        decisions = tuple(stages.engine.decide(analyses, _FreeSlots(fleet)))
        passed = tuple(self._gate.passing(decisions, now))
        at = -1
        if passed:
            at = now + self._scrape_delay.sample(self._random.stream("autoscaler"))
            cluster.agenda.add(at, SCALE_ACTUATION, self._actuate, passed)
        self.looks += 1
        if passed or self._keep:
            self.ticks.append(
                ScalingTick(
                    time=now,
                    analyses=analyses,
                    decisions=decisions,
                    passed=passed,
                    actuation_time=at,
                )
            )
        cluster.fleet.sync(now)
        if cluster.has_horizon or not cluster.at_rest:
            cluster.agenda.add(now + self._interval, SCALING_TICK, self._tick)

    def _actuate(self, decisions: Sequence[ScaleDecision], now: int) -> None:
        self._fleet.now = now
        self._stages.actuator.actuate(decisions, self._fleet)
