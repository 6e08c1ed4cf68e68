"""Options of ``blis observe`` and the rules among them. Nothing here talks to a server."""

from __future__ import annotations

import math

import attrs

from blis_core.api import BlisError, ValueKind, option, parse_think_time

SERVER = "Server"
WORKLOAD = "Workload"
SENDING = "Sending"
RECORDING = "Recording"

API_FORMATS = ("completions", "chat")
LONGEST_TIMEOUT_S = 86_400
DEFAULT_MAX_CONCURRENCY = 256
_REQUIRED = ("server_url", "model", "trace_header", "trace_data")


@attrs.frozen(kw_only=True)
class ObserveConfig:
    """What ``observe`` sends, where, and what it writes. Options whose presence matters are None
    when they are not given."""

    server_url: str = option(
        ValueKind.TEXT, SERVER, "", "Address of the server, without /v1 (required)."
    )
    model: str = option(ValueKind.TEXT, SERVER, "", "Model to ask for in every request (required).")
    api_key: str = option(ValueKind.TEXT, SERVER, "", "Sent as bearer token.")
    api_format: str = option(
        ValueKind.TEXT, SERVER, "completions", f"Endpoint to use: {' or '.join(API_FORMATS)}."
    )
    server_type: str = option(
        ValueKind.TEXT, SERVER, "vllm", "Kind of the server, for the header of the trace."
    )

    workload_spec: str = option(
        ValueKind.TEXT,
        WORKLOAD,
        "",
        "YAML file that describes the workload; wins over rate and lengths.",
    )
    workload: str = option(ValueKind.TEXT, WORKLOAD, "", "A preset of the catalogue; needs --rate.")
    rate: float | None = option(ValueKind.FLOAT, WORKLOAD, None, "Requests per second.", implied="")
    concurrency: int = option(
        ValueKind.INT,
        WORKLOAD,
        0,
        "Users who each wait for an answer before the next request, instead of --rate; 0 = off.",
    )
    think_time_ms: int | None = option(
        ValueKind.INT,
        WORKLOAD,
        None,
        "Pause of such a user between an answer and the next request.",
        implied=0,
    )
    think_time_dist: str | None = option(
        ValueKind.TEXT,
        WORKLOAD,
        None,
        "Distribution of such pauses, as constant:value=TIME or lognormal:mu=M,sigma=S.",
        implied="",
    )
    num_requests: int = option(
        ValueKind.INT, WORKLOAD, 0, "Requests to send.", implied="of the workload file"
    )
    horizon: int = option(
        ValueKind.INT64,
        WORKLOAD,
        0,
        "us after which no request is due any more.",
        implied="of the workload file",
    )
    seed: int | None = option(
        ValueKind.INT64,
        WORKLOAD,
        None,
        "Seed of the workload.",
        implied="42, or of the workload file",
    )
    defaults_filepath: str = option(
        ValueKind.TEXT,
        WORKLOAD,
        "defaults.yaml",
        "YAML file that replaces the built-in presets.",
        implied="built-in catalogue",
    )
    prefix_tokens: int = option(
        ValueKind.INT, WORKLOAD, 0, "Length of a prefix that all prompts share."
    )
    prompt_tokens: int = option(
        ValueKind.INT, WORKLOAD, 512, "Mean prompt length, without the prefix."
    )
    prompt_tokens_stdev: int = option(
        ValueKind.INT, WORKLOAD, 256, "Standard deviation of the prompt length."
    )
    prompt_tokens_min: int = option(ValueKind.INT, WORKLOAD, 2, "Shortest prompt.")
    prompt_tokens_max: int = option(ValueKind.INT, WORKLOAD, 7000, "Longest prompt.")
    output_tokens: int | None = option(
        ValueKind.INT, WORKLOAD, None, "Mean output length.", implied=512
    )
    output_tokens_stdev: int = option(
        ValueKind.INT, WORKLOAD, 256, "Standard deviation of the output length."
    )
    output_tokens_min: int = option(ValueKind.INT, WORKLOAD, 2, "Shortest output.")
    output_tokens_max: int = option(ValueKind.INT, WORKLOAD, 7000, "Longest output.")

    max_concurrency: int | None = option(
        ValueKind.INT,
        SENDING,
        None,
        "Most requests in flight; further ones wait.",
        implied=f"{DEFAULT_MAX_CONCURRENCY}, or --concurrency",
    )
    timeout: int = option(
        ValueKind.INT,
        SENDING,
        300,
        f"Seconds for a whole exchange, connecting included; 1 to {LONGEST_TIMEOUT_S}.",
    )
    no_streaming: bool = option(
        ValueKind.BOOL, SENDING, False, "Ask for whole answers, whatever the workload says."
    )
    unconstrained_output: bool = option(
        ValueKind.BOOL, SENDING, False, "Let the server decide how long answers are."
    )
    min_tokens: int = option(
        ValueKind.INT, SENDING, 0, "Shortest answer to ask for; 0 = any.", at_least=0
    )
    exact_follow_ups: bool = option(
        ValueKind.BOOL,
        SENDING,
        False,
        "Send the next round of a session when it is due, even if the next request of the workload"
        " is waited for (the reference sends it after that one).",
    )

    trace_header: str = option(
        ValueKind.TEXT, RECORDING, "", "Header (YAML) of the trace to write (required)."
    )
    trace_data: str = option(
        ValueKind.TEXT, RECORDING, "", "Rows (CSV) of the trace to write (required)."
    )
    warmup_requests: int = option(
        ValueKind.INT, RECORDING, 0, "First requests to send without recording them.", at_least=0
    )
    record_itl: bool = option(
        ValueKind.BOOL, RECORDING, False, "Stream, and write the time of every chunk."
    )
    itl_output: str = option(
        ValueKind.TEXT,
        RECORDING,
        "",
        "File for the times of chunks.",
        implied="--trace-data with the ending .itl.csv",
    )
    skip_empty_chunks: bool = option(
        ValueKind.BOOL,
        RECORDING,
        False,
        "Do not count events that bring nothing, such as that with the usage, as chunks (the"
        " reference does, which makes the time between tokens look shorter).",
    )
    rtt_ms: float = option(
        ValueKind.FLOAT, RECORDING, 0.0, "Network round trip, for the header of the trace."
    )

    @property
    def by_users(self) -> bool:
        """Whether users in a closed loop send the requests."""
        return not self.workload_spec and not self.workload and self.concurrency > 0

    @property
    def in_flight(self) -> int:
        """Most requests in flight."""
        if self.max_concurrency is not None:
            return self.max_concurrency
        return self.concurrency if self.concurrency > 0 else DEFAULT_MAX_CONCURRENCY

    @property
    def itl_path(self) -> str:
        """Where the times of chunks go."""
        return self.itl_output or self.trace_data.removesuffix(".csv") + ".itl.csv"

    def check(self) -> None:
        """Raise BlisError for the first value that cannot be, in the order of the reference."""
        for name in _REQUIRED:
            if not getattr(self, name):
                raise BlisError(f"--{name.replace('_', '-')}: is required")
        self._check_source()
        self._check_users()
        self._check_limits()

    def _check_source(self) -> None:
        """Where requests come from."""
        if not (self.workload_spec or self.workload or self.concurrency > 0) and self.rate is None:
            raise BlisError(
                "nothing to send: give --workload-spec, --workload with --rate, --rate, or"
                " --concurrency"
            )
        if self.workload:
            for flag, given in (
                ("--workload-spec", bool(self.workload_spec)),
                ("--concurrency", self.concurrency > 0),
            ):
                if given:
                    raise BlisError(f"--workload: excludes {flag}")
            if self.rate is None:
                raise BlisError("--workload: a preset needs --rate")

    def _check_users(self) -> None:
        """Users in a closed loop."""
        if self.concurrency > 0 and self.rate is not None:
            raise BlisError("--concurrency: excludes --rate; users send when they are answered")
        if self.concurrency < 0:
            raise BlisError(f"--concurrency: must be at least 0, got {self.concurrency}")
        if (self.think_time_ms or 0) < 0:
            raise BlisError(f"--think-time-ms: must be at least 0, got {self.think_time_ms}")
        if self.think_time_dist is not None:
            if self.think_time_ms is not None:
                raise BlisError("--think-time-dist: excludes --think-time-ms")
            if self.concurrency == 0:
                raise BlisError("--think-time-dist: needs --concurrency")
            parse_think_time(self.think_time_dist)

    def _check_limits(self) -> None:
        """Numbers, each by itself, and what they mean together."""
        if self.in_flight < 1:
            raise BlisError(f"--max-concurrency: must be greater than 0, got {self.in_flight}")
        if self.warmup_requests < 0:
            raise BlisError(f"--warmup-requests: must be at least 0, got {self.warmup_requests}")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise BlisError(f"--rate: must be finite and greater than 0, got {self.rate:g}")
        if self.api_format not in API_FORMATS:
            raise BlisError(
                f"--api-format: must be {' or '.join(API_FORMATS)}, got {self.api_format!r}"
            )
        if not 0 <= self.rtt_ms < math.inf:
            raise BlisError(f"--rtt-ms: must be finite and at least 0, got {self.rtt_ms:g}")
        if self.min_tokens < 0:
            raise BlisError(f"--min-tokens: must be at least 0, got {self.min_tokens}")
        if not 1 <= self.timeout <= LONGEST_TIMEOUT_S:
            raise BlisError(f"--timeout: must be 1 to {LONGEST_TIMEOUT_S} s, got {self.timeout}")
        if (
            not self.workload_spec
            and not self.workload
            and not self.unconstrained_output
            and self.output_tokens is not None
            and self.min_tokens > self.output_tokens
        ):
            raise BlisError(
                f"--min-tokens: {self.min_tokens} is above --output-tokens {self.output_tokens}"
            )
        if self.workload_spec and self.concurrency > 0:
            raise BlisError(
                "--concurrency: excludes --workload-spec; give the clients of the file a"
                " concurrency"
            )
