"""The open loop of the inference-perf benchmark, as its load generator really works.

A fixed set of prompts is made at the start, groups of which share a system prompt; the requests go
round them, so that everything after the first round finds its prompt in the prefix cache. The
arrivals of a stage have exponential gaps, scaled to fill it exactly, and do not wait for answers.
The next stage begins a moment after the last answer of the one before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand, stream_seed
from blis_core.workload.deadlines import deadline
from blis_core.workload.inference_perf import SLO_CLASS, check_stages
from blis_core.workload.spec import InferencePerf, OpenLoop, SharedPrefix

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

MAX_PROMPTS = 1_000_000
MAX_REQUESTS = 100_000_000


class OpenStages:
    """The requests of all stages, each made when it begins.

    ``horizon`` and ``timeout`` (patience, 0 = endless) in us. Draws from a random stream of its own
    that follows from ``seed``. BlisError for a section that :func:`check_open_loop` refuses.
    """

    def __init__(
        self,
        section: InferencePerf,
        seed: int,
        *,
        horizon: int = MAX_INT64,
        max_requests: int = 0,
        timeout: int = 0,
    ) -> None:
        prefix, loop = check_open_loop(section)
        self._stages = iter(section.stages)
        self._pause = round(loop.pause_s * 1e6)
        self._rng = GoRand(stream_seed(seed, "open-loop"))
        self._prompts = _prompts(prefix, loop, self._rng)
        self._per_group = loop.num_prompts_per_group
        self._output = max(1, prefix.output_len)
        self._horizon = horizon
        self._left = max_requests or MAX_REQUESTS
        self._timeout = timeout
        self._sent = 0
        self._waiting = 0  # requests of the present stage without an answer
        self._latest = 0  # time of the latest answer, or of a request that will get none

    def first(self) -> list[Request]:
        """The requests of the first stage, which begins at 0."""
        return self._stage(0)

    def on_done(self, request: Request, tick: int) -> list[Request]:
        """``request`` was answered, or given up, at ``tick`` (us); the next stage, if it is due."""
        self._latest = max(self._latest, tick)
        self._waiting -= 1
        return [] if self._waiting else self._stage(self._latest + self._pause)

    def on_lost(self, request: Request, now: int) -> list[Request]:
        """As ``on_done``."""
        return self.on_done(request, now)

    def _stage(self, start: int) -> list[Request]:
        stage = next(self._stages, None)
        if stage is None or start >= self._horizon:
            return []
        gaps = self._rng.exps(int(stage.rate * stage.duration))
        times = np.cumsum(gaps)
        times *= stage.duration * 1e6 / float(times[-1])
        arrivals = start + times.astype(np.int64)
        fitting = int(np.searchsorted(arrivals, self._horizon))
        arrivals = arrivals[: min(fitting, self._left)]
        self._left -= len(arrivals)
        self._waiting = len(arrivals)
        return [self._request(arrival) for arrival in arrivals.tolist()]

    def _request(self, arrival: int) -> Request:
        which = self._sent % len(self._prompts)
        prompt = self._prompts[which]
        tokens = self._rng.tokens(self._output, prompt)
        group = f"group-{which // self._per_group}"
        request = Request(
            f"request_{self._sent}",
            arrival,
            tokens,
            len(prompt),
            self._output,
            max_output=self._output,
            deadline=deadline(arrival, self._timeout),
            client=f"{group}-prompt-{which % self._per_group}",
            tenant=group,
            slo_class=SLO_CLASS,
        )
        self._sent += 1
        return request


def check_open_loop(section: InferencePerf) -> tuple[SharedPrefix, OpenLoop]:
    """The lengths and the loop of a section; BlisError, naming the field, for a wrong value."""
    loop = section.open_loop
    assert loop is not None
    prefix = check_stages(section)
    for index, stage in enumerate(section.stages):
        if not 1 <= stage.rate * stage.duration <= MAX_REQUESTS:
            raise BlisError(
                f"inference_perf.stages[{index}]: rate * duration must give 1 to {MAX_REQUESTS}"
                f" requests, not {stage.rate * stage.duration:g}"
            )
    for name in ("num_unique_system_prompts", "num_users_per_system_prompt"):
        if getattr(prefix, name):
            raise BlisError(
                f"inference_perf.shared_prefix.{name} belongs to the closed loop: the open one has"
                " inference_perf.open_loop.num_groups and num_prompts_per_group"
            )
    if prefix.enable_multi_turn_chat:
        raise BlisError(
            "inference_perf.shared_prefix.enable_multi_turn_chat: there are no conversations in an"
            " open loop"
        )
    for name in ("system_prompt_len", "question_len", "output_len"):
        if (value := getattr(prefix, name)) < 0:
            raise BlisError(f"inference_perf.shared_prefix.{name} must be at least 0, not {value}")
    for name in ("num_groups", "num_prompts_per_group"):
        if (value := getattr(loop, name)) < 1:
            raise BlisError(f"inference_perf.open_loop.{name} must be at least 1, not {value}")
    if loop.num_groups * loop.num_prompts_per_group > MAX_PROMPTS:
        raise BlisError(
            "inference_perf.open_loop: num_groups * num_prompts_per_group must not exceed"
            f" {MAX_PROMPTS}"
        )
    for name, least in (("growth", 1e-3), ("stdev", 0.0), ("pause_s", 0.0)):
        value = getattr(loop, name)
        if not least <= value < math.inf:
            raise BlisError(
                f"inference_perf.open_loop.{name} must be finite and at least {least:g}, not"
                f" {value:g}"
            )
    return prefix, loop


def _prompts(prefix: SharedPrefix, loop: OpenLoop, rng: GoRand) -> list[TokenArray]:
    """The fixed prompts, group by group, in tokens as the server counts them."""
    system = round(prefix.system_prompt_len * loop.growth)
    question = prefix.question_len * loop.growth
    prompts = []
    for _ in range(loop.num_groups):
        shared = rng.tokens(system)
        for _ in range(loop.num_prompts_per_group):
            own = max(1, round(question + loop.stdev * rng.norm()))
            prompts.append(rng.tokens(own, shared))
    return prompts
