"""The fleet as policies see it: arrays over instances, as stale as the configuration says.

An instance is advanced to the time of a decision only if something is read that may have changed
meanwhile: counts of requests when one comes or goes, used KV blocks when a block is taken, caches
when anything happens. So a decision costs vector operations over the fleet plus the changes since
the last one, whatever the number of instances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import FleetView, Request
from blis_core.engine.instance import Instance
from blis_core.kv.paged import PagedKVStore

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray
    from blis_core.kv.chains import ChainTable

_NEVER = np.iinfo(np.int64).max
NOBODY: IntArray = np.zeros(0, dtype=np.int64)
"""The members of a view without instances."""


class Fleet:
    """All instances with their live signals in arrays.

    ``refresh_interval`` and ``cache_delay`` in us, 0 = live; see :class:`Snapshot`.
    """

    def __init__(
        self,
        instances: list[Instance],
        chains: ChainTable,
        *,
        refresh_interval: int = 0,
        cache_delay: int = 0,
        cache_read: bool = True,
    ) -> None:
        count = len(instances)
        self.instances = instances
        self.names = [instance.name for instance in instances]
        self.total_blocks = np.array([i.store.total_blocks for i in instances], dtype=np.int64)
        self.queue_depth = np.zeros(count, dtype=np.int64)
        self.running = np.zeros(count, dtype=np.int64)
        self.used_blocks = np.zeros(count, dtype=np.int64)
        self.in_flight = np.zeros(count, dtype=np.int64)
        self.lazy = False
        """Whether instances may lag behind in steps that change no signal that anybody reads. Then
        they may be advanced by this class only."""
        self._blocks_read = refresh_interval > 0
        self._due = np.full(count, _NEVER)  # no event before this time
        self._signal_due = np.full(count, _NEVER)  # signals stay the same before this time
        self._synced = 0  # all signals are up to this time
        self._freeze_at = [0] * count  # when caches have yet to be frozen; 0 = done
        self._finished = [0] * count
        self.chains = chains
        self.keys_given = False
        """Whether a policy has seen block keys, which it may remember."""
        self.routable: IntArray | None = None
        """Indices of those that ordinary decisions may choose, in order; None = all."""
        self.by_model: dict[str, IntArray] | None = None
        """Indices of the routable instances of each model; None: all serve the same one."""
        self._interval = refresh_interval
        self._refreshed = np.zeros(count, dtype=np.int64)
        self._delay = cache_delay if cache_read else 0
        self._frozen_at = 0
        self._cache_read = cache_read
        self.stale: dict[str, IntArray] | None = None
        if refresh_interval > 0:
            self.stale = {
                name: np.zeros(count, dtype=np.int64)
                for name in ("queue_depth", "running", "used_blocks", "free_blocks")
            }
        if self._delay:
            for instance in instances:
                instance.store.freeze()

    # ---------------------------------------------------------------------------- membership

    def add(self, instance: Instance) -> int:
        """Add an instance; returns its index. Unless all are routable, it is not yet.

        Its signals are 0 until they are read, or refreshed; its cache view is as of now.
        """
        index = len(self.instances)
        self.instances.append(instance)
        self.names.append(instance.name)
        self._finished.append(instance.finished)
        for name in ("queue_depth", "running", "used_blocks", "in_flight", "_refreshed"):
            setattr(self, name, np.append(getattr(self, name), 0))
        self.total_blocks = np.append(self.total_blocks, instance.store.total_blocks)
        self._due = np.append(self._due, _NEVER)
        self._signal_due = np.append(self._signal_due, _NEVER)
        self._freeze_at.append(0)
        if self.stale is not None:
            self.stale = {name: np.append(values, 0) for name, values in self.stale.items()}
        if self._delay:
            instance.store.freeze()
        return index

    def set_routable(self, indices: Sequence[int] | None) -> None:
        """Ordinary decisions choose among ``indices`` (ascending); None = among all."""
        self.routable = None if indices is None else np.array(indices, dtype=np.int64)

    def set_models(self, by_model: Mapping[str, Sequence[int]] | None) -> None:
        """Requests for a model choose among its ``by_model`` indices (ascending)."""
        self.by_model = None
        if by_model is not None:
            self.by_model = {m: np.array(i, dtype=np.int64) for m, i in by_model.items()}

    # ------------------------------------------------------------------------------- changes

    def sync(self, now: int) -> None:
        """Bring all signals up to the events before ``now``."""
        if now <= self._synced:
            return
        self._synced = now
        for index in (self._signal_due < now).nonzero()[0].tolist():
            self._advance(index, now)

    def sync_blocks(self, now: int) -> None:
        """The same, used KV blocks included: they are followed from the first call on."""
        if not self._blocks_read:
            self._blocks_read = True
            self.sync_all(now)
            np.copyto(self._signal_due, self._due)  # nobody has asked when blocks will change
        self.sync(now)

    def sync_all(self, now: int) -> None:
        """Let every instance execute its events before ``now``."""
        for index in (self._due < now).nonzero()[0].tolist():
            self._advance(index, now)

    def _advance(self, index: int, now: int) -> None:
        instance = self.instances[index]
        if self._freeze_at[index]:
            self._freeze(index)
        instance.advance(now)
        self.update(index)

    def _freeze(self, index: int) -> None:
        """Freeze a cache as it was when that was due."""
        instance = self.instances[index]
        instance.advance(self._freeze_at[index])
        instance.store.freeze()
        self._freeze_at[index] = 0

    def update(self, index: int) -> None:
        """Read instance ``index`` again, which has been advanced."""
        instance = self.instances[index]
        due = instance.due
        if due > _NEVER:
            due = _NEVER
        self._due[index] = self._signal_due[index] = due
        if self.lazy and due < _NEVER:
            change = instance.next_signal(blocks=self._blocks_read)
            self._signal_due[index] = min(change, _NEVER)
        self.queue_depth[index] = instance.waiting.count
        self.running[index] = len(instance.batch.members)
        self.used_blocks[index] = instance.store.used_blocks
        finished = instance.finished
        if finished != self._finished[index]:
            self.in_flight[index] -= finished - self._finished[index]
            self._finished[index] = finished

    def inject(self, index: int, request: Request, now: int) -> None:
        """Route ``request`` to instance ``index``."""
        self.in_flight[index] += 1
        if self._cache_read:
            self._name_blocks(request)
        instance = self.instances[index]
        instance.inject(request, now)
        due = min(instance.due, _NEVER)
        self._due[index] = due
        if self.lazy:  # who lags behind has changed no signal before now
            due = max(due, now)
        self._signal_due[index] = min(due, int(self._signal_due[index]))
        if due < self._synced:
            self._synced = due

    def forget_prompts(self) -> None:
        """Drop the tokens of which nothing is cached or in flight any more.

        Nobody can tell, unless a policy remembers block keys. To be called where no request is
        between its arrival and an instance; costs O(blocks).
        """
        if self.keys_given or any(type(i.store) is not PagedKVStore for i in self.instances):
            return
        held = self.chains.marks()
        for instance in self.instances:
            assert isinstance(instance.store, PagedKVStore)
            for keys in instance.store.known_keys():
                held.add(keys)
            for request in instance.metrics.requests:
                held.add_chains(request)
        self.chains.forget(held)

    def _name_blocks(self, request: Request) -> None:
        """Give all blocks that ``request`` may bring into a cache their keys.

        The instance would do so when it gets there. But then a later prompt could look new that
        begins like this request, or like its output, which stands alone behind a whole prompt hit.
        """
        self.chains.keys(request)
        if request.prompt_len % self.chains.block_size == 0:
            self.chains.output_keys(request)

    def leave(self, index: int, count: int) -> None:
        """``count`` requests that had not finished have been taken from instance ``index``."""
        self.update(index)
        self.in_flight[index] -= count

    def reserve(self, index: int, request: Request, now: int) -> bool:
        """Whether instance ``index`` had room for the transferred prompt of ``request``."""
        if self._cache_read:
            self._name_blocks(request)
        self._advance(index, now)
        reserved = self.instances[index].reserve(request)
        self.update(index)
        return reserved

    def inject_transferred(self, index: int, request: Request, now: int) -> None:
        """Route ``request``, for which there was room, to instance ``index``."""
        self.in_flight[index] += 1
        self.instances[index].inject_transferred(request, now)
        self.update(index)
        self._synced = min(self._synced, int(self._signal_due[index]))

    def build(self, now: int, members: IntArray | None = None) -> None:
        """A decision among ``members`` (None = all) is taken at ``now``: refresh what is due."""
        if self._delay and now - self._frozen_at >= self._delay:
            self._freeze_at = [now] * len(self.instances)
            if not self.lazy:
                self._freeze_all()
            self._frozen_at = now
        if self.stale is not None:
            self.refresh(now, members)

    def refresh(self, now: int, members: IntArray | None = None) -> None:
        """Renew the periodic signals of ``members`` that are older than the interval."""
        if self.stale is None:
            return
        old = now - self._refreshed >= self._interval
        if members is not None:
            mask = np.zeros(len(old), dtype=bool)
            mask[members] = True
            old &= mask
        if old.any():
            self.sync_blocks(now)
            self._refreshed[old] = now
            for name, live in (
                ("queue_depth", self.queue_depth),
                ("running", self.running),
                ("used_blocks", self.used_blocks),
                ("free_blocks", self.total_blocks - self.used_blocks),
            ):
                self.stale[name][old] = live[old]

    def _freeze_all(self) -> None:
        for index, at in enumerate(self._freeze_at):
            if at:
                self._freeze(index)
                self.update(index)

    def cached_blocks(
        self, request: Request, now: int, members: IntArray | None = None
    ) -> IntArray:
        """Leading full blocks of the prompt in the caches of ``members`` (indices; None = all).

        As of the last refresh.
        """
        keys = self.chains.keys(request)
        blocks = request.prompt_len // self.chains.block_size
        instances = self.instances
        if members is not None:
            instances = [instances[index] for index in members.tolist()]
        if not (keys.head or request.assigned) and keys.is_private():
            return np.zeros(len(instances), dtype=np.int64)  # none of them had such a prompt before
        if self._delay:
            self._freeze_all()
            counts = [i.store.match_frozen(keys, blocks) for i in instances]
        else:
            self.sync_all(now)
            counts = [len(i.store.match(keys, blocks)) for i in instances]
        return np.array(counts, dtype=np.int64)


class Snapshot(FleetView):
    """What one decision at one time sees of the fleet.

    Signals are live, or as of the last refresh; ``in_flight`` is always live. ``members`` (indices,
    ascending) restricts the view to some instances; None = all. Arrays are copies only where they
    must be: policies must not change them.
    """

    def __init__(self, fleet: Fleet, now: int, members: IntArray | None = None) -> None:
        self._fleet = fleet
        self._now = now
        self._members = members

    @property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """Names of the instances."""
        names = self._fleet.names
        return names if self._members is None else [names[i] for i in self._members.tolist()]

    def __len__(self) -> int:
        members = self._members
        return len(self._fleet.names if members is None else members)

    def index(self, position: int) -> int:
        """Index of the instance at ``position``."""
        return position if self._members is None else int(self._members[position])

    def _own(self, values: IntArray) -> IntArray:
        return values if self._members is None else values[self._members]

    def _signal(self, name: str) -> IntArray:
        fleet, members = self._fleet, self._members
        if fleet.stale is not None:
            signal = fleet.stale[name]
        else:
            if name == "used_blocks":
                fleet.sync_blocks(self._now)
            else:
                fleet.sync(self._now)
            signal = getattr(fleet, name)
        return signal if members is None else signal[members]

    @property
    def queue_depth(self) -> IntArray:  # type: ignore[override]
        """Waiting requests."""
        return self._signal("queue_depth")

    @property
    def running(self) -> IntArray:  # type: ignore[override]
        """Requests in the running batch."""
        return self._signal("running")

    @property
    def in_flight(self) -> IntArray:  # type: ignore[override]
        """Requests routed there and not yet finished."""
        self._fleet.sync(self._now)
        return self._own(self._fleet.in_flight)

    @property
    def free_blocks(self) -> IntArray:  # type: ignore[override]
        """KV blocks that no running request holds."""
        fleet = self._fleet
        if fleet.stale is not None:
            return self._own(fleet.stale["free_blocks"])
        return self._own(fleet.total_blocks) - self._signal("used_blocks")

    @property
    def kv_utilization(self) -> FloatArray:  # type: ignore[override]
        """Used blocks / all blocks."""
        return self._signal("used_blocks") / self._own(self._fleet.total_blocks)

    def cached_blocks(self, request: Request) -> IntArray:
        """Leading full blocks of the prompt that each instance holds."""
        return self._fleet.cached_blocks(request, self._now, self._members)

    def prompt_keys(self, request: Request) -> Sequence[int]:
        """Keys of the full blocks of the prompt."""
        self._fleet.keys_given = True
        chains = self._fleet.chains
        return chains.keys(request)[: request.prompt_len // chains.block_size]


class NoFleet(FleetView):
    """What a request sees whose model no instance serves."""

    def __init__(self) -> None:
        self.ids = ()
        self.queue_depth = self.running = self.in_flight = np.zeros(0, dtype=np.int64)
        self.free_blocks = self.queue_depth
        self.kv_utilization = np.zeros(0)

    def cached_blocks(self, request: Request) -> IntArray:
        """Nothing."""
        return self.queue_depth

    def prompt_keys(self, request: Request) -> Sequence[int]:
        """Nothing."""
        return ()
