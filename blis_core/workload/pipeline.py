"""From a workload specification to requests in order of arrival.

The specification is completed and checked, its cohorts become clients, every client gets a rate and
a random stream of its own; then the clients' requests are merged. Since the streams are independent
of one another, requests are drawn only when it is their turn: nothing but one request per client is
held, unless clients work in a closed loop, which takes all first requests to be known.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand, stream_seed
from blis_core.workload.clients import open_requests
from blis_core.workload.closed_loop import close_loops
from blis_core.workload.cohorts import expand_cohorts
from blis_core.workload.generated import UNLIMITED, GeneratedWorkload
from blis_core.workload.generation import numbered
from blis_core.workload.inference_perf import with_inference_perf
from blis_core.workload.prefixes import draw_prefixes
from blis_core.workload.rates import client_rates
from blis_core.workload.spec import Client, InferencePerf, WorkloadSpec, upgrade
from blis_core.workload.validation import check_sources, validate

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

    Prefixes = dict[str, TokenArray]

__all__ = ["GeneratedWorkload", "prepare"]


def prepare(
    spec: WorkloadSpec, *, horizon: int, max_requests: int, timeout_us: int | None = None
) -> GeneratedWorkload:
    """The workload that ``spec`` describes, ready to be simulated.

    ``horizon`` (us) bounds arrivals, ``max_requests`` their number (0 = unlimited); those of the
    specification itself are not used. ``timeout_us`` replaces every timeout of the specification
    (0 = endless). BlisError for a workload without an end, for values that are not allowed, for
    samplers that cannot be made and data that cannot be read.
    """
    if horizon <= 0:
        return GeneratedWorkload()
    if max_requests < 0:
        raise BlisError(f"the number of requests must be at least 0, not {max_requests}")
    section = spec.inference_perf
    if section is not None and section.open_loop is not None:
        return _open_loop(spec, section, horizon, max_requests, timeout_us)
    if max_requests == 0 and horizon == MAX_INT64:
        raise BlisError(
            "the workload has no end: set num_requests or horizon in its file, or give"
            " --num-requests or --horizon"
        )
    spec, warnings = _complete(spec, timeout_us)
    clients = spec.clients + expand_cohorts(spec.cohorts)
    rng = GoRand(stream_seed(spec.seed, "workload-gen"))
    rates = client_rates(clients, spec.aggregate_rate)
    prefixes = draw_prefixes(clients, rng)
    requests = _merged(_streams(clients, rates, prefixes, rng, horizon, max_requests))
    if max_requests:
        requests = islice(requests, max_requests)
    looping = [client for client in clients if client.is_closed_loop and client.multi_turn]
    users = [client for client in clients if client.concurrency > 0]
    if looping or users:
        loops = close_loops(
            list(requests), looping, users, prefixes, spec.seed, horizon, max_requests
        )
        return GeneratedWorkload(
            requests=list(numbered(loops.requests)),
            sessions=loops.sessions,
            follow_up_budget=loops.follow_up_budget,
            warnings=warnings + loops.warnings,
            streamed=False,
        )
    closed = any(client.is_closed_loop for client in clients)
    return GeneratedWorkload(
        requests=numbered(requests),
        follow_up_budget=UNLIMITED if closed else 0,
        warnings=warnings,
    )


def _open_loop(
    spec: WorkloadSpec,
    section: InferencePerf,
    horizon: int,
    max_requests: int,
    timeout_us: int | None,
) -> GeneratedWorkload:
    """The open loop of inference-perf, which sends by itself and comes to an end by itself."""
    from blis_core.workload.open_stages import OpenStages

    check_sources(spec)
    stages = OpenStages(
        section,
        spec.seed,
        horizon=horizon,
        max_requests=max_requests,
        timeout=timeout_us or 0,
    )
    return GeneratedWorkload(requests=stages.first(), follow_ups=stages, streamed=False)


def _complete(spec: WorkloadSpec, timeout_us: int | None) -> tuple[WorkloadSpec, list[str]]:
    """``spec`` with all clients but those of cohorts, in version 2 and valid; and warnings."""
    check_sources(spec)
    spec = with_inference_perf(spec)
    if spec.servegen_data is not None:
        from blis_core.workload.servegen import with_servegen  # brings csv

        spec = with_servegen(spec)
    spec, warnings = upgrade(spec)
    if timeout_us is not None:
        spec = attrs.evolve(
            spec,
            clients=tuple(attrs.evolve(client, timeout=timeout_us) for client in spec.clients),
            cohorts=tuple(attrs.evolve(cohort, timeout=timeout_us) for cohort in spec.cohorts),
        )
    validate(spec)
    return spec, warnings


def _streams(
    clients: Sequence[Client],
    rates: Sequence[float],
    prefixes: Prefixes,
    rng: GoRand,
    horizon: int,
    max_requests: int,
) -> list[Iterator[Request]]:
    """The requests of each rate-based client. ``rng`` gives the seeds of their streams."""
    count_rounds = _may_be_cut(clients, rates, max_requests)
    return [
        open_requests(
            client,
            rate,
            rng.int63(),
            prefixes.get(client.prefix_group),
            horizon=horizon,
            limit=2 * max_requests,
            count_rounds=count_rounds,
        )
        for client, rate in zip(clients, rates, strict=True)
        if rate > 0
    ]


def _may_be_cut(clients: Sequence[Client], rates: Sequence[float], max_requests: int) -> bool:
    """Whether more than ``max_requests`` (0 = unlimited) requests might be drawn.

    Known to be false only for single sessions, which have so many rounds and no more.
    """
    if max_requests == 0:
        return False
    total = 0
    for client, rate in zip(clients, rates, strict=True):
        if rate > 0:
            talk = client.multi_turn
            if talk is None or not talk.single_session:
                return True
            total += talk.max_rounds
    return total > max_requests


def _merged(streams: list[Iterator[Request]]) -> Iterator[Request]:
    """All requests by arrival; equal ones by client, and of one client as drawn.

    The first request of every client is drawn at once, so that what is wrong with a client shows
    before the simulation begins.
    """
    started: list[Iterable[Request]] = []
    for stream in streams:
        first = next(stream, None)
        if first is not None:
            started.append(chain((first,), stream))
    if len(started) == 1:
        return iter(started[0])
    return heapq.merge(*started, key=attrgetter("arrival"))
