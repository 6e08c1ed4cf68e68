"""Options of ``blis replay``: the recorded trace, and what is written."""

from __future__ import annotations

from typing import ClassVar

import attrs

from blis_core.config.simulation import OUTPUT, TRACE, SimulationConfig
from blis_core.errors import BlisError
from blis_core.option import ValueKind, option


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReplayConfig(SimulationConfig):
    """What ``replay`` simulates: a recorded trace."""

    replays: ClassVar[bool] = True

    trace_header: str = option(ValueKind.TEXT, TRACE, "", "Header (YAML) of the trace (required).")
    trace_data: str = option(ValueKind.TEXT, TRACE, "", "Rows (CSV) of the trace (required).")
    session_mode: str = option(
        ValueKind.TEXT,
        TRACE,
        "fixed",
        "When later rounds of a session arrive: as recorded, or a think time after the answer.",
        choices=("fixed", "closed-loop"),
    )
    think_time_ms: int | None = option(
        ValueKind.INT,
        TRACE,
        None,
        "Think time of all sessions; 0 = the recorded gaps between arrivals.",
        implied=0,
        at_least=0,
    )
    think_time_dist: str | None = option(
        ValueKind.TEXT,
        TRACE,
        None,
        "Think times, as in lognormal:mu=1.5,sigma=0.6,max=30s or constant:value=500ms.",
        implied="",
    )
    results_path: str = option(
        ValueKind.TEXT, OUTPUT, "", "JSON file to write for calibrate, with one entry per request."
    )
    trace_output: str = option(
        ValueKind.TEXT, OUTPUT, "", "Write the replayed requests to PREFIX.yaml and PREFIX.csv."
    )
    record: str = option(
        ValueKind.TEXT, OUTPUT, "", "File to write for report and explain: the run in detail."
    )

    def _check_inputs(self) -> None:
        for name in ("trace_header", "trace_data"):
            if not getattr(self, name):
                flag = self._spec(name).flag
                raise BlisError(f"{flag}: name the trace file to replay")
        super()._check_inputs()

    def _check_workload(self) -> None:
        dist, constant = self.think_time_dist, self.think_time_ms
        if self.session_mode == "fixed" and (constant or dist is not None):
            flag = "--think-time-dist" if dist is not None else "--think-time-ms"
            raise BlisError(f"{flag}: needs --session-mode closed-loop; fixed has no think times")
        if dist is not None and constant is not None:
            raise BlisError("--think-time-dist: excludes --think-time-ms; give one of them")
