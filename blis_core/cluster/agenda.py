"""Rare events of the cluster, in order of time, priority and creation.

Arrivals, admissions and routings have fast queues of their own in the cluster loop. Everything
else that happens to a cluster - transfers between pools, nodes that come up, scaling - is an entry
here: an action that the loop calls when its turn comes. A run without such parts pays one look at
an empty list per instant.

How a part of the cluster uses it (see ``Cluster``):

* ``cluster.agenda.add(time, priority, action, payload)`` plans ``action(payload, time)``. At one
  instant smaller priorities act first, whatever is planned by whom in the meantime; equal ones
  act in order of planning. An entry may be planned for the instant at hand.
* ``cluster.watch(callback)`` calls ``callback(index, time)`` after each instance event in which a
  request ended. It makes the loop follow every such event in order of time.
* ``cluster.add_instance(instance)`` adds an instance during the run, and ``fleet.set_routable``
  tells which ones ordinary decisions may choose; policies see those only. Instances never leave
  the list, so an index remains valid.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

# What acts first at one instant. Arrival, admission and routing are the loop's own.
NODE_CHANGED = -2
INSTANCE_LOADED = -1
ARRIVAL = 0
ADMISSION = 1
ROUTING = 2
DISAGGREGATION = 3
PREFILL_ROUTING = 4
TRANSFER_STARTED = 5
TRANSFER_COMPLETED = 6
DECODE_ROUTING = 7
SCALING_TICK = 8
SCALE_ACTUATION = 9

Action = Callable[[Any, int], None]
"""Called with the payload and the time of the entry."""


class Agenda:
    """Planned actions. ``entries`` is a heap; its head is due next."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int, Action, Any]] = []
        """(time, priority, order of planning, action, payload)."""
        self._planned = 0

    def add(self, time: int, priority: int, action: Action, payload: Any = None) -> None:
        """Plan ``action(payload, time)``; ``time`` (us) must not lie before the present."""
        self._planned += 1
        heapq.heappush(self.entries, (time, priority, self._planned, action, payload))

    def count(self, *priorities: int) -> int:
        """Entries of these priorities."""
        return sum(entry[1] in priorities for entry in self.entries)

    def act(self) -> None:
        """Remove the head and call it."""
        time, _, _, action, payload = heapq.heappop(self.entries)
        action(payload, time)
