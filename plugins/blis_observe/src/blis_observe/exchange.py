"""One request to an OpenAI-compatible server, and everything that can be said of its answer.

An exchange never raises: whatever a server does ends up in an :class:`Answer`. Times are Unix epoch
microseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    import aiohttp

OK, ERROR, TIMEOUT = "ok", "error", "timeout"

LONGEST_LINE = 64 * 1024
"""A line of a stream that is as long or longer ends it: reference quirk 05-O9."""
_DATA = b"data: "
_DONE = b"[DONE]"
_DRAIN_S = 0.05
"""How long the end of a body may take after its last event for the connection to be used again."""
_IDLE_S = 4.0
"""Idle connections are closed before a server closes them (uvicorn: after 5 s): a request sent at
that moment would fail."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Answer:
    """What was observed of one exchange. Times that nothing was observed at are 0."""

    __slots__ = (
        "chunk_times",
        "error",
        "finish_reason",
        "first",
        "input_tokens",
        "last",
        "output_tokens",
        "send",
        "status",
        "usage_seen",
    )

    def __init__(self) -> None:
        self.status = OK
        self.error = ""
        self.send = 0
        self.first = 0
        self.last = 0
        self.chunk_times: list[int] = []
        self.output_tokens = 0
        self.input_tokens = 0
        self.finish_reason = ""
        self.usage_seen = False

    def fail(self, status: str, error: str) -> None:
        """The exchange ended in a bad way."""
        self.status, self.error = status, error

    def chunk(self, time: int) -> None:
        """A part of the answer arrived."""
        if not self.chunk_times:
            self.first = time
        self.last = time
        self.chunk_times.append(time)

    def read(self, document: dict[str, Any]) -> None:
        """Take token counts and finish reason from an answer or an event."""
        usage = document.get("usage")
        if isinstance(usage, dict):
            self.usage_seen = True
            self.output_tokens = _count(usage.get("completion_tokens"))
            self.input_tokens = _count(usage.get("prompt_tokens"))
        choices = document.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            reason = choices[0].get("finish_reason")
            if isinstance(reason, str) and reason:
                self.finish_reason = reason


def _count(value: object) -> int:
    """A number without its fraction; 0 for anything else.

    A negative count is kept, though no trace with it can be read: reference quirk 05-O17.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            return max(-(2**63), min(2**63 - 1, int(value)))
    return 0


class Server:
    """An OpenAI-compatible server, asked over connections that are used again.

    ``clock`` tells the time in us. With ``skip_empty``, events of a stream that bring nothing are
    not counted as chunks. To be used as an asynchronous context manager.
    """

    def __init__(
        self,
        url: str,
        *,
        chat: bool,
        api_key: str,
        clock: Callable[[], int],
        skip_empty: bool = False,
    ) -> None:
        base = url.rstrip("/")
        self._url = base + ("/v1/chat/completions" if chat else "/v1/completions")
        self._clock = clock
        self._skip_empty = skip_empty
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._proxy = proxy_for(base)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Server:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
            # the limit on the whole exchange is all there is; see ``ask``
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(
        self,
        body: bytes,
        answer: Answer,
        *,
        streaming: bool,
        timeout: float,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send ``body`` and read the answer into ``answer``, all within ``timeout`` seconds.

        If the task is cancelled, ``answer`` holds what had come by then, with status ``error``.
        """
        exchange = _Exchange(answer, self._clock, skip_empty=self._skip_empty)
        try:
            async with asyncio.timeout(timeout):
                await self._ask(exchange, body, streaming=streaming, headers=headers or {})
        except TimeoutError:
            exchange.timed_out(timeout)
        except asyncio.CancelledError:
            answer.fail(ERROR, "interrupted by a signal")
            raise

    async def _ask(
        self, exchange: _Exchange, body: bytes, *, streaming: bool, headers: dict[str, str]
    ) -> None:
        from yarl import URL

        assert self._session is not None
        answer = exchange.answer
        try:
            url = URL(self._url)
        except ValueError as problem:
            answer.fail(ERROR, f"cannot make a request: {problem}")
            return
        answer.send = self._clock()
        for name, value in headers.items():
            if _CONTROL.search(value):
                answer.fail(ERROR, f"invalid header value for {name}: {value!r}")
                return
        try:
            async with self._session.post(
                url,
                data=io.BytesIO(body),
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                await exchange.read(response, streaming=streaming)
        except TimeoutError:
            raise
        except Exception as problem:  # noqa: BLE001 - no answer may cost a row, whatever it is
            exchange.broken(problem)


class _Exchange:
    """Reads one response into an answer."""

    def __init__(self, answer: Answer, clock: Callable[[], int], *, skip_empty: bool) -> None:
        self.answer = answer
        self._clock = clock
        self._skip_empty = skip_empty
        self._phase = "the response header"
        self._refused: tuple[int, bytearray] | None = None

    def timed_out(self, timeout: float) -> None:
        """The time limit was reached."""
        if self._refused is not None:
            self._refuse()  # reference quirk 05-O8: the status code says more
        else:
            self.answer.fail(TIMEOUT, f"timeout after {timeout:g} s, waiting for {self._phase}")

    def broken(self, problem: Exception) -> None:
        """The connection failed, or what came over it was no HTTP."""
        if self._refused is not None:
            self._refuse()
            return
        text = str(problem) or "connection closed"
        self.answer.fail(
            ERROR, f"connection failed at {self._phase}: {type(problem).__name__}: {text}"
        )

    def _refuse(self) -> None:
        assert self._refused is not None
        code, content = self._refused
        self.answer.fail(ERROR, f"HTTP {code}: {content.decode('utf-8', 'replace')}")

    async def read(self, response: aiohttp.ClientResponse, *, streaming: bool) -> None:
        """Read the body; the header is there."""
        if response.status != 200:
            content = bytearray()
            self._refused = response.status, content
            async for part in response.content.iter_any():
                content += part
            self._refuse()
        elif streaming:
            self._phase = "the stream"
            await self._read_stream(response)
        else:
            self._phase = "the response body"
            await self._read_whole(response)

    async def _read_whole(self, response: aiohttp.ClientResponse) -> None:
        answer, content, first = self.answer, bytearray(), 0
        async for part in response.content.iter_any():
            first = first or self._clock()
            content += part
        end = self._clock()
        answer.chunk(end)
        answer.first = first or end
        try:
            document = json.loads(bytes(content))
        except (ValueError, RecursionError) as problem:
            answer.fail(ERROR, f"the answer is not JSON: {problem}")
            return
        if isinstance(document, dict):
            answer.read(document)
        elif document is not None:
            answer.fail(ERROR, "the answer is JSON, but not an object")

    async def _read_stream(self, response: aiohttp.ClientResponse) -> None:
        rest = b""
        content = response.content
        async for part in content.iter_any():
            time = self._clock()
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if self._line(line, time):
                    await _drain(content)
                    return
                if self.answer.status != OK:
                    return
            if len(rest) >= LONGEST_LINE:
                self._too_long()
                return
        if rest:
            self._line(rest, self._clock())

    def _line(self, line: bytes, time: int) -> bool:
        """Take a line of a stream. True: it is the last one."""
        if len(line) >= LONGEST_LINE:
            self._too_long()
            return False
        if not line.startswith(_DATA):
            # comments, other fields, and ``data:`` without a blank: reference quirk 05-O10
            return False
        data = line[len(_DATA) :].removesuffix(b"\r")
        if data == _DONE:
            return True
        answer = self.answer
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            event = {}
        # chunks without a token count, too, unless asked otherwise: reference quirk 05-O1
        if event.get("choices") or not self._skip_empty:
            answer.chunk(time)
        answer.read(event)
        return False

    def _too_long(self) -> None:
        self.answer.fail(ERROR, f"a line of the stream is too long (over {LONGEST_LINE} bytes)")


async def _drain(content: aiohttp.StreamReader) -> None:
    """Read to the end of the body, if it comes at once, so that the connection can be kept."""
    import aiohttp

    if content.at_eof():
        return
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in content.iter_any():
                pass


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for ``url``."""
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest)[0].rpartition("@")[2]
    if not host or proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all")
