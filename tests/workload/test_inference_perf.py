"""Expansion of inference-perf sections."""

from __future__ import annotations

import math
from collections import Counter

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.contracts import MAX_INT64
from blis_core.errors import BlisError
from blis_core.workload.inference_perf import Expansion, expand, with_inference_perf
from blis_core.workload.spec import (
    Client,
    Distribution,
    FactoryPoisson,
    InferencePerf,
    Lifecycle,
    MultiTurn,
    NormalisedExponential,
    SharedPrefix,
    Stage,
    Window,
    WorkloadSpec,
)
from blis_core.workload.validation import validate


def section(
    *stages: tuple[float, int], p: int = 2, u: int = 2, chat: bool = False
) -> InferencePerf:
    return InferencePerf(
        stages=tuple(Stage(rate=rate, duration=duration) for rate, duration in stages),
        shared_prefix=SharedPrefix(
            num_unique_system_prompts=p,
            num_users_per_system_prompt=u,
            system_prompt_len=10,
            question_len=5,
            output_len=3,
            enable_multi_turn_chat=chat,
        ),
    )


def rounds(client: Client) -> MultiTurn:
    assert client.multi_turn is not None
    return client.multi_turn


def checked(expansion: Expansion) -> tuple[Client, ...]:
    """The clients, which must be valid."""
    validate(
        WorkloadSpec(
            version="2",
            category=expansion.category,
            aggregate_rate=expansion.aggregate_rate,
            clients=expansion.clients,
        )
    )
    return expansion.clients


def test_one_stage() -> None:
    expansion = expand(section((7.0, 2)))
    clients = checked(expansion)
    assert (expansion.category, expansion.aggregate_rate) == ("language", 7.0)
    assert [c.id for c in clients] == [f"prompt-{p}-user-{u}" for p in (0, 1) for u in (0, 1)]
    assert [c.factory for c in clients] == [
        NormalisedExponential(n, 2_000_000) for n in (4, 4, 3, 3)
    ]
    last = clients[-1]
    assert last == Client(
        id="prompt-1-user-1",
        tenant_id="prompt-1",
        slo_class="standard",
        rate_fraction=0.25,
        arrival=attrs.evolve(last.arrival, process="poisson", cv=None),
        input_distribution=Distribution(type="constant", params={"value": 5.0}),
        output_distribution=Distribution(type="constant", params={"value": 3.0}),
        prefix_group="prompt-1",
        prefix_length=10,
        factory=last.factory,
    )


def test_one_stage_of_conversations() -> None:
    expansion = expand(section((2.5, 5), chat=True))
    clients = checked(expansion)
    assert expansion.category == "reasoning"
    for client in clients:
        assert client.factory is None
        assert client.lifecycle is None
        assert client.rate_fraction == 0.25
        assert rounds(client) == MultiTurn(
            max_rounds=3, think_time_us=1_600_000, single_session=True
        )
        assert client.is_closed_loop


def test_two_stages_of_conversations() -> None:
    expansion = expand(section((6.0, 2), (13.0, 1), chat=True))
    clients = checked(expansion)
    assert expansion.aggregate_rate == 19.0
    assert [c.id for c in clients] == [
        f"stage-{s}-prompt-{p}-user-{u}" for s in (0, 1) for p in (0, 1) for u in (0, 1)
    ]
    assert [rounds(c).max_rounds for c in clients] == [3, 3, 3, 3, 4, 3, 3, 3]
    assert [rounds(c).think_time_us for c in clients] == [666_666] * 4 + [307_692] * 4
    first, second = (
        Window(start_us=0, end_us=2_000_000),
        Window(start_us=2_000_000, end_us=3_000_000),
    )
    assert [c.windows for c in clients] == [(first,)] * 4 + [(second,)] * 4
    assert {c.rate_fraction for c in clients} == {1.0}
    rates = [FactoryPoisson(6.0 / 4 / 1e6)] * 4 + [FactoryPoisson(13.0 / 4 / 1e6)] * 4
    assert [c.factory for c in clients] == rates
    assert [c.multi_turn for c in expand(section((6.0, 2), (13.0, 1))).clients] == [None] * 8


def test_counts_are_truncated() -> None:
    (client,) = expand(section((0.29, 100), p=1, u=1)).clients
    assert client.factory == NormalisedExponential(28, 100_000_000)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (InferencePerf(), "inference_perf.stages must list at least one stage"),
        (section((1.0, 0)), "inference_perf.stages[0].duration must be at least 1"),
        (section((4.0, 1), (math.nan, 1)), "inference_perf.stages[1].rate must be a finite number"),
        (
            InferencePerf(stages=(Stage(rate=1.0, duration=1),)),
            "inference_perf.shared_prefix is mis",
        ),
        (
            section((4.0, 1), p=0),
            "inference_perf.shared_prefix.num_unique_system_prompts must be at",
        ),
        (
            section((0.5, 1)),
            "inference_perf.stages[0]: rate * duration must give at least 1 request",
        ),
        (
            section((3.0, 1)),
            "inference_perf.stages[0]: rate * duration gives 3 requests for 4 users",
        ),
        (
            section((8.0, 1), (3.0, 1), chat=True),
            "inference_perf.stages[1]: rate * duration gives 3",
        ),
        (section((5e6, 1)), "inference_perf.stages[0]: 1250000 requests of one user do not fit"),
        (section((5e6, 10)), "inference_perf.stages[0]: a user can make at most 10000000 requests"),
        (
            section((1e7, 1), p=1001, u=1000),
            "inference_perf: num_unique_system_prompts * num_users",
        ),
        (section((4.0, 2**62)), "inference_perf.stages[0].duration: "),
        (section((1e300, 2)), "inference_perf.stages[0]: rate * duration must give at least 1 req"),
    ],
)
def test_errors(wrong: InferencePerf, message: str) -> None:
    with pytest.raises(BlisError) as problem:
        expand(wrong)
    assert str(problem.value).startswith(message)


def test_stages_of_single_questions_may_have_few_or_no_requests() -> None:
    assert len(checked(expand(section((0.1, 1), (3.0, 1))))) == 8


def test_a_specification_takes_the_clients_in(capsys: pytest.CaptureFixture[str]) -> None:
    spec = WorkloadSpec(seed=5, inference_perf=section((4.0, 1)))
    before = attrs.evolve(spec)
    expanded = with_inference_perf(spec)
    assert spec == before
    assert len(expanded.clients) == 4
    assert (expanded.seed, expanded.category, expanded.aggregate_rate) == (5, "language", 4.0)
    assert expanded.inference_perf is None
    assert with_inference_perf(expanded) is expanded
    assert capsys.readouterr().err == ""


def test_the_rates_of_the_stages_win_over_an_aggregate_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = WorkloadSpec(category="multimodal", inference_perf=section((4.0, 1)), aggregate_rate=4.0)
    assert with_inference_perf(spec).category == "multimodal"
    assert capsys.readouterr().err == ""
    expanded = with_inference_perf(attrs.evolve(spec, aggregate_rate=99.0))
    assert expanded.aggregate_rate == 4.0
    assert capsys.readouterr().err.count("replace aggregate_rate") == 1


STAGES = st.lists(st.tuples(st.floats(0.5, 200), st.integers(1, 50)), min_size=1, max_size=3)


@given(STAGES, st.integers(1, 4), st.integers(1, 5), st.booleans())
def test_properties(stages: list[tuple[float, int]], p: int, u: int, chat: bool) -> None:
    totals = [int(rate * duration) for rate, duration in stages]
    exact = chat or len(stages) == 1
    if exact and min(totals) < p * u:
        with pytest.raises(BlisError, match="rate \\* duration"):
            expand(section(*stages, p=p, u=u, chat=chat))
        return
    expansion = expand(section(*stages, p=p, u=u, chat=chat))
    clients = checked(expansion)
    assert len(clients) == len(stages) * p * u
    assert len({c.id for c in clients}) == len(clients)
    assert set(Counter(c.prefix_group for c in clients).values()) == {len(stages) * u}
    assert expansion.aggregate_rate == sum(rate for rate, _ in stages)
    end = 0
    for number, (rate, duration) in enumerate(stages):
        members = clients[number * p * u :][: p * u]
        counts = [rounds(c).max_rounds for c in members] if chat else []
        if len(stages) > 1:
            window = Window(start_us=end, end_us=end + duration * 1_000_000)
            end = window.end_us
            assert {c.lifecycle for c in members} == {Lifecycle(windows=(window,))}
            rates = [
                c.factory.rate_per_us for c in members if isinstance(c.factory, FactoryPoisson)
            ]
            assert len(rates) == p * u
            assert sum(rates) * 1e6 == pytest.approx(rate)
        elif not chat:
            counts = [
                c.factory.count for c in members if isinstance(c.factory, NormalisedExponential)
            ]
        if counts:
            assert sum(counts) == totals[number]
            assert counts == sorted(counts, reverse=True)
            assert max(counts) - min(counts) <= 1
    assert end <= MAX_INT64
