"""Pools of instances that serve one half of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blis_core.cluster.fleet import Fleet, Snapshot
from blis_core.contracts import RoutingPolicy

if TYPE_CHECKING:
    from blis_core.contracts import IntArray


class Pool:
    """Consecutive instances of a fleet, with the policy that chooses among them."""

    def __init__(self, fleet: Fleet, start: int, size: int, policy: RoutingPolicy) -> None:
        """Instances ``start .. start+size-1``. ``policy`` may be shared with other pools."""
        self._fleet = fleet
        self.indices = range(start, start + size)
        self._members: IntArray = np.arange(start, start + size)
        self.policy = policy

    def view(self, now: int) -> Snapshot:
        """The routable members, as a routing decision at ``now`` sees them; may be empty.

        Periodic signals of all instances are refreshed, prefix caches are not (reference quirk
        07-Q22), and models make no difference.
        """
        fleet = self._fleet
        fleet.refresh(now)
        members = self._members
        if fleet.routable is not None:
            members = members[np.isin(members, fleet.routable)]
        return Snapshot(fleet, now, members)
