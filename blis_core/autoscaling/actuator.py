"""The built-in actuator: starts instances, and drains active ones in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence

from blis_core import log
from blis_core.autoscaling.options import no_options
from blis_core.contracts_autoscaling import (
    ScalableCluster,
    ScaleDecision,
    ScalingActuator,
    ScalingSetup,
)


class DirectActuator(ScalingActuator):
    """Carries every decision out at once, as far as there is room."""

    def __init__(self, setup: ScalingSetup) -> None:
        no_options(setup, "autoscaler actuator direct")

    def actuate(self, decisions: Sequence[ScaleDecision], cluster: ScalableCluster) -> None:
        """A unit that finds no room is lost; the next tick may ask for it again."""
        for decision in decisions:
            for _ in range(decision.delta):
                if cluster.launch(decision.model, decision.variant) is None:
                    gpu, tp = decision.variant
                    log.info(f"no node has {tp} free GPU(s) {gpu} for {decision.model}")
            for _ in range(-decision.delta):
                _drain_one(decision, cluster)


def _drain_one(decision: ScaleDecision, cluster: ScalableCluster) -> None:
    """Names are compared as text, so instances that the autoscaler added go first."""
    candidates = [
        instance.id
        for instance in cluster.instances()
        if instance.state == "active"
        and instance.model == decision.model
        and instance.variant == decision.variant
    ]
    if candidates:
        cluster.drain(min(candidates))
    else:
        log.info(f"no active instance of {decision.model} on {decision.variant.gpu} to drain")
