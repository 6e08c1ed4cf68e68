"""Pairs of points, seed by seed: is one better than the other, and by how much?

With the same seed two points get the same random numbers (common random numbers), so that much of
the noise is in both and drops out of their difference. The interval is that of the mean of the
differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import attrs

from blis_sweep.metrics import metric
from blis_sweep.points import Point, label_of
from blis_sweep.statistics import Estimate, estimate
from blis_sweep.store import Finished
from blis_sweep.text import number


@attrs.frozen(kw_only=True)
class Comparison:
    """One point against the baseline, in one figure."""

    point: str
    """Label of the point."""
    baseline: str
    """Label of the other one."""
    name: str
    """What tells the point from the baseline."""
    baseline_name: str
    place: str
    """What both have in common, in words; empty if nothing is varied but that."""
    metric: str
    difference: Estimate
    """Of the point's values minus the baseline's."""
    baseline_mean: float
    same_traffic: bool
    """Whether both got the same requests with every seed."""

    @property
    def significant(self) -> bool:
        """Whether the interval of the difference leaves 0 out."""
        return self.difference.low > 0 or self.difference.high < 0

    def sentence(self, confidence: float) -> str:
        """The result in plain words."""
        where = f"at {self.place}: " if self.place else ""
        return f"{where}{self._verdict()}{self._interval(confidence)}"

    def _verdict(self) -> str:
        known, mean = metric(self.metric), self.difference.mean
        pair = f"{self.name} and {self.baseline_name}"
        if not mean and not self.significant:
            return f"{pair} are equal on {known.label}"
        if math.isnan(self.difference.low) or (self.significant and not known.better):
            word = "lower" if mean < 0 else "higher"
            return (
                f"{known.label} of {self.name} is {self._amount(abs(mean))} {word} than that of"
                f" {self.baseline_name}"
            )
        if not self.significant:
            return f"no clear difference between {pair} on {known.label}: {self._amount(mean)}"
        verb = "beats" if (mean < 0) == (known.better == "lower") else "loses to"
        return (
            f"{self.name} {verb} {self.baseline_name} on {known.label} by {self._amount(abs(mean))}"
        )

    def _amount(self, difference: float) -> str:
        """A difference with its unit, and as a share of the baseline."""
        text = f"{number(difference)} {metric(self.metric).unit}".strip()
        if self.baseline_mean:
            text += f" ({number(difference / abs(self.baseline_mean) * 100)} %)"
        return text

    def _interval(self, confidence: float) -> str:
        low, high = self.difference.low, self.difference.high
        if math.isnan(low):
            return ", with one seed; more seeds would tell whether that is chance"
        if self.significant and high < 0:
            low, high = -high, -low  # of the distance that the verdict gives
        level = f"{confidence * 100:g} % interval"
        return f", {level} [{number(low)}, {number(high)}], {self.difference.count} seeds"


def compare(
    points: Sequence[Point],
    finished: Sequence[Mapping[int, Finished]],
    baseline: Mapping[str, str],
    metrics: Sequence[str],
    confidence: float,
) -> Iterator[Comparison]:
    """Every point against its counterpart, which has the same place but for that of ``baseline``.

    ``finished`` has the finished runs of each point by seed. Seeds with which one of the two has
    failed are left out; a pair without any is not compared.
    """
    by_place = {tuple(point.place.items()): number for number, point in enumerate(points)}
    for mine, point in enumerate(points):
        place = {**point.place, **baseline}
        if place == point.place:
            continue
        other = by_place[tuple(place.items())]
        seeds = [seed for seed in finished[mine] if seed in finished[other]]
        pairs = [(finished[mine][seed], finished[other][seed]) for seed in seeds]
        common = {axis: v for axis, v in point.place.items() if axis not in baseline}
        for name in metrics:
            values = [
                (a.metrics[name], b.metrics[name])
                for a, b in pairs
                if name in a.metrics and name in b.metrics
            ]
            found = estimate([a - b for a, b in values], confidence)
            if found is not None:
                yield Comparison(
                    point=point.label,
                    baseline=points[other].label,
                    name=label_of({axis: point.place[axis] for axis in baseline}),
                    baseline_name=label_of(baseline),
                    place=label_of(common),
                    metric=name,
                    difference=found,
                    baseline_mean=math.fsum(b for _, b in values) / len(values),
                    same_traffic=all(a.traffic == b.traffic for a, b in pairs),
                )
