"""The score of a run: weights, components, what is printed."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.config import RunConfig
from blis_core.errors import BlisError
from blis_core.results.aggregate import build_results
from blis_core.results.fitness import fitness, parse_fitness_weights
from blis_core.results.model import Distribution, MetricsBlock
from blis_core.results.text import fitness_section, render
from blis_core.run import simulate
from tests.results.records import instance, record

METRICS = [
    *("mean_e2e", "mean_ttft", "p50_e2e", "p50_ttft", "p99_e2e", "p99_ttft"),
    *("throughput", "tokens_per_sec"),
]


def test_weights() -> None:
    assert parse_fitness_weights("") == {}
    parsed = parse_fitness_weights(" throughput : 1_0 ,p99_ttft:.5, mean_e2e:0,throughput:2")
    assert list(parsed.items()) == [("mean_e2e", 0), ("p99_ttft", 0.5), ("throughput", 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "'' is not of the form metric:weight"),
        ("throughput:1,", "'' is not of the form metric:weight"),
        ("throughput", "'throughput' is not of the form"),
        ("nope:1", "unknown metric 'nope' .known: mean_e2e, .*tokens_per_sec"),
        (":1", "unknown metric ''"),
        ("Throughput:1", "unknown metric 'Throughput'"),
        *(
            (f"throughput:{weight}", "the weight of throughput must be a finite number of at")
            for weight in ("", "x", "-1", "nan", "inf", "1:2")
        ),
    ],
)
def test_malformed_weights(text: str, message: str) -> None:
    with pytest.raises(BlisError, match=f"^--fitness-weights: {message}"):
        parse_fitness_weights(text)


def test_weights_are_checked_before_anything_is_simulated() -> None:
    with pytest.raises(BlisError, match="--fitness-weights"):
        simulate(RunConfig(model="nobody/knows", fitness_weights="nope:1"))


def test_components() -> None:
    cluster = MetricsBlock(instance_id="cluster", responses_per_sec=300.0, tokens_per_sec=1e4)
    ttft = Distribution(mean=1000.0, p50=0.0, p99=3000.0)
    e2e = Distribution(mean=9000.0, p50=4000.0, p99=99_000.0)
    found = fitness(dict.fromkeys(reversed(METRICS), 1.0), cluster, ttft, e2e)
    assert list(found.components.items()) == [
        ("mean_e2e", 0.1),
        ("mean_ttft", 0.5),
        ("p50_e2e", 0.2),
        ("p50_ttft", 1.0),
        ("p99_e2e", 0.01),
        ("p99_ttft", 0.25),
        ("throughput", 0.75),
        ("tokens_per_sec", 0.5),
    ]
    assert found.score == sum([0.1, 0.5, 0.2, 1.0, 0.01, 0.25, 0.75, 0.5])


@given(st.dictionaries(st.sampled_from(METRICS), st.floats(0, 1e6)), st.floats(0, 1e12))
def test_components_lie_between_0_and_1(weights: dict[str, float], figure: float) -> None:
    cluster = MetricsBlock(instance_id="cluster", responses_per_sec=figure, tokens_per_sec=figure)
    times = Distribution(mean=figure, p50=figure, p99=figure)
    found = fitness(weights, cluster, times, times)
    assert list(found.components) == sorted(weights)
    assert all(0 <= value <= 1 for value in found.components.values())
    assert 0 <= found.score <= sum(weights.values()) * (1 + 1e-9)


def test_the_score_of_a_recorded_run() -> None:
    results = simulate(
        model="qwen/qwen3-14b",
        latency_model="blackbox",
        alpha_coeffs=(100, 1, 10),
        beta_coeffs=(5000, 20, 50),
        total_kv_blocks=2000,
        num_instances=3,
        num_requests=12,
        rate=50.0,
        prompt_tokens=100,
        prompt_tokens_stdev=30,
        output_tokens=20,
        output_tokens_stdev=8,
        routing_policy="least-loaded",
        fitness_weights="throughput:0.5,p99_ttft:0.3, mean_e2e:0.2,tokens_per_sec:1,p50_ttft:0.1,"
        "mean_ttft:0.1,p99_e2e:0.1,p50_e2e:0.1",
    )
    assert results.fitness is not None
    assert list(fitness_section(results.fitness)) == [
        "=== Fitness Evaluation ===",
        "Score: 0.255831",
        "  mean_e2e: 0.008551",
        "  mean_ttft: 0.100157",
        "  p50_e2e: 0.009441",
        "  p50_ttft: 0.100949",
        "  p99_e2e: 0.004706",
        "  p99_ttft: 0.075156",
        "  throughput: 0.271323",
        "  tokens_per_sec: 0.074387",
    ]


def test_first_tokens_count_without_completions() -> None:
    waiting = instance(record(ttft=3000), sim_ended=10**6)
    results = build_results(
        [waiting], several=False, fitness_weights={"p99_ttft": 2.0, "p99_e2e": 1.0}
    )
    assert results.fitness is not None
    assert results.fitness.components == {"p99_ttft": 0.25, "p99_e2e": 1.0}
    assert results.fitness.score == 1.5


def test_text() -> None:
    done = instance(record(ttft=1000, e2e=9000), sim_ended=10**6, output_tokens=5)
    results = build_results([done], several=False, fitness_weights={"p50_ttft": 1.0})
    assert results.fitness is not None
    expected = ["=== Fitness Evaluation ===", "Score: 0.500000", "  p50_ttft: 0.500000"]
    assert list(fitness_section(results.fitness)) == expected
    assert render(results).endswith("\n".join(["}", *expected, ""]))
    assert "Fitness" not in render(results, replay=True)
    without = attrs.evolve(results, fitness=None)
    assert "Fitness" not in render(without)
