"""Ready-made workloads, and latencies across a network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.workload import scenarios
from blis_core.workload.network import client_e2e_us, client_ttft_us, transfer_us
from blis_core.workload.spec import Network, WorkloadSpec
from blis_core.workload.validation import validate


@pytest.mark.parametrize(
    ("make", "clients"),
    [
        (scenarios.bursty_traffic, ["bursty-client batch 1.0 gamma 3.5 exponential"]),
        (
            scenarios.unfair_tenants,
            [
                "low-priority-bulk batch 0.9 poisson None exponential",
                "high-priority-realtime critical 0.1 poisson None gaussian",
            ],
        ),
        (
            scenarios.prefix_heavy,
            [
                "shared-prefix batch 0.8 poisson None exponential",
                "unique-prefix standard 0.2 poisson None exponential",
            ],
        ),
        (
            scenarios.mixed_slo,
            [
                "realtime critical 0.33 poisson None gaussian",
                "interactive standard 0.34 poisson None gaussian",
                "batch batch 0.33 poisson None exponential",
            ],
        ),
    ],
)
def test_scenarios(make: Callable[[int, float], WorkloadSpec], clients: list[str]) -> None:
    spec = make(7, 12.5)
    validate(spec)
    assert (spec.version, spec.category, spec.seed, spec.aggregate_rate) == (
        "2",
        "language",
        7,
        12.5,
    )
    assert clients == [
        f"{c.id} {c.slo_class} {c.rate_fraction} {c.arrival.process} {c.arrival.cv} "
        f"{c.input_distribution.type}"
        for c in spec.clients
    ]
    assert sum(c.rate_fraction for c in spec.clients) == pytest.approx(1)


def test_details_of_scenarios() -> None:
    bulk, urgent = scenarios.unfair_tenants(1, 1.0).clients
    assert (bulk.streaming, urgent.streaming) == (False, True)
    assert urgent.input_distribution.params == {
        "mean": 128.0,
        "std_dev": 50.0,
        "min": 10.0,
        "max": 2048.0,
    }
    shared, unique = scenarios.prefix_heavy(1, 1.0).clients
    assert (shared.prefix_group, shared.prefix_length) == ("system-prompt", 50)
    assert (unique.prefix_group, unique.prefix_length) == ("", 0)


def test_network_example() -> None:
    network = Network(rtt_ms=20.0, bandwidth_mbps=8.0)
    assert transfer_us(network, 1000) == 4000.0
    assert client_ttft_us(50_000.0, network, 1000) == 50_000.0 + 20_000.0 + 4000.0
    assert client_e2e_us(90_000.0, network, 1000, 500) == 90_000.0 + 20_000.0 + 4000.0 + 2000.0


def test_no_network_and_no_limit() -> None:
    assert client_ttft_us(5.5, None, 10**6) == 5.5
    assert client_e2e_us(5.5, None, 10**6, 10**6) == 5.5
    assert client_ttft_us(5.0, Network(rtt_ms=1.0, bandwidth_mbps=-1.0), 10**6) == 1005.0


@given(st.floats(0, 1e9), st.floats(0, 1e4), st.floats(0.001, 1e5), st.integers(0, 10**6))
def test_a_network_only_adds(server: float, rtt: float, bandwidth: float, tokens: int) -> None:
    network = Network(rtt_ms=rtt, bandwidth_mbps=bandwidth)
    ttft = client_ttft_us(server, network, tokens)
    assert ttft >= server
    assert client_e2e_us(server, network, tokens, tokens) >= ttft
    assert client_e2e_us(server, network, tokens, 0) == ttft
