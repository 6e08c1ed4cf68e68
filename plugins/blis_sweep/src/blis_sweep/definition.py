"""What is to be swept: the keys of a sweep file, and the same from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import attrs

from blis_core.api import BlisError, read_yaml, structure
from blis_sweep.metrics import check_metrics
from blis_sweep.options import (
    SEED,
    WITHOUT_MEANING,
    Command,
    Options,
    OptionTable,
    flag,
    option_table,
    shown,
)

DEFAULT_SEED: Final = 42
"""Of ``blis run``."""
NAME: Final = "name"
POINT: Final = "point"
"""The axis along which the named points lie."""
COMMAND_LINE: Final = "command line"


@attrs.frozen(kw_only=True)
class CompareKeys:
    """Keys of ``compare`` in a sweep file."""

    baseline: Any
    """Name of a point, or values of options that single out what the others are compared with."""
    metrics: tuple[str, ...] = ()
    """Figures to compare; empty = those of the table."""


@attrs.frozen(kw_only=True)
class SweepKeys:
    """Keys of a sweep file."""

    base: Any = None
    """What all points share: a command line as text, or options with their values."""
    grid: Any = None
    """Values by option; there is a point for every combination."""
    points: Any = None
    """List of options with their values, each with a ``name`` if you like; each is combined with
    the whole grid."""
    seeds: Any = None
    """List of seeds, or how many, counted from the seed of ``base``."""
    metrics: tuple[str, ...] = ()
    """Figures of the table; empty = a usual set."""
    compare: CompareKeys | None = None
    """What the points are compared with, pair by pair of equal seeds."""
    confidence: float = 0.95
    """Of the intervals, above 0 and below 1."""


@attrs.frozen(kw_only=True)
class Variant:
    """One entry of ``points``."""

    name: str
    options: Options


@attrs.frozen(kw_only=True)
class Sweep:
    """A sweep, read and typed, but not checked against model and files."""

    table: OptionTable
    base: Options
    axes: Mapping[str, tuple[Any, ...]]
    """Values by option of the grid."""
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    """Figures of the table that were asked for; empty = the usual ones."""
    baseline: Mapping[str, str] | None
    """Shown values by axis that single out the baseline; None = nothing is compared."""
    compared: tuple[str, ...]
    """Figures to compare; empty = those of the table."""
    confidence: float

    @property
    def varied(self) -> list[str]:
        """Every option that is not the same in all points, those of the grid last."""
        names = [name for variant in self.variants for name in variant.options]
        return list(dict.fromkeys([*names, *self.axes]))


class Draft:
    """Collects a sweep from a file and the command line; what is added later wins."""

    def __init__(self) -> None:
        self._command: Command | None = None
        self._base: Options = {}
        self._axes: dict[str, tuple[Any, ...]] = {}
        self._variants: list[Variant] = []
        self._seeds: tuple[int, ...] | int | None = None
        self._metrics: tuple[str, ...] = ()
        self._baseline: list[Any] = []
        self._compared: tuple[str, ...] = ()
        self._confidence = 0.95

    # ------------------------------------------------------------------------------ from a file

    def add_file(self, path: str, base: Sequence[str] = ()) -> None:
        """Take the sweep file ``path``. ``base`` is what will be given to :meth:`add_base`, which
        may be the only place that says which command is swept."""
        self.add_document(read_yaml(path, "sweep file"), path, base)

    def add_document(self, document: Any, source: str, base: Sequence[str] = ()) -> None:
        """Take what a sweep file holds."""
        keys = structure(document, SweepKeys, source)
        self._command = _command_of(keys.base, source) or _first_word(base) or "run"
        # The values themselves come from the document: how an option's text was written matters.
        document = {} if document is None else document
        if keys.base is not None:
            self._base = self._options_of_base(document["base"], source)
        if keys.grid is not None:
            self._axes = self._axes_of(document["grid"], source)
        if keys.points is not None:
            self._variants = self._variants_of(document["points"], source)
        if keys.seeds is not None:
            self._seeds = _seeds_of(keys.seeds, f"{source}: seeds")
        self._metrics = keys.metrics
        check_metrics(keys.metrics, f"{source}: metrics")
        if keys.compare is not None:
            self._baseline = [keys.compare.baseline]
            self._compared = keys.compare.metrics
            check_metrics(keys.compare.metrics, f"{source}: compare.metrics")
        self._confidence = _confidence(keys.confidence, f"{source}: confidence")

    @property
    def _table(self) -> OptionTable:
        return option_table(self._command or "run")

    def _options_of_base(self, base: Any, source: str) -> Options:
        if isinstance(base, str):
            return self._table.arguments(_words(base, source)[1:], f"{source}: base")
        return self._options(base, source, "base")

    def _options(self, given: Any, source: str, path: str) -> Options:
        if not isinstance(given, Mapping):
            raise BlisError(f"{source}: {path}: must be a mapping of options, not {_kind(given)}")
        options: Options = {}
        for key, value in given.items():
            place = f"{path}.{key}"
            name = self._table.name(key, f"{source}: {place}")
            if name in options:
                raise BlisError(f"{source}: {place}: the option is given twice")
            options[name] = self._table.value(name, value, source, place)
        return options

    def _axes_of(self, grid: Any, source: str) -> dict[str, tuple[Any, ...]]:
        if not isinstance(grid, Mapping):
            raise BlisError(f"{source}: grid: must be a mapping of options, not {_kind(grid)}")
        axes: dict[str, tuple[Any, ...]] = {}
        for key, values in grid.items():
            place = f"grid.{key}"
            name = _varied(self._table.name(key, f"{source}: {place}"), f"{source}: {place}")
            if not isinstance(values, list | tuple):
                raise BlisError(f"{source}: {place}: must be a list of values, not {_kind(values)}")
            typed = [
                self._table.value(name, value, source, f"{place}[{number}]")
                for number, value in enumerate(values)
            ]
            axes[name] = _distinct(typed, f"{source}: {place}")
        return axes

    def _variants_of(self, points: Any, source: str) -> list[Variant]:
        if not isinstance(points, list | tuple):
            raise BlisError(f"{source}: points: must be a list, not {_kind(points)}")
        variants = []
        for number, given in enumerate(points):
            path = f"points[{number}]"
            rest = dict(given) if isinstance(given, Mapping) else given
            name = rest.pop(NAME, None) if isinstance(rest, dict) else None
            options = self._options(rest, source, path)
            for option in options:
                _varied(option, f"{source}: {path}")
            variants.append(_variant(name, options))
        return variants

    # ------------------------------------------------------------------- from the command line

    def add_base(self, words: Sequence[str]) -> None:
        """Take a command line: ``run`` or ``replay`` and its options."""
        where = f"{COMMAND_LINE}, after --"
        command = _first_word(words)
        if command is None:
            if self._command is None or not words[0].startswith("-"):
                raise BlisError(
                    f"{where}: must begin with run or replay, as in -- run --model ..., not"
                    f" {words[0]!r}"
                )
            words = [self._command, *words]
        elif self._command not in (None, command):
            raise BlisError(f"{where}: the sweep file is about {self._command}, not {command}")
        self._command = command or self._command
        try:
            given = self._table.arguments(words[1:], where)
        except BlisError as problem:
            if any(f"unknown flag {name}" in str(problem) for name in ("--grid", "--plugin")):
                raise BlisError(f"{problem}; options of sweep itself stand before --") from None
            raise
        self._base = {**self._base, **given}

    def add_axis(self, text: str) -> None:
        """Take ``OPTION=VALUE,VALUE,...`` (or with semicolons, if there are commas in a value)."""
        where = f"--grid {text}"
        key, equals, values = text.partition("=")
        if not equals:
            raise BlisError(f"{where}: must have the form OPTION=VALUE,VALUE,...")
        name = _varied(self._table.name(key, where), where)
        parts = values.removesuffix(";").split(";") if ";" in values else values.split(",")
        typed = [self._table.parse(name, part.strip(), where) for part in parts]
        self._axes[name] = _distinct(typed, where)

    def add_point(self, text: str) -> None:
        """Take ``NAME: OPTIONS``, with options as on the command line."""
        where = f"--point {text!r}"
        name, colon, options = text.partition(":")
        if not colon or name.lstrip().startswith("-"):
            raise BlisError(f"{where}: must have the form 'NAME: --option value ...'")
        given = self._table.arguments(_words(options, where), where)
        for option in given:
            _varied(option, where)
        self._variants.append(_variant(name.strip(), given))

    def set_seeds(self, text: str) -> None:
        """Take how many seeds, or a list of them (with a comma at its end if there is only one)."""
        parts = [part.strip() for part in text.split(",")]
        try:
            numbers = [int(part) for part in parts if part]
        except ValueError:
            raise BlisError(
                f"--seeds {text}: must be a number, or 1,2,3 for single seeds"
            ) from None
        given: Any = numbers if "," in text else next(iter(numbers), None)
        self._seeds = _seeds_of(given, f"--seeds {text}")

    def set_metrics(self, text: str) -> None:
        """Take the names of metrics, separated by commas."""
        self._metrics = tuple(name.strip() for name in text.split(",") if name.strip())
        check_metrics(self._metrics, f"--metrics {text}")

    def set_baseline(self, texts: Sequence[str]) -> None:
        """Take what the others are compared with: names of points, or ``OPTION=VALUE``."""
        self._baseline = list(texts)

    def set_confidence(self, value: float) -> None:
        """Take the confidence of intervals."""
        self._confidence = _confidence(value, "--confidence")

    # -------------------------------------------------------------------------------- the result

    def finish(self) -> Sweep:
        """The sweep. BlisError if it has no base, or if its parts contradict one another."""
        base = {name: v for name, v in self._base.items() if name not in WITHOUT_MEANING}
        if not base:
            raise BlisError(
                "there is nothing to sweep: name the command, as in blis sweep --grid rate=4,8 --"
                " run --model qwen/qwen3-14b, or a sweep file with the key base"
            )
        names = [variant.name for variant in self._variants]
        for name in names:
            if names.count(name) > 1:
                raise BlisError(f"points: there are two called {name!r}; give each its own name")
        for variant in self._variants:
            both = next((flag(name) for name in variant.options if name in self._axes), None)
            if both:
                raise BlisError(f"point {variant.name}: {both} is an option of the grid, too")
        return Sweep(
            table=self._table,
            base=base,
            axes=self._axes,
            variants=tuple(self._variants),
            seeds=self._all_seeds(base),
            metrics=self._metrics,
            baseline=self._axes_of_baseline() if self._baseline else None,
            compared=self._compared,
            confidence=self._confidence,
        )

    def _all_seeds(self, base: Options) -> tuple[int, ...]:
        if isinstance(self._seeds, tuple):
            return self._seeds
        first = base.get(SEED)
        first = DEFAULT_SEED if first is None else first
        return tuple(range(first, first + (self._seeds or 1)))

    def _axes_of_baseline(self) -> dict[str, str]:
        """The baseline as shown values by axis."""
        places: dict[str, list[str]] = {n: list(map(shown, v)) for n, v in self._axes.items()}
        if self._variants:
            places[POINT] = [variant.name for variant in self._variants]
        found: dict[str, str] = {}
        for item in self._baseline:
            if isinstance(item, Mapping):
                pairs = [(str(key), shown(value)) for key, value in item.items()]
            elif item in places.get(POINT, ()):
                pairs = [(POINT, str(item))]
            else:
                key, equals, value = str(item).partition("=")
                if not equals:
                    known = ", ".join(places.get(POINT, ())) or "none"
                    raise BlisError(f"compare: there is no point {item!r} (named points: {known})")
                pairs = [(key, value)]
            for key, value in pairs:
                axis = key if key == POINT else self._table.name(key, "compare")
                if axis != POINT and axis in places:
                    value = shown(self._table.parse(axis, value, "compare"))
                if value not in places.get(axis, ()):
                    known = ", ".join(places.get(axis, ())) or "none: it is not varied"
                    raise BlisError(f"compare: {flag(axis)} is never {value} (values: {known})")
                found[axis] = value
        return found


# -------------------------------------------------------------------------------------- details


def _first_word(words: Sequence[str]) -> Command | None:
    commands: tuple[Command, ...] = get_args(Command)
    return next((command for command in commands if words[:1] == [command]), None)


def _command_of(base: Any, source: str) -> Command | None:
    """Which command a base is about; None if there is no base."""
    if base is None:
        return None
    if isinstance(base, str):
        command = _first_word(_words(base, f"{source}: base"))
        if command is None:
            raise BlisError(f"{source}: base: must begin with run or replay, not {base[:20]!r}")
        return command
    keys = [str(key).replace("-", "_") for key in base] if isinstance(base, Mapping) else []
    return "replay" if "trace_header" in keys else "run"


def _words(text: str, where: str) -> list[str]:
    """The words of a command line, without "blis" at its beginning."""
    try:
        words = shlex.split(text)
        return words[1:] if words[:1] == ["blis"] else words
    except ValueError as problem:
        raise BlisError(f"{where}: {problem}") from None


def _varied(name: str, where: str) -> str:
    """``name``, an option that points may differ in."""
    if name == SEED:
        raise BlisError(f"{where}: seeds are the same for all points; use seeds (--seeds)")
    if name in WITHOUT_MEANING:
        raise BlisError(f"{where}: {flag(name)} does not change what is simulated; leave it out")
    return name


def _variant(name: Any, options: Options) -> Variant:
    label = ", ".join(f"{flag(option)}={shown(value)}" for option, value in options.items())
    return Variant(name=str(name) if name else label or "base", options=options)


def _distinct(values: list[Any], where: str) -> tuple[Any, ...]:
    if not values:
        raise BlisError(f"{where}: has no value; give at least one")
    for number, value in enumerate(values):
        if value in values[:number]:
            raise BlisError(f"{where}: {shown(value)} stands there twice")
    return tuple(values)


def _seeds_of(given: Any, where: str) -> tuple[int, ...] | int:
    """Single seeds, or how many."""
    listed = given if isinstance(given, list | tuple) else [given]
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in listed)
    if not whole or not listed:
        raise BlisError(f"{where}: must be a whole number, or a list of whole numbers")
    if listed is given:
        return _distinct(list(given), where)
    if given < 1:
        raise BlisError(f"{where}: at least one seed is needed")
    return int(given)


def _confidence(value: float, where: str) -> float:
    if not 0 < value < 1:
        raise BlisError(f"{where}: must be above 0 and below 1, as 0.95, not {value:g}")
    return value


def _kind(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "text" if value else "nothing"
    return "a list" if isinstance(value, list | tuple) else "a mapping"
