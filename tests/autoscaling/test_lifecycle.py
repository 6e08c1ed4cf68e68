"""Loading, warming up, waiting for room, draining: the reference library's own figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blis_core import log
from blis_core.cluster.delays import NormalDelay
from blis_core.errors import BlisError
from blis_core.rng import PartitionedRandom
from tests.autoscaling.runs import POOL, requests, run

VECTORS = json.loads((Path(__file__).parent / "data" / "lifecycle.json").read_text())
SAMPLES = {key: value for key, value in VECTORS.items() if key.startswith("delay_samples")}


@pytest.mark.parametrize("key", SAMPLES)
def test_delays(key):
    seed, stream = key.removeprefix("delay_samples_mean30_sd20_seed").split("_", 1)
    random = PartitionedRandom(int(seed)).stream(stream)
    delay = NormalDelay(mean=30, stddev=20)
    assert [delay.sample(random) for _ in range(6)] == SAMPLES[key]


def test_a_certain_delay_draws_nothing():
    random = PartitionedRandom(1).stream("x")
    assert NormalDelay(mean=1.5).sample(random) == 1_500_000
    assert NormalDelay(mean=float("inf"), stddev=1).sample(random) == 0
    fresh = PartitionedRandom(1).stream("x")
    fresh.norm()  # the infinite mean has a deviation and so draws
    assert random.norm() == fresh.norm()


TIMES = ("e2e_us", "sched_delay_us", "ttft_us")


def compare(results, expected):
    """Instances and requests as the vector has them."""
    states = {"Active": "active", "Terminated": "terminated", "Draining": "draining"}
    report = results.fleet
    assert [
        (life.id, states[want["state"]], want["gpu"], want["gpus"] or [], want["node"])
        for life, want in zip(report.instances, expected["instances"], strict=True)
    ] == [(i.id, i.state, i.gpu, i.gpus, i.node) for i in report.instances]
    blocks = [
        (b.instance_id, b.completed_requests, round(b.vllm_estimated_duration_s * 1e6))
        for b in results.instances
    ]
    assert blocks == [(i["id"], i["completed"], i["sim_ended"]) for i in expected["instances"]]
    for life, want in zip(report.instances, expected["instances"], strict=True):
        assert life.cost_per_hour == want["cost_per_hour"]
    found = [
        {"handled_by": r.assigned, "id": r.id}
        | {
            key: time
            for key, time in zip(TIMES, (r.e2e, r.scheduling_delay, r.ttft), strict=True)
            if time >= 0
        }
        for r in sorted(results.requests, key=lambda r: r.id)
    ]
    assert found == sorted(expected["requests"], key=lambda r: r["id"])
    assert results.anomalies.rejected_routing == expected["routing_rejections"]
    assert results.cluster.completed_requests == expected["completed"]
    assert sum(max(0, r.ttft) for r in results.requests) == expected["ttft_sum"]


WARM = {"warm_up_requests": 2, "warm_up_ttft_factor": 1.5}


def test_loading_and_warm_up():
    policy = {
        "node_pools": [POOL],
        "instance_lifecycle": {"loading_delay": {"mean": 0.02, "stddev": 0.005}, **WARM},
    }
    compare(run(policy, requests(10, 5000, 5)), VECTORS["loading_and_warmup"])


def test_warm_start_spares_the_first_instances_the_loading():
    lifecycle = {"loading_delay": {"mean": 0.02}, "warm_start_initial_instances": True}
    results = run({"node_pools": [POOL], "instance_lifecycle": lifecycle}, requests(10, 5000, 5))
    assert results.cluster.completed_requests == 10
    assert [life.ready_us for life in results.fleet.instances] == [0, 0]


def test_warm_up_without_pools():
    results = run({"instance_lifecycle": WARM}, requests(8, 1000, 5))
    compare(results, VECTORS["warmup_no_pools"])


def test_waiting_for_room():
    expected = VECTORS["deferred_placement"]
    policy = {
        "node_pools": [
            {**POOL, "gpus_per_node": 1},
            {
                **POOL,
                "name": "b",
                "gpu_type": "A100-80",
                "initial_nodes": 0,
                "cost_per_hour": 7,
                "provisioning_delay": {"mean": 0.03, "stddev": 0.01},
            },
        ],
        "fleet_events": [{"at_us": 0, "order_node": "b"}],
    }
    results = run(policy, requests(12, 5000, 5), num_instances=4)
    compare(results, expected)
    assert results.fleet.pending == expected["still_pending"]
    ready = [event for event in results.fleet.events if event.what == "node ready"]
    assert [(e.time, e.name) for e in ready] == [(expected["node_ready_at"], expected["node"])]


@pytest.mark.parametrize("how", ["IMMEDIATE", "WAIT", "REDIRECT"])
def test_draining(how):
    expected = VECTORS[f"drain_{how}"]
    policy = {
        "node_pools": [POOL],
        "fleet_events": [{"at_us": 6200, "drain": "instance_0", "policy": how}],
    }
    results = run(policy, requests(16, 500, 20), max_num_running_reqs=2)
    compare(results, expected)
    assert results.anomalies.lost_in_drain == 16 - expected["completed"]
    released = results.fleet.instances[0].released_us
    # who runs at the time still does so to the end, but IMMEDIATE takes the GPUs away at once
    assert released == 6200 if how == "IMMEDIATE" else 6200 < released <= 79000


def test_redirected_requests_take_their_time_limit_with_them():
    policy = {"fleet_events": [{"at_us": 6200, "drain": "instance_0", "policy": "REDIRECT"}]}
    wanted = requests(16, 500, 20, deadline=60_000)
    results = run(policy, wanted, max_num_running_reqs=2)
    assert results.cluster.completed_requests + results.anomalies.timed_out == 16
    assert results.instances[0].timed_out_requests == 0
    assert {r.id for r in results.requests} == {r.id for r in wanted}
    assert len(results.requests) == 16


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"drain": "instance_9"}, r"fleet_events\[0\]: there is no instance 'instance_9'"),
        ({"order_node": "b"}, r"fleet_events\[0\].order_node: must be the name of a node pool"),
        ({"drain_node": "a-7"}, r"fleet_events\[0\]: unknown node 'a-7'"),
    ],
)
def test_events_that_cannot_happen(event, message):
    policy = {"node_pools": [POOL], "fleet_events": [{"at_us": 5, **event}]}
    with pytest.raises(BlisError, match=message):
        run(policy, requests(3, 10, 2))


def test_what_has_been_drained_before_is_left_alone(capsys):
    log.set_level("warn")
    twice = [{"at_us": at, "drain": "instance_1"} for at in (5, 6)]
    results = run({"fleet_events": twice}, requests(3, 10, 2))
    assert "fleet_events[1]: instance_1 was drained before" in capsys.readouterr().err
    assert results.instances[0].completed_requests == 3


def test_an_instance_that_is_loading_or_waiting_for_room_is_given_up():
    policy = {
        "node_pools": [POOL],
        "instance_lifecycle": {"loading_delay": {"mean": 0.02}},
        "fleet_events": [
            {"at_us": 10, "drain": "instance_1"},
            {"at_us": 20, "drain": "instance_2"},
            {"at_us": 30, "order_node": "a"},
        ],
    }
    results = run(policy, requests(6, 9000, 2), num_instances=4)
    lives = {life.id: (life.state, life.ready_us) for life in results.fleet.instances}
    assert lives == {
        "instance_0": ("active", 20_000),
        "instance_1": ("terminated", -1),
        "instance_3": ("active", 20_030),
    }
    assert results.fleet.pending == []


SCALED_DOWN = {
    "node_pools": [POOL],
    "autoscaler": {"interval_us": 30_000, "scale_down_stabilization_window_us": 30_000},
}
"""Two idle instances: the first tick that may act is at 30 ms, and drains instance_0."""


@pytest.mark.parametrize(
    ("arrival", "deadline", "released"),
    [
        (1, 0, -1),  # idle, and nothing to come: it keeps its GPUs (reference quirk 07-Q18)
        (1, 29_999, -1),  # its time limit has passed
        (1, 30_000, 30_000),  # the cluster acts first
        (1, 70_000, 70_000),  # an event, although nothing happens
        (27_000, 0, 30_200),  # its last step has begun: the end of it is an event
        (27_000, 30_050, 30_050),
        (29_000, 0, 31_100),  # in prefill: its last step begins
        (29_950, 0, 32_050),  # on its way to the queue: the same
        (30_000, 0, 30_000),  # just arrived: judged idle (reference quirk 07-Q17)
    ],
)
def test_what_releases_the_gpus_of_an_instance(arrival, deadline, released):
    one, other = requests(2, 0, 2)
    one.arrival, one.deadline, other.arrival = arrival, deadline, 30_001
    results = run(SCALED_DOWN, [one, other])
    assert results.cluster.completed_requests == 2
    assert (one.assigned, other.assigned) == ("instance_0", "instance_1")
    life = results.fleet.instances[0]
    assert life.released_us == released
    end = max(one.arrival + one.e2e, other.arrival + other.e2e)
    assert life.gpu_seconds == pytest.approx((min(released, end) if released >= 0 else end) / 1e6)


def test_an_instance_that_has_just_been_sent_a_request_is_judged_idle_without_queueing_too():
    one, other = requests(2, 0, 2)
    one.arrival, other.arrival = 30_000, 30_001
    results = run(SCALED_DOWN, [one, other], alpha_coeffs=(0.0, 0.0, 0.0))
    assert one.assigned == "instance_0"
    assert results.fleet.instances[0].released_us == 30_000
    assert results.cluster.completed_requests == 2


def test_a_drained_node_goes_when_its_last_instance_goes():
    policy = {
        "node_pools": [POOL],
        "fleet_events": [
            {"at_us": 10, "drain_node": "a-0"},
            {"at_us": 20, "drain": "instance_0"},
            {"at_us": 30, "drain": "instance_1"},
            {"at_us": 40, "order_node": "a"},
        ],
    }
    results = run(policy, requests(4, 1, 5))
    assert results.cluster.completed_requests == 4
    assert [life.state for life in results.fleet.instances] == ["terminated"] * 2
