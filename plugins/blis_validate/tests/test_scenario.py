"""From a record to the requests and the engine that are simulated."""

from __future__ import annotations

import pytest

from blis_core.api import BlisError, read_trace
from blis_validate.dataset import load_dataset
from blis_validate.scenario import (
    DRAIN_S,
    Settings,
    arrivals,
    prompt_length,
    run_options,
    unsupported,
    write_trace,
)


@pytest.fixture
def load(make_record, write_dataset):
    def make(*changes):
        return load_dataset(write_dataset(*(make_record(**c) for c in changes or [{}]))).experiments

    return make


def test_stages_have_their_rate_and_last_as_long_as_they_should(load, tmp_path):
    (record,) = load()
    requests = arrivals(record, 105.0, tmp_path, 1)
    stages = [[r.arrival_us / 1e6 for r in requests if r.stage == k] for k in (0, 1)]
    assert [len(times) for times in stages] == [60, 80]
    assert stages[0][-1] == pytest.approx(30.0)
    assert stages[1][-1] == pytest.approx(30.0 + DRAIN_S + 20.0)
    assert min(stages[1]) > 30.0 + DRAIN_S
    gaps = [b - a for a, b in zip(stages[1], stages[1][1:], strict=False)]
    assert 0.15 < sum(gaps) / len(gaps) < 0.35
    assert len(set(gaps)) > 70  # exponential, not even


def test_prompts_return_in_turn(load, tmp_path):
    (record,) = load()
    requests = arrivals(record, 105.0, tmp_path, 1)
    assert [r.prompt for r in requests[:21]] == [*range(10), *range(10), 0]
    lengths = {r.prompt: r.prompt_tokens for r in requests}
    assert all(r.prompt_tokens == lengths[r.prompt] for r in requests)
    assert 85 < min(lengths.values()) < max(lengths.values()) < 125
    assert all(r.deadline_us == r.arrival_us + 300_000_000 for r in requests)


def test_same_seed_same_requests(load, tmp_path):
    (record,) = load()
    first, second, other = (arrivals(record, 105.0, tmp_path, seed) for seed in (1, 1, 2))
    assert first == second != other


def test_the_trace_holds_the_requests(load, tmp_path):
    (record,) = load()
    requests = arrivals(record, 105.0, tmp_path, 1)
    rows = read_trace(*write_trace(requests, tmp_path)).rows
    assert len(rows) == len(requests)
    for row, request in zip(rows, requests, strict=True):
        assert row.prefix_length + row.input_tokens == request.prompt_tokens
        assert row.prefix_group == f"prompt-{request.prompt}"
        assert (row.arrival_time_us, row.output_tokens) == (request.arrival_us, 40)


def test_listed_requests(load, tmp_path):
    text = "request_id,arrival_s,input_tokens,output_tokens\nb,1.5,20,5\na,0.25,10,4\n"
    (tmp_path / "requests.csv").write_text(text)
    workload = {"generator": "per-request trace", "trace": "requests.csv"}
    (record,) = load({"workload": workload})
    requests = arrivals(record, 0.0, tmp_path / "below", 1)
    assert [(r.arrival_us, r.prompt_tokens, r.output_tokens) for r in requests] == [
        (250_000, 10, 4),
        (1_500_000, 20, 5),
    ]
    rows = read_trace(*write_trace(requests, tmp_path)).rows
    assert [(row.prefix_group, row.input_tokens) for row in rows] == [("", 10), ("", 20)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no file requests.csv"),
        ("arrival_s,input_tokens\n1,2\n", "row 1"),
        ("arrival_s,input_tokens,output_tokens\n1,2,x\n", "row 1"),
    ],
)
def test_listed_requests_that_cannot_be_used(load, tmp_path, text, message):
    if text is not None:
        (tmp_path / "requests.csv").write_text(text)
    (record,) = load({"workload": {"generator": "per-request trace", "trace": "requests.csv"}})
    with pytest.raises(BlisError, match=message):
        arrivals(record, 0.0, tmp_path, 1)


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


def test_what_cannot_be_simulated(load):
    assert unsupported(load()[0]) == ""
    assert "parallel" in unsupported(load({"dp": 2})[0])
