"""Options of ``blis run``: where a generated workload comes from, and what is written."""

from __future__ import annotations

import attrs

from blis_core.config.simulation import (
    DEFAULT_NUM_REQUESTS,
    DEFAULT_RATE,
    DEFAULT_TIMEOUT_S,
    OUTPUT,
    WORKLOAD,
    SimulationConfig,
)
from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.option import ValueKind, finite_positive, option


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RunConfig(SimulationConfig):
    """What ``run`` simulates: a generated workload."""

    workload: str = option(
        ValueKind.TEXT, WORKLOAD, "distribution", "distribution, or a preset of the catalogue."
    )
    workload_spec: str = option(
        ValueKind.TEXT,
        WORKLOAD,
        "",
        "YAML file that describes the workload; wins over --workload, rate and lengths.",
    )
    rate: float | None = option(
        ValueKind.FLOAT, WORKLOAD, None, "Arrivals per second.", implied=DEFAULT_RATE
    )
    num_requests: int | None = option(
        ValueKind.INT,
        WORKLOAD,
        None,
        "Requests to generate; 0 = as many as arrive before --horizon.",
        implied=f"{DEFAULT_NUM_REQUESTS}, or of the workload file",
        at_least=0,
    )
    concurrency: int = option(
        ValueKind.INT,
        WORKLOAD,
        0,
        "Users who each wait for an answer before the next request, instead of --rate; 0 = off.",
        at_least=0,
    )
    think_time_ms: int = option(
        ValueKind.INT,
        WORKLOAD,
        0,
        "Pause of such a user between an answer and the next request.",
        at_least=0,
    )
    prefix_tokens: int = option(
        ValueKind.INT, WORKLOAD, 0, "Length of a prefix that all prompts share.", at_least=0
    )
    prompt_tokens: int = option(
        ValueKind.INT, WORKLOAD, 512, "Mean prompt length, without the prefix."
    )
    prompt_tokens_stdev: int = option(
        ValueKind.INT, WORKLOAD, 256, "Standard deviation of the prompt length."
    )
    prompt_tokens_min: int = option(ValueKind.INT, WORKLOAD, 2, "Shortest prompt.")
    prompt_tokens_max: int = option(ValueKind.INT, WORKLOAD, 7000, "Longest prompt.")
    output_tokens: int = option(ValueKind.INT, WORKLOAD, 512, "Mean output length.")
    output_tokens_stdev: int = option(
        ValueKind.INT, WORKLOAD, 256, "Standard deviation of the output length."
    )
    output_tokens_min: int = option(ValueKind.INT, WORKLOAD, 2, "Shortest output.")
    output_tokens_max: int = option(ValueKind.INT, WORKLOAD, 7000, "Longest output.")
    timeout: int | None = option(
        ValueKind.INT,
        WORKLOAD,
        None,
        "Seconds after which a client gives up; negative = never.",
        implied=f"{DEFAULT_TIMEOUT_S}, or of the workload file",
    )
    metrics_path: str = option(
        ValueKind.TEXT, OUTPUT, "", "JSON file to write, with one entry per request."
    )
    trace_output: str = option(
        ValueKind.TEXT, OUTPUT, "", "Write the requests to PREFIX.yaml and PREFIX.csv."
    )
    record: str = option(
        ValueKind.TEXT, OUTPUT, "", "File to write for report and explain: the run in detail."
    )

    def _check_cluster(self) -> None:
        self.check_disaggregation(self.num_instances)

    def _check_workload(self) -> None:
        self.check_autoscaler()
        for name in ("num_requests", "prefix_tokens", "concurrency", "think_time_ms"):
            self._spec(name).check_range(getattr(self, name))
        if self.concurrency > 0:
            if self.rate is not None:
                raise BlisError("--concurrency: excludes --rate; users send when they are answered")
            if self.workload_spec:
                raise BlisError(
                    "--concurrency: excludes --workload-spec; give the clients of the file a"
                    " concurrency"
                )
        elif not self.workload_spec:
            self._check_rate_and_lengths()
        if self.timeout == 0:
            raise BlisError("--timeout: must not be 0; use a negative value for no time limit")
        if not self.workload_spec:
            implied = 0 if self.concurrency else DEFAULT_NUM_REQUESTS
            count = implied if self.num_requests is None else self.num_requests
            if count == 0 and (self.horizon is None or self.horizon == MAX_INT64):
                raise BlisError(
                    "--num-requests: the workload has no end; give a number above 0, or --horizon"
                )

    def _check_rate_and_lengths(self) -> None:
        # A preset brings its own lengths, but takes the rate from here.
        rate = DEFAULT_RATE if self.rate is None else self.rate
        if not finite_positive(rate):
            raise BlisError(f"--rate: must be finite and greater than 0 requests/s, got {rate:g}")
        if self.workload == "distribution":
            self._check_lengths("prompt")
            self._check_lengths("output")

    def _check_lengths(self, side: str) -> None:
        """The four figures of one length distribution, in the order of the reference."""
        mean, stdev, low, high = (
            getattr(self, f"{side}_tokens{suffix}") for suffix in ("", "_stdev", "_min", "_max")
        )
        flag = f"--{side}-tokens"
        for name, value in ((f"{flag}-min", low), (f"{flag}-max", high)):
            if value < 1:
                raise BlisError(f"{name}: must be at least 1, got {value}")
        if stdev < 0:
            raise BlisError(f"{flag}-stdev: must be at least 0, got {stdev}")
        if low > high:
            raise BlisError(f"{flag}-min: {low} is above {flag}-max {high}")
        for name, value in ((flag, mean), (f"{flag}-stdev", stdev)):
            if not low <= value <= high:
                raise BlisError(
                    f"{name}: must be between {flag}-min ({low}) and {flag}-max ({high}), "
                    f"got {value}"
                )
