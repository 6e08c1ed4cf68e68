"""Finds the HuggingFace config of a model by its name."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_core import log
from blis_core.catalog.bundled import bundled
from blis_core.catalog.huggingface import Config, decode_config, is_suitable
from blis_core.errors import BlisError, did_you_mean
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.files import AnyPath

HUB_TIMEOUT_S: Final = 30

_HF_KEYS: Final = {
    "type": "model_type",
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "head_dim": "head_dim",
    "kv_lora_rank": "kv_lora_rank",
    "kv_heads": "num_key_value_heads",
    "ffn": "intermediate_size",
    "dense_ffn": "intermediate_size_mlp",
    "vocab": "vocab_size",
    "positions": "max_position_embeddings",
    "dtype": "torch_dtype",
    "activation": "hidden_act",
}
_HF_MOE_KEYS: Final = {
    "experts": "num_local_experts",
    "per_token": "num_experts_per_tok",
    "expert_ffn": "moe_intermediate_size",
    "shared_experts": "n_shared_experts",
    "interleave": "interleave_moe_layer_step",
    "first_dense": "first_k_dense_replace",
}
"""HuggingFace keys of the fields of ``data/models.json``."""


@attrs.frozen(eq=False, repr=False)
class FoundConfig(Record):
    """A model's config and where it came from."""

    config: Config
    source: str
    """A path, ``catalogue (<name>)`` or ``hub (<repository>)``."""


def bundled_names() -> list[str]:
    """Short names of the models in the catalogue, sorted."""
    return sorted(bundled("models")["models"])


def bundled_config(short_name: str) -> Config | None:
    """The catalogue's figures of a model in the form of a ``config.json``; None if not there."""
    figures: dict[str, Any] | None = bundled("models")["models"].get(short_name)
    if figures is None:
        return None
    config: Config = {key: figures[name] for name, key in _HF_KEYS.items() if name in figures}
    moe = figures.get("moe", {})
    config.update({key: moe[name] for name, key in _HF_MOE_KEYS.items() if name in moe})
    if rope := figures.get("rope"):
        config["rope_scaling"] = {
            "type": rope["type"],
            "factor": rope["factor"],
            "original_max_position_embeddings": rope["original"],
        }
    if quantization := figures.get("quantization"):
        config["quantization_config"] = {"quant_method": quantization["method"]}
        if "bits" in quantization:
            weights = {"num_bits": quantization["bits"], "type": quantization["type"]}
            config["quantization_config"]["config_groups"] = {"group_0": {"weights": weights}}
        if "ignore" in quantization:
            config["quantization_config"]["ignore"] = quantization["ignore"]
    if figures.get("multimodal"):
        config["vision_config"] = {}
    return config


def short_name(model: str) -> str:
    """The part of a model name after its first "/", which names its folder and catalogue entry.

    The organisation is dropped on purpose (reference quirk 03-18). BlisError if the rest would
    leave the folder.
    """
    name = posixpath.normpath(model.partition("/")[2] or model)
    if ".." in name or posixpath.isabs(name) or name == ".":
        raise BlisError(f"model name {model!r} must not contain '..' or be a path; mend --model")
    return name


def find_config(
    model: str, *, folder: str = "", beside: AnyPath | None = None, hf_repo: str = ""
) -> FoundConfig:
    """The config of ``model`` (any letter case): the first of these that there is.

    1. ``<folder>/config.json``, if a folder is given (no check of its contents, no way on);
    2. ``<beside>/model_configs/<short name>/config.json``, if it is a language model's config;
    3. the catalogue;
    4. the HuggingFace hub, repository ``hf_repo`` or the model's own name.

    BlisError if there is none.
    """
    model = model.lower()
    if folder:
        path = os.path.join(folder, "config.json")
        return FoundConfig(_read(path, "mend --model-config-folder"), path)
    short = short_name(model)
    if beside is not None:
        path = os.path.join(beside, "model_configs", short, "config.json")
        if os.path.isfile(path):
            config = _read_suitable(path)
            if config is not None:
                return FoundConfig(config, path)
    config = bundled_config(short)
    if config is not None:
        return FoundConfig(config, f"catalogue ({short})")
    repo = hf_repo or model
    return FoundConfig(_download(model, repo), f"hub ({repo})")


def _read(path: str, way_out: str) -> Config:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as problem:
        reason = problem.strerror or problem
        raise BlisError(f"cannot read model config {path}: {reason}; {way_out}") from None
    return decode_config(text, f"model config {path}")


def _read_suitable(path: str) -> Config | None:
    """The config at ``path``, or None and a warning if it cannot be used."""
    try:
        config = _read(path, "remove it")
    except BlisError as problem:
        log.warning(f"ignoring a model config: {problem}")
        return None
    if not is_suitable(config):
        log.warning(f"ignoring model config {path}: no num_hidden_layers or hidden_size in it")
        return None
    return config


def _download(model: str, repo: str) -> Config:
    """The config of a hub repository, through huggingface_hub and its cache.

    The library also finds the access token (``HF_TOKEN``) and follows redirects safely.
    """
    near = did_you_mean(short_name(model), bundled_names())
    hint = f" ({near.removeprefix('; ')})" if near else ""
    missing = f"no config for model {model!r}: it is not in the catalogue{hint}"
    if not re.fullmatch(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", repo):
        raise BlisError(
            f"{missing}, and {repo!r} is no hub repository (owner/name); give --model-config-folder"
        )
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise BlisError(
            f"{missing}; pip install 'blis-core[hub]' to fetch it from huggingface.co/{repo}, or "
            "give --model-config-folder"
        ) from None
    try:
        path = hf_hub_download(repo, "config.json", etag_timeout=HUB_TIMEOUT_S)
    except Exception as problem:  # noqa: BLE001 - its HTTP client, and so its errors, vary by version
        # Messages span lines; the first one says what happened.
        reason = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise BlisError(
            f"{missing}, and fetching huggingface.co/{repo} failed: {reason}; set HF_TOKEN for a "
            "gated model, or give --model-config-folder"
        ) from None
    config = _read(path, "give --model-config-folder")
    if not is_suitable(config):
        raise BlisError(
            f"{missing}, and config.json of huggingface.co/{repo} has no num_hidden_layers or "
            "hidden_size; give --model-config-folder"
        )
    return config
