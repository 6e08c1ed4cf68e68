"""Workloads for real servers: what ``blis run`` would simulate, to be sent instead.

The differences from a simulated workload: no time limit is added to the requests, and the lengths
of the prefixes are needed by group, because a client builds the texts itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.records import Record
from blis_core.workload.flags import FlagWorkload, LengthBounds, specification
from blis_core.workload.generated import GeneratedWorkload
from blis_core.workload.inference_perf import with_inference_perf
from blis_core.workload.pipeline import prepare
from blis_core.workload.prefixes import DEFAULT_PREFIX_LENGTH
from blis_core.workload.servegen import with_servegen
from blis_core.workload.spec import WorkloadSpec, load_spec
from blis_core.workload.validation import check_sources

if TYPE_CHECKING:
    from blis_core.catalog.defaults import Preset


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Traffic(Record):
    """Requests to be sent, and what their texts are made from."""

    workload: GeneratedWorkload
    """Requests in order of arrival (us from the start), sessions, warnings."""
    seed: int
    """Seed of the workload."""
    expected: int
    """How many requests there will be at most; 0 = not known beforehand."""
    prefix_lengths: dict[str, int]
    """Tokens of the prefix of each group that a client (not a cohort) names. Of clients that
    disagree the last one counts, while the token ids have the length of the first: reference quirk
    05-O7."""


def traffic_of_file(
    path: str, *, seed: int | None = None, horizon: int = 0, num_requests: int = 0
) -> Traffic:
    """The traffic of a workload file.

    ``seed`` (None = the file's), ``horizon`` (us) and ``num_requests`` replace the file's; a value
    of 0 or less does not. BlisError for a file that is wrong, or a workload without an end.
    """
    spec = load_spec(path)
    if seed is not None:
        spec = attrs.evolve(spec, seed=seed)
    return _traffic(spec, horizon=horizon, num_requests=num_requests)


def traffic_of_flags(
    lengths: Preset | object,
    *,
    seed: int,
    rate: float = 0.0,
    concurrency: int = 0,
    think_time_us: int = 0,
    horizon: int = 0,
    num_requests: int = 0,
) -> Traffic:
    """The traffic of one client ``distribution``: a constant ``rate`` (requests/s), or users.

    ``lengths`` has the fields of a preset: ``prefix_tokens``, ``prompt_tokens`` and
    ``output_tokens``, the latter two also with ``_stdev``, ``_min`` and ``_max``. ``horizon`` (us)
    of 0 or less is none. BlisError for a workload without an end.
    """

    def bounds(side: str) -> LengthBounds:
        names = (f"{side}_tokens{end}" for end in ("", "_stdev", "_min", "_max"))
        return LengthBounds(*(getattr(lengths, name) for name in names))

    spec = specification(
        FlagWorkload(
            rate=rate,
            num_requests=num_requests,
            seed=seed,
            horizon=MAX_INT64,
            prefix_tokens=max(0, getattr(lengths, "prefix_tokens", 0)),
            prompt=bounds("prompt"),
            output=bounds("output"),
            timeout_us=0,
            concurrency=concurrency,
            think_time_us=think_time_us,
        )
    )
    clients = tuple(attrs.evolve(client, timeout=None) for client in spec.clients)
    return _traffic(attrs.evolve(spec, clients=clients), horizon=horizon, num_requests=num_requests)


def _traffic(spec: WorkloadSpec, *, horizon: int, num_requests: int) -> Traffic:
    limit = num_requests if num_requests > 0 else spec.num_requests
    end = horizon if horizon > 0 else spec.horizon if spec.horizon > 0 else MAX_INT64
    if limit <= 0 and end == MAX_INT64:
        raise BlisError("the workload has no end: give --num-requests or --horizon")
    check_sources(spec)
    spec = with_servegen(with_inference_perf(spec))
    workload = prepare(spec, horizon=end, max_requests=limit)
    lengths = {
        client.prefix_group: client.prefix_length
        if client.prefix_length > 0
        else DEFAULT_PREFIX_LENGTH
        for client in spec.clients
        if client.prefix_group
    }
    return Traffic(workload=workload, seed=spec.seed, expected=limit, prefix_lengths=lengths)
