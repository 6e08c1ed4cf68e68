"""What makes the figures of a finished run misleading, in plain words: cautions.

Everything is computed from aggregates and columns that exist anyway, so a caution costs nothing per
request. A caution starts with a name and a colon, and says what happened, why it matters and what
to do. Bounds are chosen so that a healthy run says nothing: what touches less than one request in a
hundred moves no 99th percentile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.contracts import MAX_INT64
from blis_core.records import Record
from blis_core.semantics import REFERENCE, parse_semantics

if TYPE_CHECKING:
    from blis_core.contracts import IntArray
    from blis_core.engine.metrics import InstanceMetrics
    from blis_core.results.columns import Columns
    from blis_core.results.model import Results

_SHARE = 0.01
"""Share of the requests from which on something shows in a 99th percentile."""
_CUT_SHARE = 0.05
"""The same for requests in flight when the simulation ended, which are not only the slowest ones:
of those beyond p99 they hold about two to three times their share."""
_FEW = 100
"""Below so many values p99 lies between the two largest."""
_TREND = 40
"""Fewest requests in which a trend is looked for."""
_OVERLOAD = 0.05
"""Growth of the wait per time passed, from which on a run counts as saturated; with a load of
(1 + x) times the capacity the wait grows by x per second."""
_NOTICEABLE = 0.25
"""Wait, as a share of the time that a request takes once it runs, below which it is a burst."""
_REACHED = 0.95
"""Share of the rate asked for, below which it was not reached."""
_LOOKED_AT = 200
"""Requests of each instance that are looked at for shared prefixes."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Situation(Record):
    """What a run was like beside its figures."""

    horizon: int = MAX_INT64
    """us."""
    horizon_given: bool = True
    """False: it was derived from a trace."""
    total_blocks: int = 0
    """KV blocks of an instance; 0 = not known."""
    block_size: int = 0
    max_model_len: int = 0
    """0 = unlimited."""
    rate: float = 0.0
    """Requests per second that were asked for by an option; 0 = there was none."""
    recorded: bool = False
    """The requests are those of a trace."""
    scorers: tuple[str, ...] = ()
    """Scorers that the user chose."""
    idle_options: tuple[str, ...] = ()
    """Options without effect, each with the reason."""


def cautions(
    results: Results,
    instances: Sequence[InstanceMetrics],
    columns: Sequence[Columns],
    situation: Situation,
) -> list[str]:
    """The cautions about a run. ``columns`` are those of the instances, in their order."""
    return list(_Run(results, instances, columns, situation).found())


class _Run:
    """One finished run, seen by those who doubt it."""

    def __init__(
        self,
        results: Results,
        instances: Sequence[InstanceMetrics],
        columns: Sequence[Columns],
        situation: Situation,
    ) -> None:
        self.results = results
        self.cluster = results.cluster
        self.situation = situation
        self._instances = instances
        self._columns = columns
        lost = results.anomalies
        self.done = self.cluster.completed_requests
        self.cut = (
            self.cluster.still_queued
            + self.cluster.still_running
            + lost.gateway_depth
            + results.in_transit
        )
        turned_away = (
            lost.rejected_admission + lost.rejected_routing + lost.gateway_shed + lost.lost_in_drain
        )
        self.turned_away = turned_away
        # gateway_depth and in_transit are no part of those that were injected
        self.arrived = (
            self.cluster.injected_requests + turned_away + lost.gateway_depth + results.in_transit
        )
        # the requests of an instance are in order of arrival, or nearly
        firsts = [metrics.records[0].arrival for metrics in instances if metrics.records]
        lasts = [metrics.records[-1].arrival for metrics in instances if metrics.records]
        self.span_s = (max(lasts) - min(firsts)) / 1e6 if firsts else 0.0

    def found(self) -> Iterator[str]:
        """Every caution, what spoils a run most first."""
        if not self.arrived:
            yield from self._no_requests()
        else:
            yield from self._requests_missing()
            yield from self._memory()
            early, late = self._waits()
            # how long a request takes once it runs
            served_us = max(0.0, self.cluster.e2e_mean_ms * 1e3 - (early + late) / 2)
            saturated = list(self._saturated(early, late, served_us))
            yield from saturated
            yield from self._sample(served_us, saturated=bool(saturated))
            yield from self._instances_idle()
            yield from self._cache()
            yield from self._accuracy(saturated=bool(saturated))
        if options := self.situation.idle_options:
            yield (f"no-effect: options that change nothing here: {'; '.join(options)}")

    # ------------------------------------------------------------------- requests without figures

    def _no_requests(self) -> Iterator[str]:
        end = self.situation.horizon
        if end == MAX_INT64:
            text = "the workload has no requests, so every figure is 0; look at its clients"
        else:
            text = (
                f"no request arrived before the horizon of {_seconds(end / 1e6)}, so every figure"
                " is 0; raise --horizon, which is in microseconds"
            )
        yield f"no-requests: {text}"

    def _requests_missing(self) -> Iterator[str]:
        cluster, lost = self.cluster, self.results.anomalies
        if not self.done:
            fates = [
                f"{count:,} {fate}"
                for fate, count in (
                    ("timed out", cluster.timed_out_requests),
                    ("were dropped", cluster.dropped_unservable),
                    ("were turned away", self.turned_away),
                    ("had not ended when the simulation did", self.cut),
                )
                if count
            ]
            yield (
                f"nothing-completed: none of {_requests(self.arrived)} completed"
                f" ({', '.join(fates)}), so latencies and rates are shown as 0, which is no result"
            )
        if self._many(self.cut, _CUT_SHARE) and self.situation.horizon < MAX_INT64:
            yield f"horizon: {self._cut_off()}"
        if self._many(cluster.timed_out_requests):
            flattering = (
                ". E2E and the time between tokens are those of the others, so they look better"
                " than what users saw"
            )
            yield (
                f"timeouts: the clients of {self._of_all(cluster.timed_out_requests)} gave up"
                f"{flattering if self.done else ''}; lower the load, add instances, or raise the"
                " timeout"
            )
        if self._many(cluster.dropped_unservable):
            yield f"dropped: {self._dropped()}"
        if self._many(cluster.length_capped_requests):
            yield (
                f"length-capped: {self._of_all(cluster.length_capped_requests)} were cut at the"
                " maximum length, so they took less time than what was asked for; raise"
                " --max-model-len, or ask for less"
            )
        if self._many(lost.rejected_routing):
            yield (
                f"not-served: {self._of_all(lost.rejected_routing)} name a model that no instance"
                " serves and are in no latency; correct the model of the workload, or serve it"
                " (models of the policy file)"
            )

    def _cut_off(self) -> str:
        situation = self.situation
        end = _seconds(situation.horizon / 1e6)
        if situation.horizon_given:
            what = f"the horizon of {end}"
            advice = "raise --horizon (microseconds) or send fewer requests"
        else:
            what = f"the end of the simulation, {end}, twice the last arrival of the trace,"
            advice = "give --horizon (microseconds)"
        return (
            f"{what} cut off {self._of_all(self.cut)}. Latencies are those of the others, and slow"
            f" requests are missing more often than quick ones; {advice}"
        )

    def _dropped(self) -> str:
        situation, count = self.situation, self.cluster.dropped_unservable
        at_decode = self.results.pd.dropped_at_decode if self.results.pd is not None else 0
        if at_decode:
            why = "there was no room for them on a decode instance"
            advice = "raise --total-kv-blocks, or add decode instances"
        elif situation.max_model_len:
            why = f"they are longer than the maximum of {situation.max_model_len:,} tokens"
            advice = "send shorter ones, or raise --max-model-len"
        else:
            size = situation.total_blocks * situation.block_size
            why = f"they are longer than the KV cache of {size:,} tokens"
            advice = "send shorter ones, or raise --total-kv-blocks"
        return f"{self._of_all(count)} were dropped: {why}. They are in no latency; {advice}"

    def _many(self, count: int, share: float = _SHARE) -> bool:
        return count > 0 and count >= share * self.arrived

    def _of_all(self, count: int) -> str:
        share = 100 * count / self.arrived
        shown = f"{share:.0f}" if share >= 10 or share == int(share) else f"{share:.1f}"
        return f"{count:,} of {_requests(self.arrived)} ({shown} %)"

    # --------------------------------------------------------------------------- memory and load

    def _memory(self) -> Iterator[str]:
        cluster, situation = self.cluster, self.situation
        if cluster.preemption_count < max(1, _SHARE * self.done):
            return
        config = self.results.config
        rules = parse_semantics(config.semantics) if config is not None else REFERENCE
        worse = ""
        if not (rules.recompute or rules.late_first_token):
            worse = (
                " E2E leaves out the wait before a new start: latencies are worse than they look."
            )
        yield (
            f"kv-cache: too small: {_times(cluster.preemption_count)} a running request lost its KV"
            f" blocks and started anew ({situation.total_blocks:,} blocks of {situation.block_size}"
            f" tokens on each instance).{worse} Raise --total-kv-blocks or"
            " --gpu-memory-utilization, lower --max-num-running-reqs, or add instances"
        )

    def _saturated(self, early: float, late: float, served_us: float) -> Iterator[str]:
        growth = (late - early) / (0.5e6 * self.span_s) if self.span_s else 0.0
        if growth < _OVERLOAD or late < 1.5 * early or late < _NOTICEABLE * served_us:
            return
        advice = "lower the load, or add instances"
        if self.results.pd is not None:
            advice += " to the pool that is full, or bandwidth between the pools"
        yield (
            "saturated: requests arrive faster than they are served: in the second quarter of the"
            f" run they waited {_seconds(early / 1e6)} on average, in the last"
            f" {_seconds(late / 1e6)}. Latencies grow with the length of such a run, so only its"
            f" throughput says something about the system; {advice}"
        )

    def _waits(self) -> tuple[float, float]:
        """Mean scheduling delay in us of the second and of the last quarter of the requests.

        Those that never ran waited as long as anybody. (0, 0) if there are too few.
        """
        halves: list[tuple[IntArray, IntArray]] = []
        for column in self._columns:
            waits = column.scheduling_delay
            n = len(waits)
            if n < 4:
                continue
            waits = np.where(waits < 0, waits.max(), waits)
            halves.append((waits[n // 4 : n // 2], waits[n - n // 4 :]))
        if sum(len(late) for _, late in halves) < _TREND // 4:
            return 0.0, 0.0
        early, late = (np.concatenate(part) for part in zip(*halves, strict=True))
        return float(early.mean()), float(late.mean())

    # -------------------------------------------------------------------------------- the sample

    def _sample(self, served_us: float, *, saturated: bool) -> Iterator[str]:
        """Whether there is enough of it, and of what was asked for."""
        situation, done = self.situation, self.done
        offered = (self.arrived - 1) / self.span_s if self.span_s else 0.0
        if offered and offered < _REACHED * situation.rate and self.arrived > 1:
            yield (
                f"rate: requests arrived at {offered:,.0f} /s, not at the {situation.rate:,.0f} /s"
                " that were asked for: two arrivals are at least one microsecond apart"
            )
        if not done:
            return
        takes = served_us / 1e6
        if 0 < self.span_s < takes and situation.rate and not saturated:
            yield (
                f"short: all requests arrived within {_seconds(self.span_s)}, and one takes"
                f" {_seconds(takes)} on average: the batch only fills and empties, so latencies and"
                " throughput depend on the number of requests; raise --num-requests to see a"
                " steady state"
            )
        elif done < _FEW:
            where = "between the two slowest" if done > 1 else "at this one"
            yield (
                f"few-requests: {_requests(done)} completed, so p99 lies {where} and may be far"
                " off; compare means, or simulate 1,000 requests or more"
            )

    # --------------------------------------------------------------------- instances and caches

    def _instances_idle(self) -> Iterator[str]:
        fleet = self.results.fleet
        if fleet is not None:
            if fleet.pending:
                yield (
                    f"no-room: {', '.join(fleet.pending)} found no room in the node pools and never"
                    " served anything; raise max_nodes or gpus_per_node in the policy file, or ask"
                    " for fewer instances"
                )
            return
        instances = len(self._instances)
        idle = [m.instance_id for m in self._instances if not m.records and not m.injected]
        if idle and instances > 1 and self.arrived - self.turned_away >= 5 * instances:
            yield (
                f"idle-instances: {len(idle)} of {instances} instances never got a request"
                f" ({_some(idle)}), and mean rates over the instances, such as that of cache hits,"
                " count them as 0; look at the routing policy, or give fewer instances"
            )

    def _cache(self) -> Iterator[str]:
        """A cache without a hit where hits were to be expected."""
        if self.results.kv.cache_hit_rate > 0 or self.done < 2:
            return
        size = self.situation.block_size
        shared = self._shared_prefix()
        if shared:
            why = (
                f"the shared prefix of {shared} tokens is shorter than a KV block of {size}; lower"
                " --block-size-in-tokens"
                if shared < size
                else "their blocks were gone when they were needed; raise --total-kv-blocks"
            )
            yield (
                "cache: prompts share a prefix, but none was found in the prefix cache of its"
                f" instance: {why}"
            )
            return
        chosen = [name for name in self.situation.scorers if "prefix" in name]
        if chosen and len(self._instances) > 1 and not self._may_share():
            yield (
                f"cache: no prompt was found in a prefix cache, so {' and '.join(chosen)} saw no"
                " difference between instances; use a workload whose prompts share a prefix"
                " (--prefix-tokens, prefix_group, multi_turn), or leave it out"
            )

    def _shared_prefix(self) -> int:
        """Length of a prefix that two requests of one instance share; 0 = none was seen."""
        for metrics in self._instances:
            groups: Counter[str] = Counter()
            for request in metrics.records[:_LOOKED_AT]:
                group = request.prefix_group
                if group and request.prefix_length > 0:
                    groups[group] += 1
                    if groups[group] == 2:
                        return request.prefix_length
        return 0

    def _may_share(self) -> bool:
        """Whether prompts may be alike without a declared prefix: those of a session or a trace."""
        return self.situation.recorded or any(
            request.session for metrics in self._instances for request in metrics.records[:5]
        )

    # ------------------------------------------------------------------------------- accuracy

    def _accuracy(self, *, saturated: bool) -> Iterator[str]:
        found = self.results.accuracy
        if found is None:
            return
        if found.outside:
            yield (
                "not-compared: no such run was compared with a real server, so its error is not"
                f" known: {'; '.join(found.outside)}. --output table shows the nearest runs that"
                " were; to know your own error use blis observe and blis calibrate"
            )
        if found.unstable and not saturated:
            yield (
                f"unstable: {'; '.join(found.unstable)}: a small error of step times then changes"
                " percentiles a lot; take the range of runs with --latency-option scale=0.95 and"
                " scale=1.05"
            )


def _requests(count: int) -> str:
    return f"{count:,} request{'s' if count != 1 else ''}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    if value >= 100:
        return f"{value:,.0f} s"
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms"


def _some(names: Sequence[str]) -> str:
    """The names, or the first few of many."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and others"
