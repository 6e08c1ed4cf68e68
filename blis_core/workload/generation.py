"""The requests of one client, drawn from its own stream, one at a time.

The order of the draws is part of the contract: the same seed must give the same workload. Requests
are made without ids; :func:`numbered` gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from blis_core.contracts import MAX_INT64, ArrivalSampler, LengthSampler, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand
from blis_core.workload.activity import Activity
from blis_core.workload.deadlines import deadline

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray


class Traits(NamedTuple):
    """What the requests of a client have in common."""

    client: str = ""
    tenant: str = ""
    slo_class: str = ""
    model: str = ""
    prefix_group: str = ""
    prefix: TokenArray | None = None
    """What every prompt begins with."""
    streaming: bool = False
    patience: int = 0
    """us that the client waits for an answer; 0 = for ever."""

    def request(self, arrival: int, ids: TokenArray | None, n_in: int, n_out: int) -> Request:
        """A request whose own part is ``ids``: ``n_in`` tokens of prompt, ``n_out`` of output."""
        n_prefix = 0
        prefix = self.prefix
        if prefix is not None:
            n_prefix = len(prefix)
            if ids is not None:
                ids = np.concatenate((prefix, ids))
        return Request(
            "",
            arrival,
            ids,
            n_prefix + n_in,
            n_out,
            max_output=n_out,
            deadline=deadline(arrival, self.patience),
            client=self.client,
            tenant=self.tenant,
            slo_class=self.slo_class,
            prefix_group=self.prefix_group,
            prefix_length=n_prefix,
            streaming=self.streaming,
            model=self.model,
        )


class Source(NamedTuple):
    """Where the numbers of a client come from."""

    rng: GoRand
    prompts: LengthSampler
    outputs: LengthSampler

    def content(self) -> tuple[TokenArray, int, int]:
        """Token ids of a prompt and its output, and their two lengths.

        BlisError for a negative length, which no valid sampler gives.
        """
        rng, prompts, outputs = self
        n_in = prompts.next(rng)
        n_out = outputs.next(rng)
        if n_in < 0 or n_out < 0:
            refuse_length(min(n_in, n_out))
        # The ids of the output are drawn right behind those of the prompt.
        return rng.tokens(n_in + n_out), n_in, n_out


def refuse_length(length: int) -> NoReturn:
    """Raise the BlisError for a negative length."""
    raise BlisError(f"a length distribution gave {length} tokens; lengths cannot be negative")


def arrival_times(
    gaps: ArrivalSampler, rng: GoRand, horizon: int, activity: Activity | None = None
) -> Iterator[int]:
    """Times before ``horizon`` at which the client is active, in ascending order.

    The process also runs, and draws, while the client is inactive. ``activity`` None = always.
    """
    next_gap = gaps.next
    time = 0
    while True:
        gap = next_gap(rng)
        if gap < 1:  # exhausted
            return
        time += gap
        if time >= horizon:
            return
        if activity is None or time in activity:
            yield time
        elif time >= activity.end:
            return


def plain_requests(
    times: Iterable[int], source: Source, traits: Traits, limit: int = 0
) -> Iterator[Request]:
    """One request at each of ``times``, at most ``limit`` of them (0 = no limit)."""
    # This is the loop that big workloads spend their time in, hence the local names and no calls
    # of Source.content, Traits.request and deadline, which it equals.
    rng, prompts, outputs = source
    next_prompt, next_output, tokens = prompts.next, outputs.next, rng.tokens
    client, tenant, slo_class, model = traits.client, traits.tenant, traits.slo_class, traits.model
    group, streaming, patience = traits.prefix_group, traits.streaming, traits.patience
    prefix = traits.prefix
    n_prefix = 0 if prefix is None else len(prefix)
    latest = MAX_INT64 - patience
    for made, time in enumerate(times, 1):
        n_in = next_prompt(rng)
        n_out = next_output(rng)
        if n_in < 0 or n_out < 0:
            refuse_length(min(n_in, n_out))
        ids = tokens(n_in + n_out, prefix)
        yield Request(
            "",
            time,
            ids,
            n_prefix + n_in,
            n_out,
            n_out,
            0 if not patience else time + patience if time < latest else MAX_INT64,
            client,
            tenant,
            slo_class,
            model,
            "",
            0,
            group,
            n_prefix,
            streaming,
        )
        if made == limit:
            return


# ------------------------------------------------------------------------------------- multimodal


class Parts(NamedTuple):
    """Samplers of the parts of a prompt; None = no such part."""

    text: LengthSampler | None
    media: tuple[tuple[LengthSampler, LengthSampler] | None, ...]
    """(count, size of one) of images, audio and video."""

    def draw(self, rng: GoRand) -> list[int]:
        """Tokens of text, images, audio and video."""
        lengths = [self.text.next(rng) if self.text is not None else 0]
        for samplers in self.media:
            total = 0
            if samplers is not None:
                counts, sizes = samplers
                count = counts.next(rng)
                if count > 0:
                    total = sum(sizes.sample(rng, count))
            lengths.append(total)
        return lengths


def multimodal_requests(
    times: Iterable[int],
    source: Source,
    traits: Traits,
    make_parts: Callable[[], Parts],
    limit: int = 0,
) -> Iterator[Request]:
    """Like :func:`plain_requests`, with prompts made up of parts; at least one token in all.

    ``make_parts`` is called when the first request is due: a client that makes none does not fail
    for its samplers.
    """
    rng, _, outputs = source
    parts: Parts | None = None
    for made, time in enumerate(times, 1):
        if parts is None:
            parts = make_parts()
        lengths = parts.draw(rng)
        n_in = max(1, sum(lengths))
        prompt = rng.tokens(n_in)
        n_out = outputs.next(rng)
        if n_out < 0:
            refuse_length(n_out)
        ids = np.concatenate((prompt, rng.tokens(n_out)))
        request = traits.request(time, ids, n_in, n_out)
        (
            request.text_tokens,
            request.image_tokens,
            request.audio_tokens,
            request.video_tokens,
        ) = lengths
        yield request
        if made == limit:
            return


# ------------------------------------------------------------------------------------------ names


def numbered(requests: Iterable[Request]) -> Iterator[Request]:
    """``requests``, with ids by position."""
    for number, request in enumerate(requests):
        request.id = f"request_{number}"
        yield request
