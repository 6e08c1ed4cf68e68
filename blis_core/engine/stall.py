"""Detects requests that can never finish; the reference never ends then.

Only the prompt is checked against the size of the KV cache when a request enters. One whose output
outgrows the cache preempts itself, starts anew, and does so for ever (reference quirk 01-10). With
two tiers, requests that wait may hold blocks (reference quirk 02-7), and so do prompts that were
transferred here, until their turn comes. If all others lack these, nobody is admitted, or the same
requests start and are preempted in turn.
"""

from __future__ import annotations

from blis_core.contracts import KVStore, Request
from blis_core.errors import BlisError

_SAME = 2
"""Repetitions of the same preemption, beyond the first, of a request that is too large."""
_MANY = 5000
"""Preemptions or empty steps without any progress that are taken for a proof."""


class StallGuard:
    """Watches for steps without progress. To be asked only if nothing else is pending."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._state: tuple[str, int] | None = None
        self._times = 0
        self._preemptions = 0
        self._progress = 0
        self._empty_steps = 0
        self._last_empty = 0

    def preempted_alone(
        self, request: Request, hit: int, target: int, store: KVStore, progress: int
    ) -> None:
        """``request`` was alone in the batch and preempted itself.

        ``hit`` is the number of cached blocks that it will find, ``target`` the number of tokens
        that it must store. ``progress`` differs if something else has happened since the last time:
        a completion, an arrival or a timeout. Raises BlisError when this repeats without.
        """
        if progress != self._progress:
            self._progress = progress
            self._state = None
            self._preemptions = 0
        state = (request.id, hit)
        self._times = self._times + 1 if state == self._state else 0
        self._state = state
        self._preemptions += 1
        many = self._preemptions >= _MANY
        need = -(-target // store.block_size)
        if need <= store.total_blocks:
            if many:
                self._give_up(f"{request.id} and others preempt each other", store)
            return
        if self._times < _SAME and not many:
            return
        raise BlisError(
            f"{request.id} can never finish on {self._instance}: its {request.prompt_len}"
            f" prompt and {request.output_len} output tokens need {need} KV blocks, but there are"
            f" {store.total_blocks}; it would preempt itself for ever. Raise --total-kv-blocks,"
            " set --max-model-len, or bound the run with --horizon or --timeout"
        )

    def nobody_runs(self, step: int, waiting: int, store: KVStore) -> None:
        """Step number ``step`` has nothing to execute, although ``waiting`` requests wait.

        Raises BlisError after very many such steps in a row.
        """
        self._empty_steps = self._empty_steps + 1 if step == self._last_empty + 1 else 0
        self._last_empty = step
        if self._empty_steps >= _MANY:
            self._give_up(f"{waiting} requests wait and none can be admitted", store)

    def _give_up(self, what: str, store: KVStore) -> None:
        raise BlisError(
            f"no request can finish on {self._instance} any more: {what} for ever, since waiting"
            f" ones hold some of its {store.total_blocks} KV blocks (prompts that were transferred,"
            " or admissions that failed halfway). Raise --total-kv-blocks, leave out"
            " --kv-cpu-blocks if it is given, or bound the run with --horizon or --timeout"
        )
