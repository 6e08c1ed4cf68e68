"""The policy file of ``--policy-config``: its structure, as YAML spells it.

None means that the file does not say. What the figures must satisfy is checked in
:mod:`blis_core.policies.validation`.
"""

from __future__ import annotations

from typing import Any

import attrs

from blis_core.structuring import read_yaml, structure


@attrs.frozen(kw_only=True)
class AdmissionSection:
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


@attrs.frozen(kw_only=True)
class ScorerEntry:
    """One scorer of the weighted policy."""

    name: str = ""
    """Scorer; each at most once. Default: must be given."""
    weight: float = 0.0
    """Its share of the score, relative to the other weights. Allowed: > 0."""


@attrs.frozen(kw_only=True)
class RoutingSection:
    """Choice of an instance."""

    policy: str = ""
    """What chooses the instance. Default: `round-robin`."""
    scorers: tuple[ScorerEntry, ...] = ()
    """Of the policy `weighted`; checked whatever the policy is.
    Default: the built-in profile."""


@attrs.frozen(kw_only=True)
class PrioritySection:
    """Priority of waiting requests."""

    policy: str = ""
    """How the priority changes with the age of a request. Default: `constant`."""


@attrs.frozen(kw_only=True)
class Delay:
    """A normally distributed delay."""

    mean: float = 0.0
    """Mean. Unit: s. Allowed: >= 0."""
    stddev: float = 0.0
    """Standard deviation. Unit: s. Allowed: >= 0."""


@attrs.frozen(kw_only=True)
class NodePool:
    """Equal nodes with GPUs."""

    name: str = ""
    """Name of the pool. Allowed: not empty. Default: must be given."""
    gpu_type: str = ""
    """GPU, spelled as in the catalogue. Allowed: not empty. Default: must be given."""
    gpus_per_node: int = 0
    """GPUs of one node. Allowed: >= 1."""
    gpu_memory_gib: float = 0.0
    """Memory of one GPU. Unit: GiB. Allowed: > 0."""
    initial_nodes: int = 0
    """Nodes that are there at the start. Allowed: >= 0."""
    min_nodes: int = 0
    """Fewest nodes. Allowed: 0 to `max_nodes`."""
    max_nodes: int = 0
    """Most nodes. Allowed: at least `initial_nodes`."""
    provisioning_delay: Delay = attrs.field(factory=Delay)
    """From ordering a node to having it."""
    cost_per_hour: float = 0.0
    """Of one node, in any currency. Allowed: >= 0."""


@attrs.frozen(kw_only=True)
class AnalyzerSection:
    """When a model needs more or fewer instances; 0 = default."""

    kv_cache_threshold: float = 0.0
    """Share of the KV cache that counts as capacity. Allowed: [0, 1]."""
    scale_up_threshold: float = 0.0
    """Utilisation above which to add instances; 0 stands for 0.8. Allowed: >= 0."""
    scale_down_boundary: float = 0.0
    """Utilisation below which to remove instances; 0 stands for 0.4.
    Allowed: >= 0 and below `scale_up_threshold`."""
    avg_input_tokens: float = 0.0
    """KV demand of a waiting request. Unit: tokens. Allowed: >= 0."""


@attrs.frozen(kw_only=True)
class AutoscalerSection:
    """Automatic change of the number of instances."""

    interval_us: float = 0.0
    """Between two looks; 0 = off. Unit: us. Allowed: >= 0."""
    scale_up_stabilization_window_us: float = 0.0
    """How long the wish for more instances must last. Unit: us. Allowed: >= 0."""
    scale_down_stabilization_window_us: float = 0.0
    """How long the wish for fewer instances must last. Unit: us. Allowed: >= 0."""
    hpa_scrape_delay: Delay = attrs.field(factory=Delay)
    """How late a decision takes effect."""
    analyzer: AnalyzerSection = attrs.field(factory=AnalyzerSection)
    """What the decision goes by."""


@attrs.frozen(kw_only=True)
class PoolSection:
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


@attrs.frozen(kw_only=True)
class PoolsSection:
    """Pools for prefill and decode that differ, their step times included."""

    prefill: PoolSection = attrs.field(factory=PoolSection)
    """Of `--prefill-instances`."""
    decode: PoolSection = attrs.field(factory=PoolSection)
    """Of `--decode-instances`."""


@attrs.frozen(kw_only=True)
class PolicyBundle:
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
    """Checked, but without effect yet."""
    autoscaler: AutoscalerSection = attrs.field(factory=AutoscalerSection)
    """Checked, but without effect yet."""


def load_bundle(path: str) -> PolicyBundle:
    """Read and check a policy file. BlisError names file, path and what would be right."""
    from blis_core.policies.validation import check_bundle

    bundle = structure(read_yaml(path, "policy file"), PolicyBundle, path)
    bundle = attrs.evolve(bundle, source=path)
    check_bundle(bundle)
    return bundle
