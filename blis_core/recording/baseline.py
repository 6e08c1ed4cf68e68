"""How long a request takes alone: on an idle instance of the same kind, by the latency model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blis_core.contracts import BatchShape, PrefillChunk

if TYPE_CHECKING:
    from blis_core.contracts import IntArray, Request
    from blis_core.recording.instance import RecordedInstance


class Alone(NamedTuple):
    """Parts of an end-to-end latency, in us."""

    intake: int
    prefill: int
    decode: int
    output: int
    last_prefill: int
    """The last step of the prefill, which is part of it."""
    last_decode: int
    """The last step of the decode, which is part of it; 0 without one."""


class Baseline:
    """Requests alone on instances of one kind."""

    def __init__(self, instance: RecordedInstance) -> None:
        self._latency, self._limits, self._rules = instance.kind
        self._target = instance.target
        self._total: IntArray = np.zeros(1, dtype=np.int64)  # [n]: decode steps at contexts below n
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def alone(self, request: Request, cached: int, *, at_least_one: bool = False) -> Alone:
        """``request`` alone, if ``cached`` tokens of its prompt are in the KV cache.

        ``at_least_one``: it decodes a token whatever its length limit says.
        """
        latency, prompt = self._latency, request.prompt_len
        prefill, last_prefill = self._prefill(prompt, min(cached, prompt))
        target = max(self._target(request), prompt + at_least_one)
        decode = last = 0
        if target > prompt:
            total = self._until(target)
            decode = int(total[target] - total[prompt])
            last = int(total[target] - total[target - 1])
        output = latency.output_token_time() * (1 + target - prompt)
        if request.output_len > 0:
            output += latency.completion_time()
        return Alone(latency.queueing_time(prompt), prefill, decode, output, last_prefill, last)

    def _prefill(self, prompt: int, cached: int) -> tuple[int, int]:
        """us of all steps and of the last one."""
        found = self._known.get((prompt, cached))
        if found is None:
            most = self._limits.max_tokens
            if self._limits.long_prefill:
                most = min(most, self._limits.long_prefill)
            progress, total = cached, 0
            # as the engine counts: in its first step a request may have no context
            context = cached if self._rules.cached_context else 0
            while True:
                tokens = min(prompt - progress, most)
                chunk = (PrefillChunk(context, tokens, prompt),) if tokens else ()
                step = max(1, self._latency.step_time(BatchShape(chunk)))
                total += step
                progress += tokens
                context = progress
                if progress >= prompt:
                    break
            found = self._known[prompt, cached] = total, step
        return found

    def _until(self, context: int) -> IntArray:
        """Sums of decode steps up to ``context``."""
        total = self._total
        if len(total) <= context:
            more = max(context, 2 * len(total), 1024) + 1 - len(total)
            times = np.maximum(self._latency.decode_times(1, len(total) - 1, more), 1)
            self._total = total = np.concatenate((total, total[-1] + np.cumsum(times)))
        return total
