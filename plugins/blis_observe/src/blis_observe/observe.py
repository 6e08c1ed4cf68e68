"""``blis observe``: generate a workload, send it to a real server, write what came back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from blis_core.api import (
    info,
    load_defaults,
    parse_think_time,
    traffic_of_file,
    traffic_of_flags,
    warning,
)
from blis_observe import payload
from blis_observe.dispatch import Dispatcher, Observed
from blis_observe.exchange import OK, Answer, Server
from blis_observe.files_limit import raise_limit
from blis_observe.follow_ups import Sessions
from blis_observe.pacing import Clock, LoopWatch
from blis_observe.recording import write_chunk_times, write_trace
from blis_observe.reporting import Oddities, check_outputs, summary
from blis_observe.words import PromptWriter, usable_ratio

if TYPE_CHECKING:
    from blis_core.api import Request, Traffic
    from blis_observe.observe_options import ObserveConfig

_CALIBRATION_S = 30.0
_DEFAULT_SEED = 42


def observe(config: ObserveConfig) -> None:
    """Do all of it. BlisError for what is wrong on this side; never for what a server does."""
    config.check()
    check_outputs(config)
    raise_limit()
    traffic = make_traffic(config)
    for text in traffic.workload.warnings:
        warning(text)
    observed, dispatcher, watch = asyncio.run(_observe(config, traffic))
    recorded = [item for item in observed if item.number >= config.warmup_requests]
    write_trace(config, traffic.seed, recorded)
    if config.record_itl:
        if not write_chunk_times(config.itl_path, recorded):
            warning(f"{config.itl_path}: no stream ended well, so there are no times of chunks")
    elif config.itl_output:
        warning("--itl-output has no effect without --record-itl")
    oddities = Oddities(config)
    for item in observed:
        oddities.note(item)
    oddities.warn()
    summary(config, dispatcher, watch, [item.answer for item in observed])
    if dispatcher.problem is not None:  # what was measured by then has been written
        raise dispatcher.problem


def make_traffic(config: ObserveConfig) -> Traffic:
    """The workload that the options describe, with what they change about it."""
    if config.workload_spec:
        traffic = traffic_of_file(
            config.workload_spec,
            seed=config.seed,
            horizon=config.horizon,
            num_requests=config.num_requests,
        )
    else:
        lengths: Any = attrs.evolve(
            config, output_tokens=512 if config.output_tokens is None else config.output_tokens
        )
        if config.workload:
            lengths = load_defaults(config.defaults_filepath).preset(config.workload)
        traffic = traffic_of_flags(
            lengths,
            seed=_DEFAULT_SEED if config.seed is None else config.seed,
            rate=config.rate or 0.0,
            concurrency=config.concurrency if config.by_users else 0,
            think_time_us=(config.think_time_ms or 0) * 1000,
            horizon=config.horizon,
            num_requests=config.num_requests,
        )
    if config.think_time_dist is not None:
        times = parse_think_time(config.think_time_dist)
        workload = traffic.workload
        sessions = [attrs.evolve(plan, think_times=times) for plan in workload.sessions]
        traffic = attrs.evolve(traffic, workload=attrs.evolve(workload, sessions=sessions))
    return traffic


def _adjusted(config: ObserveConfig, requests: Iterator[Request]) -> Iterator[Request]:
    """The requests to begin with; later rounds of sessions stay as they are made (reference quirk
    05-O3)."""
    raise_to = 0 if config.unconstrained_output else config.min_tokens
    for request in requests:
        if payload.most_output(request) < raise_to:
            request.max_output = raise_to
        if config.record_itl:
            request.streaming = True
        yield request


async def _observe(
    config: ObserveConfig, traffic: Traffic
) -> tuple[list[Observed], Dispatcher, LoopWatch]:
    clock = Clock()
    workload = traffic.workload
    async with Server(
        config.server_url,
        chat=config.api_format == "chat",
        api_key=config.api_key,
        clock=clock.wall,
        skip_empty=config.skip_empty_chunks,
    ) as server:
        requests = iter(workload.requests)
        sessions = None
        if workload.sessions:
            known = list(requests)
            sessions, requests = Sessions(traffic, known), iter(known)
        first = next(requests, None)
        if first is None:
            warning("the workload has no requests")
        else:
            requests = chain((first,), requests)
        ratio = await _tokens_per_word(config, server)
        writer = PromptWriter(traffic.seed, traffic.prefix_lengths, ratio)
        observed: list[Observed] = []
        dispatcher = Dispatcher(
            config, server, writer, _adjusted(config, requests), sessions, observed.append, clock
        )
        _stop_on_signals(dispatcher)
        watch = LoopWatch()
        show = _progress(dispatcher, traffic)
        try:
            await dispatcher.run()
        finally:
            watch.stop()
            if show is not None:
                show.cancel()
                await asyncio.gather(show, return_exceptions=True)
    return observed, dispatcher, watch


async def _tokens_per_word(config: ObserveConfig, server: Server) -> float:
    """Ask the server how it counts the vocabulary; 1 if it does not say anything likely."""
    answer = Answer()
    await server.ask(
        payload.calibration_body(config), answer, streaming=False, timeout=_CALIBRATION_S
    )
    ratio = usable_ratio(answer.input_tokens) if answer.status == OK else None
    if ratio is None:
        why = answer.error or f"it counts {answer.input_tokens} tokens in 100 words"
        warning(f"tokens per word could not be measured, 1 is assumed: {why}")
        return 1.0
    info(f"{ratio:g} tokens per word")
    return ratio


def _stop_on_signals(dispatcher: Dispatcher) -> None:
    """The first SIGINT or SIGTERM ends the run early, further ones are ignored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, dispatcher.stop)
        except (ValueError, RuntimeError, NotImplementedError):
            return  # not in the main thread, or not on this system


def _progress(dispatcher: Dispatcher, traffic: Traffic) -> asyncio.Task[None] | None:
    """A task that shows how far a run is, on a terminal."""
    import sys

    if not sys.stderr.isatty():
        return None
    from blis_observe.progress import show

    return asyncio.create_task(show(dispatcher, traffic.expected))
