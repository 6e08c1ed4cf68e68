"""The one-client workload that the command line describes by flags or by a preset.

Requests of client ``distribution`` arrive at a constant rate (the reference speaks of Poisson
arrivals, but its gaps are equal: reference quirk 04-10) with gaussian prompt and output lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import numpy as np

from blis_core.contracts import MAX_INT64, ArrivalSetup, LengthSetup, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand, stream_seed
from blis_core.workload.arrivals import ConstantArrivals
from blis_core.workload.lengths import GaussianLengths

CLIENT = "distribution"
PREFIX_GROUP = "shared"


@attrs.frozen
class LengthBounds:
    """Mean, standard deviation and bounds of a length, in tokens."""

    mean: int
    stdev: int
    min: int
    max: int

    def sampler(self) -> GaussianLengths:
        """A sampler of such lengths."""
        return GaussianLengths(
            LengthSetup(
                params={
                    "mean": float(self.mean),
                    "std_dev": float(self.stdev),
                    "min": float(self.min),
                    "max": float(self.max),
                }
            )
        )


@attrs.frozen
class FlagWorkload:
    """What is to be generated. Nothing is checked here; see :func:`check_distribution`."""

    rate: float
    """Requests per second."""
    num_requests: int
    """0 = as many as arrive before the horizon."""
    seed: int
    horizon: int
    """us; only arrivals before it count."""
    prefix_tokens: int
    """Length of a prefix that all prompts share, on top of the prompt's own length; 0 = none."""
    prompt: LengthBounds
    output: LengthBounds
    timeout_us: int
    """Time that a client waits for its answer; 0 = for ever."""


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


def generate(w: FlagWorkload) -> Iterator[Request]:
    """Requests in arrival order, made one at a time.

    Raises BlisError at once for a negative number of requests and for a workload without an end.
    """
    if w.horizon <= 0:
        return iter(())
    if w.num_requests < 0:
        raise BlisError(f"--num-requests must be at least 0, not {w.num_requests}")
    if w.num_requests == 0 and w.horizon == MAX_INT64:
        raise BlisError("the workload has no end: give --num-requests or --horizon")
    return _requests(w)


def _requests(w: FlagWorkload) -> Iterator[Request]:
    workload = GoRand(stream_seed(w.seed, "workload-gen"))
    n_prefix = w.prefix_tokens
    prefix = workload.tokens(n_prefix) if n_prefix > 0 else None
    group = PREFIX_GROUP if n_prefix > 0 else ""
    rng = GoRand(workload.int63())
    # The client's share of the rate is 1/1; the reference divides by 10**6 last.
    gap = ConstantArrivals(ArrivalSetup(rate_per_us=w.rate / 1e6)).next(rng)
    prompt_length, output_length = w.prompt.sampler().next, w.output.sampler().next
    tokens, concatenate = rng.tokens, np.concatenate
    horizon, timeout, limit = w.horizon, w.timeout_us, w.num_requests
    arrival = gap
    i = 0
    while arrival < horizon and (i < limit or not limit):
        n_in = prompt_length(rng)
        n_out = output_length(rng)
        ids = tokens(n_in + n_out)  # the prompt's ids are drawn before the output's
        if prefix is not None:
            n_in += n_prefix
            ids = concatenate((prefix, ids))
        yield Request(
            f"request_{i}",
            arrival,
            ids,
            n_in,
            n_out,
            max_output=n_out,
            deadline=arrival + timeout if timeout else 0,
            client=CLIENT,
            prefix_group=group,
            prefix_length=n_prefix,
        )
        arrival += gap
        i += 1
