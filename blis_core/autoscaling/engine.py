"""The built-in engines, which turn what models need into decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blis_core.autoscaling.options import no_options
from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    ScaleDecision,
    ScalingEngine,
    ScalingSetup,
    Variant,
    VariantCapacity,
)


def _dearest_first(variant: VariantCapacity) -> tuple[float, Variant]:
    return -variant.cost_per_hour, variant.variant


def _cheapest_first(variant: VariantCapacity) -> tuple[float, Variant]:
    return variant.cost_per_hour, variant.variant


class UnlimitedEngine(ScalingEngine):
    """One instance at a time: the cheapest variant up, the dearest down.

    Only variants that have instances count, and whether there is room for one more does not:
    reference quirk 07-Q19.
    """

    def __init__(self, setup: ScalingSetup) -> None:
        no_options(setup, "autoscaler engine unlimited")

    def decide(
        self, analyses: Sequence[CapacityAnalysis], free_slots: Mapping[Variant, int]
    ) -> Sequence[ScaleDecision]:
        """At most one decision per model."""
        decisions = []
        for analysis in analyses:
            if not analysis.variants:
                continue
            if analysis.required > 0:
                chosen = min(analysis.variants, key=_cheapest_first)
                decisions.append(ScaleDecision(analysis.model, chosen.variant, 1))
            elif analysis.spare > 0:
                chosen = min(analysis.variants, key=_dearest_first)
                decisions.append(ScaleDecision(analysis.model, chosen.variant, -1))
        return decisions


class GreedyEngine(ScalingEngine):
    """As many instances as are needed, of the cheapest variants for which there is room.

    Unlike ``unlimited`` it goes on to the next variant when one is full, and it also starts
    variants that have no instance yet: those of the model's degrees on other GPUs, which it takes
    for as large and, not knowing better, for as dear as the dearest one there is.
    """

    def __init__(self, setup: ScalingSetup) -> None:
        no_options(setup, "autoscaler engine greedy")

    def decide(
        self, analyses: Sequence[CapacityAnalysis], free_slots: Mapping[Variant, int]
    ) -> Sequence[ScaleDecision]:
        """Decisions for several models share the free GPUs, first come, first served."""
        free: dict[str, int] = {}
        for variant, gpus in free_slots.items():
            free[variant.gpu] = max(free.get(variant.gpu, 0), gpus)
        decisions: list[ScaleDecision] = []
        for analysis in analyses:
            if analysis.required > 0:
                decisions += _start(analysis, free_slots, free)
            elif analysis.spare > 0 and analysis.variants:
                chosen = min(analysis.variants, key=_dearest_first)
                each = chosen.supply / chosen.replicas
                number = max(1, int(analysis.spare / each)) if each > 0 else 1
                total = sum(variant.replicas for variant in analysis.variants)
                number = min(number, chosen.replicas, total - 1)
                if number > 0:
                    decisions.append(ScaleDecision(analysis.model, chosen.variant, -number))
        return decisions


def _start(
    analysis: CapacityAnalysis, free_slots: Mapping[Variant, int], free: dict[str, int]
) -> list[ScaleDecision]:
    """Cover what is missing; takes the GPUs out of ``free``."""
    here = sorted(analysis.variants, key=_cheapest_first)
    if not here:
        return []
    sizes = {variant.variant: variant.supply / variant.replicas for variant in here}
    known = set(sizes)
    degrees = {variant.tp for variant in known}
    others = sorted(v for v in free_slots if v not in known and v.tp in degrees)
    missing = analysis.required
    decisions = []
    for variant in [v.variant for v in here] + others:
        size = sizes.get(variant, max(sizes.values()))
        number = 0
        while missing > 0 and free.get(variant.gpu, 0) >= variant.tp and size > 0:
            free[variant.gpu] -= variant.tp
            missing -= size
            number += 1
        if number:
            decisions.append(ScaleDecision(analysis.model, variant, number))
    return decisions
