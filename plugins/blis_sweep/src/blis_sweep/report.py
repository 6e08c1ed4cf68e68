"""What a sweep has found: rows, means with intervals, comparisons; as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from blis_sweep.comparison import Comparison, compare
from blis_sweep.definition import POINT, Sweep
from blis_sweep.metrics import TROUBLE, USUAL, columns, metric
from blis_sweep.options import flag, shown
from blis_sweep.points import Point, Run
from blis_sweep.statistics import Estimate, estimate
from blis_sweep.store import Finished
from blis_sweep.text import aligned, number
from blis_sweep.worker import Outcome

OK: Final = "ok"
FAILED: Final = "failed"
INVALID: Final = "invalid"


@attrs.frozen(kw_only=True)
class Report:
    """Everything that came of a sweep."""

    sweep: Sweep
    points: Sequence[Point]
    runs: Sequence[Run]
    outcomes: Sequence[Outcome]
    """One per run."""
    finished: Sequence[dict[int, Finished]] = attrs.field(init=False, repr=False)
    """The finished runs of each point by seed."""

    @finished.default
    def _by_seed(self) -> list[dict[int, Finished]]:
        found: list[dict[int, Finished]] = [{} for _ in self.points]
        for run, outcome in zip(self.runs, self.outcomes, strict=True):
            if outcome.finished is not None:
                found[run.point][run.seed] = outcome.finished
        return found

    # ---------------------------------------------------------------------------------- as data

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per run: point, varied options, seed, status, error, and all figures."""
        figures = columns(o.finished.metrics for o in self.outcomes if o.finished is not None)
        for run, outcome in zip(self.runs, self.outcomes, strict=True):
            point = self.points[run.point]
            found = outcome.finished
            yield {
                **self._head(point),
                "seed": run.seed,
                "status": self._status(point, outcome),
                "error": point.problem or outcome.error or None,
                "traffic": found.traffic if found is not None else None,
                **{name: found.metrics.get(name) if found else None for name in figures},
            }

    def summary(self) -> Iterator[dict[str, Any]]:
        """One row per point and figure: mean, standard deviation and interval over the seeds."""
        names = self.sweep.metrics or columns(
            f.metrics for by in self.finished for f in by.values()
        )
        for position, point in enumerate(self.points):
            head = self._head(point)
            for name in names:
                found = self.estimate(position, name)
                if found is not None:
                    yield {
                        **head,
                        "metric": name,
                        "unit": metric(name).unit,
                        "seeds": found.count,
                        **{
                            key: _or_none(getattr(found, key))
                            for key in ("mean", "deviation", "low", "high")
                        },
                    }

    def comparisons(self) -> list[Comparison]:
        """The points against the baseline, if there is one."""
        sweep = self.sweep
        if sweep.baseline is None:
            return []
        names = sweep.compared or sweep.metrics or USUAL
        return list(compare(self.points, self.finished, sweep.baseline, names, sweep.confidence))

    @property
    def failures(self) -> list[tuple[Run, str]]:
        """Runs that failed although their points seemed to be sound, and why."""
        return [
            (run, outcome.error)
            for run, outcome in zip(self.runs, self.outcomes, strict=True)
            if outcome.finished is None and not self.points[run.point].problem
        ]

    def estimate(self, point: int, name: str) -> Estimate | None:
        """Mean and interval of a figure of a point; None if no run has it."""
        values = [f.metrics[name] for f in self.finished[point].values() if name in f.metrics]
        return estimate(values, self.sweep.confidence)

    def _head(self, point: Point) -> dict[str, Any]:
        """Columns that say which point it is."""
        config = self.sweep.table.config(point.options)
        values = {name: getattr(config, name) for name in self.sweep.varied}
        return {
            POINT: point.label,
            **{name: shown(v) if isinstance(v, tuple) else v for name, v in values.items()},
        }

    @staticmethod
    def _status(point: Point, outcome: Outcome) -> str:
        if point.problem:
            return INVALID
        return FAILED if outcome.finished is None else OK

    # ---------------------------------------------------------------------------------- as text

    def as_text(self) -> str:
        """The table of means, comparisons, warnings and failures."""
        parts = [self._table()]
        parts += filter(None, [self._compared(), self._warnings(), self._failed()])
        return "\n\n".join(parts) + "\n"

    def _table(self) -> str:
        names = self._shown_metrics()
        axes = list(dict.fromkeys(axis for point in self.points for axis in point.place)) or [POINT]
        rows = []
        for position, point in enumerate(self.points):
            place = point.place or {POINT: point.label}
            cells = [_cell(self.estimate(position, name)) for name in names]
            runs = f"{len(self.finished[position])}"
            rows.append([*(place.get(axis, "") for axis in axes), runs, *cells])
        known = [metric(name) for name in names]
        labels = [*(axis if axis == POINT else flag(axis) for axis in axes), "runs"]
        labels += [each.label for each in known]
        units = [*([""] * (len(axes) + 1)), *(each.unit for each in known)]
        text = aligned([labels, units] if any(units) else [labels], rows, words=len(axes))
        if len(self.sweep.seeds) == 1:
            return f"{text}\nOne seed: no intervals can be given (--seeds)."
        level = f"{self.sweep.confidence * 100:g}"
        return (
            f"{text}\nMeans over {len(self.sweep.seeds)} seeds ± {level} % intervals of the mean."
        )

    def _shown_metrics(self) -> list[str]:
        names = list(self.sweep.metrics or USUAL)
        troubled = any(f.metrics.get(TROUBLE) for by in self.finished for f in by.values())
        if troubled and not self.sweep.metrics:
            names.append(TROUBLE)
        return names

    def _compared(self) -> str:
        found = self.comparisons()
        if not found:
            nothing = (
                "Nothing can be compared: no run of the baseline and of another point has ended."
            )
            return nothing if self.sweep.baseline is not None else ""
        lines = [f"  {c.sentence(self.sweep.confidence)}" for c in found]
        if not all(c.same_traffic for c in found):
            lines.append(
                "  Some of these pairs have the same seeds, but not the same requests: what arrives"
                " differs, too."
            )
        return "\n".join(["Compared seed by seed", *lines])

    def _warnings(self) -> str:
        labels: dict[str, dict[str, None]] = {}
        for run, outcome in zip(self.runs, self.outcomes, strict=True):
            if outcome.finished is not None:
                for text in outcome.finished.warnings:
                    labels.setdefault(text, {})[self.points[run.point].label] = None
        lines = [f"  {len(of)} of {len(self.points)} points: {text}" for text, of in labels.items()]
        return "\n".join(["Said by the latency model", *lines]) if lines else ""

    def _failed(self) -> str:
        lines = [f"  {point.label}: {point.problem}" for point in self.points if point.problem]
        parts = ["\n".join(["Points that cannot be simulated", *lines])] if lines else []
        lines = [
            f"  {self.points[run.point].label}, seed {run.seed}: {error}"
            for run, error in self.failures
        ]
        parts += ["\n".join(["Runs that failed", *lines])] if lines else []
        return "\n\n".join(parts)

    # ---------------------------------------------------------------------------------- as JSON

    def as_json(self) -> str:
        """One document: runs, means, comparisons. NaN becomes null."""
        confidence = self.sweep.confidence
        document = {
            "confidence": confidence,
            "seeds": list(self.sweep.seeds),
            "runs": list(self.rows()),
            "summary": list(self.summary()),
            "comparisons": [
                {
                    **attrs.asdict(c, filter=lambda field, _: field.name != "difference"),
                    "difference": {
                        key: _or_none(value) for key, value in attrs.asdict(c.difference).items()
                    },
                    "significant": c.significant,
                    "sentence": c.sentence(confidence),
                }
                for c in self.comparisons()
            ],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _cell(found: Estimate | None) -> str:
    if found is None:
        return "-"
    if math.isnan(found.low):
        return number(found.mean)
    return f"{number(found.mean)} ± {number(found.half_width, found.mean)}"
