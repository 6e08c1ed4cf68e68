"""A fleet view that is given by its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import FleetView, Request

if TYPE_CHECKING:
    from blis_core.contracts import FloatArray, IntArray

Figures = float | Sequence[float]
"""One figure for all instances, or one per instance."""


class FixedFleet(FleetView):
    """Instances with chosen figures, for testing scorers and policies.

    A sequence gives one figure per instance, a number the same to all:
    ``FixedFleet(queue_depth=[0, 3, 6])``, ``FixedFleet(8, kv_utilization=0.5)``. What is left out
    is idle: nothing waits or runs, all KV memory is free, no prompt is cached. ``size`` may be left
    out if a sequence tells it. ``ids`` are ``instance_0``, ... by default; ``in_flight`` is what
    waits and runs; ``kv_utilization`` and ``free_blocks`` follow from one another by
    ``total_blocks`` per instance (1000). ``cached_blocks`` is the answer for any request, or a
    mapping with that for each request id (0 for others); it is never more than the prompt has.
    ``block_size`` is in tokens (16).

    The arrays are read-only, so that a policy which changes them fails.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        ids: Sequence[str] | None = None,
        queue_depth: Figures = 0,
        running: Figures = 0,
        in_flight: Figures | None = None,
        kv_utilization: Figures | None = None,
        free_blocks: Figures | None = None,
        total_blocks: int = 1000,
        cached_blocks: Figures | Mapping[str, Figures] = 0,
        block_size: int = 16,
    ) -> None:
        """ValueError if the sequences differ in length, or nothing tells the size."""
        given = {
            "ids": ids,
            "queue_depth": queue_depth,
            "running": running,
            "in_flight": in_flight,
            "kv_utilization": kv_utilization,
            "free_blocks": free_blocks,
            "cached_blocks": cached_blocks,
        }
        sizes = {
            name: len(value)
            for name, value in given.items()
            if isinstance(value, Sequence | np.ndarray)
        }
        if size is not None:
            sizes["size"] = size
        if not sizes:
            raise ValueError("give the number of instances, or a sequence with one figure for each")
        if len(set(sizes.values())) > 1:
            text = ", ".join(f"{name}: {count}" for name, count in sizes.items())
            raise ValueError(f"the numbers of instances differ ({text})")
        self._size = next(iter(sizes.values()))
        self.ids = tuple(ids) if ids is not None else tuple(
            f"instance_{i}" for i in range(self._size)
        )  # fmt: skip
        self.queue_depth = self._whole(queue_depth)
        self.running = self._whole(running)
        waiting_and_running = self.queue_depth + self.running
        self.in_flight = self._whole(waiting_and_running if in_flight is None else in_flight)
        if kv_utilization is not None:
            self.kv_utilization = self._array(kv_utilization)
        else:
            free = self._array(total_blocks if free_blocks is None else free_blocks)
            self.kv_utilization = self._array(1.0 - free / total_blocks)
        if free_blocks is not None:
            self.free_blocks = self._whole(free_blocks)
        else:
            self.free_blocks = self._whole(np.rint((1.0 - self.kv_utilization) * total_blocks))
        self.block_size = block_size
        self._cached: Mapping[str, Figures] | IntArray = (
            cached_blocks if isinstance(cached_blocks, Mapping) else self._whole(cached_blocks)
        )
        self._keys: dict[Request, tuple[int, ...]] = {}

    def cached_blocks(self, request: Request) -> IntArray:
        """As given, but no more than the full blocks of the prompt."""
        if isinstance(self._cached, Mapping):
            counts = self._whole(self._cached.get(request.id, 0))
        else:
            counts = self._cached
        return self._whole(np.minimum(counts, request.prompt_len // self.block_size))

    def prompt_keys(self, request: Request) -> Sequence[int]:
        """Keys that depend on nothing but the tokens: they agree between any two fixed fleets.

        A request without tokens has keys of its own.
        """
        keys = self._keys.get(request)
        if keys is None:
            keys = self._keys[request] = self._hash(request)
        return keys

    def _hash(self, request: Request) -> tuple[int, ...]:
        size, tokens = self.block_size, request.tokens
        keys: list[int] = []
        before = b""
        for end in range(size, request.prompt_len + 1, size):
            block = f"{request.id} {end}".encode() if tokens is None else tokens[end - size : end]
            before = blake2b(before + bytes(block), digest_size=8).digest()
            keys.append(int.from_bytes(before) >> 1)
        return tuple(keys)

    def _array(self, figures: object) -> FloatArray:
        array = np.array(np.broadcast_to(np.asarray(figures, dtype=np.float64), self._size))
        array.flags.writeable = False
        return array

    def _whole(self, figures: object) -> IntArray:
        array = self._array(figures).astype(np.int64)
        array.flags.writeable = False
        return array
