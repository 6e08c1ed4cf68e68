"""Files written by run and replay, and the JSON document."""

import json
from pathlib import Path

from blis_core.cluster.decisions import DecisionLog
from blis_core.config import RunConfig
from blis_core.results import as_json, metrics_file, replay_file
from blis_core.results.aggregate import build_results
from tests.results.records import instance, record, recorded_case, with_latencies


def test_recorded_metrics_file(tmp_path: Path) -> None:
    metrics, written, _ = recorded_case("timeout-queued")
    with_latencies(metrics, {7111: 10, 10921: 1})
    path = tmp_path / "metrics.json"
    metrics_file.write(str(path), build_results([metrics], several=False))
    assert path.read_bytes() == written.encode()


def test_recorded_requests_with_classes() -> None:
    metrics, written, _ = recorded_case("sched-slo-based-fcfs")
    text = metrics_file.render(build_results([metrics], several=False))
    start = '"requests": ['
    assert text[text.index(start) :] == written[written.index(start) :]


def test_every_key_of_a_request() -> None:
    full = record(
        "session_<1>",
        1,
        prompt=3,
        output=9,
        ttft=1000,
        e2e=4001,
        delay=1,
        slo_class="batch",
        tenant="a & b",
        model="m",
    )
    full.length_capped = True
    full.itl_sum, full.itl_count = 3001, 4
    full.gateway_enqueue, full.gateway_dispatch = 5, 1505
    text = metrics_file.render(build_results([instance(full)], several=False))
    assert text.endswith(
        '  "requests": [\n'
        "    {\n"
        '      "arrived_at": 0.000001,\n'
        '      "requestID": "session_\\u003c1\\u003e",\n'
        '      "num_prefill_tokens": 3,\n'
        '      "num_decode_tokens": 9,\n'
        '      "ttft_ms": 1,\n'
        '      "itl_ms": 1.0003333333333333,\n'
        '      "e2e_ms": 4.001,\n'
        '      "scheduling_delay_ms": 0.001,\n'
        '      "slo_class": "batch",\n'
        '      "tenant_id": "a \\u0026 b",\n'
        '      "handled_by": "instance_0",\n'
        '      "model": "m",\n'
        '      "length_capped": true,\n'
        '      "gateway_queue_delay_ms": 1.5\n'
        "    }\n"
        "  ]\n"
        "}"
    )


def test_order_is_by_arrival_then_id_as_text() -> None:
    metrics = instance(
        record("request_2", 5), record("request_10", 5), record("request_1", 5), record("z", 4)
    )
    text = metrics_file.render(build_results([metrics], several=False))
    ids = [request["requestID"] for request in json.loads(text)["requests"]]
    assert ids == ["z", "request_1", "request_10", "request_2"]


def test_no_requests_no_list() -> None:
    text = metrics_file.render(build_results([], several=False))
    assert "requests" not in json.loads(text)
    assert text.endswith("0\n}")


def test_mean_inter_token_latency() -> None:
    assert record(ttft=5).mean_itl_us() == 0.0
    assert record(ttft=5, e2e=25, output=5).mean_itl_us() == 5.0
    assert record(ttft=5, e2e=5, output=1).mean_itl_us() == 0.0
    assert record(ttft=5, e2e=5, output=0).mean_itl_us() == 0.0


def test_replay_file(tmp_path: Path) -> None:
    metrics = instance(
        record("request_10", ttft=5, e2e=9, prompt=3, output=2),
        record("request_-3", ttft=6, e2e=6),
        record("request_4", ttft=6),
        record("session_a_round_1_2", ttft=6, e2e=7),
        record("request_1x", ttft=6, e2e=7),
    )
    results = build_results([metrics], several=False)
    replay_file.write(str(tmp_path / "r.json"), results)
    text = (tmp_path / "r.json").read_text()
    assert [row["request_id"] for row in json.loads(text)] == [-3, 10]
    assert text.endswith(
        "  {\n"
        '    "request_id": 10,\n'
        '    "ttft_us": 5,\n'
        '    "e2e_us": 9,\n'
        '    "input_tokens": 3,\n'
        '    "output_tokens": 2\n'
        "  }\n"
        "]"
    )
    assert replay_file.render(build_results([], several=False)) == "[]"


def test_json_document() -> None:
    metrics, _, _ = recorded_case("timeout-queued")
    results = build_results(
        [with_latencies(metrics, {7111: 10, 10921: 1})],
        several=False,
        config=RunConfig(model="acme/small", alpha_coeffs=(1.0,)),
        resolution=[("total_kv_blocks", "64", "--total-kv-blocks")],
        workload_seed=78,
    )
    text = as_json.render(results)
    document = json.loads(text)
    assert text.endswith("}\n")
    assert document["cluster"]["e2e_p50_ms"] == 2996.675
    assert document["config"]["alpha_coeffs"] == [1.0]
    assert document["config"]["rate"] is None
    assert document["workload_seed"] == 78
    assert document["resolution"][0]["origin"] == "--total-kv-blocks"
    assert document["anomalies"]["timed_out"] == 39
    assert len(document["requests"]) == 40
    assert document["requests"][0]["e2e_us"] is None
    done = [request for request in document["requests"] if request["e2e_us"] is not None]
    assert [request["mean_itl_us"] for request in done] == [82031 / 11]
    assert json.loads(as_json.render(build_results([], several=False)))["requests"] == []


def test_what_the_cluster_decided_in_the_json_document() -> None:
    held = record("request_0", ttft=1000, e2e=9000)
    held.gateway_enqueue, held.gateway_dispatch = 10, 35
    decisions = DecisionLog()
    decisions.admission(held, 0, None)
    results = build_results(
        [instance(held, record("request_1"), sim_ended=10**6)],
        several=False,
        shed_by_class={"batch": 2},
        gateway_shed=3,
        fitness_weights={"p50_ttft": 2.0},
        decisions=decisions,
    )
    document = json.loads(as_json.render(results))
    assert document["fitness"] == {"score": 1.0, "components": {"p50_ttft": 0.5}}
    assert document["trace"]["admitted"] == document["trace"]["total"] == 1
    assert document["anomalies"]["shed_by_class"] == {"batch": 2}
    assert document["anomalies"]["gateway_shed"] == 3
    assert [request["gateway_delay_us"] for request in document["requests"]] == [25, None]
    plain = json.loads(as_json.render(build_results([], several=False)))
    assert plain["fitness"] is plain["trace"] is None
