"""Whatever a fleet does, no request, no KV block and no GPU gets lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.assembly import assemble
from blis_core.config import RunConfig
from blis_core.contracts import COMPLETED, MAX_INT64, TIMED_OUT
from blis_core.deployment import resolve
from blis_core.run import _policies
from tests.autoscaling.runs import requests

DELAYS = st.fixed_dictionaries(
    {"mean": st.sampled_from([0, 0.002, 0.03]), "stddev": st.sampled_from([0, 0.01])}
)


@st.composite
def policies(draw):
    pools = [
        {
            "name": name,
            "gpu_type": draw(st.sampled_from(["H100", "L40S"])),
            "gpus_per_node": draw(st.integers(1, 4)),
            "gpu_memory_gib": 80,
            "initial_nodes": draw(st.integers(0, 2)),
            "max_nodes": 9,
            "cost_per_hour": draw(st.sampled_from([0, 5])),
            "provisioning_delay": draw(DELAYS),
        }
        for name in ("p", "q")
    ]
    events = [
        {"at_us": at, "order_node": name}
        for name, at in draw(
            st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 60_000)), max_size=3)
        )
    ]
    drained = draw(st.lists(st.sampled_from([0, 1, 2]), unique=True, max_size=3))
    # an instance that never found room cannot be drained, so there are no pools then
    with_pools = not drained and draw(st.booleans())
    how = st.sampled_from(["IMMEDIATE", "WAIT", "REDIRECT"])
    for number in drained:
        at, way = draw(st.integers(0, 60_000)), draw(how)
        events.append({"at_us": at, "drain": f"instance_{number}", "policy": way})
    policy = {
        "instance_lifecycle": {
            "loading_delay": draw(DELAYS),
            "warm_up_requests": draw(st.integers(0, 3)),
            "warm_up_ttft_factor": 2,
            "drain_policy": draw(st.sampled_from(["", "IMMEDIATE", "WAIT", "REDIRECT"])),
        },
    }
    if draw(st.booleans()) and not drained:
        policy["autoscaler"] = {
            "interval_us": draw(st.sampled_from([1000, 7000])),
            "scale_up_stabilization_window_us": draw(st.sampled_from([0, 9000])),
            "hpa_scrape_delay": draw(DELAYS),
            "engine": {"name": draw(st.sampled_from(["unlimited", "greedy"]))},
            "analyzer": {
                "scale_up_threshold": draw(st.sampled_from([0.05, 0.5])),
                "scale_down_boundary": draw(st.sampled_from([0.01, 0.04])),
            },
        }
    if with_pools:
        policy["node_pools"] = pools
    else:
        events = [event for event in events if "drain" in event]
    policy["fleet_events"] = events
    policy["tenant_budgets"] = {"t": 0.5}
    return policy


@st.composite
def workloads(draw):
    wanted = requests(draw(st.integers(1, 30)), draw(st.sampled_from([1, 300, 2500])), 12)
    for request in wanted:
        request.tenant = "t"
        if draw(st.integers(0, 3)) == 0:
            request.deadline = request.arrival + draw(st.integers(1, 40_000))
    return wanted


@settings(max_examples=120, deadline=None)
@given(
    policies(),
    workloads(),
    st.sampled_from([8, 30, 1000]),
    st.sampled_from([MAX_INT64, 25_000]),
    st.booleans(),
)
def test_nothing_is_lost(policy, wanted, blocks, horizon, flow_control):
    config = RunConfig(
        model="m",
        hardware="H100",
        latency_model="blackbox",
        alpha_coeffs=(100.0, 0.0, 0.0),
        beta_coeffs=(1000.0, 10.0, 100.0),
        total_kv_blocks=blocks,
        max_num_running_reqs=3,
        num_instances=3,
        flow_control=flow_control,
        saturation_detector="concurrency",
        max_concurrency=4,
        routing_policy="least-loaded",
    )
    policies = _policies(config, policy)
    cluster, fleet, _ = assemble(config, resolve(config), policies, horizon, 1)
    cluster.run(wanted)
    fleet.close()
    metrics = [instance.finish() for instance in cluster.instances]
    outcome = cluster.outcome
    arrived = sum(request.arrival <= horizon for request in wanted)
    entering = sum(len(instance._entering) for instance in cluster.instances)
    assert arrived == (
        sum(m.injected for m in metrics)
        + outcome.unroutable
        + outcome.drained
        + outcome.gateway_depth
        + outcome.in_transit
    )
    # each request is with one instance at most
    ids = [request.id for m in metrics for request in m.requests]
    assert len(ids) == len(set(ids))
    for instance, m in zip(cluster.instances, metrics, strict=True):
        members = instance.batch.members
        assert (instance.store.used_blocks == 0) == (not members)
        if horizon == MAX_INT64:
            assert not members
            assert not instance.waiting.count
            assert not entering
        states = [request.state for request in m.requests]
        assert states.count(COMPLETED) == m.completed
        assert states.count(TIMED_OUT) == m.timed_out
    if horizon == MAX_INT64:
        for index in range(len(cluster.instances)):
            cluster.fleet.update(index)
        assert not cluster.fleet.in_flight.any()
        assert cluster.tenants._in_flight.get("t", 0) == 0
    if fleet.pools is not None:
        held = sum(unit.degree for unit in fleet.units if unit.ended_at < 0)
        total = sum(
            len(n.holders) for ns in fleet.pools.nodes.values() for n in ns if n.ready_at >= 0
        )
        assert sum(fleet.pools.free_gpus().values()) == total - held
