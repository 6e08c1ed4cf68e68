"""The life of an instance: loading, warming up, active, draining, terminated."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

import attrs

from blis_core.cluster.delays import NO_DELAY, NormalDelay
from blis_core.contracts_autoscaling import Variant
from blis_core.engine.instance import NEVER, Instance
from blis_core.errors import BlisError
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.cluster.nodes import Placement
    from blis_core.contracts import Request


class State(Enum):
    """Where an instance is in its life."""

    LOADING = "loading"
    WARMING_UP = "warming up"
    ACTIVE = "active"
    DRAINING = "draining"
    TERMINATED = "terminated"

    @property
    def routable(self) -> bool:
        """Whether new requests may go there."""
        return self in (State.WARMING_UP, State.ACTIVE)


_STEPS = {
    State.LOADING: (State.WARMING_UP, State.ACTIVE, State.TERMINATED),
    State.WARMING_UP: (State.ACTIVE, State.DRAINING, State.TERMINATED),
    State.ACTIVE: (State.DRAINING, State.TERMINATED),
    State.DRAINING: (State.TERMINATED,),
    State.TERMINATED: (),
}


class DrainPolicy(Enum):
    """What becomes of the requests of an instance that is to go."""

    IMMEDIATE = "IMMEDIATE"
    """Waiting requests are lost, running ones end; GPUs are free at once."""
    WAIT = "WAIT"
    """All of its requests end first."""
    REDIRECT = "REDIRECT"
    """Waiting requests arrive at the cluster again, running ones end first."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LifecycleSetup(Record):
    """What happens to an instance from its start to its end."""

    loading_delay: NormalDelay = NO_DELAY
    """From placement on a node to taking requests; only with node pools."""
    warm_start: bool = False
    """Instances that are placed at time 0 skip the loading delay."""
    warm_up_requests: int = 0
    """First requests of an instance that find it cold; at least 0."""
    warm_up_factor: float = 1.0
    """What the time to their first token is multiplied by; finite, at least 1."""
    drain_policy: DrainPolicy | None = None
    """Of instances that the autoscaler takes away. None: they only get no more requests, and an
    idle one keeps its GPUs to the end (reference quirk 07-Q18)."""


class Unit:
    """What the cluster knows of one instance besides its engine."""

    def __init__(
        self,
        index: int,
        instance: Instance,
        model: str,
        gpu: str,
        *,
        placement: Placement | None = None,
        cost_per_hour: float = 0.0,
        now: int = 0,
    ) -> None:
        self.index = index
        self.instance = instance
        self.name = instance.name
        self.model = model
        self.gpu = gpu
        self.placement = placement
        self.degree = len(placement.gpus) if placement is not None else 0
        """GPUs that it was placed on; 0 without node pools, whatever the degree of its model."""
        self.variant = Variant(gpu, max(1, self.degree))
        """GPU and degree as the autoscaler sees them."""
        self.cost_per_hour = cost_per_hour
        self.state = State.LOADING
        self.traits = self._traits()
        """What the autoscaler is told that changes with the state only."""
        self.started_at = now
        """When its GPUs were taken, in us."""
        self.ready_at = -1
        """When it could take requests first, in us; -1 = not yet."""
        self.drained_at = -1
        """When it was told to take no more requests, in us; -1 = never."""
        self.ended_at = -1
        """When its GPUs were free again, in us; -1 = they are not."""
        self.cold: list[Request] = []
        """Requests that were routed to it while it had warm-up slots."""
        self.ends_at = NEVER
        """Event after which it is idle and can go, while it drains."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs; a request on its way to the queue does not count."""
        return not self.instance.waiting.count and not self.instance.batch.members

    def move(self, state: State) -> None:
        """Go on to ``state``. BlisError for a step that an instance cannot take."""
        if state not in _STEPS[self.state]:
            raise BlisError(
                f"instance {self.name} is {self.state.value} and cannot be {state.value}"
            )
        self.state = state
        self.traits = self._traits()

    def _traits(self) -> tuple[str, str, Variant, str, bool, float]:
        state = self.state
        return (
            self.name,
            self.model,
            self.variant,
            state.value,
            state.routable,
            self.cost_per_hour,
        )


def slow_down_cold_requests(units: list[Unit], factor: float) -> None:
    """After the run: multiply the first-token times of requests that found an instance cold.

    End-to-end times stay as they are. Times are whole us, so fractions are cut off.
    """
    if factor > 1 and math.isfinite(factor):
        for unit in units:
            for request in unit.cold:
                if request.ttft >= 0:
                    request.ttft = int(request.ttft * factor)
