"""Results that were saved: ``--output json``, ``--metrics-path``, or the text of stdout."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

from blis_core.errors import BlisError
from blis_core.files import read_bytes

_BLOCK = "=== Simulation Metrics ==="
_FORMS = (
    "name a file made by blis run or blis replay: with --output json, with --metrics-path, or what"
    " they print into a pipe"
)
_SPELLED = {
    "Preemption Rate": "kv.preemption_rate",
    "Cache Hit Rate": "kv.cache_hit_rate",
    "KV Thrashing Rate": "kv.thrashing_rate",
    "Jain Fairness Index": "jain_fairness_index",
    "Score": "fitness.score",
    "Priority Inversions": "anomalies.priority_inversions",
    "HOL Blocking Events": "anomalies.hol_blocking_events",
    "Rejected Requests (Admission)": "anomalies.rejected_admission",
    "Rejected Requests (Routing)": "anomalies.rejected_routing",
    "Gateway Queue Shed": "anomalies.gateway_shed",
    "Mean Regret": "trace.mean_regret",
}
"""Lines of the text, and the names of the same figures in JSON."""


@attrs.frozen(kw_only=True)
class SavedRequest:
    """What two requests are compared by; times in us, None = not recorded."""

    arrival_us: int
    prompt_tokens: int
    output_tokens: int
    ttft_us: float | None
    e2e_us: float | None


@attrs.frozen(kw_only=True)
class SavedResult:
    """One result, as far as it was saved."""

    path: str
    figures: dict[str, float]
    """Numbers by name, such as ``ttft_p99_ms`` or ``per_slo.batch.ttft_p99_ms``."""
    settings: dict[str, Any] | None = None
    """What was asked for and what was derived; None = not saved."""
    requests: dict[str, SavedRequest] | None = None
    """By id; None = not saved."""
    warnings: tuple[str, ...] = ()


def read_result(path: str) -> SavedResult:
    """Read a saved result of any form. BlisError if it is none."""
    text = read_bytes(path).decode("utf-8", "surrogateescape")
    if _BLOCK in text:
        return _of_text(path, text)
    try:
        document = json.loads(text)
    except ValueError:
        raise BlisError(f"{path}: is no result; {_FORMS}") from None
    if isinstance(document, dict) and isinstance(document.get("cluster"), dict):
        return _of_document(path, document)
    if isinstance(document, dict) and "completed_requests" in document:
        rows = document.pop("requests", [])
        return SavedResult(path=path, figures=_numbers(document), requests=_of_metrics(rows))
    raise BlisError(f"{path}: is JSON, but no result; {_FORMS}")


def _of_document(path: str, document: dict[str, Any]) -> SavedResult:
    """``--output json``."""
    figures = _numbers(document["cluster"])
    for name in ("kv", "anomalies", "fitness", "pd", "sessions", "trace"):
        figures |= _numbers(document.get(name) or {}, f"{name}.")
    for name in ("per_slo", "per_model", "per_tenant"):
        entries = document.get(name) or ()
        if len(entries) > 1:  # a single one says what the cluster says
            for entry in entries:
                figures |= _numbers(entry, f"{name}.{entry.get('name')}.")
    for name in ("jain_fairness_index", "offered_rps", "in_transit"):
        figures |= _numbers({name: document.get(name)})
    fleet = document.get("fleet") or {}
    figures |= _numbers({key: fleet.get(key) for key in ("gpu_seconds", "cost")}, "fleet.")
    settings = dict(document.get("config") or {})
    for entry in document.get("resolution") or ():
        settings[f"{entry['name']} (derived)"] = entry["value"]
    requests = {
        row["id"]: SavedRequest(
            arrival_us=row["arrival_us"],
            prompt_tokens=row["prompt_tokens"],
            output_tokens=row["output_tokens"],
            ttft_us=row["ttft_us"],
            e2e_us=row["e2e_us"],
        )
        for row in document.get("requests") or ()
    }
    return SavedResult(
        path=path,
        figures=figures,
        settings=settings,
        requests=requests,
        warnings=tuple(document.get("warnings") or ()),
    )


def _of_metrics(rows: list[dict[str, Any]]) -> dict[str, SavedRequest]:
    """The requests of ``--metrics-path``, where a time of 0 was not recorded."""
    return {
        row["requestID"]: SavedRequest(
            arrival_us=round(row["arrived_at"] * 1e6),
            prompt_tokens=row["num_prefill_tokens"],
            output_tokens=row["num_decode_tokens"],
            ttft_us=row["ttft_ms"] * 1e3 or None,
            e2e_us=row["e2e_ms"] * 1e3 or None,
        )
        for row in rows
    }


def _of_text(path: str, text: str) -> SavedResult:
    """The reference's text: the last block is that of the cluster, lines with figures follow."""
    block, rest = _last_block(path, text)
    figures = _numbers(block)
    for label, value in re.findall(r"^ *([A-Z][\w ()-]*): (-?[\d.]+)$", rest, re.MULTILINE):
        if label in _SPELLED:
            figures[_SPELLED[label]] = float(value)
    return SavedResult(path=path, figures=figures)


def _last_block(path: str, text: str) -> tuple[dict[str, Any], str]:
    tail = text[text.rindex(_BLOCK) + len(_BLOCK) :].lstrip()
    try:
        block, end = json.JSONDecoder().raw_decode(tail)
    except ValueError:
        raise BlisError(f"{path}: the block of figures is cut off; save it anew") from None
    return block, tail[end:]


def _numbers(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers in a mapping, also in mappings inside, by their dotted names."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and "p99" in value:  # a distribution, in us
            times = {key: us / 1e3 for key, us in value.items() if key != "count"}
            found |= {f"{prefix}{name}_{key}_ms": ms for key, ms in times.items()}
        elif isinstance(value, Mapping):
            found |= _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[prefix + name] = value
    return found
