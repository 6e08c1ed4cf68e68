"""The workload described by flags or a preset, against the reference's own requests."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64, QUEUED, Request
from blis_core.errors import BlisError
from blis_core.workload.flags import (
    FlagWorkload,
    LengthBounds,
    check_distribution,
    check_rate,
    generate,
    prepare_flags,
    specification,
)
from blis_core.workload.pipeline import prepare
from tests.workload.recorded import PRESETS, all_sha, id_sha, ids_of

CASES = json.loads((Path(__file__).parents[1] / "data" / "flag_workloads.json").read_text())

BOUNDS = LengthBounds(512, 256, 2, 7000)
DEFAULT = FlagWorkload(
    rate=1.0,
    num_requests=100,
    seed=42,
    horizon=MAX_INT64,
    prefix_tokens=0,
    prompt=BOUNDS,
    output=BOUNDS,
    timeout_us=300_000_000,
)


def workload_of(flags: dict[str, Any]) -> FlagWorkload:
    prompt, output = PRESETS.get(flags.get("--workload", ""), (BOUNDS, BOUNDS))
    return FlagWorkload(
        rate=flags["--rate"],
        num_requests=flags["--num-requests"],
        seed=flags["--seed"],
        horizon=MAX_INT64,
        prefix_tokens=flags.get("--prefix-tokens", 0),
        prompt=prompt,
        output=output,
        timeout_us=max(0, flags["--timeout"]) * 1_000_000,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["case"])
def test_requests_of_the_reference(case: dict[str, Any]) -> None:
    requests = list(generate(workload_of(case["flags"])))
    assert len(requests) == case["num_generated"]
    assert all_sha(requests) == case["all_sha"]
    for request, known in zip(requests, case["requests"], strict=False):
        prompt, output = ids_of(request)
        assert {
            "id": request.id,
            "arrival_us": request.arrival,
            "client_id": request.client,
            "deadline_us": request.deadline,
            "input_len": request.prompt_len,
            "output_len": request.output_len,
            "max_output_len": request.max_output,
            "input_first": prompt[:6],
            "output_first": output[:6],
            "input_sha": id_sha(prompt),
            "output_sha": id_sha(output),
            "prefix_group": request.prefix_group,
            "prefix_length": request.prefix_length,
        } == {"prefix_group": "", "prefix_length": 0, **known}
        assert request.state == QUEUED
        assert (request.tenant, request.slo_class, request.session, request.model) == ("",) * 4


def test_requests_are_made_on_demand() -> None:
    endless = attrs.evolve(DEFAULT, num_requests=10**12)
    assert [r.id for r in itertools.islice(generate(endless), 2)] == ["request_0", "request_1"]


def test_horizon_ends_the_workload() -> None:
    def arrivals(horizon: int, limit: int) -> list[int]:
        w = attrs.evolve(DEFAULT, horizon=horizon, num_requests=limit)
        return [r.arrival for r in generate(w)]

    assert arrivals(3_000_000, 0) == [1_000_000, 2_000_000]  # an arrival at the horizon is too late
    assert arrivals(3_000_001, 0) == [1_000_000, 2_000_000, 3_000_000]
    assert arrivals(3_000_001, 1) == [1_000_000]
    assert arrivals(0, -1) == arrivals(-5, 3) == []


def test_workloads_without_an_end_are_refused_at_once() -> None:
    with pytest.raises(BlisError, match="no end"):
        generate(attrs.evolve(DEFAULT, num_requests=0))
    with pytest.raises(BlisError, match="--num-requests must be at least 0"):
        generate(attrs.evolve(DEFAULT, num_requests=-1))


def test_prefix_is_shared_and_does_not_disturb_lengths() -> None:
    with_prefix = list(generate(attrs.evolve(DEFAULT, prefix_tokens=17, num_requests=5)))
    first = ids_of(with_prefix[0])[0][:17]
    assert all(ids_of(r)[0][:17] == first for r in with_prefix)
    assert all((r.prefix_group, r.prefix_length) == ("shared", 17) for r in with_prefix)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(-(2**63), MAX_INT64),
    n=st.integers(1, 30),
    prefix=st.integers(0, 40),
    low=st.integers(1, 50),
    width=st.integers(0, 300),
)
def test_same_seed_same_requests(seed: int, n: int, prefix: int, low: int, width: int) -> None:
    bounds = LengthBounds(low + width // 2, low, low, low + width)
    w = attrs.evolve(
        DEFAULT, seed=seed, num_requests=n, prefix_tokens=prefix, prompt=bounds, output=bounds
    )
    once, again = list(generate(w)), list(generate(w))
    assert len(once) == n
    assert [ids_of(r) for r in once] == [ids_of(r) for r in again]
    for r in once:
        assert low <= r.prompt_len - prefix <= low + width
        assert low <= r.output_len <= low + width
        assert r.deadline == r.arrival + 300_000_000


@settings(max_examples=30, deadline=None)
@given(
    rate=st.floats(0.1, 1000),
    seed=st.integers(-(2**63), MAX_INT64),
    n=st.integers(0, 12),
    prefix=st.integers(0, 40),
    timeout=st.sampled_from([0, 10**6, MAX_INT64]),
)
def test_equals_its_specification(
    rate: float, seed: int, n: int, prefix: int, timeout: int
) -> None:
    w = attrs.evolve(
        DEFAULT,
        rate=rate,
        seed=seed,
        num_requests=n,
        prefix_tokens=prefix,
        horizon=10**6,
        timeout_us=timeout,
        prompt=LengthBounds(20, 10, 1, 40),
    )
    made = prepare(specification(w), horizon=w.horizon, max_requests=n, timeout_us=timeout)

    def facts(requests: Iterable[Request]) -> list[tuple[Any, ...]]:
        return [
            (r.id, r.arrival, r.deadline, r.client, r.prefix_group, r.prefix_length, ids_of(r))
            for r in requests
        ]

    assert facts(made.requests) == facts(prepare_flags(w).requests)
    assert (made.follow_up_budget, made.sessions) == (0, [])


def test_users_instead_of_a_rate() -> None:
    w = attrs.evolve(DEFAULT, concurrency=3, think_time_us=600, num_requests=7, rate=math.nan)
    made = prepare_flags(w)
    requests = list(made.requests)
    assert [(r.id, r.arrival) for r in requests] == [
        ("request_0", 0),
        ("request_1", 200),
        ("request_2", 400),
    ]
    assert [b.session for b in made.sessions] == [r.session for r in requests]
    assert {b.think_time_us for b in made.sessions} == {600}
    assert made.follow_up_budget == 4


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_rate_must_be_positive(rate: float) -> None:
    with pytest.raises(BlisError, match="--rate must be"):
        check_rate(rate)
    with pytest.raises(BlisError, match="--rate must be"):
        check_distribution(rate, BOUNDS, BOUNDS)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (LengthBounds(5, 2, 0, 9), "tokens-min must be at least 1, not 0"),
        (LengthBounds(5, 2, 1, 0), "tokens-max must be at least 1, not 0"),
        (LengthBounds(5, -1, 1, 9), "tokens-stdev must be at least 0, not -1"),
        (LengthBounds(5, 2, 9, 8), r"tokens-min \(9\) must not exceed --\w+-tokens-max \(8\)"),
        (LengthBounds(10, 2, 1, 9), r"tokens \(10\) must lie between"),
        (LengthBounds(5, 1, 2, 9), r"tokens-stdev \(1\) must lie between"),
        (LengthBounds(5, 10, 1, 9), r"tokens-stdev \(10\) must lie between"),
    ],
)
def test_bounds(bounds: LengthBounds, message: str) -> None:
    with pytest.raises(BlisError, match="^--prompt-" + message):
        check_distribution(1.0, bounds, BOUNDS)
    with pytest.raises(BlisError, match="^--output-" + message):
        check_distribution(1.0, BOUNDS, bounds)
    check_distribution(1.0, BOUNDS, BOUNDS)
