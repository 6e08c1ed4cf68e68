"""Roofline and trained-physics give the reference's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from blis_core.api import BatchShape, BlisError, CoefficientQuery, LatencySetup, PrefillChunk
from blis_latency_physics import coefficients, plugin
from blis_latency_physics.roofline import Roofline
from blis_latency_physics.trained_physics import TrainedPhysics

BACKENDS = {"roofline": Roofline, "trained-physics": TrainedPhysics}
parametrize = pytest.mark.parametrize(("backend", "cls"), BACKENDS.items(), ids=list(BACKENDS))


@parametrize
def test_step_times(backend, cls, latency_reference):
    checked = uncounted = 0
    for group, model in latency_reference.groups(cls, backend):
        for batch in latency_reference.batches(group):
            if batch.uncounted and backend == "trained-physics":
                uncounted += 1  # it charges members without tokens, which the engine never makes
                continue
            assert model.step_time(batch.shape) == batch.expected, (group["model"], batch)
            checked += 1
    assert (checked, uncounted) == {"roofline": (226, 0), "trained-physics": (241, 6)}[backend]


@parametrize
def test_overheads(backend, cls, latency_reference):
    for group, model in latency_reference.groups(cls, backend):
        for prompt_len, expected in group["queueing_us"].items():
            assert model.queueing_time(int(prompt_len)) == expected
        assert model.output_token_time() == group["output_token_us"]
        assert model.completion_time() == group["post_decode_us"]


@parametrize
def test_construction(backend, cls, latency_reference):
    checked = 0
    for case, setup in latency_reference.constructions(backend):
        if case["accepted"]:
            batch = BatchShape((PrefillChunk(0, 10, 10),))
            assert cls(setup).step_time(batch) == case["step_us"], case["case"]
        else:
            with pytest.raises(BlisError) as refusal:
                cls(setup)
            assert "\n" not in str(refusal.value)
        checked += 1
    assert checked == 49


@parametrize
def test_worked_examples(backend, cls, latency_reference):
    alpha, beta = (
        (coefficients.ALPHA, coefficients.BETA) if cls is TrainedPhysics else ((0,) * 3, ())
    )
    rows = [row for row in latency_reference.examples["steps"] if row["backend"] == backend]
    assert len(rows) == 12
    for row in rows:
        width = row["weight_bytes"] or latency_reference.model(row["model"]).weight_bytes
        model = cls(
            LatencySetup(
                backend=backend,
                model=latency_reference.model(row["model"], weight_bytes=width),
                hardware=latency_reference.gpus[row["gpu"]],
                tp=row["tp"],
                alpha=alpha,
                beta=beta,
            )
        )
        times = [model.step_time(batch) for batch in latency_reference.example_batches()]
        assert times == row["times"], row


def test_trained_physics_overheads_of_the_global_set(latency_reference):
    model = TrainedPhysics(
        LatencySetup(
            backend="trained-physics",
            model=latency_reference.model("llama-3.1-8b-instruct"),
            hardware=latency_reference.gpus["H100"],
            tp=1,
            alpha=coefficients.ALPHA,
            beta=coefficients.BETA,
        )
    )
    overheads = model.queueing_time(512), model.output_token_time(), model.completion_time()
    assert overheads == (15563, 45, 777)


@parametrize
def test_decode_times_of_an_empty_run(backend, cls, latency_reference):
    _, model = next(latency_reference.groups(cls, backend))
    assert model.decode_times(3, 100, 0).tolist() == []
    assert model.decode_times(0, 0, 9).tolist() == [1] * 9
    assert model.decode_times(3, 100, 9).dtype == np.int64


def query(**sections):
    return CoefficientQuery(model="m/x", gpu="H100", tp=1, version="", sections=sections)


def test_default_coefficients():
    assert Roofline.default_coefficients(query()) is None
    assert TrainedPhysics.default_coefficients(query()) == (coefficients.ALPHA, coefficients.BETA)
    own = {"alpha_coeffs": [1, 2, 3], "beta_coeffs": [1] * 7}
    found = TrainedPhysics.default_coefficients(query(trained_physics_coefficients=own))
    assert found == ((1.0, 2.0, 3.0), (1.0,) * 7)


@pytest.mark.parametrize(
    "sections",
    [
        {"version": "1"},
        {"trained_physics_coefficients": {"alpha_coeffs": [1, 2, 3], "beta_coeffs": [1] * 6}},
        {"trained_physics_coefficients": {"beta_coeffs": [0] * 10}},
    ],
    ids=["no section", "too few", "all zero"],
)
def test_unusable_user_coefficients(sections):
    with pytest.raises(BlisError, match="trained_physics_coefficients"):
        TrainedPhysics.default_coefficients(query(**sections))


def test_roofline_names_every_problem(latency_reference):
    with pytest.raises(BlisError, match=r"layers is 0.*hidden size is 0.*weight bytes is -1"):
        Roofline(
            LatencySetup(
                backend="roofline",
                model=latency_reference.model(
                    "llama-3.1-8b-instruct", layers=0, hidden=0, weight_bytes=-1.0
                ),
                hardware=latency_reference.gpus["H100"],
                tp=1,
            )
        )


def test_missing_descriptions_are_the_users_error(latency_reference):
    for cls in BACKENDS.values():
        with pytest.raises(BlisError, match="--hardware"):
            cls(
                LatencySetup(
                    backend="b", model=latency_reference.model("qwen3-14b"), tp=1, beta=(1.0,) * 7
                )
            )


def test_registration():
    entries = {}
    plugin.blis_register_latency_models(
        lambda name, factory, **options: entries.update({name: (factory, options)})
    )
    assert set(entries) == set(BACKENDS)
    for name, (factory, options) in entries.items():
        assert factory == f"{BACKENDS[name].__module__}:{BACKENDS[name].__name__}"
        assert options["summary"]
        assert not options.get("deprecated")
        assert BACKENDS[name].analytical
    assert not Roofline.accepts_coefficients
    assert TrainedPhysics.accepts_coefficients
