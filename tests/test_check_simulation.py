"""What is wrong with a configuration, without simulating it."""

from __future__ import annotations

from typing import Any

import pytest

from blis_core import run
from blis_core.api import BlisError, ReplayConfig, RunConfig, check_simulation, resolve, simulate

MODEL: dict[str, Any] = {"model": "qwen/qwen3-14b", "num_requests": 3}


def test_a_sound_configuration_is_resolved() -> None:
    config = RunConfig(**MODEL, num_instances=2)
    assert check_simulation(config) == resolve(config)


@pytest.mark.parametrize(
    "options",
    [
        {"num_instances": 0},
        {"scheduler": "fifo"},
        {"hardware": "X1"},
        {"latency_model": "oracle"},
        {"latency_option": ("a=1",)},
        {"routing_policy": "weighted", "routing_scorers": "none:1"},
        {"kv_store": "none"},
        {"policy_config": "none.yaml"},
        {"workload_spec": "none.yaml"},
        {"workload": "none"},
        {"fitness_weights": "x"},
        {"prefill_instances": 5, "decode_instances": 5},
        {"pd_decider": "none"},
    ],
)
def test_it_refuses_what_simulate_refuses(options: dict[str, Any]) -> None:
    config = RunConfig(**MODEL, **options)
    with pytest.raises(BlisError) as refused:
        simulate(config)
    with pytest.raises(BlisError) as checked:
        check_simulation(config)
    assert str(checked.value) == str(refused.value)


def test_a_replay() -> None:
    config = ReplayConfig(model=MODEL["model"], trace_header="none.yaml", trace_data="none.csv")
    with pytest.raises(BlisError, match=r"none\.yaml"):
        check_simulation(config)
    assert check_simulation(config, workload=False) == resolve(config)


def test_the_workload_need_not_be_looked_at() -> None:
    config = RunConfig(**MODEL, workload_spec="none.yaml")
    assert check_simulation(config, workload=False) == resolve(config)


def test_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(run, "_simulate", never)
    check_simulation(RunConfig(**MODEL))
