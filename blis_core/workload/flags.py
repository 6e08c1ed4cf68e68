"""The one-client workload that the command line describes by flags or by a preset.

Requests of client ``distribution`` arrive at a constant rate (the reference speaks of Poisson
arrivals, but its gaps are equal: reference quirk 04-10), or from a fixed number of users who each
send a request as soon as the last one is answered. Lengths are gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import MAX_INT64, ArrivalSetup, LengthSetup, Request
from blis_core.errors import BlisError
from blis_core.records import Record
from blis_core.rng import GoRand, stream_seed
from blis_core.workload.arrivals import ConstantArrivals
from blis_core.workload.generated import GeneratedWorkload
from blis_core.workload.generation import (
    Source,
    Traits,
    arrival_times,
    numbered,
    plain_requests,
)
from blis_core.workload.lengths import GaussianLengths

if TYPE_CHECKING:
    from blis_core.workload.spec import Distribution, WorkloadSpec

CLIENT = "distribution"
PREFIX_GROUP = "shared"


@attrs.frozen(eq=False, repr=False)
class LengthBounds(Record):
    """Mean, standard deviation and bounds of a length, in tokens."""

    mean: int
    stdev: int
    min: int
    max: int

    @property
    def params(self) -> dict[str, float]:
        """The same in the words of a ``gaussian`` distribution."""
        return {
            "mean": float(self.mean),
            "std_dev": float(self.stdev),
            "min": float(self.min),
            "max": float(self.max),
        }

    def sampler(self) -> GaussianLengths:
        """A sampler of such lengths."""
        return GaussianLengths(LengthSetup(params=self.params))


@attrs.frozen(eq=False, repr=False)
class FlagWorkload(Record):
    """What is to be generated. Nothing is checked here; see :func:`check_distribution`."""

    rate: float
    """Requests per second; not used with ``concurrency``."""
    num_requests: int
    """0 = as many as the horizon allows."""
    seed: int
    horizon: int
    """us; only arrivals before it count."""
    prefix_tokens: int
    """Length of a prefix that all prompts share, on top of the prompt's own length; 0 = none."""
    prompt: LengthBounds
    output: LengthBounds
    timeout_us: int
    """Time that a client waits for its answer; 0 = for ever."""
    concurrency: int = 0
    """Users in a closed loop; 0 = requests arrive at ``rate``."""
    think_time_us: int = 0
    """Pause of a user between an answer and the next request."""


def check_rate(rate: float) -> None:
    """Raise BlisError unless ``rate`` is a finite number above 0."""
    if not 0 < rate < math.inf:
        raise BlisError(f"--rate must be a finite number greater than 0, not {rate:g}")


def check_distribution(rate: float, prompt: LengthBounds, output: LengthBounds) -> None:
    """Raise BlisError for figures that ``--workload distribution`` does not allow.

    Not only the mean but also the standard deviation has to lie between the bounds (reference
    quirk 04-22).
    """
    check_rate(rate)
    lengths = (("prompt", prompt), ("output", output))
    for name, b in lengths:
        for bound, value in (("min", b.min), ("max", b.max)):
            if value < 1:
                raise BlisError(f"--{name}-tokens-{bound} must be at least 1, not {value}")
    for name, b in lengths:
        if b.stdev < 0:
            raise BlisError(f"--{name}-tokens-stdev must be at least 0, not {b.stdev}")
    for name, b in lengths:
        flag = f"--{name}-tokens"
        if b.min > b.max:
            raise BlisError(f"{flag}-min ({b.min}) must not exceed {flag}-max ({b.max})")
        for suffix, value in (("", b.mean), ("-stdev", b.stdev)):
            if not b.min <= value <= b.max:
                raise BlisError(
                    f"{flag}{suffix} ({value}) must lie between {flag}-min ({b.min}) "
                    f"and {flag}-max ({b.max})"
                )


def prepare_flags(w: FlagWorkload) -> GeneratedWorkload:
    """The workload, ready to be simulated. Raises BlisError as :func:`generate`."""
    if w.concurrency == 0:
        return GeneratedWorkload(requests=generate(w))
    from blis_core.workload.pipeline import prepare  # takes some time to import

    return prepare(
        specification(w),
        horizon=w.horizon,
        max_requests=w.num_requests,
        timeout_us=w.timeout_us,
    )


def specification(w: FlagWorkload) -> WorkloadSpec:
    """The same workload as a specification."""
    from blis_core.workload import spec  # takes some time to import

    def gaussian(bounds: LengthBounds) -> Distribution:
        return spec.Distribution(type="gaussian", params=bounds.params)

    users = w.concurrency > 0
    return spec.WorkloadSpec(
        version=spec.VERSION,
        seed=w.seed,
        category="language",
        clients=(
            spec.Client(
                id=CLIENT,
                rate_fraction=0.0 if users else 1.0,
                concurrency=w.concurrency,
                think_time_us=w.think_time_us if users else 0,
                arrival=spec.Arrival(process="constant"),
                input_distribution=gaussian(w.prompt),
                output_distribution=gaussian(w.output),
                prefix_group=PREFIX_GROUP if w.prefix_tokens > 0 else "",
                prefix_length=w.prefix_tokens,
                timeout=w.timeout_us,
            ),
        ),
        aggregate_rate=0.0 if users else w.rate,
        num_requests=w.num_requests,
    )


def generate(w: FlagWorkload) -> Iterator[Request]:
    """Requests that arrive at ``rate``, in order of arrival, made one at a time.

    Raises BlisError at once for a negative number of requests and for a workload without an end.
    Equals what :func:`specification` says, without the time it takes to import all that.
    """
    if w.horizon <= 0:
        return iter(())
    if w.num_requests < 0:
        raise BlisError(f"--num-requests must be at least 0, not {w.num_requests}")
    if w.num_requests == 0 and w.horizon == MAX_INT64:
        raise BlisError("the workload has no end: give --num-requests or --horizon")
    workload = GoRand(stream_seed(w.seed, "workload-gen"))
    shared = w.prefix_tokens > 0
    traits = Traits(
        client=CLIENT,
        prefix_group=PREFIX_GROUP if shared else "",
        prefix=workload.tokens(w.prefix_tokens) if shared else None,
        patience=w.timeout_us,
    )
    rng = GoRand(workload.int63())
    # The client's share of the rate is 1/1; the reference divides by 10**6 last.
    gaps = ConstantArrivals(ArrivalSetup(rate_per_us=w.rate / 1e6))
    times = arrival_times(gaps, rng, w.horizon)
    source = Source(rng, w.prompt.sampler(), w.output.sampler())
    return numbered(plain_requests(times, source, traits, w.num_requests))
