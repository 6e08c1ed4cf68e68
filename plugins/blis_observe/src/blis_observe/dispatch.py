"""Sends requests when they are due, at most so many at a time, and keeps what was observed."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from blis_observe import payload
from blis_observe.exchange import OK, Answer, Server
from blis_observe.pacing import Clock, Pacing

if TYPE_CHECKING:
    from blis_core.api import Request
    from blis_observe.follow_ups import Sessions
    from blis_observe.observe_options import ObserveConfig
    from blis_observe.words import PromptWriter

_SPIN_US = 1_100
"""The event loop wakes up to a millisecond late; the last bit of a wait is spent awake."""


class Observed(NamedTuple):
    """A request and its answer."""

    number: int
    """Place in the order of dispatch."""
    request: Request
    streaming: bool
    """Whether a stream was asked for."""
    answer: Answer


class Counts:
    """How far a run is; read by whoever shows it."""

    def __init__(self) -> None:
        self.sent = 0
        self.done = 0
        self.failed = 0


class Dispatcher:
    """Sends the requests of one run and the follow-ups of its sessions.

    ``requests`` come in order of arrival. ``record`` gets what was observed, in order of
    completion. ``sessions`` may be None.
    """

    def __init__(
        self,
        config: ObserveConfig,
        server: Server,
        writer: PromptWriter,
        requests: Iterator[Request],
        sessions: Sessions | None,
        record: Callable[[Observed], None],
        clock: Clock,
    ) -> None:
        self._config = config
        self._server = server
        self._writer = writer
        self._requests = requests
        self._sessions = sessions
        self._record = record
        self._clock = clock
        self._slots = asyncio.Semaphore(config.in_flight)
        self._follow_ups: deque[Request] = deque()
        self._arrived = asyncio.Event()
        self._workers: set[asyncio.Task[None]] = set()
        self._dispatching: asyncio.Task[None] | None = None
        self.counts = Counts()
        self.pacing = Pacing()
        self.interrupted = False
        self.problem: BaseException | None = None
        """What ended the dispatch early: no further requests could be made."""

    async def run(self) -> None:
        """Send everything and wait for all answers; what goes wrong here is ``problem``."""
        gc.collect()
        gc.freeze()  # what is there will stay; looking through it costs milliseconds
        try:
            self._clock.start()
            self._dispatching = asyncio.create_task(self._dispatch())
            await asyncio.wait([self._dispatching])
            while self._workers:
                await asyncio.wait(set(self._workers))
            if not self._dispatching.cancelled():
                self.problem = self.problem or self._dispatching.exception()
        finally:
            gc.unfreeze()

    def stop(self) -> None:
        """Send no more, give up what is under way; ``run`` then returns."""
        if self.interrupted:
            return
        self.interrupted = True
        if self._dispatching is not None:
            self._dispatching.cancel()
        for worker in self._workers:
            worker.cancel()

    # ------------------------------------------------------------------------------- dispatching

    async def _dispatch(self) -> None:
        upcoming = next(self._requests, None)
        while True:
            request = self._head(upcoming)
            if request is None:
                if self._sessions is None or not self._sessions.active:
                    return
                await self._arrived.wait()
                self._arrived.clear()
                continue
            streaming = request.streaming and not self._config.no_streaming
            body = payload.body(
                self._config, request, self._writer.prompt(request), streaming=streaming
            )
            if not await self._until(request):
                continue  # something that is due earlier has come
            full, before = self._slots.locked(), self._clock.now()
            await self._slots.acquire()
            if full:
                self.pacing.waits.append(self._clock.now() - before)
            worker = asyncio.create_task(
                self._work(self.counts.sent, request, body, streaming=streaming)
            )
            self.counts.sent += 1
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
            if request is upcoming:
                await asyncio.sleep(0)  # it leaves before the next one is made
                upcoming = next(self._requests, None)
            else:
                self._follow_ups.remove(request)

    def _head(self, upcoming: Request | None) -> Request | None:
        """What is to be sent next.

        Follow-ups are taken in the order in which they were made, and only the first of them is
        compared with the workload's next request (reference quirk 05-O5), unless the
        configuration asks for the exact order.
        """
        following = self._follow_ups
        if not following:
            return upcoming
        first = following[0]
        if self._config.exact_follow_ups:
            first = min(following, key=lambda request: request.arrival)
        if upcoming is None or first.arrival <= upcoming.arrival:
            return first
        return upcoming

    async def _until(self, request: Request) -> bool:
        """Wait until ``request`` is due. False: follow-ups have come that may be due earlier."""
        now, due = self._clock.now, request.arrival
        while (left := due - now()) > 0:
            if left <= _SPIN_US:
                await asyncio.sleep(0)
            elif self._config.exact_follow_ups:
                self._arrived.clear()
                try:
                    await asyncio.wait_for(self._arrived.wait(), (left - _SPIN_US) / 1e6)
                except TimeoutError:
                    continue
                return False
            else:
                await asyncio.sleep((left - _SPIN_US) / 1e6)
        return True

    # ---------------------------------------------------------------------------------- answers

    async def _work(self, number: int, request: Request, body: bytes, *, streaming: bool) -> None:
        answer = Answer()
        with suppress(asyncio.CancelledError):  # the answer says so
            await self._server.ask(
                body,
                answer,
                streaming=streaming,
                timeout=self._config.timeout,
                headers=payload.headers(request),
            )
        ended = self._clock.now()
        self.counts.done += 1
        self.counts.failed += answer.status != OK
        if answer.send:
            self.pacing.sent(answer.send - self._clock.epoch(request.arrival))
        self._record(Observed(number, request, streaming, answer))
        self._slots.release()
        if self._sessions is not None and not self.interrupted:
            try:
                self._follow_ups += self._sessions.answered(request, answer, ended)
            except Exception as problem:  # noqa: BLE001 - a sampler of a plugin may raise anything
                self.problem = problem
                assert self._dispatching is not None
                self._dispatching.cancel()
            self._arrived.set()
        request.tokens = None  # they are a run's memory, and nobody needs them any more
