"""Random traffic through pools: nothing is lost, whatever happens, and shortcuts change nothing."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from blis_core.cluster.admission import AdmissionSetup, AlwaysAdmit
from blis_core.cluster.decisions import DecisionLog
from blis_core.cluster.disaggregation import Disaggregation
from blis_core.cluster.fleet import Fleet
from blis_core.cluster.gateway import Gateway, GatewayQueue
from blis_core.cluster.pools import Pool
from blis_core.cluster.routing import LeastLoaded, RoundRobin, RoutingSetup
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.simulation import Cluster
from blis_core.cluster.slo import SloPriorities
from blis_core.cluster.transfer import TransferLink
from blis_core.contracts import MAX_INT64, KVSetup, PDDecider, Request
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES, Fcfs, ShortestJobFirst
from blis_core.errors import BlisError
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.kv.tiered import TieredKVStore
from blis_core.results.aggregate import build_results
from blis_core.results.model import Results
from blis_core.rng import GoRand
from tests.engine.regression import ContextSensitive

BLOCK = 4


class Listed(PDDecider):
    """Disaggregates the requests whose number is listed."""

    def __init__(self, yes: frozenset[int]) -> None:
        self.yes = yes

    def disaggregates(self, request: Request, fleet: object) -> bool:
        return int(request.id.split("_")[1]) in self.yes


@attrs.frozen(kw_only=True)
class Scenario:
    """What is simulated."""

    requests: tuple[tuple[int, int, int, int, int], ...]
    """(gap, prompt, output, patience or 0, which of a few prefixes) each."""
    yes: frozenset[int]
    prefill: int = 1
    decode: int = 1
    others: int = 0
    blocks: int = 30
    cpu_blocks: int = 0
    max_running: int = 4
    max_tokens: int = 30
    max_model_len: int = 0
    horizon: int = MAX_INT64
    bytes_per_block: float = 4000.0
    contention: bool = False
    routing_latency: int = 0
    stale: int = 0
    gateway: bool = False
    least_loaded: bool = False
    shortest_first: bool = False


def make_requests(scenario: Scenario) -> list[Request]:
    time, made = 0, []
    for number, (gap, prompt, output, patience, prefix) in enumerate(scenario.requests):
        time += gap
        tokens = np.arange(prompt + output, dtype=np.int32) + 1000 * (number + 10)
        shared = min(2 * BLOCK * prefix, prompt)
        tokens[:shared] = np.arange(shared) + prefix
        made.append(
            Request(
                f"request_{number}",
                time,
                tokens,
                prompt,
                output,
                deadline=time + patience if patience else 0,
                tenant="ab"[number % 2],
            )
        )
    return made


def make_cluster(scenario: Scenario, *, fast: bool = True) -> Cluster:
    chains = ChainTable(BLOCK)
    scheduler = ShortestJobFirst if scenario.shortest_first else Fcfs
    setup = KVSetup(
        total_blocks=scenario.blocks,
        block_size=BLOCK,
        cpu_blocks=scenario.cpu_blocks,
        transfer_bandwidth=0.5,
    )
    instances = [
        Instance(
            f"instance_{i}",
            latency=ContextSensitive((0.0, 0.0, 2.9), after=7),
            store=TieredKVStore(setup) if scenario.cpu_blocks else PagedKVStore(setup),
            chains=chains,
            scheduler=scheduler(PRIORITY_POLICIES["constant"]),
            limits=Limits(
                max_running=scenario.max_running,
                max_tokens=scenario.max_tokens,
                max_model_len=scenario.max_model_len,
            ),
            horizon=scenario.horizon,
            fast_forward=fast,
        )
        for i in range(scenario.prefill + scenario.decode + scenario.others)
    ]
    gateway = None
    if scenario.gateway:
        gateway = Gateway(
            GatewayQueue(SloPriorities(), limit=5),
            make_detector(
                "concurrency",
                queue_depth_threshold=5,
                kv_cache_util_threshold=0.8,
                max_concurrency=2,
            ),
        )
    routing = (LeastLoaded if scenario.least_loaded else RoundRobin)(RoutingSetup(random=GoRand(7)))
    cluster = Cluster(
        Fleet(instances, chains, refresh_interval=scenario.stale, cache_read=False),
        AlwaysAdmit(AdmissionSetup()),
        routing,
        model="m",
        horizon=scenario.horizon,
        routing_latency=scenario.routing_latency,
        gateway=gateway,
        log=DecisionLog(counterfactual_k=1, keep_records=True),
    )
    names = cluster.fleet.names
    halves = names[: scenario.prefill], names[scenario.prefill :][: scenario.decode]
    prefill, decode = (Pool(cluster.fleet, half, routing) for half in halves)
    cluster.disaggregation = Disaggregation(
        cluster,
        prefill=prefill,
        decode=decode,
        decider=Listed(scenario.yes),
        link=TransferLink(scenario.bytes_per_block, contention=scenario.contention),
    )
    return cluster


def run(
    scenario: Scenario, *, fast: bool = True, followed: bool = False
) -> tuple[Cluster, Results]:
    cluster = make_cluster(scenario, fast=fast)
    if followed:
        cluster._followed = [lambda _: True]
    try:
        cluster.run(make_requests(scenario))
    except BlisError:  # transferred prompts that wait may hold what everybody else needs
        reject()
    return cluster, build_results(
        [instance.finish() for instance in cluster.instances],
        several=True,
        disaggregation=cluster.disaggregation,
        decisions=cluster.log,
        rejected_routing=cluster.outcome.unroutable,
        in_transit=cluster.outcome.in_transit,
        gateway_depth=cluster.outcome.gateway_depth,
        gateway_shed=cluster.outcome.gateway_shed,
    )


def facts(results: Results) -> dict[str, Any]:
    """Everything that two runs must have in common."""
    log = results.decisions
    assert log is not None
    return {
        "cluster": results.cluster,
        "instances": results.instances,
        "anomalies": results.anomalies,
        "kv": results.kv,
        "pd": results.pd,
        "tenants": results.per_tenant,
        "trace": results.trace,
        "transfers": sorted(log.transfers),
        "requests": sorted(
            (r.id, r.ttft, r.e2e, r.mean_itl_us(), r.scheduling_delay, r.assigned)
            for r in results.requests
        ),
    }


requests = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(1, 40),
        st.integers(1, 25),
        st.sampled_from([0, 0, 0, 300, 1500, 6000]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=14,
)


@st.composite
def scenarios(draw: st.DrawFn, *, tiers: bool = True, cut: bool = True) -> Scenario:
    listed = tuple(draw(requests))
    longest = max(prompt + output for _, prompt, output, _, _ in listed)
    return Scenario(
        requests=listed,
        yes=draw(st.frozensets(st.integers(0, len(listed) - 1)))
        if draw(st.booleans())
        else frozenset(range(len(listed))),
        prefill=draw(st.integers(1, 3)),
        decode=draw(st.integers(1, 3)),
        others=draw(st.integers(0, 1)),
        # a request that outgrows the whole cache would preempt itself for ever
        blocks=-(-longest // BLOCK) + draw(st.integers(1, 12)),
        cpu_blocks=draw(st.sampled_from([0, 0, 15])) if tiers else 0,
        max_running=draw(st.integers(1, 5)),
        max_tokens=draw(st.sampled_from([3, 30, 200])),
        max_model_len=draw(st.sampled_from([0, 0, 30])),
        horizon=draw(st.sampled_from([MAX_INT64, 900, 3000])) if cut else MAX_INT64,
        bytes_per_block=draw(st.sampled_from([0.0, 4000.0, 1e6])),
        contention=draw(st.booleans()),
        routing_latency=draw(st.sampled_from([0, 0, 60])),
        stale=draw(st.sampled_from([0, 0, 700])),
        gateway=draw(st.booleans()),
        least_loaded=draw(st.booleans()),
        shortest_first=draw(st.booleans()),
    )


many = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def fits(scenario: Scenario) -> Scenario:
    """The cache must hold the longest model length."""
    need = -(-scenario.max_model_len // BLOCK)
    return attrs.evolve(scenario, blocks=max(scenario.blocks, need))


@many
@given(scenarios(cut=False))
def test_no_request_is_lost(scenario: Scenario) -> None:
    """Each has exactly one end, and the end of a simulation finds nobody."""
    cluster, results = run(fits(scenario))
    block, found, account = results.cluster, results.anomalies, cluster.disaggregation
    assert account is not None
    assert block.still_queued == block.still_running == 0
    assert account.pending == account.link.active == 0
    gone = found.gateway_shed + found.gateway_depth
    assert block.injected_requests + gone == len(scenario.requests)
    asked = len(scenario.requests) - gone
    assert results.trace is not None
    assert results.trace.disaggregation_decisions == asked
    ended = account.decoded + account.timed_out + account.dropped
    assert ended == account.prefilled <= len(account.parents)
    recorded = [r.id for r in results.requests]
    assert len(set(recorded)) == len(recorded)
    assert not any("fill" in name or "decode" in name for name in recorded)


@many
@given(scenarios())
def test_none_is_lost_at_the_horizon_either(scenario: Scenario) -> None:
    """Those on their way between the pools count as running."""
    scenario = fits(scenario)
    _, results = run(scenario)
    arrived = sum(r.arrival <= scenario.horizon for r in make_requests(scenario))
    found = results.anomalies
    gone = found.gateway_shed + found.gateway_depth + results.in_transit
    assert results.cluster.injected_requests + gone == arrived


@many
@given(scenarios(tiers=False))
def test_no_block_is_lost(scenario: Scenario) -> None:
    """Held are exactly the blocks of members and of transferred prompts that wait."""
    cluster, _ = run(fits(scenario))
    for instance in cluster.instances:
        store = instance.store
        assert isinstance(store, PagedKVStore)
        assert store.used_blocks + len(store.free_keys()) == store.total_blocks
        if not instance.batch.members and not instance.waiting.count:
            assert store.used_blocks == 0
        for member in instance.batch.members.values():
            store.release(member)
        while instance.waiting.count:
            request = instance.waiting.head()
            instance.waiting.pop()
            if request.engine is not None:
                store.release(request.engine)
        assert store.used_blocks == 0
        assert len(store.free_keys()) == store.total_blocks


@many
@given(scenarios())
def test_shortcuts_change_nothing(scenario: Scenario) -> None:
    """Neither runs of steps at once, nor instances that run freely."""
    scenario = fits(scenario)
    want = facts(run(scenario, fast=False, followed=True)[1])
    assert facts(run(scenario)[1]) == want
    assert facts(run(scenario, followed=True)[1]) == want


@many
@given(scenarios(cut=False))
def test_times_are_in_order(scenario: Scenario) -> None:
    """Arrival, prefill, transfer, decode, end; a time-out alone may lie before the transfer."""
    cluster, _ = run(fits(scenario))
    account = cluster.disaggregation
    assert account is not None
    for parent in account.parents:
        if not parent.transfer_complete:
            continue
        assert parent.request.arrival <= parent.prefill_enqueue <= parent.transfer_start
        assert parent.transfer_start < parent.transfer_complete
        if parent.decode_instance:
            assert parent.decode_enqueue == parent.transfer_complete
            late = parent.decode is not None and parent.decode.state == "timed_out"
            assert parent.completion >= parent.decode_enqueue or late
        else:
            assert parent.completion == parent.transfer_complete


def test_a_request_without_output_ends_with_its_prefill() -> None:
    two = ((5, 10, 0, 0, 0), (5, 10, 3, 0, 0))
    _, results = run(Scenario(requests=two, yes=frozenset({0, 1})))
    assert results.cluster.completed_requests == 2
    assert results.cluster.still_running == 0
    first, second = sorted(results.requests, key=lambda r: r.id)
    assert first.e2e == first.ttft > 0
    assert first.assigned == "instance_0"
    assert second.assigned == "instance_1"
    assert results.pd is not None
    assert results.pd.disaggregated == 1


def test_a_deadline_that_passed_in_transfer_fires_in_the_past() -> None:
    """Reference quirk 07-Q6: the request takes exactly its patience, and no step of the decode."""
    scenario = Scenario(
        requests=((5, 10, 3, 700, 0), (3000, 10, 3, 0, 0)),
        yes=frozenset({0, 1}),
        bytes_per_block=1e7,
    )
    cluster, results = run(scenario)
    first = min(results.requests, key=lambda r: r.id)
    assert first.e2e == 700
    assert first.mean_itl_us() == 0
    assert results.cluster.timed_out_requests == 1
    assert results.cluster.completed_requests == 1
    assert cluster.instances[1].metrics.completed == 1


def test_records_of_the_pools() -> None:
    scenario = Scenario(requests=((5, 10, 3, 0, 0), (5, 10, 3, 0, 0)), yes=frozenset({1}))
    _, results = run(scenario)
    log = results.decisions
    assert log is not None
    assert [(r.request, r.disaggregated) for r in log.disaggregations] == [
        ("request_0", False),
        ("request_1", True),
    ]
    assert [r.request for r in log.routings] == ["request_0"]
    assert [(r.request, r.instance) for r in log.prefill_routings] == [("request_1", "instance_0")]
    assert [(r.request, r.instance) for r in log.decode_routings] == [("request_1", "instance_1")]
    (transfer,) = log.transfers
    # three blocks of 4000 bytes at 25 GB/s: under a microsecond, behind 50 us
    assert (transfer.blocks, transfer.duration) == (3, 51)
    assert (transfer.source, transfer.target) == ("instance_0", "instance_1")
    trace = log.summary()
    assert (trace.disaggregation_decisions, trace.disaggregated, trace.transfers) == (2, 1, 1)
    assert trace.mean_transfer_us == 51
    assert trace.targets == {"instance_0": 1}


@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_a_pool_without_routable_instances_turns_requests_away(pool: str) -> None:
    cluster = make_cluster(Scenario(requests=(), yes=frozenset(range(3))))
    lost: list[str] = []
    left = [1] if pool == "prefill" else [0]
    cluster.fleet.set_routable(left)
    cluster.run(
        make_requests(Scenario(requests=((5, 10, 3, 0, 0),), yes=frozenset())),
        lost=lambda r, _: lost.append(r.id) or [],
    )
    account = cluster.disaggregation
    assert account is not None
    assert lost == ["request_0"]
    assert cluster.outcome.unroutable == (pool == "prefill")
    assert account.dropped == (pool == "decode")
