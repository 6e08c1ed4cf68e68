"""Values that a workload specification may and may not have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core import plugins
from blis_core.errors import BlisError
from blis_core.workload.spec import (
    Arrival,
    Client,
    Cohort,
    Distribution,
    Diurnal,
    Drain,
    Lifecycle,
    MultiTurn,
    NormalisedExponential,
    Reasoning,
    ServegenData,
    Spike,
    Window,
    WorkloadSpec,
)
from blis_core.workload.validation import check_sources, validate
from tests.workload.spec_verdicts import CASES, INVALID, LEFT_TO_GENERATION, PASSED, explain

POISSON = Arrival(process="poisson")
TWO = Distribution(type="constant", params={"value": 2.0})
CLIENT = Client(rate_fraction=1.0, arrival=POISSON, input_distribution=TWO, output_distribution=TWO)
USERS = attrs.evolve(CLIENT, rate_fraction=0.0, concurrency=2, arrival=Arrival())
COHORT = Cohort(
    population=2,
    rate_fraction=1.0,
    arrival=POISSON,
    input_distribution=TWO,
    output_distribution=TWO,
)
ROUNDS = Reasoning(multi_turn=MultiTurn(max_rounds=1))


def spec_of(*members: Client | Cohort, **fields: Any) -> WorkloadSpec:
    clients = tuple(m for m in members if isinstance(m, Client))
    cohorts = tuple(m for m in members if isinstance(m, Cohort))
    return WorkloadSpec(
        **{"version": "2", "aggregate_rate": 1.0, "clients": clients, "cohorts": cohorts, **fields}
    )


def problem_of(spec: WorkloadSpec) -> str:
    with pytest.raises(BlisError) as problem:
        validate(spec)
    assert "\n" not in str(problem.value)
    return str(problem.value)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["result"] != "load_error"], ids=lambda c: c["name"]
)
def test_recorded_verdicts(case: dict[str, Any]) -> None:
    valid = case["result"] == "ok" or case["name"] in LEFT_TO_GENERATION
    verdict, message = explain(case["yaml"])
    assert verdict == (PASSED if valid else INVALID), message


LENGTHS = "(choose from constant, empirical, exponential, gaussian, pareto_lognormal)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slo_class": "Batch"}, "slo_class: unknown 'Batch', did you mean 'batch'? (choose from "),
        ({"rate_fraction": 0.0}, "rate_fraction is missing, or 0; it must be a finite number gr"),
        ({"think_time_us": -1}, "think_time_us must be at least 0, not -1"),
        (
            {"rate_fraction": math.inf},
            "rate_fraction must be a finite number greater than 0, not i",
        ),
        ({"arrival": Arrival()}, "arrival.process is missing (choose from constant, gamma, poiss"),
        (
            {"arrival": Arrival(process="weibull", cv=11.0)},
            "arrival.cv of weibull must be in [0.01, 10.4], not 11.0",
        ),
        (
            {"arrival": Arrival(process="weibull", cv=math.nan)},
            "arrival.cv of weibull must be in [0.01, 10.4], not nan",
        ),
        (
            {"arrival": Arrival(process="constant", cv=0.0)},
            "arrival.cv is missing, or 0; it must be a finite number greater than 0",
        ),
        (
            {"output_distribution": Distribution(type="lognormal")},
            f"output_distribution.type: 'lognormal' is not for prompts and outputs {LENGTHS}",
        ),
        (
            {"input_distribution": Distribution(type="gausian")},
            f"input_distribution.type: unknown 'gausian', did you mean 'gaussian'? {LENGTHS}",
        ),
        (
            {"input_distribution": Distribution(type="empirical", params={"5": math.nan})},
            "input_distribution.params.5 must be a finite number, not nan",
        ),
        (
            {"input_distribution": Distribution(type="gaussian", params={"min": -2.5, "max": -2})},
            "input_distribution.params: equal min and max must be at least 0, not -2",
        ),
        (
            {"lifecycle": Lifecycle(windows=(Window(end_us=1), Window(start_us=4, end_us=4)))},
            "lifecycle.windows[1].end_us must be greater than start_us (4), not 4",
        ),
    ],
)
def test_client_errors_name_place_and_allowed_values(changes: dict[str, Any], message: str) -> None:
    problem = problem_of(spec_of(CLIENT, attrs.evolve(CLIENT, **changes)))
    assert problem.startswith(f"clients[1].{message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": 100_001}, "population must be in [1, 100000], not 100001"),
        ({"diurnal": Diurnal(peak_to_trough_ratio=0.5)}, "diurnal.peak_to_trough_ratio must be a "),
        ({"spike": Spike(start_time_us=1)}, "spike.duration_us must be at least 1, not 0"),
        ({"drain": Drain(start_time_us=-1)}, "drain.start_time_us must be at least 0, not -1"),
        (
            {"reasoning": Reasoning(multi_turn=MultiTurn())},
            "reasoning.multi_turn.max_rounds must be at least 1, not 0",
        ),
    ],
)
def test_cohort_errors_name_place_and_allowed_values(changes: dict[str, Any], message: str) -> None:
    problem = problem_of(spec_of(CLIENT, attrs.evolve(COHORT, **changes)))
    assert problem.startswith(f"cohorts[0].{message}")


def test_the_first_mistake_is_reported() -> None:
    wrong = attrs.evolve(CLIENT, slo_class="x", prefix_length=-1, timeout=-1)
    assert problem_of(spec_of(wrong, category="x", aggregate_rate=0.0)).startswith("category")
    assert problem_of(spec_of(wrong, aggregate_rate=0.0)).startswith("aggregate_rate")
    assert problem_of(spec_of(wrong)).startswith("clients[0].slo_class")
    wrong = attrs.evolve(wrong, slo_class="")
    assert problem_of(spec_of(wrong)).startswith("clients[0].prefix_length")
    cohort = attrs.evolve(COHORT, population=0, rate_fraction=-1.0)
    mixed = (USERS, attrs.evolve(CLIENT, reasoning=ROUNDS), cohort)
    assert problem_of(spec_of(*mixed)).startswith("clients[1].reasoning.multi_turn cannot go with")
    assert problem_of(spec_of(cohort)).startswith("cohorts[0].population")


def test_users_need_neither_rate_nor_arrivals() -> None:
    validate(spec_of(USERS, aggregate_rate=0.0))
    odd = Arrival(process="no such process", cv=-1.0)
    validate(spec_of(attrs.evolve(USERS, rate_fraction=-1.0, arrival=odd), aggregate_rate=0.0))


def test_a_factory_replaces_the_process() -> None:
    made = attrs.evolve(CLIENT, arrival=Arrival(), factory=NormalisedExponential(1, 10))
    validate(spec_of(made))


@pytest.mark.parametrize(
    "sessions", [attrs.evolve(CLIENT, reasoning=ROUNDS), attrs.evolve(COHORT, reasoning=ROUNDS)]
)
def test_users_and_sessions_do_not_mix(sessions: Client | Cohort) -> None:
    validate(spec_of(sessions))
    assert "cannot go with clients[0].concurrency" in problem_of(spec_of(USERS, sessions))


def test_one_source_only() -> None:
    data = ServegenData(path="x")
    check_sources(spec_of(COHORT, servegen_data=data))
    with pytest.raises(BlisError, match="clients and servegen_data exclude one another"):
        check_sources(spec_of(CLIENT, servegen_data=data))


PLUGIN = """
from blis_core.api import ArrivalSampler, LengthSampler, hookimpl


class Gaps(ArrivalSampler):
    def sample(self, rng, n):
        return [5] * n


class Sizes(LengthSampler):
    def sample(self, rng, n):
        return [7] * n


@hookimpl
def blis_register_arrival_samplers(register):
    register("ticks", lambda setup: Gaps())


@hookimpl
def blis_register_length_samplers(register):
    register("sevens", lambda setup: Sizes())
"""


def test_samplers_of_a_plugin_are_valid(tmp_path: Path) -> None:
    client = attrs.evolve(
        CLIENT, arrival=Arrival(process="ticks"), output_distribution=Distribution(type="sevens")
    )
    assert "arrival.process: unknown 'ticks'" in problem_of(spec_of(client))
    file = tmp_path / "samplers.py"
    file.write_text(PLUGIN)
    plugins.configure(files=[file])
    try:
        validate(spec_of(client))
    finally:
        plugins.reset()
    assert "arrival.process: unknown 'ticks'" in problem_of(spec_of(client))


def numbers() -> st.SearchStrategy[int]:
    return st.sampled_from([-1, 0, 1, 2**63 - 1])


@given(
    fraction=st.sampled_from([-1.0, 0.0, 0.5, math.inf, math.nan]),
    concurrency=numbers(),
    think_time=numbers(),
    process=st.sampled_from(["", "poisson", "weibull", "bursty"]),
    cv=st.none() | st.sampled_from([-1.0, 0.0, 0.001, 1.0, 10.4, 11.0, math.nan]),
    timeout=st.none() | numbers(),
    rounds=st.none() | numbers(),
)
def test_clients_are_valid_exactly_if_every_value_is(
    fraction: float,
    concurrency: int,
    think_time: int,
    process: str,
    cv: float | None,
    timeout: int | None,
    rounds: int | None,
) -> None:
    by_rate = concurrency == 0
    expected = (
        concurrency >= 0
        and think_time >= 0
        and (timeout is None or timeout >= 0)
        and (rounds is None or (rounds >= 1 and by_rate))
        and (0 < fraction < math.inf if by_rate else not fraction > 0)
        and (
            not by_rate
            or (
                process in ("poisson", "weibull")
                and (cv is None or (0.01 <= cv <= 10.4 if process == "weibull" else cv > 0))
            )
        )
    )
    client = attrs.evolve(
        CLIENT,
        rate_fraction=fraction,
        concurrency=concurrency,
        think_time_us=think_time,
        arrival=Arrival(process=process, cv=cv),
        timeout=timeout,
        reasoning=None if rounds is None else Reasoning(multi_turn=MultiTurn(max_rounds=rounds)),
    )
    if expected:
        validate(spec_of(client))
    else:
        assert problem_of(spec_of(client)).startswith("clients[0].")
