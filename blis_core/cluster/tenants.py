"""Shares of the cluster's places that tenants may occupy."""

from __future__ import annotations

from collections.abc import Mapping

from blis_core.cluster.slo import SloPriorities
from blis_core.contracts import Request


class TenantBudgets:
    """Counts each tenant's routed and unfinished requests, and refuses what can be shed.

    Requests without a tenant are not counted. Admitted requests count from their routing on, so
    several that are admitted at one instant may exceed a budget together.
    """

    REASON = "tenant-budget-shed"
    """Of a rejection for exceeding a budget."""

    def __init__(
        self,
        budgets: Mapping[str, float],
        *,
        instances: int,
        max_running: int,
        priorities: SloPriorities,
    ) -> None:
        """``budgets``: share in [0, 1] of all ``instances * max_running`` places, by tenant."""
        places = float(max(1, instances * max_running))
        self._limits = {tenant: share * places for tenant, share in budgets.items()}
        self._priorities = priorities
        self._in_flight: dict[str, int] = {}

    def over(self, tenant: str) -> bool:
        """Whether a tenant with a budget has more requests than that."""
        limit = self._limits.get(tenant) if tenant else None
        return limit is not None and self._in_flight.get(tenant, 0) > limit

    def refuses(self, request: Request) -> bool:
        """Whether ``request`` is turned away: over budget, and of a sheddable class."""
        return self.over(request.tenant) and self._priorities.sheddable(request.slo_class)

    def routed(self, request: Request) -> None:
        """``request`` takes a place."""
        if request.tenant:
            self._in_flight[request.tenant] = self._in_flight.get(request.tenant, 0) + 1

    def ended(self, request: Request) -> None:
        """``request`` has completed, timed out or been dropped."""
        held = self._in_flight.get(request.tenant, 0)
        if held > 0:
            self._in_flight[request.tenant] = held - 1
