"""What users write: sections of the policy file, the option, mistakes, and what Python adds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from blis_core import log
from blis_core.api import BlisError, simulate
from blis_core.cli.main import main
from tests.autoscaling.runs import POOL, requests, run

MODEL = "qwen/qwen3-14b"
FAST = {"model": MODEL, "rate": 40, "num_requests": 60, "seed": 3}
FIXED = {**FAST, "latency_model": "blackbox", "alpha_coeffs": (100.0, 0.0, 0.0)}
FIXED["beta_coeffs"] = (1000.0, 10.0, 100.0)


@pytest.fixture(autouse=True)
def warnings_are_shown():
    log.set_level("warn")


def pool(**changes):
    return {**POOL, **changes}


# -------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"autoscaler": {"interval_us": 0.5}}, "autoscaler.interval_us: must be 0 or at least 1"),
        ({"node_pools": [pool(), pool()]}, r"node_pools\[1\].name: must be another name"),
        (
            {"autoscaler": {"engine": {"name": "greed"}}},
            "autoscaler.engine.name: unknown autoscaler engine 'greed', did you mean 'greedy'",
        ),
        (
            {"autoscaler": {"interval_us": 9, "analyzer": {"options": {"x": 1}}}},
            "autoscaler analyzer saturation has no options, but got x",
        ),
        ({"autoscaler": {"engin": {}}}, "autoscaler: unknown key 'engin'; did you mean 'engine'"),
        (
            {"instance_lifecycle": {"warm_up_ttft_factor": 0.5}},
            "warm_up_ttft_factor: must be finite and at least 1",
        ),
        ({"instance_lifecycle": {"warm_up_requests": -1}}, "warm_up_requests: must be at least 0"),
        (
            {"instance_lifecycle": {"drain_policy": "WAITS"}},
            "drain_policy: must be one of IMMEDIATE, WAIT, REDIRECT",
        ),
        ({"instance_lifecycle": {"loading_delay": {"mean": -1}}}, "loading_delay.mean: must be"),
        ({"models": [{"instances": 1}]}, r"models\[0\].model: must be given"),
        ({"models": [{"model": "a/b", "instances": 0}]}, r"models\[0\].instances: must be at"),
        ({"models": [{"model": "a/b"}, {"model": "A/B"}]}, r"models\[1\].model: must be another"),
        ({"models": [{"model": "a/b", "tp": -1}]}, r"models\[0\].tp: must be at least 0"),
        ({"models": [{"model": "a/b", "max_model_len": -1}]}, r"models\[0\].max_model_len: must"),
        ({"models": [{"model": MODEL}]}, "models: qwen/qwen3-14b is that of --model already"),
        ({"fleet_events": [{"at_us": 1}]}, r"fleet_events\[0\]: must have one of drain, .* none"),
        (
            {"fleet_events": [{"drain": "x", "order_node": "y"}]},
            r"fleet_events\[0\]: must have one of .* has drain and order_node",
        ),
        ({"fleet_events": [{"at_us": -1, "drain": "x"}]}, r"fleet_events\[0\].at_us: must be at"),
        (
            {"node_pools": [pool()], "fleet_events": [{"order_node": "a", "policy": "WAIT"}]},
            r"fleet_events\[0\].policy: belongs to drain only",
        ),
        ({"fleet_events": [{"drain": "x", "policy": "wait"}]}, r"fleet_events\[0\].policy: must"),
        (
            {
                "node_pools": [pool(max_nodes=2)],
                "fleet_events": [{"order_node": "a"}, {"order_node": "a"}],
            },
            r"fleet_events\[1\].order_node: pool a has at most 2 nodes; raise max_nodes",
        ),
        (
            {"node_pools": [pool(gpu_type="H101", apply_hardware=True)]},
            "apply_hardware of node pool a: .*H101",
        ),
    ],
)
def test_mistakes_in_the_file(policy, message):
    with pytest.raises(BlisError, match=message):
        simulate(**FAST, policy=policy)


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "0.5"])
def test_mistakes_in_the_option(value, capsys):
    code = main(f"run --model {MODEL} --model-autoscaler-interval-us {value}".split())
    shown = capsys.readouterr()
    assert code == 1
    assert not shown.out
    assert shown.err.startswith("blis: error: --model-autoscaler-interval-us: must be 0, or finite")


def test_policy_and_file_exclude_each_other():
    with pytest.raises(BlisError, match="policy: excludes policy_config"):
        simulate(**FAST, policy={}, policy_config="x.yaml")


@pytest.mark.parametrize("how", ["IMMEDIATE", "REDIRECT"])
def test_halves_of_requests_cannot_be_moved(how):
    pools = {"num_instances": 2, "prefill_instances": 1, "decode_instances": 1}
    with pytest.raises(BlisError, match=f"drain policy {how} does not go together with pools"):
        simulate(**FAST, **pools, policy={"instance_lifecycle": {"drain_policy": how}})


def test_pools_are_those_of_one_model():
    pools = {"num_instances": 2, "prefill_instances": 1, "decode_instances": 1}
    with pytest.raises(BlisError, match="models does not go together with pools"):
        simulate(**FAST, **pools, policy={"models": [{"model": "a/b", "total_kv_blocks": 9}]})


# ------------------------------------------------------------------------------ the interval


def looks(policy, **options):
    report = simulate(**FIXED, num_instances=2, policy=policy, **options).fleet
    return report and report.looks


def test_the_option_replaces_the_interval_only(capsys):
    section = {"interval_us": 50_000, "scale_down_stabilization_window_us": 1e12}
    policy = {"autoscaler": section}
    often, rarely = (looks(policy, model_autoscaler_interval_us=float(i)) for i in (10_000, 90_000))
    assert often > looks(policy) > rarely > 0
    assert looks(policy, model_autoscaler_interval_us=0.0) is None
    drained = simulate(**FIXED, num_instances=2, policy=policy).fleet.ticks
    assert drained == []  # the window is far too long
    capsys.readouterr()
    section["interval_us"] = 0
    ignored = simulate(
        **FIXED, num_instances=2, policy=policy, model_autoscaler_interval_us=50_000.0
    )
    assert ignored.fleet.ticks  # no window any more
    assert "policy: autoscaler has no interval_us and is ignored" in capsys.readouterr().err


# ---------------------------------------------------------------------- what has no effect


def test_gpu_types_are_labels_unless_hardware_is_to_be_applied(capsys):
    plain = simulate(**FAST)
    for gpu, warned in (("H100", False), ("L40S", True)):
        capsys.readouterr()
        results = simulate(**FAST, policy={"node_pools": [pool(gpu_type=gpu)]})
        assert results.cluster == plain.cluster
        assert results.fleet.instances[0].gpu == gpu
        told = capsys.readouterr().err
        assert ("L40S changes labels and costs only" in told) == warned
        assert told.count("node_pools") == warned


def test_applied_hardware_is_that_of_the_pool(capsys):
    there = {"node_pools": [pool(gpu_type="L40S", apply_hardware=True, gpu_memory_gib=48)]}
    moved, native = simulate(**FAST, policy=there), simulate(**FAST, hardware="L40S")
    assert moved.cluster == native.cluster
    assert moved.cluster != simulate(**FAST).cluster
    assert "labels" not in capsys.readouterr().err


def test_applied_memory_sizes_the_cache():
    def peak(memory, **options):
        policy = {"node_pools": [pool(apply_hardware=True, gpu_memory_gib=memory)]}
        return simulate(**{**FAST, "rate": 4000}, policy=policy, **options).cluster

    small, large = peak(37), peak(80)
    assert small.preemption_count > 0 == large.preemption_count
    assert peak(37, total_kv_blocks=20_000).preemption_count == 0


def test_each_pool_applies_its_own_hardware():
    policy = {
        "node_pools": [
            pool(gpus_per_node=1, apply_hardware=True),
            pool(
                name="b", gpu_type="L40S", gpus_per_node=1, gpu_memory_gib=48, apply_hardware=True
            ),
        ]
    }
    fast, slow = simulate(**FAST, num_instances=2, policy=policy).instances
    assert slow.itl_mean_ms > 2 * fast.itl_mean_ms


# ----------------------------------------------------------------------------- several models


def test_requests_go_to_instances_of_their_model():
    wanted = requests(30, 1000, 4)
    for number, request in enumerate(wanted):
        request.model = ("m", "n", "", "o")[number % 4]
    models = [{"model": "N", "instances": 2, "total_kv_blocks": 1000}]
    results = run({"models": models}, wanted, num_instances=1, routing_policy="least-loaded")
    where = {}
    for request in results.requests:
        where.setdefault(request.model, set()).add(request.assigned)
    assert where == {
        "m": {"instance_0"},
        "n": {"instance_1", "instance_2"},
        "": {"instance_0", "instance_1", "instance_2"},
    }
    assert results.anomalies.rejected_routing == sum(r.model == "o" for r in wanted)
    assert [life.model for life in results.fleet.instances] == ["m", "n", "n"]


def test_models_have_step_times_and_memory_of_their_own():
    llama = "meta-llama/llama-3.1-8b-instruct"
    policy = {"models": [{"model": llama, "hardware": "H100", "tp": 2}]}
    results = simulate(**FAST, policy=policy, routing_policy="round-robin")
    mine, other = results.instances
    assert mine.itl_mean_ms != other.itl_mean_ms
    assert results.config.model == MODEL


def test_a_model_may_ask_for_a_kind_of_node():
    policy = {
        "node_pools": [pool(), pool(name="b", gpu_type="L40S")],
        "models": [
            {"model": "n", "hardware": "L40S", "total_kv_blocks": 500},
            {"model": "o", "hardware": "H200", "total_kv_blocks": 500},
        ],
    }
    results = run(policy, requests(8, 1000, 4), num_instances=1)
    assert [(i.id, i.node) for i in results.fleet.instances] == [
        ("instance_0", "a-0"),
        ("instance_1", "b-0"),
    ]
    assert results.fleet.pending == ["instance_2"]


def test_each_model_is_scaled_for_itself():
    policy = {
        "node_pools": [pool(gpus_per_node=8)],
        "models": [{"model": "n", "total_kv_blocks": 1000}],
        "autoscaler": {"interval_us": 5000, "analyzer": {"avg_input_tokens": 4000}},
    }
    wanted = requests(60, 200, 30)
    for request in wanted:
        request.model = "n"
    report = run(policy, wanted, num_instances=1).fleet
    started = [life for life in report.instances if life.id.startswith("autoscale-")]
    assert started
    assert {life.model for life in started} == {"n"}
    assert all(life.id.startswith("autoscale-n-0000") for life in started)


# --------------------------------------------------------------------------------- the stages


def test_stages_are_chosen_by_name():
    def started(engine):
        policy = {
            "node_pools": [pool(gpus_per_node=8)],
            "autoscaler": {
                "interval_us": 20_000,
                "engine": {"name": engine},
                "analyzer": {"avg_input_tokens": 4000},
            },
        }
        report = run(policy, requests(60, 200, 30), num_instances=1).fleet
        return [life.placed_us for life in report.instances[1:]]

    one, many = started("unlimited"), started("greedy")
    assert len(set(one)) == len(one) > 1  # one at a time
    assert many.count(many[0]) > 1


def test_an_idle_instance_keeps_its_gpus_unless_a_drain_policy_says_otherwise():
    def lives(**lifecycle):
        policy = {
            "node_pools": [pool()],
            "autoscaler": {"interval_us": 20_000},
            "instance_lifecycle": lifecycle,
        }
        return run(policy, requests(20, 5000, 4)).fleet.instances

    kept, _ = lives()
    assert (kept.state, kept.released_us) == ("draining", -1)
    gone, _ = lives(drain_policy="WAIT")
    assert (gone.state, gone.released_us) == ("terminated", 0)


# -------------------------------------------------------------------------------- the output


def test_the_fleet_is_in_json_and_on_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = {
        "node_pools": [pool(gpus_per_node=1)],
        "autoscaler": {"interval_us": 20_000},
        "fleet_events": [{"at_us": 700_000, "drain": "instance_0", "policy": "IMMEDIATE"}],
    }
    (tmp_path / "p.yaml").write_text(json.dumps(policy))
    line = f"run --model {MODEL} --rate 400 --num-instances 2 --policy-config p.yaml"
    line += " --max-num-running-reqs 4 --log error"
    assert not main([*line.split(), "--output", "json"])
    found = json.loads(capsys.readouterr().out)
    fleet = found["fleet"]
    assert fleet["pending"] == ["instance_1"]
    assert fleet["instances"][0]["node"] == "a-0"
    assert {"time": 0, "what": "no room", "name": "instance_1", "detail": ""} in fleet["events"]
    assert found["anomalies"]["lost_in_drain"] > 0
    life = fleet["instances"][0]
    assert fleet["cost"] == pytest.approx(12 * life["gpu_seconds"] / 3600)
    assert all(tick["passed"] for tick in fleet["ticks"])
    assert not main([*line.split(), "--output", "table"])
    table = capsys.readouterr().out
    for part in ("Fleet", "1 at most, 0 started, 1 drained", "Lost in drain", "Without room"):
        assert part in table
    assert not main([*line.split(), "--output", "text"])
    text = capsys.readouterr().out
    assert f"Lost in Drain: {found['anomalies']['lost_in_drain']}" in text


def test_replay_has_a_fleet_if_the_file_says_so(tmp_path, capsys):
    trace = str(tmp_path / "t")
    assert not main(
        f"run --model {MODEL} --rate 40 --num-requests 60 --seed 3 --trace-output {trace}".split()
    )
    replay = {"model": MODEL, "num_instances": 2, "horizon": 60_000_000}
    replay |= {"trace_header": f"{trace}.yaml", "trace_data": f"{trace}.csv"}
    policy = {"node_pools": [pool()], "autoscaler": {"interval_us": 90_000}}
    capsys.readouterr()
    ignored = simulate(**replay, policy=policy, model_autoscaler_interval_us=0.5)
    assert ignored.fleet is None
    assert "policy: replay ignores node_pools, autoscaler (" in capsys.readouterr().err
    policy["fleet_in_replay"] = True
    counts = simulate(**replay, policy=policy)
    assert [life.state for life in counts.fleet.instances] == ["draining", "active"]
    assert counts.cluster.completed_requests == 60
    off = simulate(**replay, policy=policy, model_autoscaler_interval_us=0.0)
    assert (off.fleet.looks, off.cluster) == (0, ignored.cluster)
    with pytest.raises(BlisError, match="--model-autoscaler-interval-us: must be 0"):
        simulate(**replay, policy=policy, model_autoscaler_interval_us=0.5)


def test_a_session_is_cut_when_its_instance_goes():
    events = [{"at_us": 300_000, "drain": "instance_0", "policy": "IMMEDIATE"}]
    results = simulate(
        model=MODEL,
        concurrency=12,
        num_requests=40,
        num_instances=2,
        max_num_running_reqs=2,
        policy={"fleet_events": events},
    )
    lost = results.anomalies.lost_in_drain
    assert 0 < lost == results.sessions["cut"]
    assert results.cluster.completed_requests == 40 - lost


def test_a_fixed_fleet_loads_nothing_of_this():
    code = (
        "import sys; from blis_core.api import simulate; simulate(model='qwen/qwen3-14b');"
        "print([m for m in sys.modules if m.startswith('blis_core.autoscaling')"
        " or m in ('blis_core.cluster.elastic', 'blis_core.cluster.nodes')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_fixed_fleet_says_nothing(capsys):
    results = simulate(**FAST)
    assert results.fleet is None
    assert results.anomalies.lost_in_drain == 0
