"""The built-in collector: every instance that can take requests, by model."""

from __future__ import annotations

from collections.abc import Sequence

from blis_core.autoscaling.options import no_options
from blis_core.contracts_autoscaling import (
    InstanceStatus,
    ModelReplicas,
    ScalableCluster,
    ScalingCollector,
    ScalingSetup,
)


class RoutableCollector(ScalingCollector):
    """Routable instances of known model and GPU, models in order of their names.

    An instance that is still loading is not seen, so a shortage is reported until it is ready:
    reference quirk 07-Q16.
    """

    def __init__(self, setup: ScalingSetup) -> None:
        no_options(setup, "autoscaler collector routable")

    def collect(self, cluster: ScalableCluster, now: int) -> Sequence[ModelReplicas]:
        """Group what is routable."""
        by_model: dict[str, list[InstanceStatus]] = {}
        for instance in cluster.instances():
            if instance.routable and instance.model and instance.variant.gpu:
                by_model.setdefault(instance.model, []).append(instance)
        return [
            ModelReplicas(model=model, replicas=tuple(by_model[model]))
            for model in sorted(by_model)
        ]
