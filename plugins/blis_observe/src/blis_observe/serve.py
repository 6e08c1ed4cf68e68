"""``blis serve``: one simulated instance behind HTTP, in real or scaled time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
import numpy as np
from aiohttp import web

from blis_core.api import BlisError, LiveInstance, LiveRequest, Request
from blis_observe.files_limit import raise_limit
from blis_observe.metrics import Metrics
from blis_observe.pretence import Lengths, Text, Tokenizer
from blis_observe.protocol import DEFAULT_TOKENS, DONE, Ask, Refusal, Reply, read_ask, usage
from blis_observe.serve_options import ServeConfig

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

_BACKLOG = 4096
_LARGEST_BODY = 64 * 2**20
_SPIN_S = 0.0011
"""The event loop wakes up to a millisecond late; the last bit of a wait is spent awake."""
_STOP_S = 1.0


class Ticker:
    """Drives a live instance by the wall clock.

    ``failed`` is called if the instance cannot go on; nothing happens after that.
    """

    def __init__(
        self, live: LiveInstance, time_scale: float, failed: Callable[[Exception], None]
    ) -> None:
        self.live = live
        self._failed = failed
        self._scale = time_scale / 1e6  # seconds per simulated us
        self._start = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None

    def now(self) -> int:
        """Simulated us since the start."""
        return int((time.monotonic() - self._start) / self._scale)

    def tick(self) -> None:
        """Do what is due, and come again when more is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self.live.advance(self.now())
        except Exception as problem:  # noqa: BLE001 - a plugin's part may raise anything
            self._failed(problem)
            return
        due = self.live.next_change
        if due is None:
            return
        left = self._start + due * self._scale - time.monotonic()
        if left <= _SPIN_S:
            self._timer = self._loop.call_soon(self.tick)
        else:
            self._timer = self._loop.call_later(left - _SPIN_S, self.tick)


class Service:
    """The handlers of all addresses."""

    def __init__(self, config: ServeConfig, live: LiveInstance) -> None:
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the service is to end, with an exception if it has to."""
        self._config = config
        self._live = live
        self._ticker = Ticker(live, config.time_scale, self._fail)
        self._tokenizer = Tokenizer(config.tokens_per_word)
        self._lengths = Lengths(config.answer_tokens, config.answer_tokens_stdev, config.seed or 0)
        self._number = 0
        self._began = int(time.time())
        self.metrics = Metrics(live, live.model, config.time_scale)

    def stop(self) -> None:
        """End in good order."""
        if not self.stopped.done():
            self.stopped.set_result(None)

    def _fail(self, problem: Exception) -> None:
        if not self.stopped.done():
            self.stopped.set_exception(problem)

    def application(self) -> web.Application:
        """The addresses."""
        application = web.Application(client_max_size=_LARGEST_BODY, middlewares=[self._guard])
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/ping", self._health),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
            ]
        )
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn refusals into answers, and ask for the key."""
        try:
            key = self._config.api_key
            if key and request.path.startswith("/v1/"):
                given = request.headers.get("Authorization", "")
                if given != f"Bearer {key}":
                    raise Refusal(401, "wrong or missing API key", "AuthenticationError")
            response: web.StreamResponse = await handler(request)
        except Refusal as refusal:
            return web.json_response(refusal.document(), status=refusal.code)
        return response

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, _: web.Request) -> web.Response:
        self._ticker.tick()
        return web.Response(
            body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._live.model,
            "object": "model",
            "created": self._began,
            "owned_by": "blis",
            "max_model_len": self._live.max_model_len,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, chat=True)

    async def _answer(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        try:
            document = json.loads(await http.read())
        except (ValueError, RecursionError) as problem:
            raise Refusal(400, f"the body is not JSON: {problem}") from None
        ask = read_ask(document, chat=chat, model=self._live.model, tokenizer=self._tokenizer)
        self._number += 1
        text, changed = Text(ask.prompt), asyncio.Event()
        request, reason = self._request(ask, text)
        try:
            live = self._live.submit(
                request, self._ticker.now(), streaming=ask.stream, on_progress=changed.set
            )
        except BlisError as problem:
            raise Refusal(400, str(problem)) from None
        reply = Reply(ask, self._number, self._live.model)
        self._ticker.tick()
        try:
            if ask.stream:
                response = await self._stream(http, ask, live, changed, reply, text, reason)
            else:
                while not live.finished:
                    await changed.wait()
                    changed.clear()
                counts = usage(request.prompt_len, request.output_len)
                words = "".join(text.words(0, request.output_len))
                response = web.json_response(reply.whole(words, reason, counts))
            self.metrics.finished(request, reason)
        finally:
            if not live.finished:
                self._live.withdraw(live, self._ticker.now())
                self._ticker.tick()
                self.metrics.aborted()
        return response

    def _request(self, ask: Ask, text: Text) -> tuple[Request, str]:
        """The simulated request, and why its answer will end."""
        room = self._live.max_model_len - len(ask.prompt)
        if room < 1:
            raise Refusal(
                400,
                f"This model's maximum context length is {self._live.max_model_len} tokens."
                f" However, your prompt has {len(ask.prompt)} tokens.",
            )
        natural = None if ask.ignore_eos else self._lengths.draw()
        longest = ask.max_tokens
        if longest is None:
            longest = room if natural is not None else DEFAULT_TOKENS[ask.chat]
        longest = min(longest, room)
        count, reason = longest, "length"
        if natural is not None and max(natural, ask.min_tokens) <= longest:
            count, reason = max(natural, ask.min_tokens), "stop"
        tokens = np.concatenate((ask.prompt, text.ids(count)))
        name = f"live-{self._number}"
        return Request(name, 0, tokens, len(ask.prompt), count, max_output=count), reason

    async def _stream(
        self,
        http: web.Request,
        ask: Ask,
        live: LiveRequest,
        changed: asyncio.Event,
        reply: Reply,
        text: Text,
        reason: str,
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )
        response.enable_chunked_encoding()
        await response.prepare(http)
        request = live.request
        sent, total = 0, request.output_len
        opening = reply.role()
        while not live.finished or sent < total:
            await changed.wait()
            changed.clear()
            tokens = live.tokens
            if tokens <= sent:
                continue
            words = text.words(sent, tokens)
            if tokens == total:
                events = reply.tokens(words[:-1]) + reply.last_token(words[-1], reason)
            else:
                events = reply.tokens(words)
            sent = tokens
            if opening:
                events, opening = opening + events, b""
            if live.finished:
                break
            await response.write(events)
            events = b""
        while not live.finished:
            await changed.wait()
            changed.clear()
        if ask.include_usage:
            events += reply.usage(usage(request.prompt_len, total))
        await response.write(events + DONE)
        await response.write_eof()
        return response


def serve(config: ServeConfig) -> None:
    """Serve until SIGINT or SIGTERM. BlisError for an impossible instance or a taken port."""
    live = LiveInstance(config)
    raise_limit()
    asyncio.run(_serve(config, live))


async def _serve(config: ServeConfig, live: LiveInstance) -> None:
    service = Service(config, live)
    runner = web.AppRunner(
        service.application(),
        access_log=None,
        handler_cancellation=True,  # a client that goes away frees its place
        shutdown_timeout=_STOP_S,
    )
    await runner.setup()
    site = web.TCPSite(runner, config.host, config.port, backlog=_BACKLOG)
    try:
        await site.start()
    except OSError as problem:
        await runner.cleanup()
        raise BlisError(
            f"cannot listen at {config.host}:{config.port}: {problem.strerror}"
        ) from None
    host, port = runner.addresses[0][:2]
    host = f"[{host}]" if ":" in host else host
    click.echo(f"serving {live.model} at http://{host}:{port} until interrupted", err=True)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, service.stop)
    gc.collect()
    gc.freeze()  # what is there will stay; looking through it costs milliseconds
    try:
        await service.stopped
    finally:
        await runner.cleanup()
