"""Turns a workload in the terms of the inference-perf benchmark into clients.

Each user of each system prompt is a client; with several stages, each has one client per stage,
active in that stage only and with exactly its share of the stage's rate. Draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from blis_core import log
from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.records import Record
from blis_core.workload.arrivals import NormalizedExponentialArrivals
from blis_core.workload.numeric import trunc_int64
from blis_core.workload.spec import (
    Arrival,
    Client,
    Distribution,
    Factory,
    FactoryPoisson,
    InferencePerf,
    Lifecycle,
    MultiTurn,
    NormalisedExponential,
    Reasoning,
    SharedPrefix,
    Stage,
    Window,
    WorkloadSpec,
)

SLO_CLASS = "standard"
MAX_CLIENTS = 1_000_000
"""Users of a single stage with a set number of requests each."""
MAX_STAGE_CLIENTS = 10_000_000
"""Clients in all other cases. Far beyond use; more would exhaust memory before anything ran."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Expansion(Record):
    """What an inference-perf section amounts to."""

    category: str
    aggregate_rate: float
    """Requests per second: the sum over the stages."""
    clients: tuple[Client, ...]


def with_inference_perf(spec: WorkloadSpec) -> WorkloadSpec:
    """``spec`` with its inference-perf section, if any, replaced by clients.

    The section's rate replaces an ``aggregate_rate``, with a warning if that was another one.
    BlisError as :func:`expand`.
    """
    if spec.inference_perf is None:
        return spec
    expansion = expand(spec.inference_perf)
    if spec.aggregate_rate > 0 and spec.aggregate_rate != expansion.aggregate_rate:
        log.warning(
            "the rates of inference_perf.stages replace aggregate_rate",
            aggregate_rate=spec.aggregate_rate,
            used=expansion.aggregate_rate,
        )
    return attrs.evolve(
        spec,
        category=spec.category or expansion.category,
        aggregate_rate=expansion.aggregate_rate,
        clients=expansion.clients,
        inference_perf=None,
    )


def expand(section: InferencePerf) -> Expansion:
    """The clients of ``section``: by stage, then by system prompt, then by user.

    BlisError, naming the field, for values outside their ranges and for stages with too few
    requests to go round.
    """
    if section.open_loop is not None:
        raise BlisError(
            "inference_perf.open_loop sends by itself and has no clients: it can only be simulated"
            " (blis run)"
        )
    prefix = _checked(section)
    users = prefix.num_unique_system_prompts * prefix.num_users_per_system_prompt
    several = len(section.stages) > 1
    controlled = not several and not prefix.enable_multi_turn_chat
    limit = MAX_CLIENTS if controlled else MAX_STAGE_CLIENTS
    if users * len(section.stages) > limit:
        raise BlisError(
            "inference_perf: num_unique_system_prompts * num_users_per_system_prompt (in all "
            f"stages) must not exceed {limit}, not {users * len(section.stages)}"
        )
    clients: list[Client] = []
    aggregate, start = 0.0, 0
    for index, stage in enumerate(section.stages):
        window = Window(start_us=start, end_us=start + stage.duration * 1_000_000)
        if window.end_us > MAX_INT64:
            raise BlisError(
                f"inference_perf.stages[{index}].duration: {stage.duration} s go beyond the "
                "range of time"
            )
        try:
            clients += _stage_clients(stage, prefix, users, index if several else None, window)
        except BlisError as problem:
            raise BlisError(f"inference_perf.stages[{index}]: {problem}") from None
        aggregate += stage.rate
        start = window.end_us
    return Expansion(
        category="reasoning" if prefix.enable_multi_turn_chat else "language",
        aggregate_rate=aggregate,
        clients=tuple(clients),
    )


def check_stages(section: InferencePerf) -> SharedPrefix:
    """The shared prefix, which must be given; BlisError for a stage that is out of range."""
    if not section.stages:
        raise BlisError("inference_perf.stages must list at least one stage")
    for index, stage in enumerate(section.stages):
        at = f"inference_perf.stages[{index}]"
        if stage.duration <= 0:
            raise BlisError(f"{at}.duration must be at least 1 (s), not {stage.duration}")
        if not 0 < stage.rate < math.inf:
            raise BlisError(f"{at}.rate must be a finite number greater than 0, not {stage.rate}")
    if section.shared_prefix is None:
        raise BlisError("inference_perf.shared_prefix is missing")
    return section.shared_prefix


def _checked(section: InferencePerf) -> SharedPrefix:
    """The shared prefix; BlisError for the first field that is out of range."""
    prefix = check_stages(section)
    for name, least in (
        ("num_unique_system_prompts", 1),
        ("num_users_per_system_prompt", 1),
        ("system_prompt_len", 0),
        ("question_len", 0),
        ("output_len", 0),
    ):
        if (value := getattr(prefix, name)) < least:
            raise BlisError(
                f"inference_perf.shared_prefix.{name} must be at least {least}, not {value}"
            )
    return prefix


def _stage_clients(
    stage: Stage, prefix: SharedPrefix, users: int, number: int | None, window: Window
) -> Iterator[Client]:
    """The clients of one stage; ``number`` is None if it is the only one."""
    chat = prefix.enable_multi_turn_chat
    requests = trunc_int64(stage.rate * stage.duration)
    if requests < 1 and (chat or number is None):
        raise BlisError(
            "rate * duration must give at least 1 request and at most 2**63 - 1, "
            f"not {stage.rate * stage.duration:g}"
        )
    quotient, remainder = divmod(max(0, requests), users)
    if quotient < 1 and (chat or number is None):
        raise BlisError(
            f"rate * duration gives {requests} requests for {users} users; each needs at least 1"
        )
    if number is None and not chat:
        _check_gaps(quotient + (remainder > 0), window.end_us)
    arrival = Arrival(process="poisson")
    question, answer = _constant(prefix.question_len), _constant(prefix.output_len)
    lifecycle = None if number is None else Lifecycle(windows=(window,))
    stage_name = "" if number is None else f"stage-{number}-"
    exact_rate = FactoryPoisson(stage.rate / users / 1e6)
    think_time = trunc_int64(users / stage.rate * 1e6)
    # At most two different numbers of requests occur; clients share what follows from them.
    reasonings: dict[int, Reasoning] = {}
    for user in range(users):
        count = quotient + (user < remainder)
        factory: Factory | None = exact_rate
        if number is None:
            factory = None if chat else NormalisedExponential(count, window.end_us)
        if chat and count not in reasonings:
            reasonings[count] = _conversation(count, think_time)
        prompt, member = divmod(user, prefix.num_users_per_system_prompt)
        yield Client(
            id=f"{stage_name}prompt-{prompt}-user-{member}",
            tenant_id=f"prompt-{prompt}",
            slo_class=SLO_CLASS,
            # The rates of several stages come from the factories; a fraction must be positive.
            rate_fraction=1 / users if number is None else 1.0,
            arrival=arrival,
            input_distribution=question,
            output_distribution=answer,
            prefix_group=f"prompt-{prompt}",
            prefix_length=prefix.system_prompt_len,
            lifecycle=lifecycle,
            reasoning=reasonings[count] if chat else None,
            factory=factory,
        )


def _check_gaps(most: int, duration_us: int) -> None:
    """BlisError if a client with ``most`` requests cannot spread them over the duration."""
    limit = NormalizedExponentialArrivals.MAX_COUNT
    if most > limit:
        raise BlisError(f"a user can make at most {limit} requests, not {most}")
    if most > duration_us:
        raise BlisError(f"{most} requests of one user do not fit into {duration_us} us")


def _constant(length: int) -> Distribution:
    return Distribution(type="constant", params={"value": float(length)})


def _conversation(rounds: int, think_time_us: int) -> Reasoning:
    return Reasoning(
        reason_ratio_distribution=_constant(0),
        multi_turn=MultiTurn(max_rounds=rounds, think_time_us=think_time_us, single_session=True),
    )
