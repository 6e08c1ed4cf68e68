"""From a record to the requests and the engine that are simulated."""

from __future__ import annotations

from itertools import pairwise

import pytest

from blis_core.api import BlisError, ReplayConfig, RunConfig, read_trace, simulate
from blis_validate.dataset import load_dataset
from blis_validate.scenario import (
    Settings,
    configure,
    listed_requests,
    prompt_length,
    run_options,
    stage_sizes,
    unsupported,
    write_trace,
)

SETTINGS = Settings(options={"latency_model": "kernels"})


@pytest.fixture
def load(make_record, write_dataset):
    def make(*changes):
        return load_dataset(write_dataset(*(make_record(**c) for c in changes or [{}]))).experiments

    return make


@pytest.fixture
def requests(load, tmp_path):
    """What the record's load generator sends, in order."""
    (record,) = load()
    config = configure(record, 105.0, tmp_path, tmp_path, SETTINGS)
    assert isinstance(config, RunConfig)
    found = sorted(simulate(config).requests, key=lambda r: int(r.id.partition("_")[2]))
    assert sum(stage_sizes(record)) == len(found) == 140
    return found


def test_stages_have_their_rate_and_last_as_long_as_they_should(requests):
    times = [r.arrival / 1e6 for r in requests]
    first, second = times[:60], times[60:]
    assert first[-1] == pytest.approx(30.0, abs=1e-5)
    last_answer = max(r.arrival + r.e2e for r in requests[:60]) / 1e6
    start = second[-1] - 20.0
    assert start == pytest.approx(last_answer + 1.5, abs=0.5)
    gaps = [b - a for a, b in pairwise(second)]
    assert len(set(gaps)) > 70  # exponential, not even


def test_prompts_return_in_turn(requests):
    lengths = [r.prompt_len for r in requests]
    assert lengths[:10] == lengths[10:20] == lengths[130:]
    assert 85 < min(lengths) < max(lengths) < 125
    assert sum(lengths) / len(lengths) == pytest.approx(105, abs=6)
    assert all(r.output_len == 40 for r in requests)
    assert all(r.deadline == r.arrival + 300_000_000 for r in requests)


def test_whole_prompts_are_found_in_the_cache(load, tmp_path):
    (record,) = load()
    results = simulate(configure(record, 105.0, tmp_path, tmp_path, SETTINGS))
    # 6 of 7 blocks of a prompt are found, the 3 of an answer never
    assert 0.5 < results.kv.cache_hit_rate < 0.7


def test_clients_may_be_endlessly_patient(load, tmp_path):
    (record,) = load({"workload__timeout_s": 0})
    assert configure(record, 105.0, tmp_path, tmp_path, SETTINGS).timeout == -1


def test_listed_requests(load, tmp_path):
    text = "request_id,arrival_s,input_tokens,output_tokens\nb,1.5,20,5\na,0.25,10,4\n"
    (tmp_path / "requests.csv").write_text(text)
    workload = {"generator": "per-request trace", "trace": "requests.csv"}
    (record,) = load({"workload": workload})
    requests = listed_requests(record, tmp_path / "below")
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens) for r in requests] == [
        (250_000, 10, 4),
        (1_500_000, 20, 5),
    ]
    rows = read_trace(*write_trace(requests, tmp_path)).rows
    assert [(row.prefix_group, row.input_tokens) for row in rows] == [("", 10), ("", 20)]
    config = configure(record, 0.0, tmp_path, tmp_path, SETTINGS)
    assert isinstance(config, ReplayConfig)
    assert [r.prompt_len for r in simulate(config).requests] == [10, 20]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no file requests.csv"),
        ("arrival_s,input_tokens\n1,2\n", "row 1"),
        ("arrival_s,input_tokens,output_tokens\n1,2,x\n", "row 1"),
        ("arrival_s,input_tokens,output_tokens\ninf,2,3\n", "row 1"),
        ("arrival_s,input_tokens,output_tokens,first_token_s\n1,2,3,soon\n", "row 1"),
    ],
)
def test_listed_requests_that_cannot_be_used(load, tmp_path, text, message):
    if text is not None:
        (tmp_path / "requests.csv").write_text(text)
    (record,) = load({"workload": {"generator": "per-request trace", "trace": "requests.csv"}})
    with pytest.raises(BlisError, match=message):
        listed_requests(record, tmp_path)


def test_prompt_lengths_are_those_that_somebody_counted(load):
    counted = {"id": "b", "measured__prompt_tokens_mean": 104.5}
    elsewhere = {"id": "c", "measured__prompt_tokens_mean": 300.0, "workload__profile": "other"}
    records = load({}, counted, elsewhere, {"id": "d", "workload__profile": "small-lite"})
    assert prompt_length(records[1], records) == 104.5
    assert prompt_length(records[0], records) == 104.5
    assert prompt_length(records[3], records) == 104.5
    assert prompt_length(records[0], records[:1]) == pytest.approx(104.7)


def test_the_engine_is_that_of_the_record(load):
    (record,) = load({"latency_options": {"link_gb_s": "13.5"}})
    options = run_options(record, Settings(options={"latency_model": "kernels"}))
    assert options["max_num_running_reqs"] == 64
    assert options["total_kv_blocks"] == 17386
    assert options["max_model_len"] == 4096
    assert options["latency_option"] == ("link_gb_s=13.5",)
    options = run_options(
        record,
        Settings(
            options={"latency_option": ("scale=2",)},
            latency_options=(("small-*", "sampler=on"), ("other", "scale=3")),
            published_blocks=False,
        ),
    )
    assert "total_kv_blocks" not in options
    assert options["latency_option"] == ("link_gb_s=13.5", "sampler=on", "scale=2")


def test_times_of_listed_requests(load, tmp_path):
    (tmp_path / "r.csv").write_text(
        "arrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n"
        "0.5,10,4,0.75,1.5\n0.6,10,4,,\n"
    )
    (record,) = load({"workload": {"generator": "per-request trace", "trace": "r.csv"}})
    first, second = listed_requests(record, tmp_path)
    assert (first.first_token_us, first.last_token_us) == (750_000, 1_500_000)
    assert (first.measured, second.measured) == (True, False)


def test_engines_that_share_experts_are_one_instance(load):
    (record,) = load({"dp": 2, "expert_parallel": True})
    assert unsupported(record) == ""
    options = run_options(record, SETTINGS)
    assert options["max_num_running_reqs"] == 128
    assert options["max_num_scheduled_tokens"] == 4096
    assert options["long_prefill_token_threshold"] == 2048
    assert options["total_kv_blocks"] == 2 * 17386
    assert options["latency_option"] == ("data_parallel=2",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"dp": 2}, "with expert parallelism only"),
        ({"tp": 2, "expert_parallel": True}, "of several GPUs"),
    ],
)
def test_what_cannot_be_simulated(load, changes, reason):
    (record,) = load(changes)
    found = unsupported(record)
    assert reason in found
    assert bool(found) == bool(reason)
