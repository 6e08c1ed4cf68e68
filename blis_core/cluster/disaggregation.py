"""Prefill/decode disaggregation: one pool of instances for prompts, another for outputs.

An admitted request that the decider sends to the pools becomes two halves: its prefill is routed to
the prefill pool, its KV cache is transferred, then its decode is routed to the decode pool. All
that happens in between are entries of the cluster's agenda.

The reference takes the start of a step for the end of what finishes in it: a transfer begins when
the last prefill step begins, and a request is complete when its last decode step begins (reference
quirk 07-Q1).
"""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import TYPE_CHECKING

from blis_core.cluster.agenda import (
    DECODE_ROUTING,
    DISAGGREGATION,
    PREFILL_ROUTING,
    TRANSFER_COMPLETED,
    TRANSFER_STARTED,
)
from blis_core.cluster.fleet import Snapshot
from blis_core.cluster.parents import DecodeHalf, Parent, PrefillHalf
from blis_core.cluster.pools import Pool
from blis_core.cluster.transfer import TransferLink
from blis_core.contracts import COMPLETED, TIMED_OUT, PDDecider, Request

if TYPE_CHECKING:
    from blis_core.cluster.simulation import Cluster

_by_id = attrgetter("id")


class Disaggregation:
    """The way of disaggregated requests through a cluster, and the account of it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        prefill: Pool,
        decode: Pool,
        decider: PDDecider,
        link: TransferLink,
    ) -> None:
        """Puts itself between the admission and the routing of ``cluster``."""
        self._cluster = cluster
        self._fleet = cluster.fleet
        self._agenda = cluster.agenda
        self.prefill = prefill
        self.decode = decode
        self._decider = decider
        self.link = link
        self._block_size = cluster.fleet.chains.block_size
        self.parents: list[Parent] = []
        """In order of their decisions."""
        self.prefilled = 0
        self.decoded = 0
        self.without_output = 0
        """Of these, requests that were complete with their prefill."""
        self.timed_out = 0
        """Decode halves that timed out."""
        self.dropped = 0
        """Requests for whose decode half there was no instance, or no room on it."""
        self.pending = 0
        """Decode halves on an instance."""
        cluster.forward = self._accept
        cluster.on_routed.append(lambda _, request, now: self._observe(request, now))
        # only a finished prefill brings new events by itself
        cluster.watch(self._after_event, prefill.has)
        cluster.on_end = self._ended

    # -------------------------------------------------------------------------- the decision

    def _accept(self, request: Request, now: int) -> None:
        self._agenda.add(now, DISAGGREGATION, self._decide, request)

    def _observe(self, request: Request, now: int) -> None:
        self._decider.routed(request, Snapshot(self._fleet, now, self._fleet.routable))

    def _decide(self, request: Request, now: int) -> None:
        fleet, cluster = self._fleet, self._cluster
        yes = self._decider.disaggregates(request, Snapshot(fleet, now, fleet.routable))
        if cluster.log is not None:
            cluster.log.disaggregation(request, now, yes)
        if not yes:
            cluster.plan_routing(request, now)
            return
        fleet.chains.keys(request)  # both halves go by the keys of the whole
        parent = Parent(request, self._block_size)
        self.parents.append(parent)
        due = now + cluster.routing_latency
        self._agenda.add(due, PREFILL_ROUTING, self._route_prefill, parent)

    # --------------------------------------------------------------------------- the prefill

    def _route_prefill(self, parent: Parent, now: int) -> None:
        cluster, half = self._cluster, parent.prefill
        view = self.prefill.view(now)
        if not len(view):
            cluster.outcome.unroutable += 1
            cluster.lose(parent.request, now)
            return
        decision = self.prefill.policy.route(half, view)
        index = view.index(decision.target)
        parent.prefill_instance = self._fleet.names[index]
        parent.prefill_enqueue = now
        if cluster.log is not None:
            record = cluster.log.record(parent.request, now, decision, view)
            cluster.log.prefill_routing(record)
        if cluster.tenants is not None:
            cluster.tenants.routed(half)
        cluster.inject(index, half, now)
        self._observe(half, now)

    def _prefilled(self, parent: Parent, now: int) -> None:
        self.prefilled += 1
        if parent.request.output_len == 0:
            # there is nothing to decode; the reference crashes here (07-Q7)
            self.decoded += 1
            self.without_output += 1
            parent.decode_instance = parent.prefill_instance
            parent.completion = parent.request.arrival + parent.prefill.e2e
            self._finish(parent, COMPLETED, 0)
            return
        if self._cluster.idle(now):
            self._start_transfer(parent, now)
        else:
            self._agenda.add(now, TRANSFER_STARTED, self._start_transfer, parent)

    # -------------------------------------------------------------------------- the transfer

    def _start_transfer(self, parent: Parent, now: int) -> None:
        parent.transfer_start = now
        due = now + self.link.start(parent.blocks)
        self._agenda.add(due, TRANSFER_COMPLETED, self._end_transfer, parent)

    def _end_transfer(self, parent: Parent, now: int) -> None:
        self.link.end()
        parent.transfer_complete = now
        parent.split_off_decode()
        self._agenda.add(now, DECODE_ROUTING, self._route_decode, parent)

    # ---------------------------------------------------------------------------- the decode

    def _route_decode(self, parent: Parent, now: int) -> None:
        cluster, fleet, half = self._cluster, self._fleet, parent.decode
        assert half is not None
        view = self.decode.view(now)
        if not len(view):
            self._drop(parent, now)
            return
        decision = self.decode.policy.route(half, view)
        index = view.index(decision.target)
        log = cluster.log
        record = log.record(parent.request, now, decision, view) if log is not None else None
        if not fleet.reserve(index, half, now):
            self._drop(parent, now)
            cluster.touch(index)  # even a refusal may change a store with two tiers
            return
        parent.decode_instance = fleet.names[index]
        parent.decode_enqueue = now
        if log is not None and record is not None:
            log.decode_routing(record, parent)
        if cluster.tenants is not None:
            cluster.tenants.routed(half)
        fleet.inject_transferred(index, half, now)
        cluster.touch(index)
        self.pending += 1
        if 0 < half.deadline < now:
            cluster.interrupt()  # its time-out comes first, it lies in the past

    def _drop(self, parent: Parent, now: int) -> None:
        """There is no room; no other instance is tried, and its session waits for ever (07-Q9)."""
        self.dropped += 1
        parent.completion = now
        self._cluster.lose(parent.request, now)

    # ------------------------------------------------------------------------------ the ends

    def _after_event(self, index: int, now: int) -> None:
        """Halves that ended in the event at ``now`` of instance ``index``: first those that
        completed, in order of their ids as text, then those that timed out."""
        ended = self._cluster.ended
        if len(ended) > 1:
            ended = sorted(ended, key=_by_id)
        late: list[Request] = []
        for request in ended:
            if request.state is TIMED_OUT:
                late.append(request)
            else:
                self._ended(index, request, now)
        for request in late:
            self._ended(index, request, now)

    def _ended(self, index: int, half: Request, now: int) -> None:
        """``half``, if it is one, ended in the event at ``now`` of instance ``index``."""
        if isinstance(half, PrefillHalf):
            if half.state is COMPLETED:
                self._prefilled(half.parent, now)
            else:  # timed out or dropped; its session waits for ever (07-Q9)
                self._cluster.lose(half.parent.request, now)
        elif isinstance(half, DecodeHalf):
            self.pending -= 1
            if half.state is TIMED_OUT:
                self.timed_out += 1
                half.parent.completion = now
            else:
                self.decoded += 1
                overhead = self._fleet.instances[index].completion_overhead
                half.parent.completion = now + overhead
            self._finish(half.parent, half.state, half.itl_count)

    def _finish(self, parent: Parent, state: str, decoded: int) -> None:
        """Tell the session. It sees a copy, since the request itself is never brought up to date
        (reference quirk 07-Q21)."""
        cluster, request = self._cluster, parent.request
        if cluster.follow_ups is not None:
            seen = copy.copy(request)
            seen.state = state
            seen.itl_count = decoded
            for new in cluster.follow_ups(seen, parent.completion):
                cluster.arrivals.add(new)
        request.tokens = None  # nobody needs them any more
        if parent.decode is not None:
            parent.decode.tokens = None
        parent.prefill.tokens = None
