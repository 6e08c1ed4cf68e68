"""Parts of the results that most runs do not have, and that are loaded with them only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.autoscaling.autoscaler import ScalingTick
    from blis_core.cluster.elastic import FleetEvent
    from blis_core.results.model import Distribution


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Fitness(Record):
    """A score for the whole run."""

    score: float
    """Weighted sum of the components, at least 0; higher is better."""
    components: dict[str, float]
    """Normalised figures in [0, 1] by name, not yet weighted."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InstanceLife(Record):
    """One instance of a fleet that changes, from placement to release."""

    id: str
    model: str
    gpu: str
    gpus: list[str]
    """Names of its GPUs; empty without node pools."""
    node: str
    state: str
    """At the end: loading, warming up, active, draining or terminated."""
    placed_us: int
    """When it took its GPUs."""
    ready_us: int
    """When it could take requests first; -1 = never."""
    released_us: int
    """When it gave its GPUs back; -1 = not before the end."""
    gpu_seconds: float
    """GPUs times the time that it held them, up to the end of the simulation."""
    cost_per_hour: float
    """Of a node of its kind."""
    cost: float
    """Of its GPUs: their share of the node, for as long as it held them."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FleetReport(Record):
    """What became of a fleet that changes."""

    instances: list[InstanceLife] = attrs.field(factory=list)
    """Every instance that was ever placed, in order of construction."""
    pending: list[str] = attrs.field(factory=list)
    """Instances that were asked for at the start and never found room."""
    events: list[FleetEvent] = attrs.field(factory=list)
    """What happened to instances and nodes, as it was noticed."""
    ticks: list[ScalingTick] = attrs.field(factory=list)
    """Looks of the autoscaler that led to a change; all with ``keep_decisions``."""
    looks: int = 0
    """Looks of the autoscaler in all."""
    most_instances: int = 0
    """Most instances that could take requests at one time."""
    gpu_seconds: float = 0.0
    cost: float = 0.0
    """Of all instances; what nobody held costs nothing here."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PDMetrics(Record):
    """How the pools for prefill and decode did."""

    disaggregated: int
    """Requests whose KV cache was transferred."""
    dropped_at_decode: int
    """Of these, how many found no instance with room for it."""
    prefill_throughput: float
    """Completed requests and halves per second on the prefill pool."""
    decode_throughput: float
    """The same on the decode pool."""
    load_imbalance: float
    """The larger throughput over the smaller, at least 1; the largest float if one is 0."""
    ttft: Distribution
    """Of disaggregated requests."""
    transfer: Distribution
    """Duration of the transfers."""
    contention: bool
    """Whether transfers shared the bandwidth; else the next two are 0."""
    peak_transfers: int
    """Most transfers at once."""
    mean_transfers: float
    """Transfers under way when one starts, itself included, on average."""
