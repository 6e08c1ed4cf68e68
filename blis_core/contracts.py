"""The types that every part of BLIS shares: value types and the interfaces of extensions.

Conventions: times are integer microseconds (suffix ``_us`` or named after an instant), lengths are
tokens, KV memory is counted in blocks. Importing this module must stay cheap, so numpy is imported
only where an array is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import attrs

from blis_core.contracts_kv import KVSequence as KVSequence
from blis_core.contracts_kv import KVSetup as KVSetup
from blis_core.contracts_kv import KVStore as KVStore
from blis_core.contracts_model import HardwareDescription as HardwareDescription
from blis_core.contracts_model import ModelDescription as ModelDescription
from blis_core.contracts_model import ModelDetails as ModelDetails
from blis_core.contracts_workload import ArrivalSampler as ArrivalSampler
from blis_core.contracts_workload import ArrivalSetup as ArrivalSetup
from blis_core.contracts_workload import ImportedRequest as ImportedRequest
from blis_core.contracts_workload import Importer as Importer
from blis_core.contracts_workload import ImportSetup as ImportSetup
from blis_core.contracts_workload import LengthSampler as LengthSampler
from blis_core.contracts_workload import LengthSetup as LengthSetup
from blis_core.records import Record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from blis_core.accuracy import Accuracy, RunFacts
    from blis_core.kv.chains import Chain

    IntArray = npt.NDArray[np.int64]
    FloatArray = npt.NDArray[np.float64]
    TokenArray = npt.NDArray[np.int32]

MAX_INT64 = 2**63 - 1
"""Latest representable time; also the default horizon ("never")."""


# ------------------------------------------------------------------------------------- requests

QUEUED, RUNNING, COMPLETED, TIMED_OUT = "queued", "running", "completed", "timed_out"


class Request:
    """One inference request: what the workload says of it, then what the engine learns.

    ``tokens`` holds prompt and output token ids in one int32 array (the prompt first); it may be
    dropped (``None``) once its block keys are known. Policies must not read ``output_len``.
    """

    __slots__ = (
        "arrival",
        "assigned",
        "audio_tokens",
        "client",
        "deadline",
        "e2e",
        "engine",
        "first_token_delay",
        "gateway_dispatch",
        "gateway_enqueue",
        "id",
        "image_tokens",
        "itl_count",
        "itl_sum",
        "keys",
        "length_capped",
        "max_output",
        "model",
        "output_keys",
        "output_len",
        "prefix_group",
        "prefix_length",
        "priority",
        "prompt_len",
        "reason_ratio",
        "round_index",
        "scheduling_delay",
        "session",
        "slo_class",
        "state",
        "streaming",
        "tenant",
        "text_tokens",
        "tokens",
        "ttft",
        "video_tokens",
    )

    def __init__(
        self,
        id: str,
        arrival: int,
        tokens: TokenArray | None,
        prompt_len: int,
        output_len: int,
        # Names are for everybody but the loops that make all the requests of a workload: a class
        # that is called with a dozen of them takes twice as long.
        max_output: int = 0,
        deadline: int = 0,
        client: str = "",
        tenant: str = "",
        slo_class: str = "",
        model: str = "",
        session: str = "",
        round_index: int = 0,
        prefix_group: str = "",
        prefix_length: int = 0,
        streaming: bool = False,
        text_tokens: int = 0,
        image_tokens: int = 0,
        audio_tokens: int = 0,
        video_tokens: int = 0,
        reason_ratio: float = 0.0,
    ) -> None:
        self.id = id
        self.arrival = arrival
        self.tokens = tokens
        self.prompt_len = prompt_len
        self.output_len = output_len
        self.max_output = max_output  # client budget; 0 = none
        self.deadline = deadline  # absolute; 0 = none
        self.client = client
        self.tenant = tenant
        self.slo_class = slo_class
        self.session = session
        self.round_index = round_index
        self.prefix_group = prefix_group
        self.prefix_length = prefix_length
        self.streaming = streaming
        self.text_tokens = text_tokens
        self.image_tokens = image_tokens
        self.audio_tokens = audio_tokens
        self.video_tokens = video_tokens
        self.reason_ratio = reason_ratio
        self.model = model
        # ---- filled in by the simulation
        self.state = QUEUED
        self.keys: Chain | None = None  # block keys of prompt ++ output (kv.chains)
        self.output_keys: Chain | None = None  # block keys of the output taken alone
        self.priority = 0.0
        self.assigned = ""  # id of the instance
        self.ttft = -1  # us after arrival; -1 = no first token yet
        self.first_token_delay = 0  # us of ttft that no other latency includes
        self.itl_sum = 0
        self.itl_count = 0
        self.e2e = -1  # us; -1 = did not complete
        self.scheduling_delay = -1  # us; -1 = never scheduled
        self.length_capped = False
        self.gateway_enqueue = 0
        self.gateway_dispatch = 0
        self.engine: Any = None  # private state of the instance that runs it

    def __repr__(self) -> str:
        return f"Request({self.id!r}, arrival={self.arrival}, {self.prompt_len}+{self.output_len})"

    def mean_itl_us(self) -> float:
        """Mean inter-token latency of a completed request in us; 0 if it did not complete.

        The divisor is the declared output length less one, except after a length cap.
        """
        if self.e2e < 0 or self.output_len == 0:
            return 0.0
        count = self.itl_count if self.length_capped else self.output_len
        return self.itl_sum / max(count - 1, 1)


class TransferredRequest(Request):
    """A request whose prompt was prefilled on another instance, from where its KV blocks come."""

    __slots__ = ("first_decode_us",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_decode_us = -1  # inter-token latency of its first decode; -1 = none yet


# -------------------------------------------------------------------------------- latency models


class PrefillChunk(NamedTuple):
    """One request's share of a step while it is in prefill."""

    context: int
    """Prompt tokens processed before this step."""
    new_tokens: int
    prompt_len: int


class BatchShape(NamedTuple):
    """One batch step, by aggregates. Members without tokens in this step are not part of it."""

    prefills: tuple[PrefillChunk, ...] = ()
    """In batch order."""
    decodes: int = 0
    """Members that decode one token each."""
    decode_context_sum: int = 0
    """Sum over the decodes of their progress (prompt plus generated tokens) before this step."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LatencySetup(Record):
    """What a latency model is built from. ``model`` and ``hardware`` are None only for a backend
    that declares ``analytical = False``."""

    backend: str
    model: ModelDescription | None = None
    hardware: HardwareDescription | None = None
    tp: int = 0
    """Tensor parallel degree."""
    alpha: tuple[float, ...] = (0.0, 0.0, 0.0)
    beta: tuple[float, ...] = (0.0, 0.0, 0.0)
    options: Any = None
    """An instance of the backend's ``options_class``; None = the defaults."""
    model_name: str = ""
    """Lower-case name of the served model."""
    version: str = ""
    """Serving engine version, if the user gave one."""
    max_running: int = 256
    """Most requests in a batch."""
    max_tokens: int = 2048
    """Most new tokens in a step."""
    max_model_len: int = 0
    """Longest request in tokens; 0 = unlimited or not known."""
    schedule_lag: int = 0
    """Steps by which the engine's choice of a batch precedes its execution."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CoefficientQuery(Record):
    """What a backend may look its coefficients up by."""

    model: str
    """Lower-case model name."""
    gpu: str
    tp: int
    version: str
    """Serving engine version, for example ``vllm/vllm-openai:v0.11.0``."""
    sections: dict[str, Any]
    """Contents of the user's defaults file by top-level key (empty without such a file)."""


class LatencyModel(ABC):
    """Duration of batch steps and the overheads of a request. Immutable, no randomness.

    An author must write ``step_time`` only. The constructor takes a :class:`LatencySetup` and
    raises :class:`blis_core.errors.BlisError` for figures that it cannot work with.
    """

    analytical: ClassVar[bool] = True
    """True: needs GPU, TP, model config and hardware figures; KV blocks and the maximum model
    length are derived from them. False: works from coefficients alone."""
    accepts_coefficients: ClassVar[bool] = True
    """False: giving --alpha-coeffs/--beta-coeffs together with this backend is an error."""
    options_class: ClassVar[type | None] = None
    """An attrs class with one :func:`blis_core.api.option` per ``--latency-option`` of this
    backend; an instance comes as ``LatencySetup.options``. None = there are no options."""
    warnings: Sequence[str] = ()
    """Why the predictions for this setup may be less accurate than usual; shown to the user."""

    def __init__(self, setup: LatencySetup) -> None:  # noqa: B027 - optional to override
        pass

    @classmethod
    def default_coefficients(
        cls, query: CoefficientQuery
    ) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """(alpha, beta) when the user gave none; None = the backend has no use for them.

        Raises BlisError when there are none for this model, GPU, TP and version.
        """
        return None

    @classmethod
    def known_gpus(cls) -> Mapping[str, HardwareDescription]:
        """GPUs, by name, that the backend brings itself; those of catalogue and user win."""
        return {}

    @classmethod
    def kv_blocks(cls, setup: LatencySetup, block_size: int, utilization: float) -> int | None:
        """KV blocks of ``block_size`` tokens that fit into the share ``utilization`` of the memory.

        None = by the formula of the catalogue. BlisError if nothing fits.
        """
        return None

    @abstractmethod
    def step_time(self, shape: BatchShape) -> int:
        """Duration of one step in us, at least 1 for every shape, the empty one included."""

    def decode_times(self, decodes: int, context_sum: int, steps: int) -> IntArray:
        """Durations (int64, length ``steps``) of consecutive pure decode steps with constant
        membership: ``context_sum`` grows by ``decodes`` from one step to the next."""
        import numpy as np

        step = self.step_time
        return np.array(
            [step(BatchShape((), decodes, context_sum + j * decodes)) for j in range(steps)],
            dtype=np.int64,
        )

    def queueing_time(self, prompt_len: int) -> int:
        """Delay in us from arrival at the instance to entering its wait queue."""
        return 0

    def output_token_time(self) -> int:
        """us added to the first-token time and to each inter-token latency; not to the clock."""
        return 0

    def completion_time(self) -> int:
        """us added to the end-to-end latency of a request with at least one output token."""
        return 0

    def first_token_delay(self, sequences: int) -> int:
        """us by which a client sees the first token of a step with this many members later.

        Part of the time to first token only: the answer does not end later for it.
        """
        return 0

    def accuracy(self, run: RunFacts) -> Accuracy | None:
        """How far the latencies of a finished run can be trusted; None = nothing is known."""
        return None


# --------------------------------------------------------------------------------------- routing


class FleetView(ABC):
    """The instances that can serve one request, as a struct of arrays in instance order.

    The arrays are read-only for policies. They are as stale as the configuration says.
    """

    ids: Sequence[str]
    queue_depth: IntArray
    """Waiting requests."""
    running: IntArray
    """Requests in the running batch."""
    in_flight: IntArray
    """Requests routed there and not yet finished; always current."""
    kv_utilization: FloatArray
    """Used blocks / all blocks, in [0, 1]."""
    free_blocks: IntArray

    @property
    def load(self) -> IntArray:
        """queue_depth + running + in_flight (queued and running requests count twice)."""
        return self.queue_depth + self.running + self.in_flight

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def cached_blocks(self, request: Request) -> IntArray:
        """Per instance, how many leading full blocks of the prompt its KV cache holds."""

    @abstractmethod
    def prompt_keys(self, request: Request) -> Sequence[int]:
        """Keys of the full blocks of the prompt: equal keys stand for equal beginnings."""


class Scorer(ABC):
    """Rates the candidate instances for a request; higher is better.

    ``routed`` follows the ``score`` of the same request, before the next one is scored.
    """

    reads_cache: ClassVar[bool] = True
    """False: never asks for ``cached_blocks``, so that caches need not be watched."""

    @abstractmethod
    def score(self, request: Request, fleet: FleetView) -> FloatArray:
        """One float in [0, 1] per instance of ``fleet``, in order. Must not change ``fleet``."""

    def routed(self, request: Request, index: int) -> None:  # noqa: B027 - optional to override
        """Told after each decision: ``request`` went to instance ``index`` of the fleet view."""


class RoutingDecision(NamedTuple):
    """Outcome of a routing policy."""

    target: int
    """Position in the fleet view."""
    reason: str
    scores: FloatArray | None = None


class RoutingPolicy(ABC):
    """Chooses the instance for a request."""

    reads_fleet: ClassVar[bool] = True
    """False: the choice depends on nothing but the sequence of requests."""

    @abstractmethod
    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        """Choose among the (at least one) instances of ``fleet``."""


class PDDecider(ABC):
    """Decides which requests are disaggregated, where there are pools for prefill and decode.

    Built as ``factory(setup: PDDeciderSetup)``. ``fleet`` shows all routable instances, whatever
    pool they are in, with signals as of the last routing decision if they are not live.
    """

    @abstractmethod
    def disaggregates(self, request: Request, fleet: FleetView) -> bool:
        """True: prefill in one pool, decode in the other. False: all on one instance of any."""

    def routed(  # noqa: B027 - optional to override
        self, request: Request, fleet: FleetView
    ) -> None:
        """Told after each choice of an instance for a request or for its prefill half.

        Other requests may have been decided upon in between.
        """


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PDDeciderSetup(Record):
    """What a decider is built from."""

    block_size: int
    """Tokens per KV block, at least 1."""
    prefix_threshold: int = 512
    """``--pd-prefix-threshold``, in tokens, at least 0."""


class AdmissionPolicy(ABC):
    """Decides whether a request enters the cluster."""

    reads_fleet: ClassVar[bool] = True

    @abstractmethod
    def admit(self, request: Request, fleet: FleetView, now: int) -> str | None:
        """None = admitted; otherwise the reason of the rejection."""


class Scheduler(ABC):
    """Order of an instance's wait queue."""

    fcfs: ClassVar[bool] = False
    """True: arrival order with preempted requests in front; ``key`` is then not used."""

    def __init__(self, priority: PriorityPolicy) -> None:
        self.priority = priority

    @abstractmethod
    def key(self, request: Request) -> Any:
        """Sort key, smaller is served earlier. Unique and constant while the request waits."""


@attrs.frozen(eq=False, repr=False)
class PriorityPolicy(Record):
    """Priority of a waiting request as a function of its age: ``sign * 1e-6 * age``.

    ``sign`` is 0 (constant), 1 (older first) or -1 (younger first).
    """

    name: str
    sign: int
