"""Detects a request that can never finish: reference quirk 01-10.

Only the prompt is checked against the size of the KV cache when a request enters. One whose output
outgrows the cache preempts itself, starts anew, and does so for ever; the reference never ends. Nor
does it where prompts that were transferred here wait for their turn and hold what the request
before them needs.
"""

from __future__ import annotations

from blis_core.contracts import KVStore, Request
from blis_core.errors import BlisError


class StallGuard:
    """Watches for the same request preempting itself without any progress in between."""

    _REPEATS = 2  # beyond the first time
    _MANY = 1000  # of whatever state: with a CPU tier the hit may go to and fro

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._state: tuple[str, int] | None = None
        self._times = 0
        self._in_all = 0

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
        self._in_all = self._in_all + 1 if self._state and self._state[0] == request.id else 0
        self._state = state
        if self._times >= self._REPEATS or self._in_all >= self._MANY:
            need = -(-target // store.block_size)
            there = f"there are {store.total_blocks}"
            if need <= store.total_blocks:
                there += _held(store)
            raise BlisError(
                f"{request.id} can never finish on {self._instance}: its {request.prompt_len}"
                f" prompt and {request.output_len} output tokens need {need} KV blocks, but"
                f" {there}; it would preempt itself for ever. {_WAY_OUT}"
            )

    def nobody_admitted(self, request: Request, store: KVStore) -> None:
        """The batch stays empty: ``request`` finds no blocks, and nothing else is pending.

        Raises BlisError when this repeats. It happens only where prompts that were transferred hold
        blocks while they wait behind it.
        """
        state = (request.id, -1)
        self._in_all = self._in_all + 1 if state == self._state else 0
        self._state = state
        if store.refusals_are_pure or self._in_all >= self._MANY:
            raise BlisError(
                f"{request.id} can never start on {self._instance}: there are not enough of the"
                f" {store.total_blocks} KV blocks{_held(store)}. {_WAY_OUT}"
            )


_WAY_OUT = (
    "Raise --total-kv-blocks, set --max-model-len, or bound the run with --horizon or --timeout"
)


def _held(store: KVStore) -> str:
    """Who keeps blocks from a request that has the batch for itself."""
    return f", {store.used_blocks} of them held by prompts whose turn to decode never comes"
