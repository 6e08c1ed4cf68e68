"""The interfaces of workloads: samplers of arrivals and lengths, importers of recorded traffic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import attrs

from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.rng import GoRand


class ArrivalSampler(ABC):
    """Inter-arrival times in us (>= 1; 0 = exhausted)."""

    @abstractmethod
    def sample(self, rng: GoRand, n: int) -> list[int]:
        """``n`` successive draws; the same numbers as n single ones."""

    def next(self, rng: GoRand) -> int:
        """One draw."""
        return self.sample(rng, 1)[0]


class LengthSampler(ABC):
    """Prompt or output lengths in tokens."""

    @abstractmethod
    def sample(self, rng: GoRand, n: int) -> list[int]:
        """``n`` successive draws; the same numbers as n single ones."""

    def next(self, rng: GoRand) -> int:
        """One draw."""
        return self.sample(rng, 1)[0]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ArrivalSetup(Record):
    """What an arrival sampler is built from."""

    rate_per_us: float
    cv: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LengthSetup(Record):
    """What a length sampler is built from."""

    params: dict[str, float]


# -------------------------------------------------------------------------------------- importers


class ImportedRequest(NamedTuple):
    """One request of recorded traffic, as an importer tells of it."""

    arrival_us: int
    """From the start of the recording; at least 0."""
    input_tokens: int
    """Length of the whole prompt; requests without any are left out by the caller."""
    output_tokens: int
    """At least 0."""
    blocks: tuple[int, ...] = ()
    """Numbers (at least 0) of successive blocks of ``block_tokens`` tokens that the prompt begins
    with: equal numbers stand for equal tokens. The end of the prompt may cut off the last block."""
    client: str = ""
    tenant: str = ""
    slo_class: str = ""
    model: str = ""
    session: str = ""
    round_index: int = 0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ImportSetup(Record):
    """What an importer is built from."""

    options: dict[str, str] = attrs.field(factory=dict)
    """Values of the options that it was registered with, as far as they were given."""


class Importer(ABC):
    """Reads recorded traffic in the format of some other system."""

    block_tokens: int = 0
    """Tokens of a block of :class:`ImportedRequest`; 0 = the format knows of no blocks."""

    def __init__(self, setup: ImportSetup) -> None:  # noqa: B027 - optional to override
        pass

    @abstractmethod
    def read(self, path: str) -> Iterable[ImportedRequest]:
        """The requests in the file (or folder) ``path``, in any order.

        Raises :class:`blis_core.errors.BlisError`, naming file and line, for what it cannot read.
        """
