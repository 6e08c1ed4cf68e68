"""Ready-made workloads for experiments, each given its seed and its rate in requests per second."""

from __future__ import annotations

from blis_core.workload.spec import VERSION, Arrival, Client, Distribution, WorkloadSpec

_POISSON = Arrival(process="poisson")


def bursty_traffic(seed: int, rate: float) -> WorkloadSpec:
    """One batch client whose gaps vary 3.5 times as much as those of Poisson arrivals."""
    return _scenario(
        seed,
        rate,
        Client(
            id="bursty-client",
            tenant_id="tenant-A",
            slo_class="batch",
            rate_fraction=1.0,
            arrival=Arrival(process="gamma", cv=3.5),
            input_distribution=_exponential(512),
            output_distribution=_exponential(256),
        ),
    )


def unfair_tenants(seed: int, rate: float) -> WorkloadSpec:
    """A bulk tenant with nine tenths of the load beside a critical one with short requests."""
    return _scenario(
        seed,
        rate,
        Client(
            id="low-priority-bulk",
            tenant_id="tenant-bulk",
            slo_class="batch",
            rate_fraction=0.9,
            arrival=_POISSON,
            input_distribution=_exponential(1024),
            output_distribution=_exponential(512),
        ),
        Client(
            id="high-priority-realtime",
            tenant_id="tenant-realtime",
            slo_class="critical",
            rate_fraction=0.1,
            arrival=_POISSON,
            input_distribution=_gaussian(128, 50, 10, 2048),
            output_distribution=_exponential(64),
            streaming=True,
        ),
    )


def prefix_heavy(seed: int, rate: float) -> WorkloadSpec:
    """Four fifths of the load begin with the same 50 tokens."""
    return _scenario(
        seed,
        rate,
        Client(
            id="shared-prefix",
            tenant_id="tenant-A",
            slo_class="batch",
            rate_fraction=0.8,
            arrival=_POISSON,
            input_distribution=_exponential(256),
            output_distribution=_exponential(128),
            prefix_group="system-prompt",
            prefix_length=50,
        ),
        Client(
            id="unique-prefix",
            tenant_id="tenant-B",
            slo_class="standard",
            rate_fraction=0.2,
            arrival=_POISSON,
            input_distribution=_exponential(512),
            output_distribution=_exponential(256),
        ),
    )


def mixed_slo(seed: int, rate: float) -> WorkloadSpec:
    """Critical, standard and batch requests in about equal numbers."""
    return _scenario(
        seed,
        rate,
        Client(
            id="realtime",
            tenant_id="tenant-rt",
            slo_class="critical",
            rate_fraction=0.33,
            arrival=_POISSON,
            input_distribution=_gaussian(64, 20, 10, 256),
            output_distribution=_exponential(32),
            streaming=True,
        ),
        Client(
            id="interactive",
            tenant_id="tenant-int",
            slo_class="standard",
            rate_fraction=0.34,
            arrival=_POISSON,
            input_distribution=_gaussian(256, 100, 32, 2048),
            output_distribution=_exponential(128),
        ),
        Client(
            id="batch",
            tenant_id="tenant-batch",
            slo_class="batch",
            rate_fraction=0.33,
            arrival=_POISSON,
            input_distribution=_exponential(1024),
            output_distribution=_exponential(512),
        ),
    )


def _scenario(seed: int, rate: float, *clients: Client) -> WorkloadSpec:
    return WorkloadSpec(
        version=VERSION, seed=seed, category="language", clients=clients, aggregate_rate=rate
    )


def _exponential(mean: float) -> Distribution:
    return Distribution(type="exponential", params={"mean": float(mean)})


def _gaussian(mean: float, std_dev: float, low: float, high: float) -> Distribution:
    params = {"mean": mean, "std_dev": std_dev, "min": low, "max": high}
    return Distribution(type="gaussian", params={k: float(v) for k, v in params.items()})
