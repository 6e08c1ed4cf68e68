"""From imported traffic to a trace that can be replayed, or to a workload that resembles it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import attrs

from blis_core import log
from blis_core.contracts import MAX_INT64, ImportedRequest
from blis_core.errors import BlisError
from blis_core.records import Record
from blis_core.trace.prompt_blocks import PromptBlocks, misfit
from blis_core.trace.rows import TraceRow, TraceRows
from blis_core.trace.tracev2 import TraceHeader
from blis_core.workload.spec import VERSION, Arrival, Client, Distribution, WorkloadSpec
from blis_core.workload.validation import validate


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ImportedTraffic(Record):
    """Imported requests in order of arrival; each has a prompt."""

    source: str
    """Name of the importer."""
    requests: Sequence[ImportedRequest]
    block_tokens: int = 0


def collect(
    source: str,
    requests: Iterable[ImportedRequest],
    block_tokens: int = 0,
    *,
    limit: int = 0,
    speed: float = 1.0,
) -> ImportedTraffic:
    """Sort ``requests``, keep the first ``limit`` (0 = all), and divide their times by ``speed``.

    Requests with an empty prompt are left out with a warning. BlisError if nothing is left, and for
    values that a trace cannot hold, which are the importer's fault.
    """
    found = list(requests)
    kept = [request for request in found if request.input_tokens > 0]
    kept.sort(key=lambda request: request.arrival_us)
    if len(kept) < len(found):
        log.warning(f"{len(found) - len(kept)} requests without a prompt are left out")
    if limit:
        kept = kept[:limit]
    if not kept:
        raise BlisError(f"{source}: no request with a prompt was found")
    for request in kept:
        if not (
            0 <= request.arrival_us <= MAX_INT64
            and 0 <= request.output_tokens <= MAX_INT64
            and not (request.blocks and block_tokens < 1)
            and not misfit(request.blocks, block_tokens, request.input_tokens)
            and all(number >= 0 for number in request.blocks)
        ):
            raise BlisError(f"importer {source}: {request} is not possible")
    if speed != 1.0:
        kept = [r._replace(arrival_us=round(r.arrival_us / speed)) for r in kept]
    return ImportedTraffic(source=source, requests=kept, block_tokens=block_tokens)


# ------------------------------------------------------------------------------------------- trace


def as_trace(traffic: ImportedTraffic) -> tuple[TraceHeader, TraceRows]:
    """A trace of all requests, numbered from 0.

    Blocks go into a column of their own. For readers that do not know it, each prompt has a prefix
    group as well, as :func:`shared_prefixes` finds them.
    """
    prefixes = shared_prefixes(traffic)
    rows = []
    for number, (r, (group, length)) in enumerate(zip(traffic.requests, prefixes, strict=True)):
        rows.append(
            TraceRow(
                request_id=number,
                client_id=r.client or traffic.source,
                tenant_id=r.tenant,
                slo_class=r.slo_class,
                session_id=r.session,
                round_index=r.round_index,
                prefix_group=group,
                prefix_length=length,
                input_tokens=r.input_tokens - length,
                output_tokens=r.output_tokens,
                model=r.model,
                arrival_time_us=r.arrival_us,
                send_time_us=r.arrival_us,
            )
        )
    blocks = None
    if traffic.block_tokens:
        blocks = PromptBlocks(traffic.block_tokens, [r.blocks for r in traffic.requests])
    header = TraceHeader(
        trace_version=2, time_unit="microseconds", mode="real", workload_spec=traffic.source
    )
    return header, TraceRows(rows, blocks)


def shared_prefixes(traffic: ImportedTraffic) -> list[tuple[str, int]]:
    """A prefix group and its length in tokens for each request; ``("", 0)`` if it shares nothing.

    It is the longest run of whole blocks that another prompt begins with as well. A request has one
    group only, so what it shares beyond that, with others, is not said.
    """
    size = traffic.block_tokens
    children: dict[tuple[int, int], int] = {}  # (node, number of a block) -> node; 0 is the root
    members: list[int] = [0]
    paths: list[list[int]] = []
    for request in traffic.requests:
        node, path = 0, []
        for number in request.blocks[: request.input_tokens // size if size else 0]:
            node = children.setdefault((node, number), len(members))
            if node == len(members):
                members.append(0)
            members[node] += 1
            path.append(node)
        paths.append(path)
    names: dict[int, str] = {}
    prefixes = []
    for path in paths:
        depth = next((d for d in range(len(path), 0, -1) if members[path[d - 1]] > 1), 0)
        if depth:
            name = names.setdefault(path[depth - 1], f"prefix-{len(names)}")
            prefixes.append((name, depth * size))
        else:
            prefixes.append(("", 0))
    return prefixes


# ---------------------------------------------------------------------------------------- workload

MAX_CLIENTS = 20
MAX_LENGTHS = 200
_SEED = 42


def as_workload(traffic: ImportedTraffic) -> WorkloadSpec:
    """A specification of traffic with the same rate, burstiness and lengths.

    The groups that share most become clients with a prefix, all other requests one client. Lengths
    are drawn from those found, prompts and outputs independently; gaps are gamma distributed.
    """
    requests = traffic.requests
    prefixes = shared_prefixes(traffic)
    groups: dict[tuple[str, int], list[ImportedRequest]] = {}
    for request, prefix in zip(requests, prefixes, strict=True):
        groups.setdefault(prefix, []).append(request)
    shared = sorted(
        (key for key in groups if key[0]),
        key=lambda key: (-key[1] * (len(groups[key]) - 1), key),
    )[: MAX_CLIENTS - 1]
    rest = [request for key, found in groups.items() if key not in shared for request in found]
    arrival = _arrival([r.arrival_us for r in requests])
    clients = [
        _client(traffic.source, rest, len(requests), arrival, "", 0),
        *(
            _client(f"{traffic.source}-{key[0]}", groups[key], len(requests), arrival, *key)
            for key in shared
        ),
    ]
    spec = WorkloadSpec(
        version=VERSION,
        seed=_SEED,
        category="language",
        clients=tuple(client for client in clients if client.rate_fraction > 0),
        aggregate_rate=_rate([r.arrival_us for r in requests]),
        num_requests=len(requests),
    )
    validate(spec)
    return spec


def _client(
    name: str,
    requests: Sequence[ImportedRequest],
    total: int,
    arrival: Arrival,
    group: str,
    prefix: int,
) -> Client:
    return Client(
        id=name,
        rate_fraction=len(requests) / total,
        arrival=arrival,
        input_distribution=_lengths([r.input_tokens - prefix for r in requests]),
        output_distribution=_lengths([r.output_tokens for r in requests]),
        prefix_group=group,
        prefix_length=prefix,
    )


def _rate(arrivals: Sequence[int]) -> float:
    """Requests per second, to six digits; arrivals ascend."""
    duration = arrivals[-1] - arrivals[0]
    if duration <= 0:
        return float(len(arrivals))
    return float(f"{(len(arrivals) - 1) / duration * 1e6:.6g}")


_CV = (0.1, 10.0)
"""Range of coefficients of variation for which gamma gaps are drawn well."""


def _arrival(arrivals: Sequence[int]) -> Arrival:
    gaps = [b - a for a, b in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    if mean == 0:
        return Arrival(process="poisson")
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    low, high = _CV
    return Arrival(process="gamma", cv=float(f"{min(high, max(low, deviation / mean)):.3g}"))


def _lengths(values: Sequence[int]) -> Distribution:
    """The values found and how often; of many different ones, means of equally large groups."""
    ordered = sorted(values)
    counts: dict[int, int] = {}
    if len(set(ordered)) <= MAX_LENGTHS:
        for value in ordered:
            counts[value] = counts.get(value, 0) + 1
    else:
        for i in range(MAX_LENGTHS):
            part = ordered[i * len(ordered) // MAX_LENGTHS : (i + 1) * len(ordered) // MAX_LENGTHS]
            value = round(sum(part) / len(part))
            counts[value] = counts.get(value, 0) + len(part)
    return Distribution(
        type="empirical", params={str(value): float(n) for value, n in counts.items()}
    )
