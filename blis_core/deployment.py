"""From a configuration to what will run: model, GPU, latency model, KV blocks, lengths.

Each resolved value remembers where it came from. Nothing here simulates anything, and everything
is checked before the first event.
"""

from __future__ import annotations

import os
from typing import Any

import attrs

from blis_core import log
from blis_core.catalog.defaults import Defaults, load_defaults
from blis_core.catalog.hardware import find_gpu
from blis_core.catalog.huggingface import Config, describe, max_model_length, parse_kv_parameters
from blis_core.catalog.kv_capacity import total_blocks
from blis_core.catalog.models import find_config
from blis_core.config import DEFAULT_LATENCY_MODEL, DEFAULT_TOTAL_KV_BLOCKS, SimulationConfig
from blis_core.contracts import (
    CoefficientQuery,
    HardwareDescription,
    LatencyModel,
    LatencySetup,
    ModelDescription,
)
from blis_core.engine.formation import Limits
from blis_core.errors import BlisError
from blis_core.latency_options import LatencyProfile, load_profile, parse_options
from blis_core.plugins import get_registry
from blis_core.records import Record
from blis_core.semantics import parse_semantics


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Deployment(Record):
    """A resolved configuration."""

    model: str
    """Lower-case name of the served model."""
    gpu: str
    tp: int
    backend: str
    setup: LatencySetup
    total_blocks: int
    block_size: int
    limits: Limits
    resolution: tuple[tuple[str, str, str], ...]
    """(name, value, origin) of everything that was derived."""
    assumed_blocks: str = ""
    """Why ``total_blocks`` is no more than an assumption; empty if it was given or computed."""

    def latency_model(self) -> LatencyModel:
        """The latency model; instances may share it."""
        model: LatencyModel = get_registry().create("latency-model", self.backend, self.setup)
        for warning in model.warnings:
            log.warning(f"latency model {self.backend}: {warning}")
        return model


class Resolver:
    """Collects resolved values with their origins."""

    def __init__(self, config: SimulationConfig, gpu_memory_gib: float = 0.0) -> None:
        self.config = config
        self._memory = gpu_memory_gib
        path = config.defaults_filepath
        if path and not os.path.exists(path):
            # the reference does the same without a word
            log.warning(f"--defaults-filepath: there is no {path}; the built-in defaults are used")
        self.defaults: Defaults = load_defaults(path if path is not None else "defaults.yaml")
        self.model = config.model.lower()
        self.resolution: list[tuple[str, str, str]] = []
        self.assumed_blocks = ""

    def note(self, name: str, value: object, origin: str) -> None:
        self.resolution.append((name, str(value), origin))
        log.info(f"{name} = {value} ({origin})")

    # ----------------------------------------------------------------------- model and GPU

    def place(self) -> tuple[str, int, str]:
        """GPU, TP and serving version: the flag, else the catalogue entry of the model."""
        config, entry = self.config, self.defaults.model(self.model)
        origin = f"catalogue entry of {self.model}"
        gpu, tp, version = config.hardware, config.tp, config.vllm_version
        if entry is not None:
            if not gpu and entry.gpu:
                gpu = entry.gpu
                self.note("hardware", gpu, origin)
            if not tp and entry.tp:
                tp = entry.tp
                self.note("tp", tp, origin)
            if not version and entry.version:
                version = entry.version
        return gpu, tp, version

    def describe_model(self) -> tuple[Config, ModelDescription]:
        entry = self.defaults.model(self.model)
        found = find_config(
            self.model,
            folder=self.config.model_config_folder,
            beside=self.defaults.base,
            hf_repo=(entry.hf_repo if entry is not None else "") or "",
        )
        self.note("model config", self.model, found.source)
        description, warnings = describe(found.config, self.model)
        for warning in warnings:
            log.warning(warning)
        return found.config, description

    def describe_gpu(self, gpu: str, factory: Any = None) -> HardwareDescription:
        """The GPU of this name; a backend (``factory``) may know more than the catalogue."""
        found = find_gpu(
            gpu,
            self.config.hardware_config,
            beside=self.defaults.base,
            others=factory.known_gpus() if hasattr(factory, "known_gpus") else {},
        )
        return attrs.evolve(found, memory_gib=self._memory) if self._memory > 0 else found

    # --------------------------------------------------------------------- latency model

    def latency_profile(self) -> LatencyProfile | None:
        path = self.config.latency_profile
        if not path:
            return None
        profile = load_profile(path)
        chosen = self.config.latency_model
        if chosen is not None and chosen != profile.latency_model:
            raise BlisError(
                f"--latency-profile {path}: is for latency model {profile.latency_model}, not for"
                f" {chosen}; leave --latency-model out, or use another profile"
            )
        return profile

    def compare_with_profile(self, profile: LatencyProfile, gpu: str, tp: int) -> None:
        """Warn of a profile that was made for something else."""
        for name, here, there in (
            ("model", self.model, profile.model.lower()),
            ("GPU", gpu, profile.hardware),
            ("TP", tp, profile.tp),
        ):
            if there and here != there:
                log.warning(
                    f"latency profile {self.config.latency_profile}: was fitted for {name} {there},"
                    f" not for {here}"
                )

    # ------------------------------------------------------------------------- coefficients

    def coefficients(
        self, factory: Any, backend: str, gpu: str, tp: int, version: str
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        config = self.config
        zeros = (0.0, 0.0, 0.0)
        if config.alpha_coeffs is not None and config.beta_coeffs is not None:
            if not getattr(factory, "accepts_coefficients", True):
                raise BlisError(
                    f"--latency-model {backend} has no use for --alpha-coeffs and --beta-coeffs:"
                    " leave them out, or choose a backend that is built on coefficients"
                )
            return config.alpha_coeffs, config.beta_coeffs
        look_up = getattr(factory, "default_coefficients", None)
        if look_up is None:
            return zeros, zeros
        found = look_up(
            CoefficientQuery(
                model=self.model,
                gpu=gpu,
                tp=tp,
                version=version,
                sections=self.defaults.sections,
            )
        )
        if found is None:
            return zeros, zeros
        alpha, beta = found
        if not any(alpha):
            log.warning(
                f"all alpha coefficients of {backend} are 0: queueing and output processing take"
                " no time"
            )
        return alpha, beta

    # ------------------------------------------------------------------------ memory, length

    def blocks_of_backend(self, factory: Any, setup: LatencySetup) -> int | None:
        """KV blocks by the formula of the latency model, None if it has none."""
        formula = getattr(factory, "kv_blocks", None)
        options = self.config
        blocks: int | None = formula and formula(
            setup, options.block_size_in_tokens, options.gpu_memory_utilization
        )
        if blocks is not None:
            self.note("total-kv-blocks", blocks, f"model and GPU memory, by {setup.backend}")
        return blocks

    def blocks(
        self,
        config: Config,
        description: ModelDescription,
        hardware: HardwareDescription,
        tp: int,
    ) -> int:
        options = self.config
        try:
            blocks = total_blocks(
                description,
                hardware,
                parse_kv_parameters(config),
                tp=tp,
                block_size=options.block_size_in_tokens,
                utilization=options.gpu_memory_utilization,
            )
        except BlisError as problem:
            # the reference goes on with its default, and so must the numbers: quirk 03-10
            log.warning(
                f"the KV cache size could not be computed, so {DEFAULT_TOTAL_KV_BLOCKS} blocks are"
                f" assumed, which no GPU may have (give --total-kv-blocks): {problem}"
            )
            self.note("total-kv-blocks", DEFAULT_TOTAL_KV_BLOCKS, "assumed")
            self.assumed_blocks = str(problem)
            return DEFAULT_TOTAL_KV_BLOCKS
        self.note("total-kv-blocks", blocks, "model and GPU memory")
        return blocks

    def longest(self, config: Config, blocks: int) -> int:
        """Maximum model length of an analytical backend."""
        options = self.config
        longest, origin = options.max_model_len, ""
        if longest is None:
            longest, origin = max_model_length(config), "model config"
        size = options.block_size_in_tokens
        if longest > 0 and -(-longest // size) > blocks:
            log.warning(
                f"the maximum model length {longest} does not fit into {blocks} KV blocks of"
                f" {size} tokens; {blocks * size} is used"
            )
            longest, origin = blocks * size, "KV cache size"
        if origin:
            self.note("max-model-len", longest or "unlimited", origin)
        return longest


def resolve(config: SimulationConfig, *, gpu_memory_gib: float = 0.0) -> Deployment:
    """Resolve everything that depends on model, GPU and files. BlisError for what cannot be.

    ``gpu_memory_gib`` above 0 replaces the memory that the catalogue gives the GPU.
    """
    resolver = Resolver(config, gpu_memory_gib)
    registry = get_registry()
    profile = resolver.latency_profile()
    backend = config.latency_model
    if profile is not None:
        backend = profile.latency_model
    if backend is None:
        backend = DEFAULT_LATENCY_MODEL if config.alpha_coeffs is None else "blackbox"
        if config.alpha_coeffs is not None:
            resolver.note("latency-model", backend, "coefficients given")
    try:
        factory = registry.factory("latency-model", backend)
    except BlisError as problem:
        where = config.latency_profile if profile is not None else "--latency-model"
        raise BlisError(f"{where}: {problem}") from None
    options = parse_options(
        factory, backend, config.latency_option, profile, config.latency_profile
    )
    gpu, tp, version = resolver.place()
    if profile is not None:
        resolver.compare_with_profile(profile, gpu, tp)
    setup = LatencySetup(
        backend=backend,
        tp=tp,
        options=options,
        model_name=resolver.model,
        version=config.vllm_version,
        max_running=config.max_num_running_reqs,
        max_tokens=config.max_num_scheduled_tokens,
        schedule_lag=int(parse_semantics(config.semantics).schedule_lag),
    )
    blocks = config.total_kv_blocks
    longest = config.max_model_len or 0
    if getattr(factory, "analytical", True):
        missing = [
            flag for flag, value in (("--hardware", gpu), ("--tp", tp)) if not value or value == "0"
        ]
        if missing or tp < 0:
            raise BlisError(
                f"latency model {backend} needs {' and '.join(missing) or 'a positive --tp'}:"
                f" the catalogue has no defaults for {resolver.model}"
                f"{resolver.defaults.near_model(resolver.model)}"
            )
        alpha, beta = resolver.coefficients(factory, backend, gpu, tp, version)
        model_config, description = resolver.describe_model()
        hardware = resolver.describe_gpu(gpu, factory)
        setup = attrs.evolve(setup, model=description, hardware=hardware)
        if blocks is None:
            blocks = resolver.blocks_of_backend(factory, setup)
        if blocks is None:
            blocks = resolver.blocks(model_config, description, hardware, tp)
        longest = resolver.longest(model_config, blocks)
    else:
        alpha, beta = resolver.coefficients(factory, backend, gpu, tp, version)
        if blocks is None:
            blocks = _blocks_if_known(resolver, gpu, tp)
    return Deployment(
        model=resolver.model,
        gpu=gpu,
        tp=tp,
        backend=backend,
        setup=attrs.evolve(setup, alpha=alpha, beta=beta, max_model_len=longest),
        total_blocks=blocks,
        block_size=config.block_size_in_tokens,
        limits=Limits(
            max_running=config.max_num_running_reqs,
            max_tokens=config.max_num_scheduled_tokens,
            long_prefill=config.long_prefill_token_threshold,
            max_model_len=longest,
        ),
        resolution=tuple(resolver.resolution),
        assumed_blocks=resolver.assumed_blocks,
    )


def _blocks_if_known(resolver: Resolver, gpu: str, tp: int) -> int:
    """KV blocks for a backend that works without model and GPU figures, if they can be found."""
    try:
        model_config, description = resolver.describe_model()
        hardware = resolver.describe_gpu(gpu)
    except BlisError as problem:
        log.warning(
            f"the KV cache size could not be computed, so {DEFAULT_TOTAL_KV_BLOCKS} blocks are"
            f" assumed (give --total-kv-blocks): {problem}"
        )
        resolver.assumed_blocks = str(problem)
        return DEFAULT_TOTAL_KV_BLOCKS
    return resolver.blocks(model_config, description, hardware, tp)
