"""Configuration of a simulation: the one table of options.

Adding an option means adding one field here; command line, help, reference pages and checks
follow from it. Options whose presence matters are ``None`` when not given. Times are us unless
said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import attrs

from blis_core.contracts import MAX_INT64
from blis_core.disaggregation_options import DISAGGREGATION, DisaggregationOptions
from blis_core.errors import BlisError
from blis_core.log import LEVELS
from blis_core.option import OptionSpec, ValueKind, finite_positive, option, options_of
from blis_core.semantics import parse_semantics

DEFAULT_LATENCY_MODEL = "roofline"
DEFAULT_TOTAL_KV_BLOCKS = 1_000_000
DEFAULT_RATE = 1.0
DEFAULT_NUM_REQUESTS = 100
DEFAULT_SEED = 42
DEFAULT_TIMEOUT_S = 300
DEFAULT_HORIZON = MAX_INT64
"""Of ``run``; ``replay`` derives its own from the trace."""
DEFAULT_ADMISSION_POLICY = "always-admit"
DEFAULT_ROUTING_POLICY = "round-robin"
DEFAULT_PRIORITY_POLICY = "constant"
DEFAULT_SCHEDULER = "fcfs"
DEFAULT_TOKEN_BUCKET_CAPACITY = 10_000.0
DEFAULT_TOKEN_BUCKET_REFILL_RATE = 1000.0

MODEL = "Model and hardware"
LATENCY = "Latency model"
KV = "KV cache"
BATCH = "Batching"
CLUSTER = "Cluster and policies"
FLOW = "Flow control"
EVALUATION = "Evaluation of decisions"
WORKLOAD = "Workload"
TRACE = "Trace"
GENERAL = "Simulation"
OUTPUT = "Output"

SATURATION_DETECTORS = ("never", "utilization", "concurrency")
DISPATCH_ORDERS = ("fifo", "priority")

SECTIONS = (
    MODEL,
    WORKLOAD,
    TRACE,
    LATENCY,
    KV,
    BATCH,
    CLUSTER,
    FLOW,
    DISAGGREGATION,
    GENERAL,
    EVALUATION,
    OUTPUT,
)
"""Headings of help and reference pages, in order."""


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _or_none(text: Any) -> Any:
    """An empty text means the choice "none"."""
    return "none" if text == "" else text


def _tuple(values: Any) -> Any:
    """Lists become tuples, so that a configuration stays immutable and comparable.

    A mapping becomes texts of the form key=value.
    """
    if isinstance(values, Mapping):
        return tuple(f"{key}={value}" for key, value in values.items())
    if isinstance(values, Iterable) and not isinstance(values, str):
        return tuple(values)
    return values


# not used by itself, so that it needs no comparison of its own
@attrs.frozen(kw_only=True, repr=False, eq=False)
class SimulationConfig(DisaggregationOptions):
    """What ``run`` and ``replay`` have in common."""

    replays: ClassVar[bool] = False
    """Whether the traffic is a recorded trace."""

    model: str = option(
        ValueKind.TEXT, MODEL, "", "Model to serve, as owner/name (required).", convert=_lower
    )
    hardware: str = option(
        ValueKind.TEXT, MODEL, "", "GPU, spelled as in the catalogue.", implied="catalogue"
    )
    tp: int = option(
        ValueKind.INT,
        MODEL,
        0,
        "GPUs that share one model instance.",
        implied="catalogue",
        at_least=0,
    )
    vllm_version: str = option(
        ValueKind.TEXT,
        MODEL,
        "",
        "Serving engine version whose measured coefficients apply (blackbox only).",
        implied="catalogue",
    )
    defaults_filepath: str | None = option(
        ValueKind.TEXT,
        MODEL,
        None,
        "YAML file that replaces the built-in defaults, presets and coefficients.",
        implied="built-in catalogue",
    )
    model_config_folder: str = option(
        ValueKind.TEXT, MODEL, "", "Folder with the model's config.json.", implied="catalogue"
    )
    hardware_config: str = option(
        ValueKind.TEXT, MODEL, "", "JSON file with GPU figures.", implied="catalogue"
    )

    latency_model: str | None = option(
        ValueKind.TEXT,
        LATENCY,
        None,
        "Predictor of step times. Coefficients given without this option select blackbox.",
        implied=DEFAULT_LATENCY_MODEL,
    )
    alpha_coeffs: tuple[float, ...] | None = option(
        ValueKind.FLOATS,
        LATENCY,
        None,
        "Per-request overhead coefficients, separated by commas; need --beta-coeffs.",
        implied="of the latency model",
        convert=_tuple,
    )
    beta_coeffs: tuple[float, ...] | None = option(
        ValueKind.FLOATS,
        LATENCY,
        None,
        "Step time coefficients, separated by commas; need --alpha-coeffs.",
        implied="of the latency model",
        convert=_tuple,
    )
    latency_option: tuple[str, ...] = option(
        ValueKind.TEXTS,
        LATENCY,
        (),
        "An option of the latency model, as KEY=VALUE; may be repeated. blis --list-plugins NAME"
        " shows which there are.",
        implied="",
        convert=_tuple,
    )
    latency_profile: str = option(
        ValueKind.TEXT,
        LATENCY,
        "",
        "YAML file with a latency model and its options; options that are given win over it.",
    )

    total_kv_blocks: int | None = option(
        ValueKind.INT64,
        KV,
        None,
        "KV cache blocks of each instance.",
        implied="from model and GPU memory",
        above=0,
    )
    block_size_in_tokens: int = option(
        ValueKind.INT64, KV, 16, "Tokens that one KV block holds.", above=0
    )
    gpu_memory_utilization: float = option(
        ValueKind.FLOAT,
        KV,
        0.9,
        "Share of GPU memory for weights and KV cache; used to size the cache.",
        above=0,
        at_most=1,
    )
    max_model_len: int | None = option(
        ValueKind.INT64,
        KV,
        None,
        "Longest request in tokens, prompt and output together; 0 = unlimited.",
        implied="from the model",
        at_least=0,
    )
    kv_store: str | None = option(
        ValueKind.TEXT,
        KV,
        None,
        "KV cache implementation.",
        implied="paged; tiered with --kv-cpu-blocks",
    )
    kv_cpu_blocks: int = option(
        ValueKind.INT64,
        KV,
        0,
        "KV cache blocks of a second tier in CPU memory; 0 = none.",
        at_least=0,
    )
    kv_offload_threshold: float | None = option(
        ValueKind.FLOAT,
        KV,
        None,
        "Without effect; accepted for compatibility.",
        implied=0.9,
        at_least=0,
        at_most=1,
    )
    kv_transfer_bandwidth: float = option(
        ValueKind.FLOAT, KV, 100.0, "Tokens per us that come back from the CPU tier."
    )
    kv_transfer_base_latency: int = option(
        ValueKind.INT64,
        KV,
        0,
        "us added for each block that comes back from the CPU tier.",
        at_least=0,
    )

    max_num_running_reqs: int = option(
        ValueKind.INT64, BATCH, 256, "Most requests in a running batch.", above=0
    )
    max_num_scheduled_tokens: int = option(
        ValueKind.INT64, BATCH, 2048, "Most new tokens in one step, over all requests.", above=0
    )
    long_prefill_token_threshold: int = option(
        ValueKind.INT64,
        BATCH,
        0,
        "Most prompt tokens of one request in a step; 0 = off.",
        at_least=0,
    )
    semantics: str = option(
        ValueKind.TEXT,
        BATCH,
        "reference",
        "Engine rules: reference or vllm, and behind it, with commas, +RULE or -RULE.",
    )

    num_instances: int = option(
        ValueKind.INT, CLUSTER, 1, "Model instances that share the traffic.", at_least=1
    )
    policy_config: str = option(
        ValueKind.TEXT,
        CLUSTER,
        "",
        "YAML file with policies and their parameters; options that are given win over it.",
    )
    admission_policy: str | None = option(
        ValueKind.TEXT,
        CLUSTER,
        None,
        "What decides whether a request may enter.",
        implied=DEFAULT_ADMISSION_POLICY,
    )
    admission_latency: int = option(
        ValueKind.INT64, CLUSTER, 0, "Time that the admission of a request takes.", at_least=0
    )
    token_bucket_capacity: float | None = option(
        ValueKind.FLOAT,
        CLUSTER,
        None,
        "Most prompt tokens that token-bucket saves up; greater than 0.",
        implied=DEFAULT_TOKEN_BUCKET_CAPACITY,
    )
    token_bucket_refill_rate: float | None = option(
        ValueKind.FLOAT,
        CLUSTER,
        None,
        "Prompt tokens per second that token-bucket gains; greater than 0.",
        implied=DEFAULT_TOKEN_BUCKET_REFILL_RATE,
    )
    routing_policy: str | None = option(
        ValueKind.TEXT,
        CLUSTER,
        None,
        "What chooses the instance of a request.",
        implied=DEFAULT_ROUTING_POLICY,
    )
    routing_scorers: str = option(
        ValueKind.TEXT,
        CLUSTER,
        "",
        "Scorers of the weighted policy, as name:weight,name:weight.",
        implied="built-in profile",
    )
    routing_latency: int = option(
        ValueKind.INT64, CLUSTER, 0, "Time that the routing of a request takes.", at_least=0
    )
    snapshot_refresh_interval: int = option(
        ValueKind.INT64,
        CLUSTER,
        0,
        "Age at which the router renews what it knows of queues and memory; 0 = always current.",
        at_least=0,
    )
    cache_signal_delay: int = option(
        ValueKind.INT64,
        CLUSTER,
        50_000,
        "Age at which the router renews what it knows of prefix caches; 0 = always current.",
        at_least=0,
    )
    priority_policy: str | None = option(
        ValueKind.TEXT,
        CLUSTER,
        None,
        "How priority changes while a request waits.",
        implied=DEFAULT_PRIORITY_POLICY,
    )
    scheduler: str | None = option(
        ValueKind.TEXT,
        CLUSTER,
        None,
        "Order of an instance's wait queue.",
        implied=DEFAULT_SCHEDULER,
    )
    model_autoscaler_interval_us: float | None = option(
        ValueKind.FLOAT,
        CLUSTER,
        None,
        "us between two looks of the autoscaler, which is set up in the policy file; 0 = off.",
        implied="of the policy file",
    )

    flow_control: bool = option(
        ValueKind.BOOL, FLOW, False, "Hold requests at a gateway while the cluster is saturated."
    )
    saturation_detector: str = option(
        ValueKind.TEXT,
        FLOW,
        "never",
        f"What tells that the cluster is saturated: {', '.join(SATURATION_DETECTORS)}.",
    )
    dispatch_order: str = option(
        ValueKind.TEXT,
        FLOW,
        "fifo",
        f"Order in which held requests leave: {', '.join(DISPATCH_ORDERS)}.",
    )
    max_gateway_queue_depth: int = option(
        ValueKind.INT,
        FLOW,
        0,
        "Most held requests, beyond which the least important goes; 0 = unlimited.",
    )
    queue_depth_threshold: float = option(
        ValueKind.FLOAT,
        FLOW,
        5.0,
        "Waiting requests of an instance that count as saturation (utilization); greater than 0.",
    )
    kv_cache_util_threshold: float = option(
        ValueKind.FLOAT,
        FLOW,
        0.8,
        "Used share of KV blocks that counts as saturation (utilization); greater than 0.",
    )
    max_concurrency: int = option(
        ValueKind.INT,
        FLOW,
        100,
        "Requests per instance that count as saturation (concurrency); greater than 0.",
    )

    trace_level: str = option(
        ValueKind.TEXT,
        EVALUATION,
        "none",
        "What is recorded of admission and routing.",
        choices=("none", "decisions"),
        convert=_or_none,
    )
    counterfactual_k: int = option(
        ValueKind.INT,
        EVALUATION,
        0,
        "Best candidates to keep with each routing decision; above 0 also its regret is computed.",
        at_least=0,
    )
    summarize_trace: bool = option(
        ValueKind.BOOL, EVALUATION, False, "Print a summary of the recorded decisions."
    )
    fitness_weights: str = option(
        ValueKind.TEXT,
        EVALUATION,
        "",
        "Weights of a score for the whole run, as metric:weight,metric:weight (run only).",
    )

    seed: int | None = option(
        ValueKind.INT64, GENERAL, None, "Seed of everything random.", implied=DEFAULT_SEED
    )
    horizon: int | None = option(
        ValueKind.INT64, GENERAL, None, "End of simulated time in us.", implied="unlimited", above=0
    )
    log: str = option(
        ValueKind.TEXT,
        GENERAL,
        "warn",
        f"Least severe message shown on stderr: {', '.join(LEVELS)}.",
    )
    output: str = option(
        ValueKind.TEXT,
        OUTPUT,
        "auto",
        "Form of the results on stdout; auto = table on a terminal, text otherwise.",
        choices=("auto", "text", "table", "json"),
    )

    def __repr__(self) -> str:
        """Only what differs from the defaults; all of it would fill a screen."""
        given = [
            f"{spec.name}={value!r}"
            for spec in options_of(type(self))
            if (value := getattr(self, spec.name)) != spec.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def check(self) -> None:
        """Raise BlisError for the first value that is wrong whatever model and files say."""
        self._check_types()
        if self.log.lower() not in LEVELS:
            raise self._spec("log").error(self.log, f"one of {', '.join(LEVELS)}")
        self._check_inputs()
        self._check_latency()
        if self.kv_cpu_blocks > 0 and not finite_positive(self.kv_transfer_bandwidth):
            raise self._spec("kv_transfer_bandwidth").error(
                self.kv_transfer_bandwidth, "finite and greater than 0"
            )
        parse_semantics(self.semantics)
        self._check_workload()
        for spec in options_of(type(self)):
            spec.check_range(getattr(self, spec.name))
        if self.flow_control:
            self._check_flow_control()
        self._check_cluster()

    @classmethod
    def _spec(cls, name: str) -> OptionSpec:
        """The declaration of an option."""
        return next(spec for spec in options_of(cls) if spec.name == name)

    def _check_types(self) -> None:
        """Only a library user can get these wrong; the command line has parsed its values."""
        for spec in options_of(type(self)):
            spec.check_type(getattr(self, spec.name))

    def _check_inputs(self) -> None:
        """What must be there before anything else is looked at."""
        if not self.model:
            raise BlisError("--model: is required, for example qwen/qwen2.5-7b-instruct")

    def _check_latency(self) -> None:
        """The latency model's name and coefficients, as far as no other input matters."""
        if self.latency_model == "":
            raise BlisError(f"--latency-model: must not be empty (default {DEFAULT_LATENCY_MODEL})")
        if (self.alpha_coeffs is None) != (self.beta_coeffs is None):
            given, missing = "--alpha-coeffs", "--beta-coeffs"
            if self.alpha_coeffs is None:
                given, missing = missing, given
            raise BlisError(f"{given}: works only together with {missing}; give both or neither")
        for name, values in (("alpha", self.alpha_coeffs), ("beta", self.beta_coeffs)):
            for value in values or ():
                if not (math.isfinite(value) and value >= 0):
                    raise BlisError(
                        f"--{name}-coeffs: every coefficient must be finite and at least 0, "
                        f"got {value:g}"
                    )

    def _check_workload(self) -> None:
        """Where requests come from; nothing to check for both commands alike."""

    def _check_cluster(self) -> None:
        """Parts of a cluster that only ``run`` has; ``replay`` ignores their options."""

    def check_autoscaler(self) -> None:
        """The interval, which ``replay`` looks at only if its fleet changes at all."""
        interval = self.model_autoscaler_interval_us
        if interval is not None and not (
            interval == 0 or (math.isfinite(interval) and interval >= 1)
        ):
            raise self._spec("model_autoscaler_interval_us").error(
                interval, "0, or finite and at least 1"
            )

    def _check_flow_control(self) -> None:
        """The gateway's options, which mean nothing and are not looked at while it is off."""
        detector, order = self.saturation_detector or "never", self.dispatch_order
        if detector not in SATURATION_DETECTORS:
            raise self._spec("saturation_detector").error(
                detector, f"one of {', '.join(SATURATION_DETECTORS)}"
            )
        if order not in DISPATCH_ORDERS:
            raise self._spec("dispatch_order").error(order, f"one of {', '.join(DISPATCH_ORDERS)}")
        if self.max_gateway_queue_depth < 0:
            raise self._spec("max_gateway_queue_depth").error(
                self.max_gateway_queue_depth, "at least 0"
            )
        if detector == "utilization":
            for name in ("queue_depth_threshold", "kv_cache_util_threshold"):
                if not finite_positive(getattr(self, name)):
                    raise self._spec(name).error(getattr(self, name), "finite and greater than 0")
        if detector == "concurrency" and self.max_concurrency <= 0:
            raise self._spec("max_concurrency").error(self.max_concurrency, "greater than 0")
