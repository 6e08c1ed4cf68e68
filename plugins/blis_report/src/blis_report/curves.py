"""Time lines: how many requests wait and run, KV use and throughput, in bins of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from blis_core.api import Phase

if TYPE_CHECKING:
    import numpy.typing as npt

    from blis_core.api import Recording

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

WAITING = (Phase.QUEUE, Phase.PREEMPTED)
RUNNING = (Phase.PREFILL, Phase.DECODE, Phase.STALLED, Phase.RECOMPUTE, Phase.DISCARDED)


def edges(end: int, bins: int) -> Floats:
    """Borders of ``bins`` bins of equal width (us) from 0 to ``end``."""
    return np.linspace(0.0, float(max(end, 1)), bins + 1)


class Steps:
    """A value that is constant between points in time; 0 before the first."""

    def __init__(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """``values[i]`` holds from ``times[i]`` (ascending) on."""
        self._times = np.asarray(times, dtype=np.float64)
        self._values = np.asarray(values, dtype=np.float64)

    @classmethod
    def counting(cls, begins: Integers, ends: Integers) -> Steps:
        """How many of the intervals are open at a time."""
        times = np.concatenate((begins, ends))
        changes = np.concatenate((np.ones(len(begins)), -np.ones(len(ends))))
        moments, places = np.unique(times, return_inverse=True)
        return cls(moments, np.cumsum(np.bincount(places, changes, minlength=len(moments))))

    def mean(self, borders: Floats) -> Floats:
        """Mean over time in each bin."""
        if not len(self._times):
            return np.zeros(len(borders) - 1)
        until = np.concatenate(([0.0], np.cumsum(self._values[:-1] * np.diff(self._times))))
        place = np.searchsorted(self._times, borders, side="right") - 1
        inside = np.maximum(place, 0)
        sums = np.where(
            place >= 0, until[inside] + self._values[inside] * (borders - self._times[inside]), 0.0
        )
        means: Floats = np.diff(sums) / np.diff(borders)
        return means

    def peak(self, borders: Floats) -> Floats:
        """Largest value in each bin."""
        if not len(self._times):
            return np.zeros(len(borders) - 1)
        place = np.searchsorted(self._times, borders[:-1], side="right") - 1
        largest = np.where(place >= 0, self._values[np.maximum(place, 0)], 0.0)
        low = np.searchsorted(self._times, borders[:-1], side="right")
        high = np.searchsorted(self._times, borders[1:], side="left")
        for k in np.flatnonzero(high > low).tolist():
            largest[k] = max(largest[k], self._values[low[k] : high[k]].max())
        return largest


def rate(times: npt.ArrayLike, amounts: npt.ArrayLike, borders: Floats) -> Floats:
    """Amount per second in each bin, of amounts that fall due at points in time."""
    sums, _ = np.histogram(np.asarray(times), bins=borders, weights=np.asarray(amounts, float))
    rates: Floats = sums / (np.diff(borders) / 1e6)
    return rates


@attrs.frozen(eq=False)
class InstanceCurves:
    """One instance. Means in each bin; ``*_peak`` are largest values."""

    name: str
    waiting: Floats
    waiting_peak: Floats
    running: Floats
    kv_use: Floats
    """Share of the KV blocks that running requests hold."""
    kv_peak: Floats
    prefill_rate: Floats
    """Prompt tokens per second."""
    decode_rate: Floats
    """Output tokens per second."""


@attrs.frozen(eq=False)
class Curves:
    """All time lines of a run."""

    borders: Floats
    """us, one more than bins."""
    instances: list[InstanceCurves]
    gateway: Floats
    waiting: Floats
    running: Floats
    arrivals: Floats
    """Per second."""
    completions: Floats
    """Per second."""
    failures: Floats
    """Per second: rejected, timed out and so on."""

    @property
    def seconds(self) -> Floats:
        """Middles of the bins."""
        middles: Floats = (self.borders[1:] + self.borders[:-1]) / 2e6
        return middles


def curves(recording: Recording, bins: int = 200) -> Curves:
    """The time lines of a run."""
    from blis_core.api import Outcome

    columns, spans = recording.requests, recording.spans
    end = max(recording.end, int(columns["end"].max(initial=0)))
    borders = edges(end, bins)
    begins = recording.begins()
    ends = begins + spans["duration"]
    waits, runs = np.isin(spans["phase"], WAITING), np.isin(spans["phase"], RUNNING)
    held = spans["phase"] == Phase.GATEWAY
    done = columns["outcome"] == Outcome.COMPLETED
    failed = ~done & (columns["outcome"] != Outcome.UNFINISHED)
    ones = np.ones(len(recording.ids))
    by_instance = np.argsort(spans["instance"], kind="stable")
    sorted_instances = spans["instance"][by_instance]
    instances = []
    for index, about in enumerate(recording.instances):
        low, high = np.searchsorted(sorted_instances, [index, index + 1])
        mine = by_instance[low:high]
        waiting, running = mine[waits[mine]], mine[runs[mine]]
        instances.append(
            _instance(
                recording,
                index,
                str(about["name"]),
                borders,
                Steps.counting(begins[waiting], ends[waiting]),
                Steps.counting(begins[running], ends[running]),
            )
        )
    total = np.zeros(bins)
    return Curves(
        borders,
        instances,
        Steps.counting(begins[held], ends[held]).mean(borders),
        sum((each.waiting for each in instances), total),
        sum((each.running for each in instances), total),
        rate(columns["arrival"], ones, borders),
        rate(columns["end"][done], ones[done], borders),
        rate(columns["end"][failed], ones[failed], borders),
    )


def _instance(
    recording: Recording,
    index: int,
    name: str,
    borders: Floats,
    waiting: Steps,
    running: Steps,
) -> InstanceCurves:
    steps = recording.steps
    low, high = np.searchsorted(steps["instance"], [index, index + 1])
    begin, duration = steps["begin"][low:high], steps["duration"][low:high]
    # the last step of a batch may be cut off: the engine counts it as done when it begins
    end = np.minimum(begin + duration, np.append(begin[1:], np.iinfo(np.int64).max))
    used = steps["used_blocks"][low:high] / max(1, int(recording.instances[index]["total_blocks"]))
    idle = end < np.append(begin[1:], np.iinfo(np.int64).max)
    times = np.concatenate((begin, end[idle]))
    order = np.argsort(times, kind="stable")
    use = Steps(times[order], np.concatenate((used, np.zeros(int(idle.sum()))))[order])

    def tokens(column: str) -> Floats:
        if not len(begin):
            return np.zeros(len(borders) - 1)
        done = np.cumsum(steps[column][low:high])
        # constant between the steps
        moments = np.stack((begin, end), axis=1).ravel()
        so_far = np.stack((done - steps[column][low:high], done), axis=1).ravel()
        rates: Floats = np.diff(np.interp(borders, moments, so_far)) / (np.diff(borders) / 1e6)
        return rates

    return InstanceCurves(
        name,
        waiting.mean(borders),
        waiting.peak(borders),
        running.mean(borders),
        use.mean(borders),
        use.peak(borders),
        tokens("prefill_tokens"),
        tokens("decode_tokens"),
    )
