"""What a cluster counts beside its instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blis_core.contracts import Request


class ClusterOutcome:
    """What the cluster itself counted."""

    def __init__(self) -> None:
        self.rejected = 0
        """Requests that admission turned away, those over a tenant's budget included."""
        self.rejected_by_class: dict[str, int] = {}
        self.unroutable = 0
        """Requests for a model that no instance serves."""
        self.gateway_shed = 0
        """Requests that a full gateway queue discarded."""
        self.gateway_depth = 0
        """Requests that waited at the gateway when the simulation ended."""
        self.drained = 0
        """Waiting requests that went with an instance drained at once."""
        self.in_transit = 0
        """Requests that were on their way to a wait queue when the simulation ended."""
        self.follow_ups: list[Request] = []
        """Requests that sessions added, in order of creation."""
