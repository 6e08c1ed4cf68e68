"""Cost of a step in the latency models: microseconds of computing for one ``step_time``.

The last column is the first step with a number of tokens that has not come up before: ``kernels``
computes its sums then, once for each number.

    .venv/bin/python benchmarks/step_cost.py

The least of several rounds counts, since a busy machine only adds.
"""

from __future__ import annotations

import time
import timeit

from blis_core.api import BatchShape, LatencySetup, PrefillChunk
from blis_core.catalog.hardware import bundled_gpus
from blis_core.catalog.huggingface import describe
from blis_core.catalog.models import bundled_config
from blis_core.plugins import get_registry

MODEL, GPU = "llama-3.1-8b-instruct", "H100"
SHAPES = {
    "32 decodes": BatchShape((), 32, 32_000),
    "256 decodes": BatchShape((), 256, 256_000),
    "2 chunks": BatchShape((PrefillChunk(0, 512, 512), PrefillChunk(1536, 512, 2048)), 16, 11_200),
}
OTHERS = ("run of 1000", "new size")
BETAS = (0.15, 0.0, 1.36, 0.75, 32.1, 4.4, 126.0, 481.9, 0.0, 1.95)


def new_sizes(backend: str, setup: LatencySetup) -> float:
    """Seconds of a step with a chunk that is longer by one than the one before, on average."""
    model = get_registry().create("latency-model", backend, setup)
    shapes = [BatchShape((PrefillChunk(0, n, n),), 16, 11_200) for n in range(100, 1100)]
    start = time.perf_counter()
    for shape in shapes:
        model.step_time(shape)
    return (time.perf_counter() - start) / len(shapes)


def main() -> None:
    """Print a table in us: models down; across shapes, a step of a run of 1000, and a new size."""
    config = bundled_config(MODEL)
    assert config is not None
    description, _ = describe(config, MODEL)
    print(f"{'us':<16}" + "".join(f"{name:>14}" for name in [*SHAPES, *OTHERS]))
    for backend in ("roofline", "trained-physics", "kernels"):
        setup = LatencySetup(
            backend=backend,
            model=description,
            hardware=bundled_gpus()[GPU],
            tp=1,
            beta=BETAS if backend == "trained-physics" else (0.0,) * 3,
            model_name=MODEL,
        )
        model = get_registry().create("latency-model", backend, setup)
        costs = []
        for shape in SHAPES.values():
            timer = timeit.Timer(lambda step=model.step_time, shape=shape: step(shape))
            costs.append(min(timer.repeat(20, 5000)) / 5000)
        timer = timeit.Timer(lambda model=model: model.decode_times(32, 32_000, 1000))
        costs.append(min(timer.repeat(20, 200)) / 200 / 1000)
        costs.append(min(new_sizes(backend, setup) for _ in range(5)))
        print(f"{backend:<16}" + "".join(f"{cost * 1e6:14.3f}" for cost in costs))


if __name__ == "__main__":
    main()
