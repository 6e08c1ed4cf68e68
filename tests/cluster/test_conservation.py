"""Laws of whole clusters, with random policies, latencies, queues, tenants, sessions and ends."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blis_core.contracts import COMPLETED, QUEUED, RUNNING, TIMED_OUT
from tests.cluster.random_cluster import Run, simulate
from tests.cluster.recording import watch

EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 10**9)


def fates(run: Run) -> dict[str, str]:
    """Where each request that arrived in time is, found by looking for it everywhere."""
    cluster, found = run.cluster, {}

    def put(request, fate):
        assert request.id not in found, f"{request.id} is {found[request.id]} and {fate}"
        found[request.id] = fate

    for request in run.lost:
        put(request, "turned away")
    for _, request in (*cluster._to_admit, *cluster._to_route):
        put(request, "in transit")
    while cluster._gateway is not None and len(cluster._gateway.queue):
        put(cluster._gateway.queue.dequeue(0), "held")
    for instance in cluster.instances:
        entering = {request.id for _, _, request in instance._entering}
        for request in instance.metrics.requests:
            assert request.assigned == instance.name
            if request.id in instance._dropped:
                put(request, "dropped")
            elif request.id in entering:
                put(request, "in transit")
            else:
                put(request, request.state)
    return found


@EXAMPLES
@given(seeds)
def test_every_request_is_in_exactly_one_place(seed):
    run = simulate(seed)
    cluster, outcome = run.cluster, run.cluster.outcome
    arrived = [*run.requests, *outcome.follow_ups]
    found = fates(run)
    assert len({request.id for request in arrived}) == len(arrived)
    assert set(found) == {r.id for r in arrived if r.arrival <= cluster._horizon}
    metrics = [instance.finish() for instance in cluster.instances]
    expected = {
        "turned away": outcome.rejected + outcome.unroutable + outcome.gateway_shed,
        "held": outcome.gateway_depth,
        "in transit": outcome.in_transit,
        "dropped": sum(m.dropped_unservable for m in metrics),
        COMPLETED: sum(m.completed for m in metrics),
        TIMED_OUT: sum(m.timed_out for m in metrics),
        QUEUED: sum(m.still_queued for m in metrics),
        RUNNING: sum(m.still_running for m in metrics),
    }
    assert Counter(found.values()) == Counter({k: n for k, n in expected.items() if n})
    assert outcome.rejected == sum(outcome.rejected_by_class.values())


@EXAMPLES
@given(seeds)
def test_the_trace_agrees_with_the_counters(seed):
    run = simulate(seed)
    log, outcome = run.cluster.log, run.cluster.outcome
    total = log.summary()
    assert total.rejected == outcome.rejected
    assert total.total == len(log.admissions) == total.admitted + total.rejected
    routed = sum(total.targets.values())
    assert routed == len(log.routings)
    assert sum(len(i.metrics.requests) for i in run.cluster.instances) == routed
    waiting = len(run.cluster._to_route)
    assert total.admitted == (
        routed + outcome.unroutable + outcome.gateway_shed + outcome.gateway_depth + waiting
    )


def told(run: Run) -> list:
    """Everything that a run says of its requests and decisions."""
    cluster = run.cluster
    return [
        [
            (r.id, r.assigned, r.state, r.ttft, r.e2e, r.scheduling_delay, r.gateway_dispatch)
            for r in sorted([*run.requests, *cluster.outcome.follow_ups], key=lambda r: r.id)
        ],
        [request.id for request in run.lost],
        [request.id for request in cluster.outcome.follow_ups],
        cluster.log.admissions,
        cluster.log.routings,
        [
            (m.sim_ended, m.queue_sum, m.queue_samples, m.preemptions, m.cache_hit_rate)
            for m in (instance.finish() for instance in cluster.instances)
        ],
    ]


@EXAMPLES
@given(seeds)
def test_looking_changes_nothing(seed):
    """Instances lag behind until they are read; reading all of them at each decision is equal."""
    assert told(simulate(seed)) == told(simulate(seed, prepare=watch))


@EXAMPLES
@given(seeds)
def test_silent_sessions_change_nothing(seed):
    """With sessions the cluster goes from end to end of a request, else from arrival to arrival."""
    assert told(simulate(seed)) == told(simulate(seed, closed=True))


@EXAMPLES
@given(seeds)
def test_the_same_seed_gives_the_same_run(seed):
    assert told(simulate(seed)) == told(simulate(seed))
