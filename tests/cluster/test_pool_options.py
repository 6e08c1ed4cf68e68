"""Options of pools, the section ``pools`` of a policy file, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blis_core.api import BlisError, RunConfig, simulate
from blis_core.cli.main import main

BASE = {
    "model": "qwen/qwen3-14b",
    "hardware": "H100",
    "tp": 1,
    "latency_model": "roofline",
    "num_requests": 12,
    "rate": 20,
    "num_instances": 2,
    "prompt_tokens": 300,
    "output_tokens": 30,
    "output_tokens_stdev": 10,
}
POOLS = {"prefill_instances": 1, "decode_instances": 1, "pd_decider": "always"}
BLACKBOX = {
    "latency_model": "blackbox",
    "alpha_coeffs": (100.0, 0.0, 0.0),
    "beta_coeffs": (1000.0, 10.0, 100.0),
    "total_kv_blocks": 500,
}


def refused(**options: object) -> str:
    with pytest.raises(BlisError) as caught:
        simulate(**{**BASE, **options})
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prefill_instances": -1}, "--prefill-instances: must be at least 0"),
        ({"decode_instances": -1}, "--decode-instances: must be at least 0"),
        ({"prefill_instances": 1}, "--prefill-instances: works only together with --decode"),
        ({"decode_instances": 1}, "--decode-instances: works only together with --prefill"),
        ({"prefill_instances": 2, "decode_instances": 1}, "--num-instances: 2 are fewer"),
        ({"pd_decider": "nope"}, "--pd-decider: unknown pd decider 'nope'"),
        ({"pd_decider": "prefix-threshold", "pd_prefix_threshold": -1}, "at least 0, got -1"),
        ({"pd_transfer_contention": True}, "--pd-transfer-contention: there are no transfers"),
        ({"prefill_routing_scorers": "bad"}, "--prefill-routing-scorers: 'bad'"),
        ({"decode_routing_scorers": "queue-depth:0"}, "--decode-routing-scorers"),
        ({**POOLS, "pd_transfer_bandwidth": 0.0}, "--pd-transfer-bandwidth: must be finite"),
        ({**POOLS, "pd_transfer_bandwidth": float("inf")}, "--pd-transfer-bandwidth"),
        ({**POOLS, "pd_transfer_base_latency": -0.1}, "--pd-transfer-base-latency"),
        ({**POOLS, "pd_transfer_base_latency": float("nan")}, "--pd-transfer-base-latency"),
        ({**POOLS, "prefill_tp": 0}, "--prefill-tp: must be greater than 0"),
        ({**POOLS, "decode_tp": -2}, "--decode-tp: must be greater than 0"),
        ({**POOLS, "prefill_tp": 3}, "--prefill-tp: 3 GPUs cannot share"),
        ({**POOLS, "decode_max_model_len": 0}, "--decode-max-model-len: must be greater than 0"),
        ({**POOLS, "decode_max_model_len": 10**6}, "--decode-max-model-len: 1000000 tokens do"),
        ({**POOLS, "prefill_latency_model": "nope"}, "--prefill-latency-model: unknown latency"),
        ({**POOLS, **BLACKBOX, "decode_latency_model": "roofline"}, "needs figures of the GPU"),
    ],
)
def test_what_is_refused(options: dict[str, object], says: str) -> None:
    assert says in refused(**options)


def test_an_empty_decider_never_does() -> None:
    results = simulate(**{**BASE, **POOLS, "pd_decider": ""})
    assert results.pd is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pd_decider": "always", "prefill_tp": -5}, "--prefill-tp, --pd-decider have no effect"),
        ({**POOLS, "pd_prefix_threshold": 7}, "--pd-prefix-threshold has no effect"),
        ({**POOLS, "prefill_hardware": "L40S"}, "--prefill-hardware: the GPU of a pool changes"),
        ({**POOLS, "total_kv_blocks": 5000, "decode_tp": 2}, "no effect on the decode pool"),
        ({**POOLS, "decode_hardware": "NoSuch"}, "KV cache of the decode pool stays as large"),
    ],
)
def test_what_has_no_effect_is_said(options, says, capsys) -> None:
    simulate(**{**BASE, **options})
    lines = [line for line in capsys.readouterr().err.splitlines() if says in line]
    assert len(lines) == 1


def test_replay_ignores_all_of_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    simple = "run --model qwen/qwen3-14b --num-requests 3 --trace-output t"
    assert main(simple.split()) == 0
    capsys.readouterr()
    replay = "replay --model qwen/qwen3-14b --trace-header t.yaml --trace-data t.csv"
    assert main(replay.split()) == 0
    plain = capsys.readouterr()
    odd = " --prefill-instances -3 --pd-decider nope --prefill-routing-scorers bad --decode-tp -1"
    assert main((replay + odd + " --pd-transfer-contention").split()) == 0
    shown = capsys.readouterr()
    assert shown.out == plain.out
    assert "replay runs all requests in one piece" in shown.err


def test_exported_traces_call_them_incomplete(tmp_path, monkeypatch, capsys) -> None:
    """Reference quirk 07-Q21; requests in one piece are there as they went."""
    monkeypatch.chdir(tmp_path)
    argv = "run --model qwen/qwen3-14b --num-requests 6 --num-instances 3 --prefill-instances 1"
    argv += " --decode-instances 1 --pd-decider prefix-threshold --trace-output t"
    assert main(argv.split()) == 0
    text = Path("t.csv").read_text()
    assert "incomplete" in text
    assert ",ok," in text
    capsys.readouterr()


def test_the_document_and_the_table_tell_of_the_pools(capsys) -> None:
    argv = "run --model qwen/qwen3-14b --num-requests 6 --num-instances 2 --prefill-instances 1"
    argv += " --decode-instances 1 --pd-decider always --pd-transfer-contention --output "
    assert main((argv + "json").split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pd"]["disaggregated"] == 6
    assert found["pd"]["peak_transfers"] >= 1
    assert main((argv + "table").split()) == 0
    shown = capsys.readouterr().out
    assert "Disaggregated" in shown
    assert "Transfers at once" in shown


# ---------------------------------------------------------------------------- the policy file


def with_pools(tmp_path: Path, text: str, **options: object):  # type: ignore[no-untyped-def]
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    return simulate(**{**BASE, **POOLS, **options, "policy_config": str(path)})


def times(results) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Mean TTFT of the prefill instance and mean ITL of the decode instance."""
    prefill, decode = results.instances
    return prefill.ttft_mean_ms, decode.itl_mean_ms


def test_gpus_of_the_file_change_step_times_of_their_pool_only(tmp_path) -> None:
    plain = times(simulate(**{**BASE, **POOLS}))
    prefill, decode = times(with_pools(tmp_path, "pools: {decode: {hardware: L40S}}"))
    assert prefill == plain[0]
    assert decode > 1.5 * plain[1]
    prefill, decode = times(with_pools(tmp_path, "pools: {prefill: {hardware: A100-80}}"))
    assert prefill > 1.2 * plain[0]
    # who is batched with whom depends on when prompts arrive
    assert decode == pytest.approx(plain[1], rel=0.1)


def test_a_pool_of_the_file_is_a_deployment_of_its_own(tmp_path) -> None:
    """Its step times and memory are those of a run in one piece with the same settings."""
    one = {f"output_tokens{suffix}": 1 for suffix in ("", "_stdev", "_min", "_max")}
    alone = simulate(**BASE | one | {"hardware": "A100-80", "tp": 2, "num_instances": 1})
    pool = with_pools(tmp_path, "pools: {prefill: {hardware: A100-80, tp: 2}}", **one)
    assert pool.instances[0].ttft_mean_ms == alone.cluster.ttft_mean_ms


def test_the_latency_model_of_the_file_gets_all_that_it_needs(tmp_path) -> None:
    """Even if that of the others works without figures of the GPU."""
    text = "pools: {decode: {latency_model: roofline, total_kv_blocks: 300, max_model_len: 2048}}"
    plain = simulate(**{**BASE, **POOLS, **BLACKBOX})
    mixed = with_pools(tmp_path, text, **BLACKBOX)
    assert times(mixed)[0] == times(plain)[0]
    assert times(mixed)[1] != times(plain)[1]


def test_sizes_of_the_file_take_effect(tmp_path) -> None:
    small = with_pools(tmp_path, "pools: {decode: {total_kv_blocks: 40, max_model_len: 640}}")
    assert small.pd.dropped_at_decode > 0
    short = with_pools(tmp_path, "pools: {prefill: {max_model_len: 200}}")
    assert short.instances[0].dropped_unservable > 0


def test_without_pools_the_section_has_no_effect(tmp_path, capsys) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("pools: {decode: {hardware: L40S}}")
    assert simulate(**BASE, policy_config=str(path)).cluster == simulate(**BASE).cluster
    assert "the section pools of the policy file have no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pools: {prefil: {tp: 1}}", "pools: unknown key 'prefil'; did you mean 'prefill'?"),
        ("pools: {decode: {gpu: L40S}}", "pools.decode: unknown key 'gpu'"),
        ("pools: {decode: {tp: two}}", "pools.decode.tp: must be a whole number"),
        ("pools: {decode: {tp: 0}}", "pools.decode.tp: must be at least 1"),
        ("pools: {prefill: {total_kv_blocks: 0}}", "pools.prefill.total_kv_blocks: must be"),
        ("pools: {prefill: {max_model_len: -1}}", "pools.prefill.max_model_len: must be"),
        ("pools: {prefill: {hardware: ''}}", "pools.prefill.hardware: must be the name"),
        ("pools: {prefill: {latency_model: x}}", "pools.prefill.latency_model: unknown latency"),
        ("pools: {prefill: {hardware: NoSuch}}", "pools.prefill of the policy file: "),
        ("pools: [1]", "pools: must be a mapping"),
    ],
)
def test_mistakes_in_the_section(text: str, says: str, tmp_path) -> None:
    with pytest.raises(BlisError) as caught:
        with_pools(tmp_path, text)
    assert says in str(caught.value)


def test_options_and_section_of_one_pool_exclude_each_other(tmp_path) -> None:
    text = "pools: {prefill: {hardware: A100-80}}"
    with pytest.raises(BlisError, match=r"--prefill-tp: pools\.prefill of the policy file.*set tp"):
        with_pools(tmp_path, text, prefill_tp=2)
    assert with_pools(tmp_path, text, decode_tp=2).pd.disaggregated == 12


def test_the_configuration_shows_what_was_asked_for() -> None:
    config = RunConfig(**{**BASE, **POOLS, "prefill_tp": 2})
    assert config.disaggregated
    assert config.pool_flags() == ["--prefill-tp"]
