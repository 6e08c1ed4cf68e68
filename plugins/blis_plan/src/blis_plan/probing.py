"""Tries one rate on one deployment: several seeds, runs of a sensible length, early stops.

A trial begins with a quarter of its requests. If so many of them are beyond a limit that the others
could not make up for it, however fast, it is over: that costs no accuracy. So is one whose first
seed does not meet the SLOs. A run that meets them is repeated with more requests, unless their
number is given, as long as it is short against the latencies that it measures, or chance alone may
decide whether its queue grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from blis_core.api import simulate
from blis_plan.load import DEFAULT_SEED, Load
from blis_plan.measuring import Run, measure
from blis_plan.slo import Slo, wanted_requests

SPAN: Final = 8.0
"""Mean end-to-end latencies that arrivals go on for, if the number of requests is free: so a
quarter of the run is two of them."""
MOST_REQUESTS: Final = 100_000
MOST_LONGER: Final = 8
"""Times the requests that are enough, as far as doubts about the queue go."""
FIRST_PART: Final = 4
"""The first run has this part of the requests, if that is at least FEWEST_FIRST."""
FEWEST_FIRST: Final = 100
FEWEST_BEYOND: Final = 10
"""Requests beyond a percentile below which it is called noise."""

NOT_SUSTAINED: Final = "load"
FAILURES: Final = "failed requests"
TOO_SHORT: Final = "length of the run"


@attrs.frozen(kw_only=True)
class Trials:
    """How every trial is made."""

    load: Load
    slos: tuple[Slo, ...]
    seeds: int


@attrs.frozen(kw_only=True)
class Probe:
    """One rate on one deployment."""

    rate: float
    slos: tuple[Slo, ...]
    runs: tuple[Run, ...]
    """By seed; those after the first that is not good enough were not made."""
    steady: bool

    @property
    def values(self) -> tuple[float, ...]:
        """The worst value of each SLO over the seeds."""
        return tuple(
            (min if slo.is_share else max)(run.values[i] for run in self.runs)
            for i, slo in enumerate(self.slos)
        )

    @property
    def uses(self) -> tuple[float, ...]:
        """The part of each limit that is taken up."""
        return tuple(slo.use(value) for slo, value in zip(self.slos, self.values, strict=True))

    @property
    def headroom(self) -> float:
        """What the tightest SLO leaves of its limit; negative if it is not met."""
        return 1 - max(self.uses)

    @property
    def violated(self) -> tuple[Slo, ...]:
        """SLOs that some run did not meet."""
        found = zip(self.slos, self.values, strict=True)
        return tuple(slo for slo, value in found if not slo.met(value))

    @property
    def sustained(self) -> bool:
        """Whether no run shows a queue that grows."""
        return all(run.sustained(self.steady) for run in self.runs)

    @property
    def long_enough(self) -> bool:
        """Whether all runs were long enough for a verdict."""
        return all(run.long_enough for run in self.runs)

    @property
    def met(self) -> bool:
        """Whether the deployment carries the rate, as far as can be seen."""
        return not self.violated and self.sustained and self.long_enough

    @property
    def binding(self) -> str:
        """What limits it: the SLOs that are not met, the worst first, or what else stands in the
        way; if nothing does, the SLO that is closest to its limit."""
        found = zip(self.slos, self.values, self.uses, strict=True)
        ordered = sorted(found, key=lambda item: -item[2])
        if self.met:
            return ordered[0][0].name
        if not self.violated:
            return TOO_SHORT if self.sustained else NOT_SUSTAINED
        missed = [(slo, value) for slo, value, _ in ordered if slo in self.violated]
        names = [slo.name for slo, value in missed if not math.isinf(value)]
        if self.failed and (len(names) < len(missed) or missed[0][0].is_share):
            names.insert(0, FAILURES)
        return ", ".join(names)

    @property
    def growth(self) -> float:
        """The fastest growth of latencies, s per s; nan = nothing can be said."""
        return max((run.growth for run in self.runs), key=lambda g: -math.inf if g != g else g)

    @property
    def achieved(self) -> float:
        """Completions per second, of the run with the fewest; not more than the rate, even if more
        requests were drawn."""
        return min(self.rate, *(run.achieved for run in self.runs))

    @property
    def growing(self) -> str:
        """In words, how the queue grows."""
        if self.steady:
            run = max(self.runs, key=lambda run: run.backlog)
            return f"only {run.achieved:.4g} of {run.arriving:.4g} requests/s come through"
        return f"latencies grow by {self.growth * 1000:.0f} ms every second"

    @property
    def failed(self) -> dict[str, int]:
        """Requests that failed in the run with the most of them, by what became of them."""
        return dict(max((run.failed for run in self.runs), key=lambda f: sum(n for _, n in f)))

    @property
    def early(self) -> bool:
        """Whether a short run settled it."""
        return any(run.early for run in self.runs)

    @property
    def limits(self) -> str:
        """What limits it, with what the latency model says of it."""
        remarks = dict.fromkeys(text for run in self.runs for text in run.unstable)
        return self.binding + (f" ({'; '.join(remarks)})" if remarks else "")

    @property
    def why(self) -> str:
        """In words, why the rate is not carried; empty if it is."""
        if self.met:
            return ""
        reasons = []
        if self.failed:
            sent = max(run.sent for run in self.runs)
            named = ", ".join(f"{count:,} {reason}" for reason, count in self.failed.items())
            reasons.append(f"of {sent:,} requests: {named}")
        if self.violated:
            reasons += [
                f"{slo.name} {slo.shown(value)}"
                for slo, value in zip(self.slos, self.values, strict=True)
                if slo in self.violated and not math.isinf(value)
            ]
        if not self.violated or not reasons:
            if not self.sustained:
                reasons.append(self.growing)
            elif not self.long_enough:
                reasons.append("the run is too short to tell")
        after = " (after a quarter of the requests)" if self.early else ""
        return "; ".join(reasons) + after


def try_rate(trials: Trials, base: Mapping[str, Any], rate: float) -> Probe:
    """Try ``rate`` on the deployment of the options ``base``. BlisError if it cannot run at all."""
    load, slos = trials.load, trials.slos
    runs: list[Run] = []
    length = 0
    for number in range(trials.seeds):
        seed = _seed(base.get("seed"), number)
        fixed = load.fixed_requests(rate, seed)
        wanted = max(wanted_requests(slos), length) if fixed is None else fixed
        if number == 0 and load.steady and not load.closed and wanted >= FIRST_PART * FEWEST_FIRST:
            first = _run(trials, base, rate, seed, wanted // FIRST_PART)
            if any(m > slo.borne(wanted) for slo, m in zip(slos, first.misses, strict=True)):
                runs.append(attrs.evolve(first, early=True))
                break
        run = _run(trials, base, rate, seed, wanted)
        while fixed is None and (longer := _longer(run, slos, wanted)) > wanted:
            wanted = longer
            run = _run(trials, base, rate, seed, wanted)
        length = wanted
        runs.append(run)
        if not Probe(rate=rate, slos=slos, runs=(run,), steady=load.steady).met:
            break
    return Probe(rate=rate, slos=slos, runs=tuple(runs), steady=load.steady)


def _seed(given: int | None, number: int) -> int | None:
    """The seed of a run; the first one has what was given, so that it is a plain ``blis run``."""
    return given if number == 0 else (DEFAULT_SEED if given is None else given) + number


def _run(
    trials: Trials, base: Mapping[str, Any], rate: float, seed: int | None, requests: int
) -> Run:
    config = trials.load.config(base, rate, seed, requests)
    return measure(simulate(config), trials.slos, DEFAULT_SEED if seed is None else seed)


def _longer(run: Run, slos: Sequence[Slo], wanted: int) -> int:
    """How many requests the run should have; not more than ``wanted`` if more would not help."""
    met = all(slo.met(value) for slo, value in zip(slos, run.values, strict=True))
    if not met or run.sent < wanted or run.span_s <= 0:
        return wanted
    missing = SPAN * run.e2e_mean_s / run.span_s
    if missing > 1:
        return min(MOST_REQUESTS, math.ceil(wanted * min(missing * 1.1, 8.0)))
    enough = max(wanted_requests(slos), math.ceil(wanted * missing))
    if run.doubtful and wanted < MOST_LONGER * enough:
        return min(MOST_REQUESTS, 2 * wanted)
    return wanted


def noisy(slos: Sequence[Slo], requests: int) -> list[str]:
    """A warning for each statistic that so few requests cannot support."""
    found = []
    for slo in slos:
        if slo.metric == "itl" or (slo.percentile is None and not slo.bounds):
            continue
        beyond = 1 - slo.limit if slo.bounds else 1 - (slo.percentile or 0.0) / 100
        if requests * beyond < FEWEST_BEYOND * 0.999:
            found.append(
                f"{slo.name} of {requests:,} requests rests on {max(1, round(requests * beyond))}"
                f" of them: it is little more than chance; give --num-requests"
                f" {math.ceil(2 * FEWEST_BEYOND / max(beyond, 1e-4) - 1e-6):,} or more, or leave it"
                " out"
            )
    return found
