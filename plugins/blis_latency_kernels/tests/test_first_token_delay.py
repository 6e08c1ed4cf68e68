"""First tokens reach the client late; ends do not."""

from __future__ import annotations

import pytest

from blis_core.api import simulate

RUN = {
    "model": "qwen/qwen3-14b",
    "latency_model": "kernels",
    "rate": 5,
    "num_requests": 60,
    "output_tokens": 30,
    "output_tokens_stdev": 10,
    "output_tokens_max": 60,
}


def times(**changes):
    results = simulate(**{**RUN, **changes})
    return [(r.ttft, r.e2e, r.first_token_delay) for r in results.requests]


def test_the_delay_is_part_of_the_first_token_alone():
    client = times()
    engine = times(latency_option={"measured_at": "engine"})
    assert all(delay > 0 and delay % 50 == 0 for _, _, delay in client)
    assert all(delay == 0 for _, _, delay in engine)
    assert all(ttft <= e2e for ttft, e2e, _ in client)
    # the way to the engine shifts arrivals, so that only a light load compares request by request
    alone = {"rate": 0.5, "num_requests": 20, "output_tokens_stdev": 2}
    near, far = times(**alone, latency_option={"measured_at": "engine"}), times(**alone)
    for (ttft, e2e, _), (late_ttft, late_e2e, delay) in zip(near, far, strict=True):
        assert late_ttft - ttft == 5870 + delay
        assert late_e2e - e2e == 5870


def test_an_answer_does_not_end_before_its_first_token():
    single = {"output_tokens": 1, "output_tokens_stdev": 1, "output_tokens_min": 1}
    assert all(e2e >= ttft for ttft, e2e, _ in times(**single, output_tokens_max=2))


@pytest.mark.parametrize("backend", ["roofline", "trained-physics"])
def test_others_have_none(backend):
    assert all(delay == 0 for _, _, delay in times(latency_model=backend))
