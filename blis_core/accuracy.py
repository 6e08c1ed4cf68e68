"""What a latency model can say of the accuracy of a run."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RunFacts(Record):
    """A finished run, as far as the accuracy of its latencies depends on it."""

    model: str
    """Lower-case name of the served model."""
    hardware: str
    tp: int
    max_running: int
    """Most requests that may be in a batch."""
    rate: float
    """Arrivals per second and instance."""
    prompt_tokens: float
    """Mean prompt length."""
    output_tokens: float
    """Mean output length."""
    longest: int
    """Tokens of the longest request, prompt and output together."""
    peak_running: int
    """Most requests that were in the batch of an instance at once."""
    peak_kv_use: float
    """Largest share of its KV blocks that an instance had in use at once."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ValidatedRun(Record):
    """A run that was measured on a real server and simulated."""

    id: str
    model: str
    hardware: str
    tp: int
    rates: tuple[float, ...]
    """Arrivals per second in each stage."""
    prompt_tokens: float
    output_tokens: float
    errors: Mapping[str, float]
    """Error of the simulation in per cent by figure, such as ``e2e_mean``."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepInterval(Record):
    """How often what was measured lies between simulations with shorter and with longer steps."""

    step_percent: float
    """By which steps are shorter, and longer."""
    runs: int
    """Measured runs that were looked at."""
    covered_percent: Mapping[str, float]
    """Share of them whose figure, such as ``e2e_mean``, lies within."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Accuracy(Record):
    """How far the latencies of a run can be trusted."""

    nearest: tuple[ValidatedRun, ...] = ()
    """The runs with a known error that are most like this one, the nearest first."""
    outside: tuple[str, ...] = ()
    """In what this run differs from all that were compared; empty = it is among them."""
    unstable: tuple[str, ...] = ()
    """Why a small error of the model would change percentiles a lot."""
    interval: StepInterval | None = None
    """What an interval around the figures of this run would be worth."""
