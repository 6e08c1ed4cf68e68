"""The built-in analyzer: KV tokens in use and waiting, against the KV tokens that there are."""

from __future__ import annotations

from blis_core.autoscaling.options import no_options
from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    InstanceStatus,
    ModelReplicas,
    ScalingAnalyzer,
    ScalingSetup,
    Variant,
    VariantCapacity,
)


class SaturationAnalyzer(ScalingAnalyzer):
    """Capacity is a share of each KV cache; a waiting request counts with a mean length.

    Sums go over replicas in order of construction and over variants by cost, since the last digit
    may decide.
    """

    def __init__(self, setup: ScalingSetup) -> None:
        no_options(setup, "autoscaler analyzer saturation")
        self._share = setup.kv_cache_threshold
        self._up = setup.scale_up_threshold
        self._down = setup.scale_down_boundary
        self._tokens = setup.avg_input_tokens

    def analyze(self, model: ModelReplicas) -> CapacityAnalysis:
        """Missing: what demand exceeds the scale-up threshold by. To spare: as long as the
        rest can do without its largest member."""
        variants = self._variants(model)
        supply = demand = 0.0
        for variant in variants:
            supply += variant.supply
            demand += variant.demand
        required, spare = self._verdict(variants, supply, demand)
        return CapacityAnalysis(
            model=model.model,
            supply=supply,
            demand=demand,
            required=required,
            spare=spare,
            variants=variants,
        )

    def _variants(self, model: ModelReplicas) -> tuple[VariantCapacity, ...]:
        by_variant: dict[Variant, list[InstanceStatus]] = {}
        for replica in model.replicas:
            if replica.capacity_tokens > 0:
                by_variant.setdefault(replica.variant, []).append(replica)
        found = []
        for variant, replicas in by_variant.items():
            supply = demand = 0.0
            for replica in replicas:
                supply += replica.capacity_tokens * self._share
                demand += replica.used_tokens + replica.queue_depth * self._tokens
            found.append(
                VariantCapacity(
                    variant=variant,
                    replicas=len(replicas),
                    supply=supply,
                    demand=demand,
                    cost_per_hour=replicas[0].cost_per_hour,
                )
            )
        return tuple(sorted(found, key=lambda v: (v.cost_per_hour, v.variant)))

    def _verdict(
        self, variants: tuple[VariantCapacity, ...], supply: float, demand: float
    ) -> tuple[float, float]:
        """(required, spare)."""
        required = demand / self._up - supply
        if required > 0:
            return required, 0.0
        if sum(variant.replicas for variant in variants) <= 1:
            return 0.0, 0.0
        wanted = demand / self._down
        spare = supply - wanted
        if spare <= 0:
            return 0.0, 0.0
        largest = max(variant.supply / variant.replicas for variant in variants)
        return 0.0, spare if supply - largest > wanted else 0.0
