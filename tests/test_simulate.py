"""``simulate`` from Python: workloads in code, and mistakes told as the command line would."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from blis_core.api import BlisError, ReplayConfig, RunConfig, simulate
from blis_core.workload.spec import parse_spec

SPEC: dict[str, Any] = {
    "version": "2",
    "seed": 7,
    "aggregate_rate": 20,
    "num_requests": 12,
    "clients": [
        {
            "id": "chat",
            "rate_fraction": 1,
            "arrival": {"process": "poisson"},
            "input_distribution": {"type": "constant", "params": {"value": 100}},
            "output_distribution": {"type": "exponential", "params": {"mean": 20}},
        }
    ],
}
RUN: dict[str, Any] = {"model": "qwen/qwen3-14b"}


def test_a_workload_in_code_is_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump(SPEC))
    of_file = simulate(**RUN, workload_spec=str(file))
    for spec in (SPEC, parse_spec(file.read_bytes(), "w.yaml")):
        in_code = simulate(**RUN, spec=spec)
        assert in_code.cluster == of_file.cluster
        assert in_code.workload_seed == 7
        assert "short" not in str(in_code.cautions)
    assert simulate(RunConfig(**RUN, num_requests=3), spec=SPEC).cluster.completed_requests == 3


def test_old_names_in_it_are_warned_of() -> None:
    client = {**SPEC["clients"][0], "slo_class": "realtime"}
    results = simulate(**RUN, spec={**SPEC, "version": "1", "clients": [client]})
    assert results.warnings == ["spec: clients[0].slo_class: 'realtime' is now called 'critical'"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_request": 5}, "RunConfig has no option num_request; did you mean num_requests?"),
        ({"zzz": 5}, r"RunConfig has no option zzz$"),
        ({"trace_header": "t", "trace_dat": "d"}, "ReplayConfig has no option trace_dat; did you"),
        ({"spec": {**SPEC, "clints": []}}, "clints"),
        ({"spec": SPEC, "workload_spec": "w.yaml"}, "spec: excludes workload_spec"),
        ({"spec": SPEC, "concurrency": 2}, "spec: excludes concurrency"),
        ({"spec": SPEC, "trace_header": "t", "trace_data": "d"}, "spec: a replay takes its"),
        ({"rate": 0.0}, "--rate: must be finite and greater than 0"),
        ({"rate": "fast"}, "--rate: a number is needed, not 'fast'"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlisError, match=message):
        simulate(**RUN, **options)


@pytest.mark.parametrize("config", [RunConfig(**RUN), ReplayConfig(**RUN)])
def test_options_beside_a_configuration(config: Any) -> None:
    with pytest.raises(BlisError, match=r"simulate: rate beside a configuration; attrs\.evolve"):
        simulate(config, rate=5)


def test_results_of_the_same_run_are_equal() -> None:
    """Also those with arrays in them, which do not compare as one value."""
    first, second = (simulate(**RUN, num_requests=5) for _ in range(2))
    assert first.cluster == second.cluster
    assert [r.e2e for r in first.requests] == [r.e2e for r in second.requests]
    assert first == first
    assert (first == second) is False  # requests are objects of their own
