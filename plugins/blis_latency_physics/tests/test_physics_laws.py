"""What the formulas of roofline and trained-physics guarantee for every batch."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.api import BatchShape, LatencySetup, PrefillChunk
from blis_latency_physics import coefficients
from blis_latency_physics.roofline import Roofline
from blis_latency_physics.trained_physics import TrainedPhysics

MODELS = (
    "llama-3.1-8b-instruct",
    "llama-3.1-70b-instruct",
    "qwen3-30b-a3b",
    "llama-4-scout-17b-16e-instruct-fp8-dynamic",
    "deepseek-v2-lite",
)
BETAS = (
    coefficients.BETA,
    coefficients.BETA[:7],
    (0.5, 0.7, *coefficients.BETA[2:8], 0.4),
    (0.5, 0.7, *coefficients.BETA[2:8], 0.4, 1.5),
    (0.0,) * 10,
    (1e300, 1e300, *coefficients.BETA[2:]),
)

chunks = st.builds(
    lambda done, new, rest: PrefillChunk(done, new, done + new + rest),
    st.integers(0, 20_000),
    st.integers(1, 4096),
    st.integers(0, 20_000),
)
prefills = st.lists(chunks, max_size=4).map(tuple)
decodes = st.integers(0, 512)
contexts = st.integers(0, 5_000_000)
setups = st.builds(
    dict,
    cls=st.sampled_from((Roofline, TrainedPhysics)),
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(("H100", "A100-80", "L40S")),
    tp=st.sampled_from((1, 2, 4)),
    beta=st.sampled_from(BETAS),
)
laws = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def build(latency_reference):
    def make(cls, model, gpu, tp, beta, **gpu_changes):
        return cls(
            LatencySetup(
                backend="x",
                model=latency_reference.model(model),
                hardware=attrs.evolve(latency_reference.gpus[gpu], **gpu_changes),
                tp=tp,
                beta=beta,
            )
        )

    return make


@laws
@given(setups, decodes, contexts, st.integers(0, 60))
def test_decode_times_equal_single_steps(build, setup, n, context, steps):
    model = build(**setup)
    single = [model.step_time(BatchShape((), n, context + j * n)) for j in range(steps)]
    assert model.decode_times(n, context, steps).tolist() == single


@laws
@given(
    setups.filter(lambda setup: setup["cls"] is Roofline),
    prefills,
    decodes,
    contexts,
    st.integers(0, 60),
)
def test_sums_in_one_go_equal_those_piece_by_piece(build, setup, parts, n, context, steps):
    """Whole numbers are merged where nothing needs to be rounded, which changes no bit."""
    merged, pieces = build(**setup), build(**setup)
    assert (merged._exact, merged._exact_bytes) == (2.0**52, 2.0**52)
    pieces._exact = pieces._exact_bytes = 0.0
    shape = BatchShape(parts, n, context)
    assert merged.step_time(shape) == pieces.step_time(shape)
    times = (model.decode_times(n, context, steps).tolist() for model in (merged, pieces))
    assert next(times) == next(times)


@pytest.mark.parametrize(
    ("cls", "gpu"), [(Roofline, "L40S"), (TrainedPhysics, "H100")], ids=["roofline", "trained"]
)
@pytest.mark.parametrize("n", [32, 40, 64, 128, 256])
def test_decode_times_where_memory_overtakes_compute(build, cls, gpu, n):
    model = build(cls, "llama-3.1-8b-instruct", gpu, 1, (0.5, 0.7, *coefficients.BETA[2:7]))
    single = [model.step_time(BatchShape((), n, j * n)) for j in range(1500)]
    assert model.decode_times(n, 0, 1500).tolist() == single


@laws
@given(setups, prefills, decodes, contexts, st.integers(0, 5000))
def test_longer_decode_contexts_never_help(build, setup, parts, n, context, more):
    model = build(**setup)
    shorter = model.step_time(BatchShape(parts, n, context))
    assert 1 <= shorter <= model.step_time(BatchShape(parts, n, context + more))


@laws
@given(setups, prefills, decodes, contexts, st.integers(1, 50), st.integers(0, 5000))
def test_further_decodes_never_help(build, setup, parts, n, context, added, their_context):
    model = build(**setup)
    fewer = model.step_time(BatchShape(parts, n, context))
    assert fewer <= model.step_time(BatchShape(parts, n + added, context + their_context))


@laws
@given(setups, prefills, chunks, decodes, contexts)
def test_a_further_prefill_chunk_never_helps(build, setup, parts, extra, n, context):
    model = build(**setup)
    fewer = model.step_time(BatchShape(parts, n, context))
    assert fewer <= model.step_time(BatchShape((*parts, extra), n, context))


@laws
@given(setups, chunks, decodes, contexts, st.integers(1, 500))
def test_larger_chunks_never_help(build, setup, chunk, n, context, more):
    model = build(**setup)
    larger = PrefillChunk(chunk.context, chunk.new_tokens + more, chunk.prompt_len + more)
    small = model.step_time(BatchShape((chunk,), n, context))
    assert small <= model.step_time(BatchShape((larger,), n, context))


@laws
@given(setups, chunks, st.integers(1, 5000))
def test_progress_of_a_chunk(build, setup, chunk, more):
    """Roofline attends to the progress, trained-physics to the whole prompt."""
    prompt_len = chunk.prompt_len + more
    early = BatchShape((chunk._replace(prompt_len=prompt_len),))
    late = BatchShape((chunk._replace(prompt_len=prompt_len, context=chunk.context + more),))
    model = build(**setup)
    if setup["cls"] is Roofline:
        assert model.step_time(early) <= model.step_time(late)
    else:
        assert model.step_time(early) == model.step_time(late)


@laws
@given(setups.filter(lambda s: s["cls"] is Roofline), prefills, decodes, contexts)
def test_roofline_gains_from_better_hardware(build, setup, parts, n, context):
    shape = BatchShape(parts, n, context)
    base = build(**setup).step_time(shape)
    assert build(**{**setup, "tp": 2 * setup["tp"]}).step_time(shape) <= base
    assert build(**setup, hbm_tb_s=8.0).step_time(shape) <= base
    assert build(**setup, mfu_prefill=0.9, mfu_decode=0.9).step_time(shape) <= base
