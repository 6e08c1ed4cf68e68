"""What the formulas of the deprecated models guarantee for every batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.api import BatchShape, LatencySetup, PrefillChunk
from blis_latency_legacy import crossmodel, trained_roofline
from blis_latency_legacy.blackbox import Blackbox
from blis_latency_legacy.crossmodel import CrossModel
from blis_latency_legacy.trained_roofline import TrainedRoofline

BETAS = {
    Blackbox: ((8000.5, 20.25, 300.75), (0.0, 0.0, 0.001)),
    CrossModel: (crossmodel.GLOBAL[1], (0.0, 0.0, 0.0, 0.0)),
    TrainedRoofline: (
        trained_roofline.GLOBAL[1],
        (0.0,) * 7,
        (1e300, 1e300, *trained_roofline.GLOBAL[1][2:]),
    ),
}
chunks = st.builds(
    lambda done, new, rest: PrefillChunk(done, new, done + new + rest),
    st.integers(0, 20_000),
    st.integers(1, 4096),
    st.integers(0, 20_000),
)
prefills = st.lists(chunks, max_size=4).map(tuple)
decodes = st.integers(0, 512)
contexts = st.integers(0, 5_000_000)
choices = [(cls, beta) for cls, betas in BETAS.items() for beta in betas]
setups = st.builds(
    lambda choice, model, gpu, tp: (*choice, model, gpu, tp),
    st.sampled_from(choices),
    st.sampled_from(("llama-3.1-8b-instruct", "qwen3-30b-a3b", "deepseek-v2-lite")),
    st.sampled_from(("H100", "L40S")),
    st.sampled_from((1, 2, 4)),
)
laws = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def build(latency_reference):
    def make(cls, beta, model, gpu, tp):
        return cls(
            LatencySetup(
                backend="x",
                model=latency_reference.model(model),
                hardware=latency_reference.gpus[gpu],
                tp=tp,
                beta=beta,
            )
        )

    return make


@laws
@given(setups, decodes, contexts, st.integers(0, 60))
def test_decode_times_equal_single_steps(build, setup, n, context, steps):
    model = build(*setup)
    single = [model.step_time(BatchShape((), n, context + j * n)) for j in range(steps)]
    assert model.decode_times(n, context, steps).tolist() == single


@pytest.mark.parametrize("n", [32, 64, 128, 256])
def test_decode_times_where_memory_overtakes_compute(build, n):
    beta = trained_roofline.GLOBAL[1]
    model = build(TrainedRoofline, beta, "llama-3.1-8b-instruct", "H100", 1)
    single = [model.step_time(BatchShape((), n, j * n)) for j in range(1500)]
    assert model.decode_times(n, 0, 1500).tolist() == single


@laws
@given(setups, prefills, decodes, contexts, st.integers(0, 5000))
def test_longer_decode_contexts_never_help(build, setup, parts, n, context, more):
    """Blackbox and crossmodel do not look at contexts at all."""
    model = build(*setup)
    shorter = model.step_time(BatchShape(parts, n, context))
    longer = model.step_time(BatchShape(parts, n, context + more))
    assert 1 <= shorter <= longer
    assert setup[0] is TrainedRoofline or shorter == longer


@laws
@given(setups, prefills, chunks, decodes, contexts, st.integers(1, 50))
def test_further_work_never_helps(build, setup, parts, extra, n, context, added):
    model = build(*setup)
    base = model.step_time(BatchShape(parts, n, context))
    assert base <= model.step_time(BatchShape((*parts, extra), n, context))
    assert base <= model.step_time(BatchShape(parts, n + added, context))
