"""Blackbox, crossmodel and trained-roofline give the reference's numbers."""

from __future__ import annotations

import pytest

from blis_core.api import BatchShape, BlisError, CoefficientQuery, LatencySetup, PrefillChunk
from blis_latency_legacy import blackbox, crossmodel, plugin, trained_roofline
from blis_latency_legacy.blackbox import Blackbox
from blis_latency_legacy.crossmodel import CrossModel
from blis_latency_legacy.trained_roofline import TrainedRoofline

BACKENDS = {"blackbox": Blackbox, "crossmodel": CrossModel, "trained-roofline": TrainedRoofline}
GLOBAL = {"crossmodel": crossmodel.GLOBAL, "trained-roofline": trained_roofline.GLOBAL}
SECTIONS = {
    "crossmodel": ("crossmodel_defaults", 4),
    "trained-roofline": ("trained_roofline_defaults", 7),
}
parametrize = pytest.mark.parametrize(("backend", "cls"), BACKENDS.items(), ids=list(BACKENDS))
trained = pytest.mark.parametrize("backend", list(SECTIONS))


def query(model="m/x", gpu="H100", tp=1, version="v", **sections):
    return CoefficientQuery(model=model, gpu=gpu, tp=tp, version=version, sections=sections)


@parametrize
def test_step_times(backend, cls, latency_reference):
    checked = uncounted = 0
    for group, model in latency_reference.groups(cls, backend):
        for batch in latency_reference.batches(group):
            if batch.uncounted and backend == "trained-roofline":
                uncounted += 1  # it charges members without tokens, which the engine never makes
                continue
            assert model.step_time(batch.shape) == batch.expected, (group["model"], batch)
            checked += 1
    observed = {"blackbox": (205, 0), "crossmodel": (202, 0), "trained-roofline": (198, 4)}
    assert (checked, uncounted) == observed[backend]


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


@trained
def test_worked_examples(backend, latency_reference):
    alpha, beta = GLOBAL[backend]
    rows = [row for row in latency_reference.examples["steps"] if row["backend"] == backend]
    assert len(rows) == 11
    for row in rows:
        model = BACKENDS[backend](
            LatencySetup(
                backend=backend,
                model=latency_reference.model(row["model"], weight_bytes=row["weight_bytes"]),
                hardware=latency_reference.gpus[row["gpu"]],
                tp=row["tp"],
                alpha=alpha,
                beta=beta,
            )
        )
        times = [model.step_time(batch) for batch in latency_reference.example_batches()]
        assert times == row["times"], row


@pytest.mark.parametrize(
    ("backend", "overheads"),
    [("crossmodel", (13732, 860, 0)), ("trained-roofline", (9315, 1, 1849))],
)
def test_overheads_of_the_global_sets(backend, overheads, latency_reference):
    alpha, beta = GLOBAL[backend]
    model = BACKENDS[backend](
        LatencySetup(
            backend=backend,
            model=latency_reference.model("qwen3-14b"),
            hardware=latency_reference.gpus["H100"],
            tp=1,
            alpha=alpha,
            beta=beta,
        )
    )
    found = model.queueing_time(512), model.output_token_time(), model.completion_time()
    assert found == overheads


def test_worked_examples_of_blackbox(latency_reference):
    for row in latency_reference.examples["blackbox"]:
        key = {name: row[name] for name in ("model", "gpu", "tp", "version")}
        alpha, beta = Blackbox.default_coefficients(query(**key))
        model = Blackbox(LatencySetup(backend="blackbox", alpha=alpha, beta=beta))
        times = [model.step_time(batch) for batch in latency_reference.example_batches()]
        assert times == row["times"], key
        assert model.queueing_time(512) == row["queueing_512"]
        assert model.output_token_time() == row["output_token"]


def test_first_of_equal_rows_wins():
    table = blackbox._packaged_table()
    assert len(table["rows"]) == 111
    first = {}
    for model, gpu, tp, version, *coefficients in table["rows"]:
        first.setdefault((model, gpu, tp, table["version_prefix"] + version), coefficients)
    assert len(first) == 111 - 24
    for (model, gpu, tp, version), (alpha, beta) in first.items():
        found = Blackbox.default_coefficients(query(model, gpu, tp, version))
        assert found == (tuple(alpha), tuple(beta))


def test_blackbox_rows_of_the_user():
    row = {"id": "m/x", "GPU": "H100", "tensor_parallelism": 2, "vllm_version": "v"}
    rows = [
        {**row, "tensor_parallelism": 1, "alpha_coeffs": [9], "beta_coeffs": [9]},
        {**row, "alpha_coeffs": [1, 2, 3], "beta_coeffs": [4, 5, 6]},
        {**row, "alpha_coeffs": [7, 7, 7], "beta_coeffs": [7, 7, 7]},
    ]
    found = Blackbox.default_coefficients(query(tp=2, models=rows))
    assert found == ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
    with pytest.raises(BlisError, match="TP 4"):
        Blackbox.default_coefficients(query(tp=4, models=rows))
    zero = [{**row, "alpha_coeffs": [0, 0, 0], "beta_coeffs": [0, 0, 0]}]
    with pytest.raises(BlisError, match="no coefficients"):
        Blackbox.default_coefficients(query(tp=2, models=zero))


def test_unknown_blackbox_combination():
    with pytest.raises(BlisError, match=r"'qwen/qwen3-14b'.*TP 2.*trained-physics"):
        Blackbox.default_coefficients(
            query("qwen/qwen3-14b", "H100", 2, "vllm/vllm-openai:v0.11.0")
        )


@trained
def test_global_coefficients(backend):
    section, minimum = SECTIONS[backend]
    cls = BACKENDS[backend]
    assert cls.default_coefficients(query()) == GLOBAL[backend]
    own = {"alpha_coeffs": [1, 2, 3], "beta_coeffs": [1] * minimum}
    assert cls.default_coefficients(query(**{section: own})) == ((1, 2, 3), (1,) * minimum)
    for unusable in ({}, {"beta_coeffs": [1] * (minimum - 1)}, {"beta_coeffs": [0] * minimum}):
        with pytest.raises(BlisError, match=section):
            cls.default_coefficients(query(**{section: unusable}))


def test_missing_descriptions_are_the_users_error(latency_reference):
    for cls in (CrossModel, TrainedRoofline):
        with pytest.raises(BlisError, match="--model-config-folder"):
            cls(LatencySetup(backend="b", tp=1, beta=(1.0,) * 7))
    with pytest.raises(BlisError, match="BwPeakTBs"):
        TrainedRoofline(
            LatencySetup(
                backend="b", model=latency_reference.model("qwen3-14b"), tp=1, beta=(1.0,) * 7
            )
        )


def test_registered_as_deprecated():
    entries = {}
    plugin.blis_register_latency_models(
        lambda name, factory, **options: entries.update({name: (factory, options)})
    )
    assert set(entries) == set(BACKENDS)
    for name, (factory, options) in entries.items():
        assert factory == f"{BACKENDS[name].__module__}:{BACKENDS[name].__name__}"
        assert options["deprecated"] == "trained-physics"
        assert options["summary"]
    assert not Blackbox.analytical
    assert CrossModel.analytical
    assert TrainedRoofline.analytical
