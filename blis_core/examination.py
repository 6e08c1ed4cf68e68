"""What ``blis doctor`` finds out: the set-up, the plugins, and one deployment."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

from blis_core import __version__, log
from blis_core.catalog.huggingface import parse_kv_parameters
from blis_core.catalog.kv_capacity import GIB, kv_bytes_per_token, total_blocks, weight_bytes
from blis_core.config import SimulationConfig
from blis_core.contracts import BatchShape, LatencyModel, PrefillChunk
from blis_core.deployment import Deployment, Resolver, resolve
from blis_core.entry_points import normalise
from blis_core.errors import BlisError
from blis_core.plugins import FIRST_PARTY, get_registry
from blis_core.registry import PluginRecord, Registry

OK, NOTE, WARNING, BROKEN = "ok", "note", "warning", "broken"
SETUP, PLUGINS, DEPLOYMENT = "Set-up", "Plugins", "Deployment"
_EXTRAS = {
    "pandas": ("pandas", "requests as frames (results.requests.frame())"),
    "huggingface_hub": ("hub", "configs of models that the catalogue does not have"),
}
"""Optional libraries: the extra that brings them, and what they are for."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    area: str
    name: str
    status: str
    """ok, note (nothing to do), warning (to be looked at) or broken."""
    text: str


def examine(config: SimulationConfig) -> list[Finding]:
    """Look at everything; at a deployment only if ``config`` names a model."""
    found = [*_setup(), *_plugins(get_registry())]
    if config.model:
        found += _deployment(config)
    return found


def as_json(findings: list[Finding]) -> str:
    """The findings as one JSON document, newline included."""
    broken = any(found.status == BROKEN for found in findings)
    document = {"ok": not broken, "findings": [found._asdict() for found in findings]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------------------ set-up


def _setup() -> Iterator[Finding]:
    python = f"{platform.python_version()} ({platform.python_implementation()}) on {sys.platform}"
    yield Finding(SETUP, "Python", OK, f"{python}, {sys.executable}")
    yield Finding(SETUP, "blis-core", OK, f"{__version__}, {Path(__file__).parent}")
    yield Finding(SETUP, "numpy", OK, metadata.version("numpy"))
    for name, (extra, use) in _EXTRAS.items():
        if util.find_spec(name) is not None:
            yield Finding(SETUP, name, OK, f"{metadata.version(name)}, for {use}")
        else:
            way = f"pip install 'blis-core[{extra}]' brings {use}"
            yield Finding(SETUP, name, NOTE, f"not installed; {way}")
    if util.find_spec("huggingface_hub") is not None:
        yield _hub_cache()
    for variable in ("BLIS_DISABLE_PLUGINS", "BLIS_TRACE_PLUGINS"):
        if value := os.environ.get(variable):
            yield Finding(SETUP, variable, NOTE, f"is set to {value!r}")


def _hub_cache() -> Finding:
    """Whether downloaded model configs can be kept."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    place = cache
    while not place.exists() and place != place.parent:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK):
        return Finding(SETUP, "cache of the hub", OK, f"{cache} can be written")
    return Finding(
        SETUP,
        "cache of the hub",
        BROKEN,
        f"{cache} cannot be written, so no config can be fetched; set HF_HOME to another folder",
    )


# ----------------------------------------------------------------------------------------- plugins


def _plugins(registry: Registry) -> Iterator[Finding]:
    if len(registry.plugins) == 1:
        yield Finding(
            PLUGINS,
            "none",
            WARNING,
            "not installed, so there is no latency model; pip install blis-latency-physics",
        )
    for record in registry.plugins:
        yield _plugin(registry, record)
    yield from _conflicts()


def _plugin(registry: Registry, record: PluginRecord) -> Finding:
    origin = record.origin
    name = f"{origin.distribution or origin.plugin} {origin.version}".strip()
    if record.status == "disabled":
        return Finding(PLUGINS, name, NOTE, "switched off (-p no:... or BLIS_DISABLE_PLUGINS)")
    if record.status == "broken":
        away = f"mend or remove it, or leave it out with -p no:{origin.plugin}"
        return Finding(PLUGINS, name, BROKEN, f"was not loaded: {record.error}; {away}")
    problems = []
    for extension in record.extensions:
        try:
            registry.factory(extension.kind, extension.name)
        except BlisError as problem:
            problems.append(str(problem))
    if problems:
        return Finding(PLUGINS, name, BROKEN, "; ".join(problems))
    first_party = normalise(origin.distribution) in FIRST_PARTY
    if first_party and origin.version != __version__:
        return Finding(
            PLUGINS,
            name,
            WARNING,
            f"is not of the version of blis-core, {__version__}; pip install --upgrade both",
        )
    return Finding(PLUGINS, name, OK, _contents(record))


def _contents(record: PluginRecord) -> str:
    """What a plugin registers: names if they are few, else how many of which kinds."""
    kinds: dict[str, list[str]] = {}
    for extension in record.extensions:
        kinds.setdefault(extension.kind, []).append(extension.name)
    if not kinds:
        return "registers nothing"
    if len(record.extensions) > 10:
        return f"{len(record.extensions)} extensions ({', '.join(kinds)})"
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items())


def _conflicts() -> Iterator[Finding]:
    """Requirements of the installed distributions of BLIS that are not met."""
    if util.find_spec("packaging") is None:
        return
    from packaging.requirements import Requirement

    for distribution in _of_blis():
        for text in distribution.requires or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            name = distribution.metadata["Name"]
            try:
                there = metadata.version(wanted.name)
            except metadata.PackageNotFoundError:
                text = f"needs {wanted.name}, which is not installed; pip install '{wanted}'"
                yield Finding(PLUGINS, name, BROKEN, text)
                continue
            if there not in wanted.specifier:
                text = f"needs {wanted}, but {there} is installed; pip install '{wanted}'"
                yield Finding(PLUGINS, name, BROKEN, text)


def _of_blis() -> list[metadata.Distribution]:
    """The installed distributions of the core and of plugins, once each."""
    names = {record.origin.distribution for record in get_registry().plugins}
    return [metadata.distribution(name) for name in sorted(filter(None, names))]


# -------------------------------------------------------------------------------------- deployment


def _deployment(config: SimulationConfig) -> Iterator[Finding]:
    with log.collected() as warned:
        try:
            deployment = resolve(config)
        except BlisError as problem:
            yield Finding(DEPLOYMENT, config.model, BROKEN, str(problem))
            return
    config_of = next((o for name, _, o in deployment.resolution if name == "model config"), "")
    if config_of:
        yield Finding(DEPLOYMENT, "model", OK, f"{deployment.model}, config from {config_of}")
    else:
        text = f"{deployment.model}; its config is not used"
        yield Finding(DEPLOYMENT, "model", NOTE, text)
    yield _gpus(deployment)
    yield from _memory(config, deployment)
    yield from _latency(config, deployment)
    for text in dict.fromkeys(warned):
        if not text.startswith("the KV cache size could not be computed"):
            yield Finding(DEPLOYMENT, "remark", WARNING, text)


def _gpus(deployment: Deployment) -> Finding:
    """Which GPUs, how many, and who says so."""
    if not deployment.gpu:
        text = "none are named, and the catalogue has none for this model"
        return Finding(DEPLOYMENT, "GPUs", NOTE, text)
    origins = [o for name, _, o in deployment.resolution if name in ("hardware", "tp")]
    text = f"{deployment.tp} x {deployment.gpu}"
    text += f" ({'; '.join(dict.fromkeys(origins))})" if origins else " (as given)"
    return Finding(DEPLOYMENT, "GPUs", OK, text)


def _memory(config: SimulationConfig, deployment: Deployment) -> Iterator[Finding]:
    """Weights and KV cache against the memory of the GPUs."""
    origin = {name: origin for name, _, origin in deployment.resolution}.get("total-kv-blocks", "")
    blocks, size = deployment.total_blocks, deployment.block_size
    try:
        with log.collected():
            resolver = Resolver(config)
            model_config, model = resolver.describe_model()
            parameters = parse_kv_parameters(model_config)
            gpu = deployment.setup.hardware or resolver.describe_gpu(deployment.gpu)
    except BlisError as problem:
        yield Finding(DEPLOYMENT, "memory", WARNING, f"cannot be judged: {problem}")
        return

    def fitting(tp: int) -> int:
        try:
            return total_blocks(
                model,
                gpu,
                parameters,
                tp=tp,
                block_size=size,
                utilization=config.gpu_memory_utilization,
            )
        except BlisError as problem:
            failures.append(str(problem))
            return 0

    failures: list[str] = []
    fits = fitting(deployment.tp)
    if failures:
        ways = [tp for tp in (1, 2, 4, 8, 16, 32) if tp > deployment.tp and fitting(tp)]
        reason = failures[0].split(";")[0].removeprefix("KV capacity: ")
        text = reason + (f"; it fits with --tp {ways[0]}" if ways else "")
        if config.total_kv_blocks is None and origin in ("", "assumed"):
            yield Finding(DEPLOYMENT, "memory", BROKEN, f"{text} (a run assumes {blocks:,} blocks)")
        else:
            yield Finding(DEPLOYMENT, "memory", WARNING, f"{blocks:,} blocks are used, but {text}")
        return
    weights = weight_bytes(model, parameters) / GIB
    cache = blocks * size * kv_bytes_per_token(model, deployment.tp) * deployment.tp / GIB
    usable = gpu.memory_gib * config.gpu_memory_utilization * deployment.tp
    text = (
        f"about {weights:.1f} GiB of weights and {cache:.1f} GiB of KV cache, of {usable:.1f} GiB"
        " that may be used"
    )
    if config.total_kv_blocks is not None and blocks > fits:
        yield Finding(
            DEPLOYMENT,
            "memory",
            WARNING,
            f"{text}: --total-kv-blocks is {blocks:,}, but {fits:,} would fit",
        )
    else:
        yield Finding(DEPLOYMENT, "memory", OK, text)
    tokens = blocks * size
    text = f"{blocks:,} blocks of {size} tokens, {tokens:,} tokens"
    longest = deployment.limits.max_model_len
    if longest:
        n = tokens // longest
        text += f"; {n:,} request{'s' if n != 1 else ''} of the maximum length {longest:,}"
    yield Finding(DEPLOYMENT, "KV cache", OK, text)


def _latency(config: SimulationConfig, deployment: Deployment) -> Iterator[Finding]:
    """The latency model: whether it can be made, what it is made from, what it says."""
    registry = get_registry()
    entry = registry.get("latency-model", deployment.backend)
    try:
        model: LatencyModel = registry.create("latency-model", deployment.backend, deployment.setup)
    except BlisError as problem:
        yield Finding(DEPLOYMENT, "latency model", BROKEN, str(problem))
        return
    text = f"{deployment.backend} of {entry.origin.distribution or entry.origin.plugin}, "
    text += _coefficients(config, deployment)
    if entry.deprecated:
        text += f"; it is deprecated, use {entry.deprecated}"
    yield Finding(DEPLOYMENT, "latency model", WARNING if entry.deprecated else OK, text)
    prompt = model.step_time(BatchShape(prefills=(PrefillChunk(0, 512, 512),)))
    token = model.step_time(BatchShape(decodes=32, decode_context_sum=32 * 1024))
    yield Finding(
        DEPLOYMENT,
        "step times",
        OK,
        f"{prompt / 1e3:.1f} ms for a prompt of 512 tokens, {token / 1e3:.1f} ms for one token of"
        " each of 32 requests with 1,024",
    )
    for warning in model.warnings:
        yield Finding(DEPLOYMENT, "latency model", WARNING, warning)


def _coefficients(config: SimulationConfig, deployment: Deployment) -> str:
    """Where the numbers of the latency model come from."""
    if config.alpha_coeffs is not None:
        return "coefficients as given"
    setup: Any = deployment.setup
    if not any(setup.alpha) and not any(setup.beta):
        return "without coefficients"
    path = Path(config.defaults_filepath or "defaults.yaml")
    if path.exists():
        return f"coefficients of {path}"
    return "coefficients of its distribution"
