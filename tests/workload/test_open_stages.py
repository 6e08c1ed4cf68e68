"""The open loop of inference-perf: prompts that come back, exact stages, waiting for the last."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from blis_core.api import simulate
from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.workload.open_stages import OpenStages
from blis_core.workload.pipeline import prepare
from blis_core.workload.spec import parse_spec

SECTION = {
    "stages": [{"rate": 5.0, "duration": 60}, {"rate": 12.5, "duration": 8}],
    "shared_prefix": {"system_prompt_len": 100, "question_len": 400, "output_len": 20},
    "open_loop": {},
}


def spec(**changes):
    section = {**SECTION, **changes}
    return parse_spec(yaml.safe_dump({"version": "2", "inference_perf": section}), "test")


def stages(**changes):
    more = {name: changes.pop(name) for name in ("horizon", "max_requests") if name in changes}
    section = spec(**changes).inference_perf
    return OpenStages(section, 7, **more)


def test_prompts_come_back():
    first = stages().first()
    assert len(first) == 300
    prompts = [request.tokens[: request.prompt_len].tobytes() for request in first]
    assert len(set(prompts)) == 100
    assert prompts[:100] == prompts[100:200] == prompts[200:]
    assert {request.output_len for request in first} == {20}
    system = {request.tokens[:105].tobytes() for request in first}
    assert len(system) == 10  # one for each group, 5 % longer than asked for
    lengths = [request.prompt_len for request in first[:100]]
    assert 520 < sum(lengths) / 100 < 530
    assert len(set(lengths)) > 10


def test_a_stage_is_filled_exactly():
    first = stages().first()
    arrivals = [request.arrival for request in first]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] in (59_999_999, 60_000_000)  # the last gap ends with the stage


def test_the_next_stage_waits_for_the_last_answer_and_a_moment_more():
    loop = stages(open_loop={"pause_s": 2.0})
    first = loop.first()
    for request in first[:-2]:
        assert loop.on_done(request, request.arrival + 1_000_000) == []
    assert loop.on_lost(first[-1], 61_000_000) == []
    second = loop.on_done(first[-2], 60_500_000)
    assert len(second) == 100
    assert second[-1].arrival in (70_999_999, 71_000_000)
    assert second[0].arrival > 63_000_000
    for request in second[:-1]:
        assert loop.on_done(request, 80_000_000) == []
    assert loop.on_done(second[-1], 80_000_000) == []  # that was all


def test_limits():
    assert len(stages(max_requests=7).first()) == 7
    assert all(request.arrival < 10_000_000 for request in stages(horizon=10_000_000).first())


def test_the_same_seed_gives_the_same_requests():
    one, other = stages().first(), stages().first()
    assert [r.arrival for r in one] == [r.arrival for r in other]
    assert all((a.tokens == b.tokens).all() for a, b in zip(one, other, strict=True))


def test_a_run_says_what_was_offered(tmp_path):
    path = tmp_path / "workload.yaml"
    section = {**SECTION, "stages": [{"rate": 4.0, "duration": 10}, {"rate": 8.0, "duration": 5}]}
    path.write_text(yaml.safe_dump({"version": "2", "inference_perf": section}))
    results = simulate(
        model="qwen/qwen3-14b", workload_spec=str(path), semantics="vllm", num_instances=2
    )
    assert results.cluster.completed_requests == 80
    arrivals = sorted(request.arrival for request in results.requests)
    gap = max(b - a for a, b in pairwise(arrivals))
    assert gap > 1_500_000
    assert arrivals[40] - arrivals[39] == gap


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"stages": []}, "inference_perf.stages"),
        ({"stages": [{"rate": 0, "duration": 1}]}, "inference_perf.stages[0].rate"),
        ({"stages": [{"rate": 1, "duration": 0}]}, "inference_perf.stages[0].duration"),
        ({"stages": [{"rate": 0.1, "duration": 1}]}, "inference_perf.stages[0]"),
        ({"shared_prefix": None}, "inference_perf.shared_prefix"),
        (
            {"shared_prefix": {"num_users_per_system_prompt": 3}},
            "inference_perf.shared_prefix.num_users_per_system_prompt",
        ),
        ({"shared_prefix": {"question_len": -1}}, "inference_perf.shared_prefix.question_len"),
        ({"shared_prefix": {"enable_multi_turn_chat": True}}, "enable_multi_turn_chat"),
        ({"open_loop": {"num_groups": 0}}, "inference_perf.open_loop.num_groups"),
        ({"open_loop": {"growth": 0.0}}, "inference_perf.open_loop.growth"),
        ({"open_loop": {"stdev": -1.0}}, "inference_perf.open_loop.stdev"),
        ({"open_loop": {"pause_s": float("inf")}}, "inference_perf.open_loop.pause_s"),
        ({"open_loop": {"groups": 3}}, "open_loop"),
    ],
)
def test_what_is_wrong_is_named(changes, named):
    with pytest.raises(BlisError) as caught:
        prepare(spec(**changes), horizon=MAX_INT64, max_requests=0)
    assert named in str(caught.value)
