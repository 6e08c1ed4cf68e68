"""Questions to an OpenAI-compatible server. Times are milliseconds of wall clock."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any, NamedTuple

from blis_core.api import BlisError
from blis_observe.exchange import proxy_for


class ServerReport(NamedTuple):
    """What a server said of itself."""

    url: str
    models: tuple[str, ...]
    health: str
    """``ok``, ``no health endpoint``, or what the server answered instead."""
    round_trips_ms: tuple[float, ...]
    """Times of requests for the model list over one kept-open connection."""

    @property
    def median_ms(self) -> float:
        """Median round trip."""
        return statistics.median(self.round_trips_ms)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "server_url": self.url,
            "reachable": True,
            "health": self.health,
            "models": list(self.models),
            "round_trip_ms": {
                "min": round(min(self.round_trips_ms), 3),
                "median": round(self.median_ms, 3),
                "samples": len(self.round_trips_ms),
            },
        }


def probe_server(
    url: str, *, api_key: str = "", timeout: float = 5.0, rounds: int = 5
) -> ServerReport:
    """Ask ``/v1/models`` (timed, ``rounds`` times) and ``/health``.

    ``url`` may end in ``/v1``. BlisError if the server cannot be reached in ``timeout`` seconds,
    refuses, answers something that is no model list, or serves no model.
    """
    base = url.rstrip("/").removesuffix("/v1")
    if not base.startswith(("http://", "https://")):
        raise BlisError(f"--server-url {url}: must start with http:// or https://")
    return asyncio.run(_probe(base, api_key, timeout, rounds))


class _Reply(NamedTuple):
    status: int
    body: bytes


async def _probe(base: str, api_key: str, timeout: float, rounds: int) -> ServerReport:
    import aiohttp

    proxy = proxy_for(base)

    async def get(path: str) -> _Reply:
        async with session.get(base + path, allow_redirects=False, proxy=proxy) as response:
            return _Reply(response.status, await response.read())

    try:
        async with aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=aiohttp.ClientTimeout(total=timeout),
        ) as session:
            models = _models(await get("/v1/models"), base)  # also opens the connection
            round_trips = []
            for _ in range(rounds):
                start = time.perf_counter()
                await get("/v1/models")
                round_trips.append((time.perf_counter() - start) * 1e3)
            health = _health(await get("/health"))
    except TimeoutError as error:
        raise BlisError(f"{base}: no answer within {timeout:g} s") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise BlisError(f"{base}: cannot be reached: {error}") from error
    return ServerReport(base, models, health, tuple(round_trips))


def _models(reply: _Reply, base: str) -> tuple[str, ...]:
    """Names in a model list, in the server's order."""
    where = f"{base}/v1/models"
    if reply.status in (401, 403):
        raise BlisError(f"{where}: the server refuses (HTTP {reply.status}); see --api-key")
    if reply.status != 200:
        raise BlisError(f"{where}: HTTP {reply.status}; is this an OpenAI-compatible server?")
    try:
        names = tuple(str(model["id"]) for model in json.loads(reply.body)["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise BlisError(f"{where}: the answer is not a list of models") from error
    if not names:
        raise BlisError(f"{where}: the server serves no model")
    return names


def _health(reply: _Reply) -> str:
    if reply.status == 200:
        return "ok"
    return "no health endpoint" if reply.status == 404 else f"HTTP {reply.status}"
