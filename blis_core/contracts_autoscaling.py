"""What the stages of the model autoscaler share: value types, and the interface of each stage.

At every tick the collector describes the instances, the analyzer says for each model whether
capacity is missing or to spare, and the engine turns that into decisions. Decisions that pass the
stabilisation windows go to the actuator, which starts and drains instances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from blis_core.records import Record


class Variant(NamedTuple):
    """A kind of instance of a model; variants sort by GPU name, then by degree."""

    gpu: str
    """GPU type, as the node pool spells it."""
    tp: int
    """GPUs of one instance, at least 1."""


class InstanceStatus(NamedTuple):
    """One instance, with signals as stale as the configuration says."""

    id: str
    model: str
    variant: Variant
    state: str
    """loading, warming up, active, draining or terminated."""
    routable: bool
    """Whether new requests may go there."""
    cost_per_hour: float = 0.0
    """Of a node of its kind; 0 without node pools."""
    queue_depth: int = 0
    """Waiting requests."""
    in_flight: int = 0
    """Requests routed there and not yet finished; always current."""
    kv_utilization: float = 0.0
    """Used share of the KV cache, in [0, 1]."""
    capacity_tokens: int = 0
    """Tokens that its KV cache holds."""
    used_tokens: int = 0
    """Tokens' worth of KV blocks in use."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelReplicas(Record):
    """The instances that serve one model."""

    model: str
    replicas: tuple[InstanceStatus, ...]
    """In order of construction."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class VariantCapacity(Record):
    """What the instances of one variant offer and are asked for, in KV tokens."""

    variant: Variant
    replicas: int
    """At least 1."""
    supply: float
    demand: float
    cost_per_hour: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CapacityAnalysis(Record):
    """What one model needs, in KV tokens. At most one of ``required`` and ``spare`` is above 0."""

    model: str
    supply: float = 0.0
    demand: float = 0.0
    required: float = 0.0
    """Supply that is missing."""
    spare: float = 0.0
    """Supply that could go."""
    variants: tuple[VariantCapacity, ...] = ()

    @property
    def utilization(self) -> float:
        """demand / supply; 0 without supply."""
        return self.demand / self.supply if self.supply else 0.0


class ScaleDecision(NamedTuple):
    """Start (``delta`` > 0) or drain (``delta`` < 0) that many instances."""

    model: str
    variant: Variant
    delta: int


class ScalableCluster(ABC):
    """What an autoscaler sees of the cluster, and may do to it, at the present instant."""

    @abstractmethod
    def instances(self) -> Sequence[InstanceStatus]:
        """All instances that were ever there, in order of construction."""

    @abstractmethod
    def free_slots(self) -> Mapping[Variant, int]:
        """Free GPUs by variant, at least 0 each; empty without node pools."""

    @abstractmethod
    def launch(self, model: str, variant: Variant) -> str | None:
        """Start an instance; returns its id, or None if no node has room for it."""

    @abstractmethod
    def drain(self, instance_id: str) -> None:
        """Give an instance no more requests, and its GPUs back once it is idle.

        BlisError if there is no such instance or it is draining or gone already.
        """


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScalingSetup(Record):
    """What a stage of the autoscaler is built from."""

    kv_cache_threshold: float = 0.8
    """Share of the KV cache that counts as capacity, in (0, 1]."""
    scale_up_threshold: float = 0.8
    """Utilisation above which capacity is missing; above 0."""
    scale_down_boundary: float = 0.4
    """Utilisation below which capacity is to spare; above 0, below ``scale_up_threshold``."""
    avg_input_tokens: float = 512.0
    """KV demand of a waiting request in tokens; above 0."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """What the policy file gives this stage besides; a stage raises BlisError for what it does not
    know."""


class ScalingCollector(ABC):
    """Describes the instances of each model; the first stage."""

    @abstractmethod
    def collect(self, cluster: ScalableCluster, now: int) -> Sequence[ModelReplicas]:
        """One entry per model, in the order in which they are to be analysed. ``now`` in us."""


class ScalingAnalyzer(ABC):
    """Compares what a model's instances offer with what is asked of them; the second stage."""

    @abstractmethod
    def analyze(self, model: ModelReplicas) -> CapacityAnalysis:
        """What ``model`` needs."""


class ScalingEngine(ABC):
    """Decides how many instances of which variant to start or drain; the third stage."""

    @abstractmethod
    def decide(
        self, analyses: Sequence[CapacityAnalysis], free_slots: Mapping[Variant, int]
    ) -> Sequence[ScaleDecision]:
        """Decisions in the order in which they are to be carried out; none = all is well."""


class ScalingActuator(ABC):
    """Carries decisions out; the last stage."""

    @abstractmethod
    def actuate(self, decisions: Sequence[ScaleDecision], cluster: ScalableCluster) -> None:
        """Start and drain instances."""
