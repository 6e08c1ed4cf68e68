"""What runs in the pools for prefill and decode.

There are two ways to make a pool differ. The options of single pools do what the reference does:
TP, latency model and maximum length take effect, but a GPU only changes the size of the KV cache,
and that even against ``--total-kv-blocks`` (reference quirk 07-Q11). The section ``pools`` of the
policy file resolves each pool as if it were a deployment of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from blis_core import log
from blis_core.catalog.huggingface import parse_kv_parameters
from blis_core.catalog.kv_capacity import total_blocks
from blis_core.cluster.transfer import kv_bytes_per_token
from blis_core.config import SimulationConfig
from blis_core.deployment import Deployment, Resolver, resolve
from blis_core.disaggregation_options import POOL_SETTINGS, POOLS
from blis_core.errors import BlisError
from blis_core.plugins import get_registry
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.policies.bundle import PoolSection, PoolsSection


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PoolDeployments(Record):
    """Both pools, resolved."""

    prefill: Deployment
    decode: Deployment
    bytes_per_token: float
    """KV cache of a token on one GPU of the prefill pool."""


def resolve_pools(
    config: SimulationConfig, deployment: Deployment, sections: PoolsSection | None = None
) -> PoolDeployments | None:
    """The pools of ``config``, None if there are none; ``deployment`` is that of all instances.

    BlisError for what cannot be.
    """
    _warn(config, sections)
    if not config.disaggregated:
        return None
    resolver = Resolver(config)
    model_config, description = resolver.describe_model()
    pools: dict[str, Deployment] = {}
    for pool in POOLS:
        section: PoolSection | None = getattr(sections, pool) if sections is not None else None
        if section is not None and section.settings:
            pools[pool] = _of_file(config, deployment, pool, section)
            continue
        known = deployment.setup.model or description
        pools[pool] = _of_options(config, deployment, pool, resolver, model_config, known)
    return PoolDeployments(
        **pools, bytes_per_token=kv_bytes_per_token(description, pools["prefill"].tp)
    )


def _warn(config: SimulationConfig, sections: PoolsSection | None) -> None:
    """Say in one line which settings have no effect."""
    given = config.pool_flags()
    in_file = sections is not None and any(getattr(sections, pool).settings for pool in POOLS)
    if not config.disaggregated:
        idle = given + (["--pd-decider"] if config.decider != "never" else [])
        if in_file:
            idle.append("the section pools of the policy file")
        if idle:
            log.warning(
                f"without --prefill-instances and --decode-instances {', '.join(idle)} have no"
                " effect"
            )
        return
    if config.pd_prefix_threshold is not None and config.decider != "prefix-threshold":
        log.warning(f"--pd-prefix-threshold has no effect with the decider {config.decider}")
    hardware = [flag for flag in given if flag.endswith("-hardware")]
    if hardware:
        log.warning(
            f"{', '.join(hardware)}: the GPU of a pool changes the size of its KV cache, but not"
            " its step times; a section pools of --policy-config changes both"
        )


def _of_file(
    config: SimulationConfig, deployment: Deployment, pool: str, section: PoolSection
) -> Deployment:
    """A pool of the policy file: a deployment of its own, where it does not say otherwise as all.

    Coefficients that are given belong to the latency model of all instances. Those of the
    catalogue are looked up for the pool's own GPU and TP.
    """
    flags = [
        f"--{pool}-{setting.replace('_', '-')}"
        for setting in POOL_SETTINGS
        if config.pool_setting(pool, setting) is not None
    ]
    if flags:
        raise BlisError(
            f"{flags[0]}: pools.{pool} of the policy file describes that pool; set"
            f" {flags[0][len(pool) + 3 :].replace('-', '_')} there"
        )
    log.info(f"pool {pool}:")
    settings = section.settings
    if section.latency_model not in (None, deployment.backend):
        settings.update(alpha_coeffs=None, beta_coeffs=None)
    try:
        return resolve(attrs.evolve(config, **settings))
    except BlisError as problem:
        raise BlisError(f"pools.{pool} of the policy file: {problem}") from None


def _of_options(
    config: SimulationConfig,
    deployment: Deployment,
    pool: str,
    resolver: Resolver,
    model_config: Any,
    description: Any,
) -> Deployment:
    """A pool of the options: the deployment of all with some settings replaced."""

    def given(setting: str) -> Any:
        return config.pool_setting(pool, setting)

    tp = given("tp") or deployment.tp
    gpu = given("hardware") or deployment.gpu
    backend = given("latency_model") or deployment.backend
    setup = attrs.evolve(deployment.setup, tp=tp, backend=backend, model=description)
    registry = get_registry()
    if backend != deployment.backend:
        try:
            analytical = getattr(registry.factory("latency-model", backend), "analytical", True)
        except BlisError as problem:
            raise BlisError(f"--{pool}-latency-model: {problem}") from None
        if analytical and setup.hardware is None:
            raise BlisError(
                f"--{pool}-latency-model: {backend} needs figures of the GPU, which"
                f" --latency-model {deployment.backend} does without; set latency_model under"
                f" pools.{pool} in a policy file instead"
            )
    else:
        setup = attrs.evolve(setup, model=deployment.setup.model)
    blocks, longest = deployment.total_blocks, deployment.limits.max_model_len
    if (tp, gpu) != (deployment.tp, deployment.gpu) and deployment.setup.hardware is not None:
        own = _blocks(config, pool, gpu, tp, resolver, model_config, description)
        if own is not None:
            blocks = own
            longest = min(longest, own * deployment.block_size)
    own_longest = given("max_model_len")
    if own_longest is not None:
        longest = own_longest
        if -(-longest // deployment.block_size) > blocks:
            raise BlisError(
                f"--{pool}-max-model-len: {longest} tokens do not fit into the pool's {blocks} KV"
                f" blocks of {deployment.block_size} tokens"
            )
    return attrs.evolve(
        deployment,
        gpu=gpu,
        tp=tp,
        backend=backend,
        setup=setup,
        total_blocks=blocks,
        limits=attrs.evolve(deployment.limits, max_model_len=longest),
    )


def _blocks(
    config: SimulationConfig,
    pool: str,
    gpu: str,
    tp: int,
    resolver: Resolver,
    model_config: Any,
    description: Any,
) -> int | None:
    """KV blocks of a pool with another GPU or TP; None if they cannot be computed."""
    try:
        blocks = total_blocks(
            description,
            resolver.describe_gpu(gpu),
            parse_kv_parameters(model_config),
            tp=tp,
            block_size=config.block_size_in_tokens,
            utilization=config.gpu_memory_utilization,
        )
    except BlisError as problem:
        log.warning(f"the KV cache of the {pool} pool stays as large as that of all: {problem}")
        return None
    if config.total_kv_blocks is not None:
        log.warning(
            f"--total-kv-blocks has no effect on the {pool} pool, whose GPU or TP differs: it has"
            f" {blocks} blocks; set total_kv_blocks under pools.{pool} in a policy file instead"
        )
    return blocks
