"""Per-model defaults, workload presets and coefficients: the catalogue's, or a user's file.

A user's ``defaults.yaml`` replaces the catalogue's figures altogether; nothing is merged.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from blis_core.catalog.bundled import bundled
from blis_core.errors import BlisError, did_you_mean
from blis_core.records import Record

if TYPE_CHECKING:
    from blis_core.catalog.defaults_file import DefaultsFile

DEFAULT_PATH: Final = "defaults.yaml"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ModelDefaults(Record):
    """What a run uses for a model when the command line says nothing; empty or 0 = not known."""

    gpu: str = attrs.field(default="", metadata={"key": "GPU"})
    tp: int = attrs.field(default=0, metadata={"key": "tensor_parallelism"})
    version: str = attrs.field(default="", metadata={"key": "vllm_version"})
    """Serving engine image, for example ``vllm/vllm-openai:v0.11.0``."""
    hf_repo: str = ""
    """HuggingFace repository of the model's config."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Preset(Record):
    """A workload preset: normally distributed lengths in tokens."""

    prefix_tokens: int = 0
    prompt_tokens: int = 0
    prompt_tokens_stdev: int = 0
    prompt_tokens_min: int = 0
    prompt_tokens_max: int = 0
    output_tokens: int = 0
    output_tokens_stdev: int = 0
    output_tokens_min: int = 0
    output_tokens_max: int = 0


class Defaults:
    """Defaults by model and by preset name. Made by :func:`load_defaults`."""

    def __init__(self, base: str, contents: DefaultsFile | None = None) -> None:
        self.base = base
        """Folder of the defaults file, whether or not the file exists."""
        self.folder = base if contents is not None else None
        """The same, or None when the catalogue's figures are used."""
        self._contents = contents

    @property
    def sections(self) -> dict[str, Any]:
        """Contents of the user's file by top-level key, numbers and texts resolved, for
        :class:`blis_core.contracts.CoefficientQuery`; empty without such a file."""
        return {} if self._contents is None else self._contents.sections()

    def model(self, name: str) -> ModelDefaults | None:
        """Defaults of the model of exactly this (lower-case) name."""
        if self._contents is not None:
            return self._contents.defaults.get(name)
        table = bundled("models_defaults")
        row = table["models"].get(name)
        if row is None:
            return None
        return ModelDefaults(
            gpu=row["gpu"],
            tp=row["tp"],
            version=table["version_prefix"] + row["version"],
            hf_repo=row.get("hf_repo", ""),
        )

    def near_model(self, name: str) -> str:
        """``; did you mean ...?`` for a model that has no defaults; "" if no name is like it."""
        if self._contents is not None:
            known = list(self._contents.defaults)
        else:
            known = list(bundled("models_defaults")["models"])
        short = [other for other in known if other.partition("/")[2] == name.lower()]
        return did_you_mean(short[0] if short else name, known)

    def preset(self, name: str, flag: str = "--workload") -> Preset:
        """The workload preset of this name; BlisError listing the names if there is none.

        ``flag`` is where the name was given.
        """
        presets = _bundled_presets() if self._contents is None else self._contents.workloads
        if name not in presets:
            known = ", ".join(sorted(presets)) or "none"
            raise BlisError(
                f"{flag}: unknown workload preset {name!r}{did_you_mean(name, presets)} (known:"
                f" {known})"
            )
        return presets[name]

    def preset_names(self) -> list[str]:
        """Names of the presets, sorted."""
        return sorted(_bundled_presets() if self._contents is None else self._contents.workloads)


def load_defaults(path: str = DEFAULT_PATH) -> Defaults:
    """The defaults in the file ``path``, or the catalogue's if there is no such file.

    "" is the usual path.

    BlisError naming file and key for a file that cannot be read, has unknown or duplicate keys, or
    values of a wrong kind.
    """
    path = path or DEFAULT_PATH
    base = os.path.dirname(path)
    if not os.path.exists(path):
        return Defaults(base)
    from blis_core.catalog.defaults_file import read_defaults

    return Defaults(base, read_defaults(path))


@lru_cache(maxsize=1)
def _bundled_presets() -> dict[str, Preset]:
    presets = {}
    for name, figures in bundled("presets")["presets"].items():
        lengths = {}
        for side in ("prompt", "output"):
            lengths[f"{side}_tokens"] = figures[side]["mean"]
            for field in ("stdev", "min", "max"):
                lengths[f"{side}_tokens_{field}"] = figures[side][field]
        presets[name] = Preset(prefix_tokens=figures["prefix_tokens"], **lengths)
    return presets
