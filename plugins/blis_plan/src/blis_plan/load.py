"""Loads: traffic whose rate can be chosen, and the configuration that simulates it.

Options of ``blis run`` are scaled by ``--rate``, a workload file by its ``aggregate_rate``, a
recorded trace by its time. A load is *steady* if its rate is the same all the time: then a part of
it is as good as the whole, and it may be lengthened.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_core.api import (
    MAX_INT64,
    BlisError,
    ReplayConfig,
    RunConfig,
    SimulationConfig,
    atomic_write,
    format_header,
    format_rows,
    load_defaults,
    read_trace,
    read_yaml,
    structure,
    traffic_of_file,
)

if TYPE_CHECKING:
    from blis_plan.options import LoadConfig

DEFAULT_SEED: Final = 42
DEFAULT_TIMEOUT_S: Final = 300
DAY_US: Final = 86_400_000_000

SHARED: Final = tuple(field.name for field in attrs.fields(SimulationConfig))
_QUIET: Final = {"output": "auto", "log": "error"}
_NO_LIMIT: Final = 1 << 40

EQUAL_GAPS: Final = (
    "requests come in equal gaps, as with blis run; real traffic comes in bursts, which raise the"
    " tails: compare with --arrivals poisson"
)
FASTER: Final = (
    "another rate means that the trace is played faster or slower, pauses between the rounds of a"
    " session included"
)


class Load(ABC):
    """Traffic at a rate of choice."""

    rate: float
    """Requests per second as described."""
    steady: bool = True
    seeded: bool = True
    """Whether another seed makes other requests."""
    closed: bool = False
    """Whether requests wait for answers, so that their number is not known beforehand, and fewer of
    them are not the first ones of more."""
    remarks: tuple[str, ...] = ()
    """What the user should know of it."""

    @abstractmethod
    def fixed_requests(self, rate: float, seed: int | None) -> int | None:
        """How many requests it has at ``rate``; None = as many as one likes."""

    @abstractmethod
    def config(
        self, base: Mapping[str, Any], rate: float, seed: int | None, requests: int
    ) -> SimulationConfig:
        """A run of ``requests`` requests at ``rate``. ``base`` has all options but the load's."""

    @abstractmethod
    def command(self, rate: float, seed: int | None, requests: int) -> list[str] | None:
        """The options of ``blis run`` or ``blis replay`` for the same; None = there are none."""


@attrs.frozen
class FlagLoad(Load):
    """One client with the lengths of the options or a preset, in equal gaps."""

    options: RunConfig
    rate: float
    remarks: tuple[str, ...] = (EQUAL_GAPS,)

    def fixed_requests(self, rate: float, seed: int | None) -> int | None:
        """``--num-requests``, or as many as come before ``--horizon``."""
        count, horizon = self.options.num_requests or None, self.options.horizon
        if horizon is None:
            return count
        arriving = max(1, math.floor(rate * horizon / 1e6))
        return arriving if count is None else min(count, arriving)

    def config(
        self, base: Mapping[str, Any], rate: float, seed: int | None, requests: int
    ) -> SimulationConfig:
        return RunConfig(
            **{**base, **_QUIET, **_workload(self.options), **_seed(seed), "horizon": None},
            rate=rate,
            num_requests=requests,
        )

    def command(self, rate: float, seed: int | None, requests: int) -> list[str] | None:
        return [
            *("--rate", f"{rate:.15g}", "--num-requests", str(requests)),
            *(f"--{name}={value}" for name, value in _seed(seed).items()),
        ]


def _seed(seed: int | None) -> dict[str, int]:
    """The option, if there is one."""
    return {} if seed is None else {"seed": seed}


def _workload(options: RunConfig) -> dict[str, Any]:
    """The options that describe lengths and patience."""
    names = [field.name for field in attrs.fields(RunConfig) if field.name not in SHARED]
    mine = {"rate", "num_requests", "metrics_path", "trace_output", "workload_spec"}
    return {name: getattr(options, name) for name in names if name not in mine}


@attrs.frozen
class FileLoad(Load):
    """A workload file."""

    path: str
    text: bytes
    options: RunConfig
    folder: Path
    """For copies with another rate."""
    rate: float
    steady: bool
    closed: bool
    horizon: int
    """Of options or file; 0 = none."""
    number: int
    """Of options or file; 0 = none."""
    remarks: tuple[str, ...] = ()

    def fixed_requests(self, rate: float, seed: int | None) -> int | None:
        if self.closed and self.horizon:
            return self.number
        number = self.number
        if not self.steady:
            # the same span of time, and so more requests at a higher rate
            number = round(number * rate / self.rate) if number else 0
        elif self.options.num_requests is None:
            number = 0
        if not self.horizon:
            return max(1, number) if number else None
        # Arrivals end at the horizon, the simulation does not: so no request is cut off.
        traffic = traffic_of_file(
            self._at(rate), seed=seed, horizon=self.horizon, num_requests=number or _NO_LIMIT
        )
        return sum(1 for _ in traffic.workload.requests)

    def config(
        self, base: Mapping[str, Any], rate: float, seed: int | None, requests: int
    ) -> SimulationConfig:
        keep = self.closed and self.horizon
        return RunConfig(
            **{
                **base,
                **_QUIET,
                **_seed(seed),
                "horizon": self.horizon if keep else MAX_INT64,
            },
            workload_spec=self._at(rate),
            num_requests=requests,
            timeout=self.options.timeout,
        )

    def command(self, rate: float, seed: int | None, requests: int) -> list[str] | None:
        if rate != self.rate or (self.closed and self.horizon):
            return None
        return [
            *("--workload-spec", self.path, "--num-requests", str(requests)),
            *(f"--{name}={value}" for name, value in _seed(seed).items()),
            *(["--horizon", str(MAX_INT64)] if self.horizon else []),
        ]

    def _at(self, rate: float) -> str:
        """A file with this rate."""
        if rate == self.rate:
            return self.path
        copy = self.folder / f"rate-{rate!r}.yaml"
        if not copy.exists():
            atomic_write(copy, with_rate(self.text, rate))
        return str(copy)


def with_rate(text: bytes, rate: float) -> str:
    """The workload file with another ``aggregate_rate``; everything else as it stands."""
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    value = yaml.ScalarNode("tag:yaml.org,2002:float", repr(rate))
    pairs = [pair for pair in root.value if pair[0].value != "aggregate_rate"]
    pairs.append((yaml.ScalarNode("tag:yaml.org,2002:str", "aggregate_rate"), value))
    root.value = pairs
    return str(yaml.serialize(root, Dumper=yaml.SafeDumper))


@attrs.frozen
class TraceLoad(Load):
    """A recorded trace, played faster or slower."""

    header: str
    data: str
    options: RunConfig
    folder: Path
    rate: float
    requests: int
    steady: bool = False
    seeded: bool = False
    remarks: tuple[str, ...] = (FASTER,)

    def fixed_requests(self, rate: float, seed: int | None) -> int | None:
        return self.requests

    def config(
        self, base: Mapping[str, Any], rate: float, seed: int | None, requests: int
    ) -> SimulationConfig:
        header, data, last = self._at(rate)
        horizon = last + DAY_US if self.options.horizon is None else self.options.horizon
        return ReplayConfig(
            **{**base, **_QUIET, **_seed(seed), "horizon": horizon},
            trace_header=header,
            trace_data=data,
        )

    def command(self, rate: float, seed: int | None, requests: int) -> list[str] | None:
        return None

    def _at(self, rate: float) -> tuple[str, str, int]:
        """Header and rows with arrivals at this rate, and the last arrival."""
        trace = read_trace(self.header, self.data)
        factor = self.rate / rate
        last = round(max(trace.rows.column("arrival_time_us")) * factor)
        if factor == 1:
            return self.header, self.data, last
        prefix = self.folder / f"rate-{rate!r}"
        header, data = Path(f"{prefix}.yaml"), Path(f"{prefix}.csv")
        if not data.exists():
            arrivals = [round(time * factor) for time in trace.rows.column("arrival_time_us")]
            columns = {name: trace.rows.column(name) for name in trace.rows[0]._fields}
            old, deadlines = columns["arrival_time_us"], columns["deadline_us"]
            columns["deadline_us"] = [
                deadline and max(1, deadline - was + now)
                for deadline, was, now in zip(deadlines, old, arrivals, strict=True)
            ]
            columns["arrival_time_us"] = arrivals
            rows = type(trace.rows).from_columns(columns.values(), trace.rows.blocks)
            atomic_write(header, format_header(trace.header))
            atomic_write(data, format_rows(rows))
        return str(header), str(data), last


# ----------------------------------------------------------------------------------------- making


def make_load(config: LoadConfig, folder: Path) -> Load:
    """The load that the options describe; ``folder`` is for files. BlisError if it has no rate."""
    if config.trace_header or config.trace_data:
        return _trace(config, folder)
    if config.workload_spec:
        return _file(config, config.workload_spec, folder)
    if config.arrivals != "constant":
        return _drawn(config, folder)
    return FlagLoad(config, 1.0 if config.rate is None else config.rate)


def _trace(config: LoadConfig, folder: Path) -> TraceLoad:
    for flag, value in (
        ("--trace-header", config.trace_header),
        ("--trace-data", config.trace_data),
    ):
        if not value:
            raise BlisError(f"{flag}: is required with the other file of the trace")
    for flag, given in (
        ("--workload-spec", config.workload_spec),
        ("--num-requests", config.num_requests is not None),
        ("--arrivals", config.arrivals != "constant"),
    ):
        if given:
            raise BlisError(f"{flag}: excludes --trace-header; the trace is the load")
    times = read_trace(config.trace_header, config.trace_data).rows.column("arrival_time_us")
    span = (max(times) - min(times)) / 1e6 if times else 0.0
    if span <= 0:
        raise BlisError(
            f"{config.trace_data}: a rate needs at least two requests that arrive at different"
            " times"
        )
    return TraceLoad(
        config.trace_header,
        config.trace_data,
        config,
        folder,
        rate=(len(times) - 1) / span,
        requests=len(times),
    )


def _file(config: LoadConfig, path: str, folder: Path) -> FileLoad:
    contents = read_yaml(path, "workload specification")
    if not isinstance(contents, dict):
        raise BlisError(f"{path}: a workload specification is a mapping")
    if "inference_perf" in contents:
        raise BlisError(
            f"{path}: inference_perf: its stages have rates of their own; describe the traffic by"
            " clients that share an aggregate_rate"
        )
    clients = [c for c in contents.get("clients") or [] if isinstance(c, dict)]
    cohorts = [c for c in contents.get("cohorts") or [] if isinstance(c, dict)]
    users = any(structure(c.get("concurrency") or 0, int, path) > 0 for c in clients)
    rate = structure(contents.get("aggregate_rate") or 0.0, float, path)
    seed = config.seed
    # reads and checks everything; only one request is made
    traffic = traffic_of_file(path, seed=seed, num_requests=1)
    if not (math.isfinite(rate) and rate > 0):
        raise BlisError(
            f"{path}: aggregate_rate: the load has no rate"
            + (" (users with concurrency wait for answers)" if users else "")
            + "; give one above 0"
        )
    timed = any("lifecycle" in client for client in clients) or any(
        key in cohort for cohort in cohorts for key in ("diurnal", "spike", "drain")
    )
    own_horizon = max(0, structure(contents.get("horizon") or 0, int, path))
    horizon = own_horizon if config.horizon is None else config.horizon
    own_number = max(0, structure(contents.get("num_requests") or 0, int, path))
    number = own_number if config.num_requests is None else config.num_requests
    if timed and not (horizon or number):
        raise BlisError(
            f"{path}: its rate changes with time; give --horizon or --num-requests, so that the"
            " time that it covers is known"
        )
    workload = traffic.workload
    closed = bool(workload.sessions) or workload.follow_ups is not None
    remarks = []
    if users:
        remarks.append("users with concurrency stay as they are; only the aggregate_rate changes")
    if closed and not users:
        remarks.append(
            "the rate is that of sessions and single requests (aggregate_rate); later rounds of"
            " sessions come on top"
        )
    if closed and horizon:
        remarks.append(
            "what is unfinished at the horizon counts as failed, because sessions go on until then;"
            " --num-requests instead of a horizon spares that"
        )
    if timed:
        remarks.append(
            "the rate changes with time: SLOs hold for all the requests together, and whether the"
            " peak is sustained cannot be seen from them"
        )
    elif own_number and config.num_requests is None:
        remarks.append(
            f"the num_requests of the file ({own_number}) is not used: runs are as long as the SLOs"
            " need; --num-requests fixes it"
        )
    return FileLoad(
        path,
        Path(path).read_bytes(),
        config,
        folder,
        rate=rate,
        steady=not timed,
        closed=closed,
        horizon=horizon,
        number=number,
        remarks=tuple(remarks),
    )


def _drawn(config: LoadConfig, folder: Path) -> FileLoad:
    """The workload of the options with other gaps, as a file."""
    process, _, cv = config.arrivals.partition(":")
    lengths: Any = config
    if config.workload != "distribution":
        lengths = load_defaults(config.defaults_filepath or "defaults.yaml").preset(config.workload)

    def distribution(side: str) -> dict[str, Any]:
        names = {"": "mean", "_stdev": "std_dev", "_min": "min", "_max": "max"}
        params = {word: getattr(lengths, f"{side}_tokens{end}") for end, word in names.items()}
        return {"type": "gaussian", "params": params}

    timeout = DEFAULT_TIMEOUT_S if config.timeout is None else config.timeout
    client: dict[str, Any] = {
        "id": "distribution",
        "rate_fraction": 1,
        "arrival": {"process": process, **({"cv": float(cv)} if cv else {})},
        "input_distribution": distribution("prompt"),
        "output_distribution": distribution("output"),
        "timeout": max(0, timeout) * 1_000_000,
    }
    if lengths.prefix_tokens > 0:
        client |= {"prefix_group": "shared", "prefix_length": lengths.prefix_tokens}
    import yaml

    document = {
        "version": "2",
        "seed": DEFAULT_SEED if config.seed is None else config.seed,
        "aggregate_rate": 1.0 if config.rate is None else float(config.rate),
        "clients": [client],
    }
    path = folder / "drawn.yaml"
    atomic_write(path, yaml.safe_dump(document, sort_keys=False))
    found = _file(config, str(path), folder)
    return attrs.evolve(found, path=str(path), remarks=())
