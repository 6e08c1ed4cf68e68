"""The reference's recorded workloads, and how to compare with them.

``CASES`` has for each ``case``: the specification (``yaml``) or ``flags``; ``seed``, ``horizon``
and ``max_requests``; counts; ``requests`` (all or the first ones) and ``all_sha`` over all of them;
``sessions``; and ``follow_ups`` of a synthetic server, see :func:`serve`. What is absent is 0 or
empty.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from blis_core.contracts import COMPLETED, TIMED_OUT, Request
from blis_core.workload.flags import FlagWorkload, LengthBounds, prepare_flags
from blis_core.workload.pipeline import GeneratedWorkload, prepare
from blis_core.workload.sessions import Blueprint, SessionManager
from blis_core.workload.spec import WorkloadSpec, parse_spec

DATA = Path(__file__).parents[1] / "data"
CASES: list[dict[str, Any]] = json.loads((DATA / "workload" / "cases.json").read_text())

PRESETS = {
    "chatbot": (LengthBounds(256, 100, 2, 800), LengthBounds(256, 100, 1, 1024)),
    "contentgen": (LengthBounds(1024, 150, 10, 2048), LengthBounds(1024, 200, 10, 2048)),
    "summarization": (LengthBounds(4096, 500, 100, 8192), LengthBounds(512, 150, 10, 2048)),
    "multidoc": (LengthBounds(10240, 1200, 500, 20480), LengthBounds(1536, 300, 50, 4096)),
}


def case_named(name: str) -> dict[str, Any]:
    """The case of that name."""
    return next(case for case in CASES if case["case"] == name)


def spec_of(case: dict[str, Any]) -> WorkloadSpec:
    """The specification of a case, with its data folder found."""
    spec = attrs.evolve(parse_spec(case["yaml"], case["case"]), seed=case["seed"])
    if spec.servegen_data is not None:
        data = attrs.evolve(spec.servegen_data, path=str(DATA / spec.servegen_data.path))
        spec = attrs.evolve(spec, servegen_data=data)
    return spec


def flags_of(case: dict[str, Any]) -> FlagWorkload:
    """The flag workload of a case."""
    flags = case["flags"]
    if "--workload" in flags:
        prompt, output = PRESETS[flags["--workload"]]
    else:
        prompt, output = (
            LengthBounds(*(flags[f"--{name}-tokens{s}"] for s in ("", "-stdev", "-min", "-max")))
            for name in ("prompt", "output")
        )
    return FlagWorkload(
        rate=flags.get("--rate", 1.0),
        num_requests=case["max_requests"],
        seed=case["seed"],
        horizon=case["horizon"],
        prefix_tokens=flags.get("--prefix-tokens", 0),
        prompt=prompt,
        output=output,
        timeout_us=max(0, case["timeout_s"]) * 1_000_000,
        concurrency=flags.get("--concurrency", 0),
        think_time_us=flags.get("--think-time-ms", 0) * 1000,
    )


def workload_of(case: dict[str, Any]) -> GeneratedWorkload:
    """What this program makes of a case."""
    if "flags" in case:
        return prepare_flags(flags_of(case))
    return prepare(spec_of(case), horizon=case["horizon"], max_requests=case["max_requests"])


# -------------------------------------------------------------------------------------- comparing


def ids_of(request: Request) -> tuple[list[int], list[int]]:
    """Token ids of prompt and output."""
    assert request.tokens is not None
    assert request.tokens.dtype == np.int32
    assert len(request.tokens) == request.prompt_len + request.output_len
    ids = request.tokens.tolist()
    return ids[: request.prompt_len], ids[request.prompt_len :]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def id_sha(ids: Iterable[int]) -> str:
    return sha(",".join(map(str, ids)))


def all_sha(requests: Iterable[Request]) -> str:
    """The digest over ids, arrivals and tokens of all requests."""
    lines = []
    for r in requests:
        prompt, output = ids_of(r)
        lines.append(f"{r.id}|{r.arrival}|{id_sha(prompt)}|{id_sha(output)}\n")
    return sha("".join(lines))


def described(request: Request) -> dict[str, Any]:
    """A request as the recorded cases describe it, with the fields that are left out if empty."""
    prompt, output = ids_of(request)
    return {
        "id": request.id,
        "arrival_us": request.arrival,
        "client_id": request.client,
        "deadline_us": request.deadline,
        "input_len": request.prompt_len,
        "output_len": request.output_len,
        "max_output_len": request.max_output,
        "input_first": prompt[:6],
        "output_first": output[:6],
        "input_sha": id_sha(prompt),
        "output_sha": id_sha(output),
        "tenant_id": request.tenant,
        "slo_class": request.slo_class,
        "model": request.model,
        "session_id": request.session,
        "round_index": request.round_index,
        "prefix_group": request.prefix_group,
        "prefix_length": request.prefix_length,
        "streaming": request.streaming,
        "reason_ratio": request.reason_ratio,
        "text_tokens": request.text_tokens,
        "image_tokens": request.image_tokens,
        "audio_tokens": request.audio_tokens,
        "video_tokens": request.video_tokens,
    }


def assert_equals(request: Request, known: dict[str, Any]) -> None:
    """The request is the recorded one. First token ids are recorded for some only."""
    ours = described(request)
    for key in ("input_first", "output_first"):
        if key not in known:
            del ours[key]
    assert {key: value for key, value in ours.items() if value or key in known} == known


def described_session(blueprint: Blueprint) -> dict[str, Any]:
    """A blueprint as the recorded cases describe it."""
    known: dict[str, Any] = {
        "client_id": blueprint.client,
        "context_growth": "accumulate" if blueprint.accumulate else "",
        "max_rounds": blueprint.max_rounds or 0,
        "prefix_len": 0,
        "session_id": blueprint.session,
        "think_time_us": blueprint.think_time_us,
        "timeout_us": blueprint.timeout,
        "unlimited": blueprint.max_rounds is None,
    }
    if blueprint.prefix is not None:
        ids = blueprint.prefix.tolist()
        known |= {"prefix_len": len(ids), "prefix_first": ids[:6], "prefix_sha": id_sha(ids)}
    return known


# ---------------------------------------------------------------------------------- serving


def serve(requests: Iterable[Request], manager: SessionManager, most: int = 10**9) -> list[Request]:
    """Follow-ups, at most ``most``, with a server that knows no queue.

    A request takes 10 us per token of prompt and 1 ms per token of output, or times out.
    """
    events: list[tuple[int, int, Request]] = []
    order = itertools.count()

    def inject(request: Request) -> None:
        done = request.arrival + 10 * request.prompt_len + 1000 * request.output_len
        request.state = COMPLETED
        request.itl_count = max(0, request.output_len - 1)
        if 0 < request.deadline < done:
            done, request.state = request.deadline, TIMED_OUT
        heapq.heappush(events, (done, next(order), request))

    for request in requests:
        inject(request)
    sent: list[Request] = []
    while events and len(sent) < most:
        tick, _, request = heapq.heappop(events)
        for follow_up in manager.on_done(request, tick):
            sent.append(follow_up)
            inject(follow_up)
    return sent
