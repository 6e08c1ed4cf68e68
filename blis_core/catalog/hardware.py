"""GPU figures: the catalogue's, or those of a user's JSON file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from blis_core.catalog.bundled import bundled
from blis_core.contracts import HardwareDescription
from blis_core.errors import BlisError, did_you_mean

if TYPE_CHECKING:
    from blis_core.files import AnyPath

FILE_NAME: Final = "hardware_config.json"
"""Looked for beside the defaults file."""

_JSON_KEYS: Final = {
    "TFlopsPeak": "fp16_tflops",
    "TFlopsFP8": "fp8_tflops",
    "BwPeakTBs": "hbm_tb_s",
    "mfuPrefill": "mfu_prefill",
    "mfuDecode": "mfu_decode",
    "MemoryGiB": "memory_gib",
}


def bundled_gpus() -> dict[str, HardwareDescription]:
    """The catalogue's GPUs by name."""
    gpus: dict[str, dict[str, float]] = bundled("hardware")["gpus"]
    return {name: HardwareDescription(name=name, **figures) for name, figures in gpus.items()}


def load_gpus(path: str = "", *, beside: AnyPath | None = None) -> dict[str, HardwareDescription]:
    """GPUs by name: of the JSON file ``path``; else of ``hardware_config.json`` in the folder
    ``beside``, if it is there; else the catalogue's. BlisError for a file that cannot be used."""
    if not path and beside is not None and os.path.isfile(os.path.join(beside, FILE_NAME)):
        path = os.path.join(beside, FILE_NAME)
    return read_gpus(path) if path else bundled_gpus()


def find_gpu(
    name: str,
    path: str = "",
    *,
    beside: AnyPath | None = None,
    others: Mapping[str, HardwareDescription] | None = None,
) -> HardwareDescription:
    """The GPU called exactly ``name`` (letter case counts); sources as for :func:`load_gpus`.

    ``others`` are looked at last.
    """
    gpus = {**(others or {}), **load_gpus(path, beside=beside)}
    if name not in gpus:
        known = ", ".join(sorted(gpus)) or "none"
        raise BlisError(
            f"unknown GPU {name!r}{did_you_mean(name, gpus)} (known: {known}); mend --hardware or"
            " add it to --hardware-config"
        )
    return gpus[name]


def read_gpus(path: str) -> dict[str, HardwareDescription]:
    """GPUs of a JSON file: name -> object with TFlopsPeak, TFlopsFP8, BwPeakTBs, mfuPrefill,
    mfuDecode, MemoryGiB. Other keys are ignored, missing ones are 0."""
    import json

    try:
        with open(path, "rb") as file:
            contents = json.load(file)
    except OSError as problem:
        raise BlisError(
            f"cannot read GPU figures {path}: {problem.strerror or problem}; mend --hardware-config"
        ) from None
    except ValueError as problem:  # JSON and UTF-8 errors
        raise BlisError(
            f"GPU figures {path} are not valid JSON: {problem}; mend --hardware-config"
        ) from None
    if not isinstance(contents, dict):
        raise BlisError(f"GPU figures {path} must be a JSON object: GPU name -> figures")
    return {name: _gpu(name, figures, path) for name, figures in contents.items()}


def _gpu(name: str, figures: Any, path: str) -> HardwareDescription:
    if not isinstance(figures, dict | None):
        raise BlisError(f"GPU figures {path}: {name!r} must be an object, not {figures!r:.40}")
    values = {}
    for key, field in _JSON_KEYS.items():
        value = (figures or {}).get(key)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise BlisError(
                f"GPU figures {path}: {key} of {name!r} must be a number, not {value!r:.40}"
            )
        values[field] = float(value or 0.0)
    return HardwareDescription(name=name, **values)
