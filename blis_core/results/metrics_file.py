"""The file of ``--metrics-path``: the cluster's figures and one object per request.

Specification 08, section 12.1. Built from prepared pieces, because there may be millions of
requests and generic encoding costs several times as much.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from blis_core.results.numbers import (
    float_text,
    json_text,
    string_text,
)
from blis_core.results.request_list import in_order
from blis_core.results.times import us_as_ms, us_as_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blis_core.contracts import Request
    from blis_core.results.model import Results


def write(path: str, results: Results) -> None:
    """Write the file, whole or not at all. BlisError if that is not possible."""
    from blis_core.files import atomic_write

    atomic_write(path, pieces(results))


def render(results: Results) -> str:
    """The contents of the file (no newline at the end)."""
    return "".join(pieces(results))


def pieces(results: Results) -> Iterator[str]:
    """The same, piece by piece: the whole would take more memory than the run."""
    block = json_text(results.cluster.reference_items())
    if not results.requests:
        yield block
        return
    yield f'{block[:-2]},\n  "requests": [\n'
    tails = _Tails()
    # The reference leaves the order of equal arrivals to chance; here it is that of the ids.
    objects = (_request_text(request, tails) for request in in_order(results.requests))
    between = ""
    while some := list(islice(objects, 1000)):
        yield between + ",\n".join(some)
        between = ",\n"
    yield "\n  ]\n}"


class _Tails(dict[tuple[str, str, str, str, bool], str]):
    """The end of an element by what few combinations of names make of it."""

    def __missing__(self, key: tuple[str, str, str, str, bool]) -> str:
        slo_class, tenant, instance, model, capped = key
        tail = ""
        if slo_class:
            tail += f',\n      "slo_class": {string_text(slo_class)}'
        if tenant:
            tail += f',\n      "tenant_id": {string_text(tenant)}'
        if instance:
            tail += f',\n      "handled_by": {string_text(instance)}'
        if model:
            tail += f',\n      "model": {string_text(model)}'
        if capped:
            tail += ',\n      "length_capped": true'
        self[key] = tail
        return tail


def _request_text(r: Request, tails: _Tails) -> str:
    """One element of the list, indented. Times are ms, ``arrived_at`` is s."""
    tail = tails[r.slo_class, r.tenant, r.assigned, r.model, r.length_capped]
    if r.gateway_enqueue > 0 and r.gateway_dispatch > 0:
        waited = r.gateway_dispatch - r.gateway_enqueue
        if waited:
            tail += f',\n      "gateway_queue_delay_ms": {float_text(waited / 1000.0)}'
    itl = r.mean_itl_us()
    ttft, e2e, delay = r.ttft, r.e2e, r.scheduling_delay
    return (
        "    {\n"
        f'      "arrived_at": {us_as_s(r.arrival)},\n'
        f'      "requestID": {string_text(r.id)},\n'
        f'      "num_prefill_tokens": {r.prompt_len},\n'
        f'      "num_decode_tokens": {r.output_len},\n'
        f'      "ttft_ms": {us_as_ms(ttft) if ttft > 0 else "0"},\n'
        f'      "itl_ms": {float_text(itl / 1000.0)},\n'
        f'      "e2e_ms": {us_as_ms(e2e) if e2e > 0 else "0"},\n'
        f'      "scheduling_delay_ms": {us_as_ms(delay) if delay > 0 else "0"}{tail}\n'
        "    }"
    )
