"""All results as one JSON document, for ``--output json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from blis_core.results.numbers import json_text
from blis_core.results.request_list import in_order

if TYPE_CHECKING:
    from blis_core.contracts import Request
    from blis_core.contracts_autoscaling import ScaleDecision
    from blis_core.results.model import Results


def render(results: Results) -> str:
    """The document, newline included; one request per line."""
    head = json_text(document(results))
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    lines = ",\n".join([f"    {encode(_request(r))}" for r in in_order(results.requests)])
    requests = f"[\n{lines}\n  ]" if lines else "[]"
    return f'{head[:-2]},\n  "requests": {requests}\n}}\n'


def document(results: Results) -> dict[str, Any]:
    """Everything in ``results`` but the requests as plain dictionaries, lists and scalars.

    Units stand in the keys; distributions are us.
    """
    return {
        "config": _config(results),
        "workload_seed": results.workload_seed,
        "resolution": [
            {"name": name, "value": value, "origin": origin}
            for name, value, origin in results.resolution
        ],
        "offered_rps": results.offered_rps,
        "warnings": results.warnings + results.cautions,
        "accuracy": attrs.asdict(results.accuracy) if results.accuracy is not None else None,
        "cluster": attrs.asdict(results.cluster),
        "instances": [attrs.asdict(block) for block in results.instances],
        "fitness": attrs.asdict(results.fitness) if results.fitness is not None else None,
        "anomalies": attrs.asdict(results.anomalies),
        "kv": attrs.asdict(results.kv),
        "per_slo": [attrs.asdict(entry) for entry in results.per_slo],
        "per_model": [attrs.asdict(entry) for entry in results.per_model],
        "per_tenant": [attrs.asdict(entry) for entry in results.per_tenant],
        "pd": attrs.asdict(results.pd) if results.pd is not None else None,
        "fleet": _fleet(results),
        "jain_fairness_index": results.jain,
        "trace": attrs.asdict(results.trace) if results.trace is not None else None,
        "sessions": results.sessions,
        "in_transit": results.in_transit,
    }


def _config(results: Results) -> dict[str, Any] | None:
    """What was asked for; null stands for "not given"."""
    return attrs.asdict(results.config) if results.config is not None else None


def _fleet(results: Results) -> dict[str, Any] | None:
    """What became of instances that come and go; events and decisions by name."""
    report = results.fleet
    if report is None:
        return None
    return {
        **attrs.asdict(report, filter=lambda field, _: field.name not in ("events", "ticks")),
        "events": [event._asdict() for event in report.events],
        "ticks": [
            {
                "time": tick.time,
                "analyses": [
                    {
                        **attrs.asdict(found, filter=lambda field, _: field.name != "variants"),
                        "variants": [
                            {**attrs.asdict(entry), "variant": entry.variant._asdict()}
                            for entry in found.variants
                        ],
                    }
                    for found in tick.analyses
                ],
                "decisions": [_decision(decision) for decision in tick.decisions],
                "passed": [_decision(decision) for decision in tick.passed],
                "actuation_time": tick.actuation_time if tick.passed else None,
            }
            for tick in report.ticks
        ],
    }


def _decision(decision: ScaleDecision) -> dict[str, Any]:
    return {**decision._asdict(), "variant": decision.variant._asdict()}


def _request(r: Request) -> dict[str, Any]:
    """One request; null stands for a time that was not recorded."""
    return {
        "id": r.id,
        "state": r.state,
        "arrival_us": r.arrival,
        "prompt_tokens": r.prompt_len,
        "output_tokens": r.output_len,
        "ttft_us": r.ttft if r.ttft >= 0 else None,
        "mean_itl_us": r.mean_itl_us() if r.e2e >= 0 else None,
        "e2e_us": r.e2e if r.e2e >= 0 else None,
        "scheduling_delay_us": r.scheduling_delay if r.scheduling_delay >= 0 else None,
        "gateway_delay_us": (
            r.gateway_dispatch - r.gateway_enqueue
            if r.gateway_enqueue > 0 and r.gateway_dispatch > 0
            else None
        ),
        "instance": r.assigned,
        "slo_class": r.slo_class,
        "tenant": r.tenant,
        "client": r.client,
        "session": r.session,
        "round": r.round_index,
        "model": r.model,
        "length_capped": r.length_capped,
    }
