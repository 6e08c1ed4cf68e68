"""Questions to an OpenAI-compatible server. Times are milliseconds of wall clock."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from blis_core.api import BlisError

if TYPE_CHECKING:
    import httpx


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
    import httpx

    base = url.rstrip("/").removesuffix("/v1")
    if not base.startswith(("http://", "https://")):
        raise BlisError(f"--server-url {url}: must start with http:// or https://")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=timeout) as client:
            models = _models(client.get("/v1/models"), base)  # also opens the connection
            round_trips = tuple(_timed(client, "/v1/models") for _ in range(rounds))
            health = _health(client.get("/health"))
    except httpx.TimeoutException as error:
        raise BlisError(f"{base}: no answer within {timeout:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BlisError(f"{base}: cannot be reached: {error}") from error
    return ServerReport(base, models, health, round_trips)


def _timed(client: httpx.Client, path: str) -> float:
    start = time.perf_counter()
    client.get(path)
    return (time.perf_counter() - start) * 1e3


def _models(response: httpx.Response, base: str) -> tuple[str, ...]:
    """Names in a model list, in the server's order."""
    where = f"{base}/v1/models"
    if response.status_code in (401, 403):
        raise BlisError(f"{where}: the server refuses (HTTP {response.status_code}); see --api-key")
    if response.status_code != 200:
        raise BlisError(
            f"{where}: HTTP {response.status_code}; is this an OpenAI-compatible server?"
        )
    try:
        names = tuple(str(model["id"]) for model in response.json()["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise BlisError(f"{where}: the answer is not a list of models") from error
    if not names:
        raise BlisError(f"{where}: the server serves no model")
    return names


def _health(response: httpx.Response) -> str:
    if response.status_code == 200:
        return "ok"
    return "no health endpoint" if response.status_code == 404 else f"HTTP {response.status_code}"
