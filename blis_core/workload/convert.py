"""Workload specifications made from other descriptions of traffic. Nothing here draws."""

from __future__ import annotations

import attrs

from blis_core.catalog.defaults import Preset
from blis_core.errors import BlisError
from blis_core.workload.flags import PREFIX_GROUP, LengthBounds
from blis_core.workload.inference_perf import expand
from blis_core.workload.servegen import load_clients
from blis_core.workload.spec import (
    VERSION,
    Arrival,
    Client,
    Distribution,
    ServegenData,
    WorkloadSpec,
)
from blis_core.workload.validation import validate


def from_preset(name: str, preset: Preset, rate: float, num_requests: int) -> WorkloadSpec:
    """One client with the lengths of ``preset``; ``rate`` in requests per second."""
    shared = preset.prefix_tokens > 0

    def gaussian(mean: int, stdev: int, low: int, high: int) -> Distribution:
        return Distribution(type="gaussian", params=LengthBounds(mean, stdev, low, high).params)

    return _valid(
        WorkloadSpec(
            version=VERSION,
            category="language",
            clients=(
                Client(
                    id=f"preset-{name}",
                    rate_fraction=1.0,
                    arrival=Arrival(process="constant"),
                    input_distribution=gaussian(
                        preset.prompt_tokens,
                        preset.prompt_tokens_stdev,
                        preset.prompt_tokens_min,
                        preset.prompt_tokens_max,
                    ),
                    output_distribution=gaussian(
                        preset.output_tokens,
                        preset.output_tokens_stdev,
                        preset.output_tokens_min,
                        preset.output_tokens_max,
                    ),
                    prefix_group=PREFIX_GROUP if shared else "",
                    prefix_length=preset.prefix_tokens,
                ),
            ),
            aggregate_rate=rate,
            num_requests=num_requests,
        )
    )


def from_servegen(path: str) -> WorkloadSpec:
    """The clients of a folder of ServeGen data.

    The aggregate rate is 1 request/s whatever the folder says: reference quirk 05b-1.
    """
    clients = load_clients(ServegenData(path=path))
    return _valid(WorkloadSpec(version=VERSION, clients=clients, aggregate_rate=1.0))


def from_inference_perf(spec: WorkloadSpec) -> WorkloadSpec:
    """The clients of the section ``inference_perf`` of ``spec``, of which only the seed is kept.

    What the section says about the number of requests and about the rate of each stage cannot be
    written, so that the result generates other traffic: reference quirk 05b-3.
    """
    if spec.inference_perf is None:
        raise BlisError("the file has no section inference_perf")
    expansion = expand(spec.inference_perf)
    return _valid(
        WorkloadSpec(
            version=VERSION,
            seed=spec.seed,
            category=expansion.category,
            clients=tuple(attrs.evolve(client, factory=None) for client in expansion.clients),
            aggregate_rate=expansion.aggregate_rate,
        )
    )


def _valid(spec: WorkloadSpec) -> WorkloadSpec:
    validate(spec)
    return spec
