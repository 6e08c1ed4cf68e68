"""Detects a request that can never finish: reference quirk 01-10.

Only the prompt is checked against the size of the KV cache when a request enters. One whose output
outgrows the cache preempts itself, starts anew, and does so for ever; the reference never ends.
"""

from __future__ import annotations

from blis_core.contracts import KVStore, Request
from blis_core.errors import BlisError


class StallGuard:
    """Watches for the same request preempting itself without any progress in between."""

    _REPEATS = 2  # beyond the first time

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._state: tuple[str, int] | None = None
        self._times = 0

    def reset(self) -> None:
        """Something else happened: a completion, an arrival or a timeout."""
        self._state = None

    def preempted_alone(self, request: Request, hit: int, target: int, store: KVStore) -> None:
        """``request`` was alone in the batch and preempted itself; nothing else is pending.

        ``hit`` is the number of cached blocks that it will find, ``target`` the number of tokens
        that it must store. Raises BlisError when this repeats.
        """
        state = (request.id, hit)
        self._times = self._times + 1 if state == self._state else 0
        self._state = state
        if self._times >= self._REPEATS:
            raise BlisError(
                f"{request.id} can never finish on {self._instance}: its {request.prompt_len}"
                f" prompt and {request.output_len} output tokens need"
                f" {-(-target // store.block_size)} KV blocks, but there are"
                f" {store.total_blocks}; it would preempt itself for ever. Raise"
                " --total-kv-blocks, set --max-model-len, or bound the run with --horizon or"
                " --timeout"
            )
