"""Options that ``blis saturate`` and ``blis plan`` have in common, beside those of ``blis run``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from blis_core.api import BlisError, RunConfig, UsageError, ValueKind, option
from blis_plan.load import SHARED, Load
from blis_plan.probing import Trials
from blis_plan.slo import Slo, parse_slos

SEARCH: Final = "Search"
WORKLOAD: Final = "Workload"
OUTPUT: Final = "Output"
NOT_HERE: Final = ("metrics_path", "trace_output", "fitness_weights", "summarize_trace")
"""Options of ``blis run`` that a search has no use for."""

_ARRIVALS = re.compile(r"constant|poisson|(gamma|weibull):[0-9]*\.?[0-9]+")


@attrs.frozen(kw_only=True, repr=False)
class LoadConfig(RunConfig):
    """A load, SLOs, and how to try them."""

    slo: tuple[str, ...] = option(
        ValueKind.TEXTS,
        SEARCH,
        (),
        "Objectives, as in ttft_p99=500ms,e2e_p95=5s (required); may be repeated.",
        convert=lambda value: tuple(_slo_texts(value)),
    )
    seeds: int = option(
        ValueKind.INT,
        SEARCH,
        3,
        "Runs of each trial, with seeds that follow --seed; all of them must meet the SLOs.",
        at_least=1,
        at_most=100,
    )
    arrivals: str = option(
        ValueKind.TEXT,
        WORKLOAD,
        "constant",
        "Gaps between requests, without a file: constant, poisson, gamma:CV or weibull:CV.",
    )
    trace_header: str = option(
        ValueKind.TEXT, WORKLOAD, "", "Header (YAML) of a trace to play, instead of a workload."
    )
    trace_data: str = option(ValueKind.TEXT, WORKLOAD, "", "Rows (CSV) of the trace.")

    @property
    def slos(self) -> tuple[Slo, ...]:
        """The objectives. UsageError if one is wrong."""
        return parse_slos(self.slo)

    @property
    def shared(self) -> dict[str, Any]:
        """What describes the deployment rather than the load, by name."""
        return {name: getattr(self, name) for name in SHARED}

    def trials(self, load: Load) -> Trials:
        """How to try a rate."""
        return Trials(load=load, slos=self.slos, seeds=self.seeds if load.seeded else 1)

    def check(self) -> None:
        """Everything that is wrong whatever model and files say."""
        _ = self.slos
        if not _ARRIVALS.fullmatch(self.arrivals):
            raise UsageError(
                f"--arrivals {self.arrivals}: must be constant, poisson, gamma:CV or weibull:CV, as"
                " in gamma:2"
            )
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise BlisError(f"--rate: must be finite and greater than 0, got {self.rate:g}")
        if self.arrivals != "constant" and self.workload_spec:
            raise BlisError("--arrivals: excludes --workload-spec; the file says how they arrive")
        super().check()

    def _check_workload(self) -> None:
        if self.concurrency:
            raise BlisError(
                "--concurrency: users who wait for answers have no rate that could be too high;"
                " describe the traffic by --rate, or simulate more users (blis run)"
            )
        if self.num_requests == 0 and self.horizon is None:
            raise BlisError("--num-requests: 0 needs --horizon; or leave it out")
        super()._check_workload()


def _slo_texts(value: Any) -> Any:
    """A text, a list of texts, or a mapping (from a file)."""
    if isinstance(value, Mapping):
        return (f"{name}={limit}" for name, limit in value.items())
    return (value,) if isinstance(value, str) else value


def parse_share(flag: str, text: str) -> float:
    """A share in (0, 1) written as 2% or 0.02. UsageError otherwise."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%?)", text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0 < share < 1:
        raise UsageError(f"{flag} {text}: must be a share above 0 and below 1, as in 2% or 0.02")
    return share
