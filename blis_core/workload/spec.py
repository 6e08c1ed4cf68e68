"""The version-2 workload specification: its schema and its reader.

One attrs class per mapping of the YAML file; field names are the keys, in the order in which a
specification is written. Everything is immutable: expansions make changed copies. Times are us
unless said otherwise, lengths are tokens. Reading checks shape and types only; what the values may
be is the business of :mod:`blis_core.workload.validation`.
"""

from __future__ import annotations

import attrs

from blis_core import log
from blis_core.structuring import load_yaml, read_yaml, structure

VERSION = "2"

# -------------------------------------------------------------------------------- parts of clients


@attrs.frozen(kw_only=True)
class Arrival:
    """How the requests of a client are spread over time."""

    process: str = ""
    """Name of an arrival sampler, such as ``poisson``."""
    cv: float | None = None
    """Coefficient of variation of the gaps, > 0; None = 1. Only some processes heed it."""


@attrs.frozen(kw_only=True)
class Distribution:
    """A distribution of lengths (or of counts, or of percentages)."""

    type: str = ""
    """Name of a length sampler, such as ``gaussian``; empty = none where that is allowed."""
    params: dict[str, float] = attrs.field(factory=dict)
    """What the sampler needs, by name."""
    file: str = ""
    """Accepted for compatibility and never read."""


@attrs.frozen(kw_only=True)
class Network:
    """The path between client and server, for :mod:`blis_core.workload.network`."""

    rtt_ms: float = 0.0
    """Round-trip time in ms."""
    bandwidth_mbps: float = 0.0
    """Mbit/s in either direction; 0 or less = unlimited."""


@attrs.frozen(kw_only=True)
class Window:
    """The half-open span [start_us, end_us)."""

    start_us: int = 0
    """>= 0."""
    end_us: int = 0
    """> ``start_us``."""


@attrs.frozen(kw_only=True)
class Lifecycle:
    """When a client is active."""

    windows: tuple[Window, ...] = ()
    """At least one; the client is active in their union."""


@attrs.frozen(kw_only=True)
class Multimodal:
    """Makes up prompts from text, images, audio and video.

    A part without a type adds nothing. Images, audio and video need a size and a count.
    """

    text_distribution: Distribution = attrs.field(factory=Distribution)
    image_distribution: Distribution = attrs.field(factory=Distribution)
    image_count_distribution: Distribution = attrs.field(factory=Distribution)
    audio_distribution: Distribution = attrs.field(factory=Distribution)
    audio_count_distribution: Distribution = attrs.field(factory=Distribution)
    video_distribution: Distribution = attrs.field(factory=Distribution)
    video_count_distribution: Distribution = attrs.field(factory=Distribution)


ACCUMULATE = "accumulate"
"""The one ``context_growth`` that has an effect."""


@attrs.frozen(kw_only=True)
class MultiTurn:
    """Sessions of several rounds."""

    max_rounds: int = 0
    """>= 1."""
    think_time_us: int = 0
    """From an answer to the next question."""
    context_growth: str = ""
    """``accumulate``: a prompt repeats the conversation so far; anything else: it does not."""
    single_session: bool = False
    """One session in all, instead of one per arrival."""


@attrs.frozen(kw_only=True)
class Reasoning:
    """Conversations and the share of reasoning in outputs."""

    reason_ratio_distribution: Distribution = attrs.field(factory=Distribution)
    """Percentage of output tokens that are reasoning; no type = 0."""
    multi_turn: MultiTurn | None = None
    """None = the whole section has no effect."""


# ------------------------------------------------------------------------------ clients and cohorts


@attrs.frozen
class NormalisedExponential:
    """A factory of exactly ``count`` exponential gaps that fill ``duration_us``."""

    count: int
    """In [1, 10,000,000]."""
    duration_us: int
    """>= ``count``."""


@attrs.frozen
class FactoryPoisson:
    """A factory of exponential gaps whose rate is not a share of the aggregate rate."""

    rate_per_us: float
    """> 0."""


Factory = NormalisedExponential | FactoryPoisson


@attrs.frozen(kw_only=True)
class Client:
    """A source of requests: open (a share of the rate), or closed (``concurrency`` users)."""

    id: str = ""
    """Copied to requests; neither unique nor non-empty by need."""
    tenant_id: str = ""
    slo_class: str = ""
    model: str = ""
    rate_fraction: float = 0.0
    """Relative share of the aggregate rate, any number > 0."""
    concurrency: int = 0
    """Users that each send a request as soon as their last one is answered; 0 = by rate."""
    think_time_us: int = 0
    """Pause of a user between two requests, >= 0."""
    arrival: Arrival = attrs.field(factory=Arrival)
    input_distribution: Distribution = attrs.field(factory=Distribution)
    output_distribution: Distribution = attrs.field(factory=Distribution)
    prefix_group: str = ""
    """Clients of one group share the tokens that their prompts begin with; empty = no prefix."""
    prefix_length: int = 0
    """Length of the group's prefix; 0 = the default."""
    streaming: bool = False
    network: Network | None = None
    lifecycle: Lifecycle | None = None
    """None = always active."""
    multimodal: Multimodal | None = None
    reasoning: Reasoning | None = None
    timeout: int | None = None
    """Patience in us; 0 = endless; None = the default (sessions: 300 s, others: endless)."""
    closed_loop: bool | None = None
    """Rounds follow the server's answers; None = yes if and only if there are several rounds."""
    factory: Factory | None = attrs.field(default=None, metadata={"key": None})
    """Replaces the arrival process; set by expansions, no key of the file."""

    @property
    def multi_turn(self) -> MultiTurn | None:
        """``reasoning.multi_turn``, if there."""
        return None if self.reasoning is None else self.reasoning.multi_turn

    @property
    def is_closed_loop(self) -> bool:
        """The ``closed_loop`` in effect."""
        return self.multi_turn is not None if self.closed_loop is None else self.closed_loop

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of activity; empty = always active."""
        return () if self.lifecycle is None else self.lifecycle.windows


@attrs.frozen(kw_only=True)
class Diurnal:
    """Activity that follows the hours of one day."""

    peak_hour: int = 0
    """In [0, 23]."""
    peak_to_trough_ratio: float = 0.0
    """Activity at the peak over that twelve hours away, >= 1."""


@attrs.frozen(kw_only=True)
class Spike:
    """Activity within one span."""

    start_time_us: int = 0
    """>= 0."""
    duration_us: int = 0
    """> 0."""


@attrs.frozen(kw_only=True)
class Drain:
    """Full activity up to a time, then a decline in ten segments."""

    start_time_us: int = 0
    """>= 0."""
    ramp_duration_us: int = 0
    """> 0."""


@attrs.frozen(kw_only=True)
class Cohort:
    """``population`` equal clients. Fields shared with :class:`Client` mean the same."""

    id: str = ""
    """Members are called ``<id>-<number>``."""
    population: int = 0
    """In [1, 100,000]."""
    tenant_id: str = ""
    slo_class: str = ""
    model: str = ""
    arrival: Arrival = attrs.field(factory=Arrival)
    input_distribution: Distribution = attrs.field(factory=Distribution)
    output_distribution: Distribution = attrs.field(factory=Distribution)
    prefix_group: str = ""
    prefix_length: int = 0
    streaming: bool = False
    rate_fraction: float = 0.0
    """Share of all members together."""
    reasoning: Reasoning | None = None
    closed_loop: bool | None = None
    timeout: int | None = None
    network: Network | None = None
    multimodal: Multimodal | None = None
    diurnal: Diurnal | None = None
    spike: Spike | None = None
    drain: Drain | None = None
    """Members are active in the union of the three patterns; without any, always."""

    @property
    def multi_turn(self) -> MultiTurn | None:
        """``reasoning.multi_turn``, if there."""
        return None if self.reasoning is None else self.reasoning.multi_turn


# ---------------------------------------------------------------------------------- other sources


@attrs.frozen(kw_only=True)
class ServegenData:
    """A folder of ServeGen traces; span limits in seconds, 0 or less = none."""

    path: str = ""
    span_start: int = 0
    span_end: int = 0


@attrs.frozen(kw_only=True)
class Stage:
    """A phase of constant load."""

    rate: float = 0.0
    """Requests per second, > 0."""
    duration: int = 0
    """Seconds, > 0."""


@attrs.frozen(kw_only=True)
class SharedPrefix:
    """Users that share system prompts."""

    num_unique_system_prompts: int = 0
    """>= 1."""
    num_users_per_system_prompt: int = 0
    """>= 1."""
    system_prompt_len: int = 0
    """Tokens, >= 0; 0 = the default prefix length."""
    question_len: int = 0
    """Tokens, >= 0; 0 counts as 1."""
    output_len: int = 0
    """Tokens, >= 0; 0 counts as 1."""
    enable_multi_turn_chat: bool = False


@attrs.frozen(kw_only=True)
class InferencePerf:
    """A workload in the terms of the inference-perf benchmark."""

    stages: tuple[Stage, ...] = ()
    """At least one; they follow one another."""
    shared_prefix: SharedPrefix | None = None
    """Required."""


@attrs.frozen(kw_only=True)
class WorkloadSpec:
    """A whole workload. Clients, ServeGen data and inference-perf exclude one another."""

    version: str = ""
    """Empty or ``1`` = the older dialect, see :func:`upgrade`."""
    seed: int = 0
    """Of the workload's random numbers."""
    category: str = ""
    """Empty, ``language``, ``multimodal`` or ``reasoning``; has no effect."""
    clients: tuple[Client, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    aggregate_rate: float = 0.0
    """Requests per second of all rate-based clients together, > 0 if there are any."""
    horizon: int = 0
    """Arrivals from this time on are left out; 0 or less = none is left out."""
    num_requests: int = 0
    """0 = no limit."""
    servegen_data: ServegenData | None = None
    inference_perf: InferencePerf | None = None


# ---------------------------------------------------------------------------------------- reading


def load_spec(path: str) -> WorkloadSpec:
    """The specification in a YAML file, brought to version 2; values are not validated.

    BlisError, naming file, path and line, for an unreadable file, a syntax error, an unknown or
    repeated key, and a value of another type. Logs the warnings of :func:`upgrade`.
    """
    return _typed(read_yaml(path, "workload specification"), path)


def parse_spec(text: str | bytes, source: str) -> WorkloadSpec:
    """Like :func:`load_spec`, from text; ``source`` names it in errors."""
    return _typed(load_yaml(text, source), source)


def _typed(data: object, source: str) -> WorkloadSpec:
    spec, warnings = upgrade(structure(data, WorkloadSpec, source))
    for warning in warnings:
        log.warning(f"{source}: {warning}")
    return spec


_OLD_SLO_CLASSES = {"realtime": "critical", "interactive": "standard"}


def upgrade(spec: WorkloadSpec) -> tuple[WorkloadSpec, list[str]]:
    """``spec`` in version 2, and a warning for each SLO class of a client that was renamed.

    Version 1 called the classes critical and standard by other names. Cohorts came later and are
    left alone. A specification of another version is returned as it is.
    """
    if spec.version not in ("", "1"):
        return spec, []
    warnings = []
    clients = []
    for index, client in enumerate(spec.clients):
        if new := _OLD_SLO_CLASSES.get(client.slo_class):
            warnings.append(
                f"clients[{index}].slo_class: {client.slo_class!r} is now called {new!r}"
            )
            client = attrs.evolve(client, slo_class=new)
        clients.append(client)
    return attrs.evolve(spec, version=VERSION, clients=tuple(clients)), warnings
