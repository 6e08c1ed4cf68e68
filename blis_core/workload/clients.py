"""From a client of a specification to its requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import ArrivalSampler, LengthSampler, Request
from blis_core.rng import GoRand
from blis_core.workload.activity import Activity
from blis_core.workload.conversations import Conversation, by_arrival, session_requests
from blis_core.workload.deadlines import patience
from blis_core.workload.factory_arrivals import make_sampler
from blis_core.workload.generation import (
    Parts,
    Source,
    Traits,
    arrival_times,
    multimodal_requests,
    plain_requests,
)
from blis_core.workload.samplers import arrival_sampler, length_sampler
from blis_core.workload.spec import ACCUMULATE, Distribution

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray
    from blis_core.workload.spec import Client, Multimodal, MultiTurn


def open_requests(
    client: Client,
    rate_per_us: float,
    seed: int,
    prefix: TokenArray | None,
    *,
    horizon: int,
    limit: int,
    count_rounds: bool = True,
) -> Iterator[Request]:
    """The requests of a rate-based client in order of arrival, equal ones as drawn; without ids.

    ``seed`` starts the client's own stream. Only arrivals before ``horizon`` count; ``limit``
    bounds the number drawn (0 = no limit). In a closed loop later rounds are made anew, from the
    answers; they are here for their number alone, so ``count_rounds`` False may leave them out.
    BlisError at once for samplers that cannot be made; for those of parts and reasoning shares,
    with the first request.
    """
    rounds = drawn_requests(
        client,
        rate_per_us,
        seed,
        prefix,
        horizon=horizon,
        limit=limit,
        count_rounds=count_rounds,
    )
    talk = client.multi_turn
    if talk is None:
        return rounds
    if talk.think_time_us < 0:
        return _unordered_sessions(rounds)
    return by_arrival(rounds)


def _unordered_sessions(rounds: Iterator[Request]) -> Iterator[Request]:
    """All at once, because later rounds may precede earlier ones: reference quirk 04-19."""
    return iter(sorted(rounds, key=lambda request: request.arrival))


def drawn_requests(
    client: Client,
    rate_per_us: float,
    seed: int,
    prefix: TokenArray | None,
    *,
    horizon: int,
    limit: int,
    count_rounds: bool = True,
) -> Iterator[Request]:
    """Like :func:`open_requests`, in the order in which they are drawn."""
    rng = GoRand(seed)
    gaps = _gaps(client, rate_per_us, rng)
    source = client_source(client, rng)
    activity = Activity(client.windows) if client.windows else None
    talk = client.multi_turn
    if talk is not None:
        traits = _round_traits(client, prefix)
        conversation = _conversation(client, talk, horizon, activity)
        if talk.single_session:
            if conversation.first_only and not count_rounds:
                # nothing else comes from this stream, so the other rounds need not be drawn
                conversation = attrs.evolve(conversation, rounds=1)
            start = _single_start(gaps, rng, horizon, activity)
            return session_requests(start, source, traits, conversation)
        times = arrival_times(gaps, rng, horizon, activity)
        return session_requests(times, source, traits, conversation, limit)
    traits = request_traits(client, prefix, session=client.is_closed_loop)
    times = arrival_times(gaps, rng, horizon, activity)
    media = client.multimodal
    if media is not None:
        owner = f"client {client.id!r}, multimodal"
        return multimodal_requests(times, source, traits, lambda: _parts(media, owner), limit)
    return plain_requests(times, source, traits, limit)


def _gaps(client: Client, rate_per_us: float, rng: GoRand) -> ArrivalSampler:
    if client.factory is not None:
        return make_sampler(client.factory, rng.int63())
    return arrival_sampler(client.arrival, rate_per_us, f"client {client.id!r}")


def client_source(client: Client, rng: GoRand) -> Source:
    """Samplers of prompts and outputs, fed from ``rng``. BlisError if they cannot be made."""
    owner = f"client {client.id!r}"
    return Source(
        rng,
        length_sampler(client.input_distribution, f"{owner}, input_distribution"),
        length_sampler(client.output_distribution, f"{owner}, output_distribution"),
    )


def request_traits(client: Client, prefix: TokenArray | None, *, session: bool) -> Traits:
    """What the requests of a client have in common, unless they are rounds of a conversation.

    ``session`` decides how long a client waits that does not say.
    """
    return Traits(
        client=client.id,
        tenant=client.tenant_id,
        slo_class=client.slo_class,
        model=client.model,
        prefix_group=client.prefix_group,
        prefix=prefix,
        streaming=client.streaming,
        patience=patience(client.timeout, session=session),
    )


def _round_traits(client: Client, prefix: TokenArray | None) -> Traits:
    """Rounds of a conversation name no prefix group and never stream: reference quirk 04-7."""
    return Traits(
        client=client.id,
        tenant=client.tenant_id,
        slo_class=client.slo_class,
        model=client.model,
        prefix=prefix,
        patience=patience(client.timeout, session=True),
    )


def _conversation(
    client: Client, talk: MultiTurn, horizon: int, activity: Activity | None
) -> Conversation:
    ratios = client.reasoning.reason_ratio_distribution if client.reasoning else Distribution()
    owner = f"client {client.id!r}, reasoning.reason_ratio_distribution"
    return Conversation(
        rounds=talk.max_rounds,
        think_time_us=talk.think_time_us,
        accumulate=talk.context_growth == ACCUMULATE,
        make_ratios=lambda: _optional(ratios, owner),
        horizon=horizon,
        activity=activity,
        # With think times below 0 the limit on requests can leave a later round without its first;
        # it then stays as it is, so it needs its tokens.
        first_only=client.is_closed_loop and talk.think_time_us >= 0,
    )


def _single_start(
    gaps: ArrivalSampler, rng: GoRand, horizon: int, activity: Activity | None
) -> Iterator[int]:
    """When the only session of a client begins: one gap after 0 or after its first window opens."""
    gap = gaps.next(rng)
    start = gap if activity is None else activity.first_start + gap
    if gap > 0 and start < horizon and (activity is None or start in activity):
        yield start


def _optional(distribution: Distribution, owner: str) -> LengthSampler | None:
    return length_sampler(distribution, owner) if distribution.type else None


def _parts(media: Multimodal, owner: str) -> Parts:
    """Samplers of the parts of a prompt; a medium needs both a count and a size."""

    def medium(name: str) -> tuple[LengthSampler, LengthSampler] | None:
        count: Distribution = getattr(media, f"{name}_count_distribution")
        size: Distribution = getattr(media, f"{name}_distribution")
        if not (count.type and size.type):
            return None
        return (
            length_sampler(count, f"{owner}.{name}_count_distribution"),
            length_sampler(size, f"{owner}.{name}_distribution"),
        )

    return Parts(
        text=_optional(media.text_distribution, f"{owner}.text_distribution"),
        media=(medium("image"), medium("audio"), medium("video")),
    )
