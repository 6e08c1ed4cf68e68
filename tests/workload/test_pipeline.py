"""From specifications to workloads: sources, limits, order, memory."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core import _token_memory, plugins
from blis_core.contracts import MAX_INT64, Request
from blis_core.errors import BlisError
from blis_core.rng import GoRand, stream_seed
from blis_core.workload.clients import drawn_requests
from blis_core.workload.closed_loop import close_loops
from blis_core.workload.cohorts import expand_cohorts
from blis_core.workload.generation import numbered
from blis_core.workload.pipeline import GeneratedWorkload, prepare
from blis_core.workload.prefixes import draw_prefixes
from blis_core.workload.rates import client_rates
from blis_core.workload.spec import (
    Arrival,
    Client,
    Cohort,
    Distribution,
    Lifecycle,
    Multimodal,
    MultiTurn,
    Reasoning,
    Spike,
    Window,
    WorkloadSpec,
)
from tests.workload.recorded import case_named, described, spec_of


def constant(value: float) -> Distribution:
    return Distribution(type="constant", params={"value": value})


def gaussian(mean: float) -> Distribution:
    params = {"mean": mean, "std_dev": mean / 2, "min": 1.0, "max": 2 * mean + 2}
    return Distribution(type="gaussian", params=params)


def client(**fields: Any) -> Client:
    return Client(
        **{
            "id": "c",
            "rate_fraction": 1.0,
            "arrival": Arrival(process="poisson"),
            "input_distribution": constant(3),
            "output_distribution": constant(2),
            **fields,
        }
    )


def users(count: int = 2, **fields: Any) -> Client:
    return client(rate_fraction=0.0, concurrency=count, arrival=Arrival(), **fields)


def rounds(count: int = 3, think: int = 1000, **fields: Any) -> Reasoning:
    return Reasoning(
        multi_turn=MultiTurn(max_rounds=count, think_time_us=think, **fields),
    )


def spec(*members: Client | Cohort, **fields: Any) -> WorkloadSpec:
    return WorkloadSpec(
        **{
            "version": "2",
            "seed": 5,
            "aggregate_rate": 20.0,
            "clients": tuple(m for m in members if isinstance(m, Client)),
            "cohorts": tuple(m for m in members if isinstance(m, Cohort)),
            **fields,
        }
    )


def workload(*members: Client | Cohort, n: int = 0, horizon: int = MAX_INT64) -> GeneratedWorkload:
    return prepare(spec(*members), horizon=horizon, max_requests=n)


# ------------------------------------------------------------------------- limits and sources


def test_nothing_arrives_before_a_horizon_of_zero() -> None:
    nothing = prepare(spec(), horizon=0, max_requests=-1)  # not even looked at
    assert (list(nothing.requests), nothing.sessions) == ([], [])


def test_workloads_need_an_end() -> None:
    with pytest.raises(BlisError, match="no end"):
        workload(client())
    with pytest.raises(BlisError, match="at least 0, not -1"):
        workload(client(), n=-1)


def test_a_specification_can_be_used_again() -> None:
    for name in ("infperf_two_stage", "servegen_small"):
        case = case_named(name)
        once = spec_of(case)
        limits = {"horizon": case["horizon"], "max_requests": case["max_requests"]}
        first, again = (list(prepare(once, **limits).requests) for _ in range(2))
        assert [described(r) for r in first] == [described(r) for r in again]
        assert len(first) == case["num_generated"]


def test_seed_decides() -> None:
    def ids(seed: int) -> list[dict[str, Any]]:
        made = prepare(spec(client(), seed=seed), horizon=MAX_INT64, max_requests=3)
        return [described(r) for r in made.requests]

    assert ids(1) == ids(1) != ids(2)


def test_older_specifications_are_upgraded_with_a_warning() -> None:
    made = prepare(
        spec(client(slo_class="realtime"), version="1"), horizon=MAX_INT64, max_requests=1
    )
    assert [r.slo_class for r in made.requests] == ["critical"]
    (warning,) = made.warnings
    assert "realtime" in warning


# ----------------------------------------------------------------------------------- timeouts


def test_given_timeout_replaces_all_others() -> None:
    members: list[Client | Cohort] = [
        client(timeout=7),
        client(id="m", reasoning=rounds()),
        Cohort(
            id="co",
            population=2,
            rate_fraction=1.0,
            arrival=Arrival(process="poisson"),
            input_distribution=constant(1),
            output_distribution=constant(1),
            timeout=-5,
        ),
    ]
    for timeout, wait in ((9000, 9000), (0, None)):
        made = prepare(spec(*members), horizon=10**6, max_requests=0, timeout_us=timeout)
        requests = list(made.requests)
        assert {r.client for r in requests} == {"c", "m", "co-0", "co-1"}
        assert all(r.deadline == (r.arrival + wait if wait else 0) for r in requests)
        assert {b.timeout for b in made.sessions} == {timeout}


def test_given_timeout_reaches_expanded_clients() -> None:
    case = case_named("infperf_two_stage_multiturn")
    made = prepare(spec_of(case), horizon=case["horizon"], max_requests=0, timeout_us=50)
    assert all(r.deadline == r.arrival + 50 for r in made.requests)
    assert {b.timeout for b in made.sessions} == {50}


# ---------------------------------------------------------------------------- what is streamed


@pytest.mark.parametrize(
    ("members", "streamed", "budget"),
    [
        ([client()], True, 0),
        ([client(closed_loop=True)], True, -1),
        ([client(closed_loop=False, reasoning=rounds())], True, 0),
        ([client(reasoning=rounds())], False, -1),
        ([users()], False, 8),
        ([users(), client()], False, 0),
    ],
)
def test_only_closed_loops_are_held_in_memory(
    members: list[Client], streamed: bool, budget: int
) -> None:
    made = workload(*members, n=10)
    assert made.streamed is streamed
    assert made.follow_up_budget == budget
    assert isinstance(made.requests, Iterator) is streamed


def test_endless_workloads_can_be_begun() -> None:
    made = workload(
        client(),
        client(id="d", closed_loop=False, reasoning=rounds(3, 50_000, context_growth="accumulate")),
        n=10**15,
    )
    requests = list(itertools.islice(made.requests, 200))
    assert [r.id for r in requests] == [f"request_{i}" for i in range(200)]
    assert all(a.arrival <= b.arrival for a, b in itertools.pairwise(requests))


def test_mistakes_of_a_client_show_at_once() -> None:
    bad = Distribution(type="gaussian")
    talk = attrs.evolve(rounds(), reason_ratio_distribution=bad)
    mistakes: dict[str, dict[str, Any]] = {
        "output_distribution": {"output_distribution": bad},
        "multimodal.text_distribution": {"multimodal": Multimodal(text_distribution=bad)},
        "reasoning.reason_ratio_distribution": {"reasoning": talk, "closed_loop": False},
    }
    for place, fields in mistakes.items():
        with pytest.raises(BlisError, match=f"client 'bad', {place}: .*mean, std_dev"):
            workload(client(), client(id="bad", **fields), n=1)


def test_clients_that_make_no_request_do_not_fail_for_their_parts() -> None:
    bad = Multimodal(text_distribution=Distribution(type="gaussian"))
    never = Lifecycle(windows=(Window(start_us=0, end_us=1),))
    made = workload(client(), client(id="bad", multimodal=bad, lifecycle=never), n=5)
    assert {r.client for r in made.requests} == {"c"}


PLUGIN = """
from blis_core.api import ArrivalSampler, LengthSampler, hookimpl

class Gaps(ArrivalSampler):
    def __init__(self, setup):
        self.gap, self.left = round(1 / setup.rate_per_us), 3

    def sample(self, rng, n):
        self.left -= n
        return [self.gap if self.left >= 0 else 0] * n

class Sizes(LengthSampler):
    def __init__(self, setup):
        self.low = int(setup.params["low"])

    def sample(self, rng, n):
        return [self.low + rng.intn(3) for _ in range(n)]

@hookimpl
def blis_register_arrival_samplers(register):
    register("three", Gaps)

@hookimpl
def blis_register_length_samplers(register):
    register("sizes", Sizes)
"""


def test_samplers_of_a_plugin(tmp_path: Path) -> None:
    file = tmp_path / "samplers.py"
    file.write_text(PLUGIN)
    sizes = Distribution(type="sizes", params={"low": 40.0})
    plugins.configure(files=[file])
    try:
        own = client(arrival=Arrival(process="three"), input_distribution=sizes)
        requests = list(workload(own, n=50).requests)
    finally:
        plugins.reset()
    assert [r.arrival for r in requests] == [50_000, 100_000, 150_000]
    assert all(40 <= r.prompt_len <= 42 for r in requests)


# ------------------------------------------------------------------------------- closed loops


def test_request_limit_is_spent_on_rounds_that_are_dropped() -> None:
    made = workload(client(reasoning=rounds(5, 10)), n=12)
    requests = list(made.requests)
    assert 0 < len(requests) < 12
    assert all(r.round_index == 0 for r in requests)
    assert sorted(b.session for b in made.sessions) == sorted(r.session for r in requests)


def test_session_seeds_go_by_the_text_of_the_session_id() -> None:
    made = workload(client(reasoning=rounds()), horizon=10**6)
    names = [b.session for b in made.sessions]
    assert names == sorted(names)
    rng = GoRand(5 + 7919)
    assert [b.random for b in made.sessions] == [rng.int63() for _ in names]


def test_no_session_is_worth_a_warning() -> None:
    never = Lifecycle(windows=(Window(start_us=0, end_us=1),))
    made = workload(client(reasoning=rounds(), lifecycle=never), horizon=10**6)
    assert list(made.requests) == []
    (warning,) = made.warnings
    assert "client 'c' works in a closed loop" in warning


def test_many_clients_without_sessions_are_one_warning() -> None:
    never = Lifecycle(windows=(Window(start_us=0, end_us=1),))
    clients = [attrs.evolve(client(reasoning=rounds(), lifecycle=never), id=i) for i in "abc"]
    (warning,) = workload(*clients, horizon=10**6).warnings
    assert "clients 'a' and 2 more work in a closed loop" in warning


def test_rounds_without_their_first_stay_as_they_are() -> None:
    """Think times below 0 let later rounds come first, and a limit can cut the first one off."""
    made = workload(client(reasoning=rounds(3, -40_000)), n=2)
    requests = list(made.requests)
    closed = {b.session for b in made.sessions}
    stray = [r for r in requests if r.round_index > 0]
    assert stray
    assert not closed & {r.session for r in stray}
    assert all(r.tokens is not None for r in stray)


def test_clients_of_one_id_share_their_sessions() -> None:
    talk = rounds(2)
    made = workload(client(reasoning=talk), client(reasoning=talk), horizon=10**6)
    sessions = [r.session for r in made.requests]
    assert len(made.sessions) == 2 * len(sessions)
    assert {b.session for b in made.sessions} == set(sessions)


@pytest.mark.parametrize(("length", "kept"), [(0, None), (3, 3), (8, 8), (9, None)])
def test_prefix_of_later_rounds_is_the_clients_own(length: int, kept: int | None) -> None:
    first = client(id="first", prefix_group="g", prefix_length=5)
    second = client(id="second", prefix_group="g", prefix_length=length, reasoning=rounds())
    made = workload(first, second, horizon=10**6)
    request = next(r for r in made.requests if r.client == "second")
    assert request.tokens is not None
    for blueprint in made.sessions:
        if kept is None:
            assert blueprint.prefix is None
        else:
            assert blueprint.prefix is not None
            assert blueprint.prefix.tolist() == request.tokens[:kept].tolist()


def test_users_start_within_one_think_time_and_ignore_the_horizon() -> None:
    made = workload(users(4, think_time_us=1000), horizon=10)
    requests = list(made.requests)
    assert [r.arrival for r in requests] == [0, 250, 500, 750]
    assert [r.session for r in requests] == [f"concurrency_c_user_{u}" for u in range(4)]
    assert all(r.deadline == r.arrival + 300_000_000 for r in requests)
    assert all(b.max_rounds is None for b in made.sessions)
    assert made.follow_up_budget == -1


def test_request_limit_covers_users_and_their_follow_ups() -> None:
    assert [workload(users(4), n=n).follow_up_budget for n in (3, 4, 9)] == [0, 0, 5]
    assert [len(workload(users(4), n=n).sessions) for n in (3, 4, 9)] == [3, 4, 4]


def test_users_get_the_whole_prefix_of_their_group() -> None:
    made = workload(users(1, prefix_group="g"), n=5)
    (request,) = made.requests
    (blueprint,) = made.sessions
    assert (request.prefix_length, request.prefix_group) == (50, "g")
    assert request.tokens is not None
    assert blueprint.prefix is not None
    assert blueprint.prefix.tolist() == request.tokens[:50].tolist()


# --------------------------------------------------------------------- streamed equals eager


def all_at_once(description: WorkloadSpec, horizon: int, limit: int) -> list[Request]:
    """The requests of an open-loop specification, by the letter: draw all, sort, cut, number."""
    clients = description.clients + expand_cohorts(description.cohorts)
    rng = GoRand(stream_seed(description.seed, "workload-gen"))
    rates = client_rates(clients, description.aggregate_rate)
    prefixes = draw_prefixes(clients, rng)
    requests: list[Request] = []
    for member, rate in zip(clients, rates, strict=True):
        if rate > 0:
            prefix = prefixes.get(member.prefix_group)
            seed = rng.int63()
            requests += drawn_requests(member, rate, seed, prefix, horizon=horizon, limit=2 * limit)
    requests.sort(key=lambda r: r.arrival)
    if limit:
        del requests[limit:]
    for number, request in enumerate(requests):
        request.id = f"request_{number}"
    return requests


LENGTHS = st.sampled_from([constant(1), constant(6), gaussian(9), gaussian(2)])
ARRIVALS = st.sampled_from(
    [
        Arrival(process="constant"),
        Arrival(process="poisson"),
        Arrival(process="gamma", cv=2.5),
        Arrival(process="weibull", cv=0.6),
    ]
)
WINDOWS = st.lists(
    st.builds(
        lambda start, length: Window(start_us=start, end_us=start + length),
        st.integers(0, 1_500_000),
        st.integers(1, 900_000),
    ),
    min_size=1,
    max_size=3,
).map(lambda windows: Lifecycle(windows=tuple(windows)))
TALKS = st.builds(
    lambda count, think, growth, single, ratio: Reasoning(
        multi_turn=MultiTurn(
            max_rounds=count, think_time_us=think, context_growth=growth, single_session=single
        ),
        reason_ratio_distribution=ratio,
    ),
    st.integers(1, 4),
    st.sampled_from([0, 1, 20_000, 300_000, -30_000]),
    st.sampled_from(["", "accumulate"]),
    st.booleans(),
    st.sampled_from([Distribution(), gaussian(40)]),
)
PARTS = st.builds(
    Multimodal,
    text_distribution=st.just(Distribution()) | LENGTHS,
    image_distribution=LENGTHS,
    image_count_distribution=st.just(Distribution()) | LENGTHS,
    video_distribution=LENGTHS,
    video_count_distribution=LENGTHS,
)
SHARED = {
    "id": st.sampled_from("abc"),
    "rate_fraction": st.sampled_from([0.25, 1.0, 3.0]),
    "arrival": ARRIVALS,
    "input_distribution": LENGTHS,
    "output_distribution": LENGTHS,
    "prefix_group": st.sampled_from(["", "g", "h"]),
    "prefix_length": st.integers(0, 7),
    "multimodal": st.none() | PARTS,
    "reasoning": st.none() | TALKS,
    "timeout": st.none() | st.sampled_from([0, 5000]),
    "closed_loop": st.just(False),
}
CLIENTS = st.builds(Client, lifecycle=st.none() | WINDOWS, streaming=st.booleans(), **SHARED)
COHORTS = st.builds(
    Cohort,
    population=st.integers(1, 3),
    spike=st.none() | st.just(Spike(start_time_us=100_000, duration_us=700_000)),
    **SHARED,
)


@given(
    st.lists(CLIENTS, min_size=1, max_size=4),
    st.lists(COHORTS, max_size=1),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([300_000, 2_000_000]),
    st.sampled_from([0, 1, 5, 30]),
)
def test_streamed_equals_eager(
    clients: list[Client], cohorts: list[Cohort], seed: int, horizon: int, limit: int
) -> None:
    description = spec(*clients, *cohorts, seed=seed)
    made = prepare(description, horizon=horizon, max_requests=limit)
    assert made.streamed
    streamed = [described(r) for r in made.requests]
    assert streamed == [described(r) for r in all_at_once(description, horizon, limit)]


@given(
    st.lists(CLIENTS.map(lambda c: attrs.evolve(c, closed_loop=None)), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([0, 1, 4, 9, 30]),
)
def test_closed_loops_equal_their_definition(
    clients: list[Client], single: bool, limit: int
) -> None:
    """Rounds that nobody asks for are not drawn; that must make no difference."""
    if single:
        clients = [
            attrs.evolve(c, reasoning=rounds(3, 20_000, single_session=True)) for c in clients
        ]
    description = spec(*clients)
    made = prepare(description, horizon=2_000_000, max_requests=limit)
    looping = [c for c in clients if c.multi_turn is not None]
    loops = close_loops(
        all_at_once(description, 2_000_000, limit),
        looping,
        [],
        draw_prefixes(clients, GoRand(stream_seed(description.seed, "workload-gen"))),
        description.seed,
        2_000_000,
        limit,
    )
    assert [described(r) for r in made.requests] == [described(r) for r in numbered(loops.requests)]
    assert made.warnings == loops.warnings
    facts = ("session", "random", "max_rounds", "client", "timeout")
    assert [[getattr(b, name) for name in facts] for b in made.sessions] == [
        [getattr(b, name) for name in facts] for b in loops.sessions
    ]


def test_equal_arrivals_keep_the_order_of_clients() -> None:
    process = Arrival(process="constant")
    made = workload(client(id="b", arrival=process), client(id="a", arrival=process), n=5)
    requests = list(made.requests)
    assert [r.client for r in requests] == ["b", "a", "b", "a", "b"]
    assert len({r.arrival for r in requests}) == 3


# -------------------------------------------------------------------------------------- memory


def test_memory_of_a_streamed_workload_is_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_token_memory, "_PIECE", 1 << 16)  # as much as one piece is always there
    one, process = constant(1), Arrival(process="constant")
    members = [
        client(id=name, arrival=process, input_distribution=one, output_distribution=one)
        for name in "ab"
    ]
    requests = iter(workload(*members, n=200_000).requests)
    tracemalloc.start(1)
    try:
        count = sum(1 for _ in requests)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 200_000
    assert peak < 2_000_000  # 10 bytes per request: a request alone takes hundreds
