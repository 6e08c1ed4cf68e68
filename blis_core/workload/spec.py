"""The version-2 workload specification: its schema and its reader.

One attrs class per mapping of the YAML file; field names are the keys, in the order in which a
specification is written. Everything is immutable: expansions make changed copies. Times are us
unless said otherwise, lengths are tokens. Reading checks shape and types only; what the values may
be is the business of :mod:`blis_core.workload.validation`.

The reference page ``docs/reference/workload-file.md`` is made of the docstrings behind the fields.
Their sentences "Unit: ..." and "Allowed: ..." become columns there, and a test compares the bounds
with what validation says. A cohort's field without a docstring has that of the client's.
"""

from __future__ import annotations

import attrs

from blis_core import log
from blis_core.records import Record
from blis_core.structuring import load_yaml, read_yaml, structure

VERSION = "2"

# -------------------------------------------------------------------------------- parts of clients


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Arrival(Record):
    """How the requests of a client are spread over time."""

    process: str = ""
    """Name of an arrival sampler, such as ``poisson``. Not needed by clients with concurrency."""
    cv: float | None = None
    """Coefficient of variation of the gaps; none = 1. Only some processes heed it: ``gamma``, and
    ``weibull`` from 0.01 to 10.4. Allowed: > 0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Distribution(Record):
    """A distribution of lengths in tokens (or of counts, or of percentages)."""

    type: str = ""
    """Name of a length sampler, such as ``gaussian``. Parts of ``multimodal``, and the reasoning
    share, may do without."""
    params: dict[str, float] = attrs.field(factory=dict)
    """What the sampler needs, by name. Allowed: finite numbers."""
    file: str = ""
    """Accepted for compatibility and never read."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Network(Record):
    """The path between client and server. Kept for other tools; a simulation does not apply it."""

    rtt_ms: float = 0.0
    """Round-trip time. Unit: ms."""
    bandwidth_mbps: float = 0.0
    """Bandwidth in either direction; 0 or less = unlimited. Unit: Mbit/s."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Window(Record):
    """The half-open span [start_us, end_us)."""

    start_us: int = 0
    """First instant inside. Unit: us. Allowed: >= 0."""
    end_us: int = 0
    """First instant after it. Unit: us. Allowed: > ``start_us``."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Lifecycle(Record):
    """When a client is active."""

    windows: tuple[Window, ...] = ()
    """The client is active in their union. Allowed: at least one."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Multimodal(Record):
    """Makes up prompts from text, images, audio and video.

    A part without a type adds nothing. Images, audio and video need a size and a count.
    """

    text_distribution: Distribution = attrs.field(factory=Distribution)
    """Tokens of text."""
    image_distribution: Distribution = attrs.field(factory=Distribution)
    """Tokens of one image."""
    image_count_distribution: Distribution = attrs.field(factory=Distribution)
    """Number of images."""
    audio_distribution: Distribution = attrs.field(factory=Distribution)
    """Tokens of one piece of audio."""
    audio_count_distribution: Distribution = attrs.field(factory=Distribution)
    """Number of pieces of audio."""
    video_distribution: Distribution = attrs.field(factory=Distribution)
    """Tokens of one video."""
    video_count_distribution: Distribution = attrs.field(factory=Distribution)
    """Number of videos."""


ACCUMULATE = "accumulate"
"""The one ``context_growth`` that has an effect."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MultiTurn(Record):
    """Sessions of several rounds."""

    max_rounds: int = 0
    """Rounds of a session. Allowed: >= 1."""
    think_time_us: int = 0
    """From an answer to the next question; meant to be at least 0, which is not checked.
    Unit: us."""
    context_growth: str = ""
    """``accumulate``: a prompt repeats the conversation so far; anything else: it does not."""
    single_session: bool = False
    """One session in all, instead of one per arrival."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Reasoning(Record):
    """Conversations and the share of reasoning in outputs."""

    reason_ratio_distribution: Distribution = attrs.field(factory=Distribution)
    """Share of reasoning in the output tokens, for the record; no type = 0. Unit: %."""
    multi_turn: MultiTurn | None = None
    """Rounds; without it the whole section has no effect."""


# ------------------------------------------------------------------------------ clients and cohorts


@attrs.frozen(eq=False, repr=False)
class NormalisedExponential(Record):
    """A factory of exactly ``count`` exponential gaps that fill ``duration_us``."""

    count: int
    """In [1, 10,000,000]."""
    duration_us: int
    """>= ``count``."""


@attrs.frozen(eq=False, repr=False)
class FactoryPoisson(Record):
    """A factory of exponential gaps whose rate is not a share of the aggregate rate."""

    rate_per_us: float
    """> 0."""


Factory = NormalisedExponential | FactoryPoisson


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Client(Record):
    """A source of requests: open (a share of the rate), or closed (``concurrency`` users)."""

    id: str = ""
    """Name, copied to requests; need not be unique."""
    tenant_id: str = ""
    """Who pays, copied to requests; each tenant gets statistics of its own."""
    slo_class: str = ""
    """How urgent, copied to requests; each class gets statistics of its own."""
    model: str = ""
    """Model that is asked for, copied to requests; empty = the one that is served."""
    rate_fraction: float = 0.0
    """Relative share of the aggregate rate; fractions need not add up to 1. Allowed: > 0, or
    nothing with ``concurrency``."""
    concurrency: int = 0
    """Users that each send a request as soon as their last one is answered; 0 = by rate.
    Allowed: >= 0."""
    think_time_us: int = 0
    """Pause of such a user between an answer and the next request. Unit: us. Allowed: >= 0."""
    arrival: Arrival = attrs.field(factory=Arrival)
    """How requests are spread over time."""
    input_distribution: Distribution = attrs.field(factory=Distribution)
    """Length of prompts, without the prefix. Unit: tokens. Allowed: must be given."""
    output_distribution: Distribution = attrs.field(factory=Distribution)
    """Length of outputs. Unit: tokens. Allowed: must be given."""
    prefix_group: str = ""
    """Clients of one group share the tokens that their prompts begin with; empty = no prefix."""
    prefix_length: int = 0
    """Length of the group's prefix; 0 = 50. The first client of a group decides. Unit: tokens.
    Allowed: >= 0."""
    streaming: bool = False
    """Whether answers are streamed, copied to requests for the record."""
    network: Network | None = None
    """Way to the server; a simulation does not apply it."""
    lifecycle: Lifecycle | None = None
    """When the client is active; none = always."""
    multimodal: Multimodal | None = None
    """Makes up prompts from several parts, instead of ``input_distribution``."""
    reasoning: Reasoning | None = None
    """Makes requests rounds of conversations."""
    timeout: int | None = None
    """How long a request may take; 0 = as long as it likes; none = 300 s in sessions, else as long
    as it likes. Unit: us. Allowed: >= 0."""
    closed_loop: bool | None = None
    """Whether a round waits for the answer to the last one; none = yes if there are rounds."""
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Diurnal(Record):
    """Activity that follows the hours of one day."""

    peak_hour: int = 0
    """Hour with the most activity. Unit: h. Allowed: [0, 23]."""
    peak_to_trough_ratio: float = 0.0
    """Activity at the peak over that twelve hours away. Allowed: >= 1."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Spike(Record):
    """Activity within one span."""

    start_time_us: int = 0
    """Start of the span. Unit: us. Allowed: >= 0."""
    duration_us: int = 0
    """Length of the span. Unit: us. Allowed: >= 1."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Drain(Record):
    """Full activity up to a time, then a decline in ten segments."""

    start_time_us: int = 0
    """Start of the decline. Unit: us. Allowed: >= 0."""
    ramp_duration_us: int = 0
    """Length of the decline. Unit: us. Allowed: >= 1."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Cohort(Record):
    """``population`` equal clients. Keys shared with :class:`Client` mean the same.

    Members are active in the union of the patterns ``diurnal``, ``spike`` and ``drain``; without
    any, always.
    """

    id: str = ""
    """Members are called ``<id>-<number>``."""
    population: int = 0
    """Number of members. Allowed: [1, 100000]."""
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
    """Share of the aggregate rate of all members together. Allowed: > 0."""
    reasoning: Reasoning | None = None
    closed_loop: bool | None = None
    timeout: int | None = None
    network: Network | None = None
    multimodal: Multimodal | None = None
    diurnal: Diurnal | None = None
    """Activity in the rhythm of a day."""
    spike: Spike | None = None
    """Activity in one span."""
    drain: Drain | None = None
    """Activity that dies away."""

    @property
    def multi_turn(self) -> MultiTurn | None:
        """``reasoning.multi_turn``, if there."""
        return None if self.reasoning is None else self.reasoning.multi_turn


# ---------------------------------------------------------------------------------- other sources


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServegenData(Record):
    """A folder of ServeGen data, each chunk of which becomes a client."""

    path: str = ""
    """The folder, seen from the current one."""
    span_start: int = 0
    """Rows before this time are left out; 0 or less = none. Unit: s."""
    span_end: int = 0
    """Rows from this time on are left out; 0 or less = none. Unit: s."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Stage(Record):
    """A phase of constant load."""

    rate: float = 0.0
    """Requests of all users together. Unit: 1/s. Allowed: > 0."""
    duration: int = 0
    """Length of the stage. Unit: s. Allowed: >= 1."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SharedPrefix(Record):
    """Users that share system prompts."""

    num_unique_system_prompts: int = 0
    """Number of prefixes. Allowed: >= 1."""
    num_users_per_system_prompt: int = 0
    """Clients that share a prefix. Allowed: >= 1."""
    system_prompt_len: int = 0
    """Length of a prefix; 0 = 50. Unit: tokens. Allowed: >= 0."""
    question_len: int = 0
    """Length of a prompt behind the prefix; 0 counts as 1. Unit: tokens. Allowed: >= 0."""
    output_len: int = 0
    """Length of an output; 0 counts as 1. Unit: tokens. Allowed: >= 0."""
    enable_multi_turn_chat: bool = False
    """Makes the requests of a user rounds of one session, in a closed loop."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OpenLoop(Record):
    """Sends at the stages' rates without waiting for answers, going round fixed prompts."""

    num_groups: int = 10
    """Groups of prompts that share a system prompt. Allowed: >= 1."""
    num_prompts_per_group: int = 10
    """Prompts of a group. Allowed: >= 1."""
    growth: float = 1.05
    """Tokens as the server counts them per token asked for (texts are tokenised again there).
    Allowed: > 0."""
    stdev: float = 6.0
    """Standard deviation of the length of a prompt. Unit: tokens. Allowed: >= 0."""
    pause_s: float = 1.5
    """From the last answer of a stage to the beginning of the next. Unit: s. Allowed: >= 0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InferencePerf(Record):
    """A workload in the terms of the inference-perf benchmark."""

    stages: tuple[Stage, ...] = ()
    """Phases, one after the other. Allowed: at least one."""
    shared_prefix: SharedPrefix | None = None
    """Users and lengths. Allowed: must be given."""
    open_loop: OpenLoop | None = None
    """Sends like the benchmark itself. Left out = the reference's clients, which share the rate."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkloadSpec(Record):
    """A whole workload. Clients, ServeGen data and inference-perf exclude one another."""

    version: str = ""
    """Write ``"2"``. Empty or ``1`` = the older dialect, with other names of SLO classes."""
    seed: int = 0
    """Of the workload's random numbers; ``--seed`` wins."""
    category: str = ""
    """What the workload is about; has no effect."""
    clients: tuple[Client, ...] = ()
    """Sources of requests."""
    cohorts: tuple[Cohort, ...] = ()
    """Groups of equal clients, which come after ``clients``."""
    aggregate_rate: float = 0.0
    """Requests of all clients together, those with ``concurrency`` apart. Unit: 1/s.
    Allowed: > 0, or nothing if all clients have ``concurrency``."""
    horizon: int = 0
    """End of simulated time; 0 or less = none. ``--horizon`` wins. Unit: us."""
    num_requests: int = 0
    """Most requests; 0 = no limit. ``--num-requests`` wins. Allowed: >= 0."""
    servegen_data: ServegenData | None = None
    """Makes clients of recorded statistics."""
    inference_perf: InferencePerf | None = None
    """Makes clients of a benchmark's description."""


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
