"""The fleet as policies see it: arrays over instances, read when somebody asks.

An instance is advanced to the time of the decision only if a policy reads something of it, so a
policy that reads nothing costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blis_core.contracts import FleetView, Request
from blis_core.engine.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blis_core.contracts import FloatArray, IntArray
    from blis_core.kv.chains import ChainTable


class LiveFleet(FleetView):
    """All instances, with signals as of the current time."""

    def __init__(self, instances: list[Instance], chains: ChainTable, block_size: int) -> None:
        self._instances = instances
        self._chains = chains
        self._block_size = block_size
        self._names = [instance.name for instance in instances]
        self._routed = [0] * len(instances)
        self._now = 0
        self._advanced = False
        self._cache: dict[str, IntArray] = {}

    @property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the instances."""
        return self._names

    def at(self, now: int) -> LiveFleet:
        """Move the view to ``now``."""
        self._now = now
        self._advanced = False
        self._cache.clear()
        return self

    def sent(self, index: int) -> None:
        """A request was routed to instance ``index``."""
        self._routed[index] += 1
        known = self._cache.get("in_flight")
        if known is not None:
            known = self._cache["in_flight"] = known.copy()
            known[index] += 1

    def _read(self) -> list[Instance]:
        if not self._advanced:
            for instance in self._instances:
                instance.advance(self._now)
            self._advanced = True
        return self._instances

    def _array(self, name: str, values: list[int]) -> IntArray:
        import numpy as np

        array = self._cache[name] = np.array(values, dtype=np.int64)
        return array

    @property
    def queue_depth(self) -> IntArray:  # type: ignore[override]
        """Waiting requests."""
        known = self._cache.get("queue_depth")
        if known is not None:
            return known
        return self._array("queue_depth", [i.waiting.count for i in self._read()])

    @property
    def running(self) -> IntArray:  # type: ignore[override]
        """Requests in the running batch."""
        known = self._cache.get("running")
        if known is not None:
            return known
        return self._array("running", [len(i.batch.members) for i in self._read()])

    @property
    def in_flight(self) -> IntArray:  # type: ignore[override]
        """Requests routed there and not yet finished."""
        known = self._cache.get("in_flight")
        if known is not None:
            return known
        pairs = zip(self._routed, self._read(), strict=True)
        return self._array("in_flight", [sent - i.finished for sent, i in pairs])

    @property
    def free_blocks(self) -> IntArray:  # type: ignore[override]
        """KV blocks that no running request holds."""
        known = self._cache.get("free_blocks")
        if known is not None:
            return known
        return self._array("free_blocks", [i.store.free_blocks for i in self._read()])

    @property
    def kv_utilization(self) -> FloatArray:  # type: ignore[override]
        """Used blocks / all blocks."""
        import numpy as np

        stores = [i.store for i in self._read()]
        return np.array([s.used_blocks / s.total_blocks for s in stores])

    def cached_blocks(self, request: Request) -> IntArray:
        """Leading full blocks of the prompt that each instance holds."""
        import numpy as np

        keys = self._chains.keys(request)
        blocks = request.prompt_len // self._block_size
        return np.array([len(i.store.match(keys, blocks)) for i in self._read()], dtype=np.int64)
