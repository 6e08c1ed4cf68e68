"""From a sweep to its points and runs, each checked before the first one is simulated."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_core.api import BlisError, check_simulation, warning
from blis_sweep.definition import POINT, Sweep, Variant
from blis_sweep.identity import run_key
from blis_sweep.inputs import Inputs, with_absolute_paths
from blis_sweep.options import SEED, Options, flag, merged, shown

if TYPE_CHECKING:
    from blis_core.api import Deployment

_WORKLOAD_SECTIONS: Final = ("Workload", "Trace", "Simulation")
_LEVEL: Final = re.compile(r"^\[\w+ *\] *")
_NO_VARIANT: Final = Variant(name="", options={})


@attrs.frozen(kw_only=True)
class Point:
    """One combination of settings."""

    label: str
    """Tells it apart from the other points."""
    place: Mapping[str, str]
    """Shown value by axis: ``point`` for named points, then the options of the grid."""
    options: Options
    """Of its runs, without a seed."""
    problem: str = ""
    """Why it cannot be simulated."""


@attrs.frozen(kw_only=True)
class Run:
    """One simulation of a point."""

    point: int
    """Its position among the points."""
    seed: int
    key: str
    """Of its result; empty for a point that cannot be simulated."""
    options: Options


def expand(sweep: Sweep) -> list[Point]:
    """All points, in the order of the named ones, and then of the grid, whose last option changes
    fastest."""
    points = []
    for variant in sweep.variants or (_NO_VARIANT,):
        for values in itertools.product(*sweep.axes.values()):
            chosen = dict(zip(sweep.axes, values, strict=True))
            place = {POINT: variant.name} if variant.name else {}
            place |= {name: shown(value) for name, value in chosen.items()}
            points.append(
                Point(
                    label=label_of(place) or "base",
                    place=place,
                    options=merged(sweep.base, variant.options, chosen, {SEED: None}),
                )
            )
    return points


def label_of(place: Mapping[str, str]) -> str:
    """A place among the axes in words."""
    return ", ".join(
        value if axis == POINT else f"{flag(axis)}={value}" for axis, value in place.items()
    )


class Preparation:
    """Checks points and makes their runs."""

    def __init__(self, sweep: Sweep, code: str, *, skip_invalid: bool) -> None:
        """``code`` is the digest of the code that will simulate. ``skip_invalid``: points that
        cannot be simulated are no error."""
        self.inputs = Inputs()
        self.warnings: dict[str, list[str]] = {}
        """What was said about points, and about which ones."""
        self._sweep = sweep
        self._code = code
        self._skip_invalid = skip_invalid
        self._checked_workloads: set[tuple[Any, ...]] = set()

    def prepare(self, points: Sequence[Point]) -> tuple[list[Point], list[Run]]:
        """The points, with what is wrong with them, and their runs, those of one point in a row.

        BlisError for a point that cannot be simulated, unless they are skipped.
        """
        checked, runs = [], []
        for number, point in enumerate(points):
            keys, problem = self._checked(point)
            checked.append(attrs.evolve(point, problem=problem))
            runs += [
                Run(
                    point=number,
                    seed=seed,
                    key=key,
                    options=with_absolute_paths({**point.options, SEED: seed}),
                )
                for seed, key in keys.items()
            ]
        self._report([point for point in checked if point.problem], len(points))
        return checked, runs

    def _checked(self, point: Point) -> tuple[dict[int, str], str]:
        """The key of each run of a point by seed, and what is wrong with the point."""
        try:
            with self._listening(point):
                return self._keys(point), ""
        except BlisError as problem:
            return dict.fromkeys(self._sweep.seeds, ""), str(problem)

    def _keys(self, point: Point) -> dict[int, str]:
        """The key of each run of a point; BlisError if it cannot be simulated."""
        table = self._sweep.table
        config = table.config(point.options)
        workload = tuple(
            getattr(config, name)
            for name, spec in table.specs.items()
            if spec.section in _WORKLOAD_SECTIONS
        )
        deployment: Deployment = check_simulation(
            config, workload=workload not in self._checked_workloads
        )
        self._checked_workloads.add(workload)
        files = self.inputs.digests(point.options)
        return {
            seed: run_key(self._code, attrs.evolve(config, seed=seed), deployment, files)
            for seed in self._sweep.seeds
        }

    def _report(self, wrong: Sequence[Point], of: int) -> None:
        if not wrong or (self._skip_invalid and len(wrong) < of):
            return
        if of == 1:
            raise BlisError(wrong[0].problem)
        others = f" ({len(wrong)} of {of} points cannot be simulated)" if len(wrong) > 1 else ""
        way_out = "" if len(wrong) == of else "; --skip-invalid leaves such points out"
        raise BlisError(f"point {wrong[0].label}: {wrong[0].problem}{others}{way_out}")

    @contextlib.contextmanager
    def _listening(self, point: Point) -> Iterator[None]:
        """Collect warnings, which would be the same for many points."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                yield
        finally:
            for line in said.getvalue().splitlines():
                self.warnings.setdefault(_LEVEL.sub("", line), []).append(point.label)


def log_warnings(warnings: Mapping[str, Sequence[str]], of: int) -> None:
    """Log each warning once, with the points it is about, unless it is about all of them."""
    for text, labels in warnings.items():
        about = ""
        if len(set(labels)) < of:
            others = f" and {len(set(labels)) - 1} others" if len(set(labels)) > 1 else ""
            about = f" (point {labels[0]}{others})"
        warning(f"{text}{about}")
