"""Requests and fleets to ask policies about."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from blis_core.contracts import Request
from blis_core.testing.fleet import FixedFleet

if TYPE_CHECKING:
    from blis_core.contracts import TokenArray

SLO_CLASSES = ("", "critical", "standard", "sheddable", "batch", "background")
HIDDEN = ("output_len", "tokens")
"""Attributes of a request that policies must not read."""
_SETTLED = frozenset({"keys", "output_keys", "engine", "output_len", "tokens"})
"""What may be filled in meanwhile, and what a watched request keeps elsewhere."""
_numbers = count()


class WatchedRequest(Request):
    """A request that notes whether what policies must not read has been read."""

    __slots__ = ("_hidden", "read")

    @property
    def output_len(self) -> int:
        """Output tokens, which no server knows beforehand."""
        self.read.add("output_len")
        length: int = self._hidden["output_len"]
        return length

    @output_len.setter
    def output_len(self, value: int) -> None:
        self._hide("output_len", value)

    @property
    def tokens(self) -> TokenArray | None:
        """Token ids."""
        self.read.add("tokens")
        ids: TokenArray | None = self._hidden["tokens"]
        return ids

    @tokens.setter
    def tokens(self, value: TokenArray | None) -> None:
        self._hide("tokens", value)

    def _hide(self, name: str, value: Any) -> None:
        if not hasattr(self, "_hidden"):
            self._hidden: dict[str, Any] = {}
            self.read: set[str] = set()
        self._hidden[name] = value

    def facts(self) -> dict[str, Any]:
        """All that a policy could see, to compare before and after."""
        return {name: getattr(self, name) for name in Request.__slots__ if name not in _SETTLED}


def make_request(
    prompt_len: int = 100,
    output_len: int = 10,
    *,
    id: str | None = None,
    arrival: int = 0,
    tokens: Sequence[int] | None = None,
    prefix_of: Request | None = None,
    prefix_len: int = 0,
    cls: type[Request] = Request,
    **more: Any,
) -> Request:
    """A request with tokens that no other one has, but for a prefix.

    The first ``prefix_len`` prompt tokens are those of ``prefix_of``. ``tokens`` gives all tokens
    of the prompt instead. ``more`` are further arguments of ``Request`` (``slo_class="batch"``).
    """
    number = next(_numbers)
    name = f"request_{number}" if id is None else id
    if tokens is not None:
        prompt_len = len(tokens)
    # successive ids from a start of its own: far from the tokens of every other request
    start = (number * 1_000_003) % 2_000_000_000
    ids = (np.arange(prompt_len + output_len, dtype=np.int64) + start).astype(np.int32)
    if tokens is not None:
        ids[:prompt_len] = tokens
    if prefix_of is not None and prefix_len:
        source = prefix_of.tokens
        if source is None or min(len(source), prompt_len) < prefix_len:
            raise ValueError(f"a prefix of {prefix_len} tokens is longer than one of the prompts")
        ids[:prefix_len] = source[:prefix_len]
    return cls(name, arrival, ids, prompt_len, output_len, **more)


def make_requests(
    number: int = 20, *, seed: int = 1, cls: type[Request] = Request
) -> list[Request]:
    """Varied requests in order of arrival; equal arguments give equal requests.

    Prompts from one token to some thousand, every SLO class, some arrivals at the same time, three
    tenants, shared prefixes and repeated prompts.
    """
    draw = random.Random(seed)
    made: list[Request] = []
    arrival = 0
    for i in range(number):
        arrival += draw.choice([0, 1, 500, 20_000, 1_000_000])
        prompt = [draw.randrange(128_000) for _ in range(draw.choice([1, 15, 16, 40, 250, 4000]))]
        if made and draw.random() < 0.5:
            earlier = draw.choice(made)
            source = earlier.tokens
            assert source is not None
            prompt = [*source[: draw.randrange(earlier.prompt_len + 1)].tolist(), *prompt]
        output = [draw.randrange(128_000) for _ in range(draw.choice([1, 10, 200]))]
        request = cls(
            f"request_{i}",
            arrival,
            np.array([*prompt, *output], dtype=np.int32),
            len(prompt),
            len(output),
            slo_class=SLO_CLASSES[i % len(SLO_CLASSES)],
            tenant=f"tenant-{i % 3}",
            session=f"session-{i % 4}" if i % 2 else "",
            client=f"client-{i % 2}",
        )
        made.append(request)
    return made


def sample_fleets(seed: int = 1) -> list[FixedFleet]:
    """Fleets of 1 to 64 instances: idle, evenly loaded, overloaded, full, warm, and mixed."""
    draw = random.Random(seed)
    fleets = [
        FixedFleet(1),
        FixedFleet(4),
        FixedFleet(3, queue_depth=7, running=7, kv_utilization=0.5),
        FixedFleet(queue_depth=[0, 0, 10_000], running=[0, 256, 256], kv_utilization=[0, 0.9, 1]),
        FixedFleet(4, kv_utilization=1.0, cached_blocks=5),
        FixedFleet(1, queue_depth=3, running=1, kv_utilization=0.01),
    ]
    mixed = [
        FixedFleet(
            queue_depth=[draw.choice([0, 0, 1, 5, 300]) for _ in range(size)],
            running=[draw.randrange(257) for _ in range(size)],
            kv_utilization=[draw.random() for _ in range(size)],
            cached_blocks=[draw.choice([0, 0, 1, 40]) for _ in range(size)],
        )
        for size in (2, 3, 8, 8, 64, 5)
    ]
    return fleets + mixed


def asked(
    requests: Iterable[Request], fleets: Sequence[FixedFleet]
) -> list[tuple[Request, FixedFleet]]:
    """Each request with a fleet, the fleets in turn; prompt keys are known beforehand."""
    pairs = [(request, fleets[i % len(fleets)]) for i, request in enumerate(requests)]
    for request, fleet in pairs:
        fleet.prompt_keys(request)
        if isinstance(request, WatchedRequest):
            request.read.clear()
    return pairs
