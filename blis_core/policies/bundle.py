"""The policy file of ``--policy-config``: its structure, as YAML spells it.

None means that the file does not say. What the figures must satisfy is checked in
:mod:`blis_core.policies.validation`.
"""

from __future__ import annotations

from typing import Any

import attrs

from blis_core.records import Record
from blis_core.structuring import read_yaml, structure


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AdmissionSection(Record):
    """Admission, and what SLO classes are worth."""

    policy: str = ""
    """What decides whether a request may enter. Default: `always-admit`."""
    token_bucket_capacity: float | None = None
    """Most that `token-bucket` saves up; above 0 if that policy is used. Unit: prompt tokens.
    Allowed: >= 0. Default: `10000`."""
    token_bucket_refill_rate: float | None = None
    """What `token-bucket` gains; above 0 if that policy is used. Unit: prompt tokens/s.
    Allowed: >= 0. Default: `1000`."""
    tier_shed_threshold: int | None = None
    """`tier-shed`: largest load of an instance at which nobody is shed. Unit: requests.
    Allowed: >= 0. Default: `0`."""
    tier_shed_min_priority: int | None = None
    """`tier-shed`: least priority that is admitted beyond the threshold.
    Default: `3` if this file names the policy, else `0`."""
    gaie_qd_threshold: float | None = None
    """`gaie-legacy`: waiting requests of a full instance. Unit: requests. Allowed: > 0.
    Default: `5`."""
    gaie_kv_threshold: float | None = None
    """`gaie-legacy`: used share of the KV blocks of a full instance. Allowed: (0, 1].
    Default: `0.8`."""
    slo_priorities: dict[str, int] = attrs.field(factory=dict)
    """What SLO classes are worth, by class; negative = sheddable. Classes that are not here keep
    their defaults; others can be added."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ScorerEntry(Record):
    """One scorer of the weighted policy."""

    name: str = ""
    """Scorer; each at most once. Default: must be given."""
    weight: float = 0.0
    """Its share of the score, relative to the other weights. Allowed: > 0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RoutingSection(Record):
    """Choice of an instance."""

    policy: str = ""
    """What chooses the instance. Default: `round-robin`."""
    scorers: tuple[ScorerEntry, ...] = ()
    """Of the policy `weighted`; checked whatever the policy is.
    Default: the built-in profile."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PrioritySection(Record):
    """Priority of waiting requests."""

    policy: str = ""
    """How the priority changes with the age of a request. Default: `constant`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Delay(Record):
    """A normally distributed delay."""

    mean: float = 0.0
    """Mean. Unit: s. Allowed: >= 0."""
    stddev: float = 0.0
    """Standard deviation. Unit: s. Allowed: >= 0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NodePool(Record):
    """Equal nodes with GPUs."""

    name: str = ""
    """Name of the pool. Allowed: not empty. Default: must be given."""
    gpu_type: str = ""
    """GPU, spelled as in the catalogue. Allowed: not empty. Default: must be given."""
    gpus_per_node: int = 0
    """GPUs of one node. Allowed: >= 1."""
    gpu_memory_gib: float = 0.0
    """Memory of one GPU; counts with `apply_hardware` only. Unit: GiB. Allowed: > 0."""
    initial_nodes: int = 0
    """Nodes that are there at the start. Allowed: >= 0."""
    min_nodes: int = 0
    """Fewest nodes; without effect, since no node goes by itself. Allowed: 0 to `max_nodes`."""
    max_nodes: int = 0
    """Most nodes, with those that `fleet_events` order. Allowed: at least `initial_nodes`."""
    provisioning_delay: Delay = attrs.field(factory=Delay)
    """From ordering a node to having it."""
    cost_per_hour: float = 0.0
    """Of one node, in any currency. Allowed: >= 0."""
    apply_hardware: bool = False
    """Whether instances that are placed here have the step times of `gpu_type`, and, unless
    `--total-kv-blocks` is given, KV blocks from `gpu_memory_gib`. If not, those of `--hardware`.
    Unknown to the Go program."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StageSection(Record):
    """A stage of the autoscaler. Unknown to the Go program."""

    name: str = ""
    """Which one; plugins may add to the built-in ones. Default: the built-in one."""
    options: dict[str, Any] = attrs.field(factory=dict)
    """What this stage can be tuned with."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AnalyzerSection(Record):
    """When a model needs more or fewer instances; 0 = default."""

    name: str = ""
    """Which analyzer; plugins may add some. Unknown to the Go program. Default: `saturation`."""
    options: dict[str, Any] = attrs.field(factory=dict)
    """What it can be tuned with besides. Unknown to the Go program."""
    kv_cache_threshold: float = 0.0
    """Share of the KV cache that counts as capacity. Allowed: [0, 1]."""
    scale_up_threshold: float = 0.0
    """Utilisation above which to add instances; 0 stands for 0.8. Allowed: >= 0."""
    scale_down_boundary: float = 0.0
    """Utilisation below which to remove instances; 0 stands for 0.4.
    Allowed: >= 0 and below `scale_up_threshold`."""
    avg_input_tokens: float = 0.0
    """KV demand of a waiting request. Unit: tokens. Allowed: >= 0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AutoscalerSection(Record):
    """Automatic change of the number of instances."""

    interval_us: float = 0.0
    """Between two looks; 0 = off, and then nothing else of this section counts. Unit: us.
    Allowed: 0 or >= 1."""
    scale_up_stabilization_window_us: float = 0.0
    """How long the wish for more instances must last. Unit: us. Allowed: >= 0."""
    scale_down_stabilization_window_us: float = 0.0
    """How long the wish for fewer instances must last. Unit: us. Allowed: >= 0."""
    hpa_scrape_delay: Delay = attrs.field(factory=Delay)
    """How late a decision takes effect."""
    analyzer: AnalyzerSection = attrs.field(factory=AnalyzerSection)
    """What the decision goes by."""
    collector: StageSection = attrs.field(factory=StageSection)
    """What is seen of the instances. Default: `routable`."""
    engine: StageSection = attrs.field(factory=StageSection)
    """How many instances of which kind to start or drain. Default: `unlimited`."""
    actuator: StageSection = attrs.field(factory=StageSection)
    """How that is carried out. Default: `direct`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LifecycleSection(Record):
    """How instances start and end. Unknown to the Go program's command line."""

    loading_delay: Delay = attrs.field(factory=Delay)
    """From placement on a node to taking requests; only with node pools."""
    warm_start_initial_instances: bool = False
    """Whether instances that are placed at the start skip the loading delay."""
    warm_up_requests: int = 0
    """First requests of an instance that find it cold. Allowed: >= 0."""
    warm_up_ttft_factor: float = 0.0
    """What the time to their first token is multiplied by; 0 stands for 1. Allowed: 0 or >= 1."""
    drain_policy: str = ""
    """What the autoscaler does to an instance that is to go: `IMMEDIATE` loses what waits there,
    `WAIT` lets it end, `REDIRECT` sends what waits elsewhere. Default: no more requests, and an
    idle instance keeps its GPUs."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelSection(Record):
    """One more model in the cluster, beside that of `--model`. Unknown to the Go program.

    Latency model, coefficients and batch limits are those of the options.
    """

    model: str = ""
    """Model, as owner/name; each at most once. Default: must be given."""
    instances: int = 1
    """Instances of it, beside `--num-instances`. Allowed: >= 1."""
    hardware: str = ""
    """GPU, spelled as in the catalogue; with node pools its instances go to such nodes only.
    Default: `--hardware`, else the catalogue's, and any node."""
    tp: int = 0
    """GPUs of one instance. Allowed: >= 0. Default: `--tp`, else the catalogue's."""
    total_kv_blocks: int = 0
    """KV blocks of each instance. Allowed: >= 0. Default: from model and GPU memory."""
    max_model_len: int | None = None
    """Longest request in tokens; 0 = unlimited. Allowed: >= 0. Default: from the model."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FleetEventSection(Record):
    """A planned change of the fleet: exactly one of the three. Unknown to the Go program."""

    at_us: int = 0
    """When. Unit: us. Allowed: >= 0."""
    drain: str = ""
    """An instance to drain."""
    policy: str = ""
    """How to drain it: see `instance_lifecycle.drain_policy`. Default: `WAIT`."""
    order_node: str = ""
    """A node pool that gets one more node, after its provisioning delay."""
    drain_node: str = ""
    """A node that goes once it is empty."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PoolSection(Record):
    """One pool of a disaggregated deployment; what is absent is as for all instances."""

    hardware: str | None = None
    """GPU of its instances, spelled as in the catalogue. Default: `--hardware`."""
    tp: int | None = None
    """GPUs of one instance. Allowed: >= 1. Default: `--tp`."""
    latency_model: str | None = None
    """Predictor of its step times. Default: `--latency-model`."""
    total_kv_blocks: int | None = None
    """KV cache of one instance. Unit: blocks. Allowed: >= 1.
    Default: `--total-kv-blocks`, or what this pool's GPUs hold."""
    max_model_len: int | None = None
    """Longest request, prompt and output together; 0 = unlimited. Unit: tokens. Allowed: >= 0.
    Default: `--max-model-len`, or of the model."""

    @property
    def settings(self) -> dict[str, Any]:
        """What the file says, by name."""
        return attrs.asdict(self, filter=lambda _, value: value is not None)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PoolsSection(Record):
    """Pools for prefill and decode that differ, their step times included."""

    prefill: PoolSection = attrs.field(factory=PoolSection)
    """Of `--prefill-instances`."""
    decode: PoolSection = attrs.field(factory=PoolSection)
    """Of `--decode-instances`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PolicyBundle(Record):
    """A whole policy file."""

    source: str = attrs.field(default="policy file", metadata={"key": None})
    """Path of the file, for messages."""
    admission: AdmissionSection = attrs.field(factory=AdmissionSection)
    """Who may enter."""
    routing: RoutingSection = attrs.field(factory=RoutingSection)
    """Who goes where."""
    priority: PrioritySection = attrs.field(factory=PrioritySection)
    """Who is more urgent, if the scheduler looks at it."""
    scheduler: str = ""
    """Order of an instance's wait queue. Default: `fcfs`."""
    tenant_budgets: dict[str, float] | None = None
    """Share of all places by tenant, each in [0, 1]. Places are instances times
    `--max-num-running-reqs`. Default: no budgets."""
    pools: PoolsSection = attrs.field(factory=PoolsSection)
    """What runs in the pools of a disaggregated deployment, where they differ."""
    node_pools: tuple[NodePool, ...] = ()
    """Machines that instances are placed on, first fit; instances without room wait for it.
    Default: there is always room."""
    autoscaler: AutoscalerSection = attrs.field(factory=AutoscalerSection)
    """Starts and drains instances as the load changes."""
    instance_lifecycle: LifecycleSection = attrs.field(factory=LifecycleSection)
    """How instances start and end."""
    models: tuple[ModelSection, ...] = ()
    """More models in the same cluster. A request goes to an instance of the model that it names."""
    fleet_events: tuple[FleetEventSection, ...] = ()
    """Planned changes of the fleet."""
    fleet_in_replay: bool = False
    """Whether `blis replay`, too, has the fleet of this file. Unknown to the Go program."""


def load_bundle(path: str) -> PolicyBundle:
    """Read and check a policy file. BlisError names file, path and what would be right."""
    return make_bundle(read_yaml(path, "policy file"), path)


def make_bundle(content: Any, source: str) -> PolicyBundle:
    """The same for the content of a policy file, as YAML or a Python mapping gives it."""
    from blis_core.policies.validation import check_bundle

    if isinstance(content, PolicyBundle):
        bundle = content
    else:
        bundle = structure(content, PolicyBundle, source)
        bundle = attrs.evolve(bundle, source=source)
    check_bundle(bundle)
    return bundle
