"""Pools of instances that serve one half of requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from blis_core.cluster.fleet import Fleet, Snapshot
from blis_core.contracts import RoutingPolicy

if TYPE_CHECKING:
    from blis_core.contracts import IntArray


class Pool:
    """Some instances of a fleet, with the policy that chooses among them."""

    def __init__(self, fleet: Fleet, names: Iterable[str], policy: RoutingPolicy) -> None:
        """The instances called ``names``, as far and as soon as the fleet has them. ``policy`` may
        be shared with other pools."""
        self._fleet = fleet
        self._names = frozenset(names)
        self._known = -1
        self._members: IntArray = np.zeros(0, dtype=np.int64)
        self.policy = policy

    @property
    def members(self) -> IntArray:
        """Indices of the pool's instances, ascending."""
        names = self._fleet.names
        if len(names) != self._known:
            self._known = len(names)
            found = [index for index, name in enumerate(names) if name in self._names]
            self._members = np.array(found, dtype=np.int64)
        return self._members

    def has(self, index: int) -> bool:
        """Whether the instance at ``index`` of the fleet belongs to the pool."""
        return self._fleet.names[index] in self._names

    def view(self, now: int) -> Snapshot:
        """The routable members, as a routing decision at ``now`` sees them; may be empty.

        Periodic signals of all instances are refreshed, prefix caches are not (reference quirk
        07-Q22), and models make no difference.
        """
        fleet = self._fleet
        fleet.refresh(now, fleet.routable)
        members = self.members
        if fleet.routable is not None:
            members = members[np.isin(members, fleet.routable)]
        return Snapshot(fleet, now, members)
