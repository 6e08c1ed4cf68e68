"""Laws of samplers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Protocol

from blis_core.contracts import ArrivalSampler, ArrivalSetup, LengthSampler
from blis_core.rng import GoRand
from blis_core.testing.checks import require

DRAWS = 300
SEEDS = (1, 42, 12345)


class _Sampler(Protocol):
    def sample(self, rng: GoRand, n: int) -> list[int]: ...

    def next(self, rng: GoRand) -> int: ...


def _check_values(values: object, number: int, what: str) -> None:
    __tracebackhide__ = True
    require(
        isinstance(values, list) and len(values) == number,
        f"{what}: sample(rng, {number}) returned {type(values).__name__} of"
        f" {len(values) if isinstance(values, Sequence) else 'no'} elements; return a list with"
        " one number per draw",
    )
    assert isinstance(values, list)
    for value in values:
        require(
            type(value) is int,
            f"{what}: drew {value!r} of type {type(value).__name__}; return Python ints"
            " (array.tolist() makes them)",
        )


def _check_bulk(make: Callable[[], _Sampler], what: str) -> None:
    """In bulk, one by one, or in parts: the same numbers, and the stream at the same position."""
    __tracebackhide__ = True
    for seed in SEEDS:
        one, other, parts = GoRand(seed), GoRand(seed), GoRand(seed)
        bulk = make().sample(one, DRAWS)
        _check_values(bulk, DRAWS, what)
        sampler = make()
        single = [sampler.next(other) for _ in range(DRAWS)]
        at = next((i for i in range(DRAWS) if bulk[i] != single[i]), None)
        require(
            at is None,
            f"{what}: draw {at} is {bulk[at or 0]} in bulk and {single[at or 0]} as a single one;"
            " sample(rng, n) must give the numbers of n calls of next(rng)",
        )
        position = one.int63()
        require(
            position == other.int63(),
            f"{what}: sample(rng, {DRAWS}) leaves the random stream at another position than"
            f" {DRAWS} calls of next(rng); every draw from it must be used, in the same order",
        )
        sampler = make()
        split = [*sampler.sample(parts, 7), *sampler.sample(parts, 0), *sampler.sample(parts, 293)]
        require(
            split == bulk and parts.int63() == position,
            f"{what}: 7, 0 and 293 draws are not what {DRAWS} at once are; the numbers must"
            " not depend on how many are asked for at a time",
        )


def _check_repeatable(make: Callable[[], _Sampler], what: str) -> None:
    __tracebackhide__ = True
    for seed in SEEDS:
        first, second = (make().sample(GoRand(seed), DRAWS) for _ in range(2))
        require(
            first == second,
            f"{what}: two new samplers draw different numbers from equal streams; all that is"
            " random must come from rng",
        )


class ArrivalSamplerTests:
    """Subclass it and define ``make``.

    Gaps are whole microseconds, at least 1 (0 = exhausted, for good), in bulk the same as one by
    one; and their mean is that of the rate.
    """

    mean_tolerance: ClassVar[float | None] = 0.1
    """How far the mean of 10,000 gaps may be from 1 / rate, relatively; None = any mean."""

    def make(self, setup: ArrivalSetup) -> ArrivalSampler:
        """A new sampler."""
        raise NotImplementedError("define make(self, setup), which returns a new arrival sampler")

    def setups(self) -> Sequence[ArrivalSetup]:
        """Rates and coefficients of variation to try. Override it if only some make sense."""
        return [
            ArrivalSetup(rate_per_us=rate, cv=cv)
            for rate in (1e-6, 1e-4)
            for cv in (None, 0.5, 1.0, 2.0)
        ]

    def test_gaps_are_whole_and_positive(self) -> None:
        """0 says that there is no further arrival, and then none may follow."""
        for setup in self.setups():
            gaps = self.make(setup).sample(GoRand(7), DRAWS)
            _check_values(gaps, DRAWS, str(setup))
            require(
                min(gaps) >= 0, f"{setup}: drew a gap of {min(gaps)} us; time does not run back"
            )
            if 0 in gaps:
                require(
                    not any(gaps[gaps.index(0) :]),
                    f"{setup}: drew a gap of 0 us and then another one; 0 means that there are no"
                    " further arrivals, and a gap is at least 1 us",
                )

    def test_bulk_draws_equal_single_ones(self) -> None:
        """And leave the stream where single ones would."""
        for setup in self.setups():
            _check_bulk(partial(self.make, setup), str(setup))

    def test_same_stream_gives_same_gaps(self) -> None:
        """Nothing is random but the stream."""
        for setup in self.setups():
            _check_repeatable(partial(self.make, setup), str(setup))

    def test_the_rate_is_kept(self) -> None:
        """Unless the class sets ``mean_tolerance = None``."""
        if self.mean_tolerance is None:
            return
        for setup in self.setups():
            gaps = self.make(setup).sample(GoRand(3), 10_000)
            if 0 in gaps:
                continue
            mean, wanted = sum(gaps) / len(gaps), 1.0 / setup.rate_per_us
            require(
                abs(mean - wanted) <= self.mean_tolerance * wanted + 1.0,
                f"{setup}: the mean of 10,000 gaps is {mean:.0f} us, but the rate asks for"
                f" {wanted:.0f} (mean_tolerance is {self.mean_tolerance})",
            )


class LengthSamplerTests:
    """Subclass it and define ``make``.

    Lengths are whole tokens within the bounds of the class, in bulk the same as one by one, and do
    not depend on who else draws.
    """

    smallest: ClassVar[int] = 1
    """Least length that the sampler may give."""
    largest: ClassVar[int | None] = None
    """Greatest length that it may give; None = no bound."""

    def make(self) -> LengthSampler:
        """A new sampler."""
        raise NotImplementedError("define make(self), which returns a new length sampler")

    def test_lengths_are_whole_and_within_bounds(self) -> None:
        """``smallest`` to ``largest``."""
        for seed in SEEDS:
            lengths = self.make().sample(GoRand(seed), 2000)
            _check_values(lengths, 2000, "lengths")
            require(
                min(lengths) >= self.smallest,
                f"drew a length of {min(lengths)} tokens; the smallest allowed is {self.smallest}",
            )
            require(
                self.largest is None or max(lengths) <= self.largest,
                f"drew a length of {max(lengths)} tokens; the largest allowed is {self.largest}",
            )

    def test_bulk_draws_equal_single_ones(self) -> None:
        """And leave the stream where single ones would."""
        _check_bulk(self.make, "lengths")

    def test_same_stream_gives_same_lengths(self) -> None:
        """Nothing is random but the stream."""
        _check_repeatable(self.make, "lengths")

    def test_sessions_can_share_it(self) -> None:
        """All sessions of a client draw from one sampler, each with a stream of its own."""
        shared = self.make()
        streams = [GoRand(seed) for seed in SEEDS]
        drawn: list[list[int]] = [[] for _ in SEEDS]
        for _ in range(50):
            for stream, lengths in zip(streams, drawn, strict=True):
                lengths.append(shared.next(stream))
        for seed, lengths in zip(SEEDS, drawn, strict=True):
            require(
                lengths == self.make().sample(GoRand(seed), 50),
                "what one session draws depends on what others have drawn; a length sampler"
                " remembers nothing",
            )
