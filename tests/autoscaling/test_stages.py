"""The stages by themselves: collector, analyzer, engines, actuator, stabilisation windows."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from blis_core.autoscaling.actuator import DirectActuator
from blis_core.autoscaling.analyzer import SaturationAnalyzer
from blis_core.autoscaling.collector import RoutableCollector
from blis_core.autoscaling.engine import GreedyEngine, UnlimitedEngine
from blis_core.autoscaling.stabilization import StabilizationGate
from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    InstanceStatus,
    ModelReplicas,
    ScaleDecision,
    ScalingSetup,
    Variant,
    VariantCapacity,
)
from blis_core.errors import BlisError
from blis_core.testing import FixedCluster

CASES = json.loads((Path(__file__).parent / "data" / "lifecycle.json").read_text())["analyzer"]
H100, A100 = Variant("H100", 1), Variant("A100-80", 1)


def replica(id="r", variant=H100, **figures):
    given = {"model": "m", "state": "active", "routable": True, **figures}
    return InstanceStatus(id=id, variant=variant, **given)


def analyze(*replicas, **setup):
    analyzer = SaturationAnalyzer(ScalingSetup(**setup))
    return analyzer.analyze(ModelReplicas(model="m", replicas=replicas))


@pytest.mark.parametrize("case", CASES)
def test_analyzer_and_engine_agree_with_the_reference(case):
    found = analyze(
        *(
            replica(
                variant=Variant(r["Variant"]["GPUType"], r["Variant"]["TPDegree"]),
                queue_depth=r["QueueDepth"],
                cost_per_hour=r["CostPerHour"],
                capacity_tokens=r["TotalKvCapacityTokens"],
                used_tokens=r["KvTokensInUse"],
            )
            for r in case["replicas"]
        )
    )
    want = case["result"]
    assert (found.supply, found.demand) == (want["TotalSupply"], want["TotalDemand"])
    assert found.utilization == want["Utilization"]
    assert (found.required, found.spare) == (want["RequiredCapacity"], want["SpareCapacity"])
    assert [
        (*v.variant, v.supply, v.demand, v.replicas, v.cost_per_hour) for v in found.variants
    ] == [
        (
            *(v["Variant"]["GPUType"], v["Variant"]["TPDegree"], v["Supply"], v["Demand"]),
            *(v["ReplicaCount"], v["CostPerReplica"]),
        )
        for v in want["VariantCapacities"] or ()
    ]
    decisions = UnlimitedEngine(ScalingSetup()).decide([found], {})
    assert [(d.model, *d.variant, d.delta) for d in decisions] == [
        (d["ModelID"], d["Variant"]["GPUType"], d["Variant"]["TPDegree"], d["Delta"])
        for d in case["decisions"] or ()
    ]


def test_the_last_instance_of_a_model_stays():
    assert analyze(replica(capacity_tokens=16000)).spare == 0
    assert analyze(*[replica(capacity_tokens=16000)] * 2).spare > 0


def test_setup_changes_the_verdict():
    loaded = replica(capacity_tokens=1000, used_tokens=500, queue_depth=1)
    assert analyze(loaded, avg_input_tokens=10).required == 0
    assert analyze(loaded, avg_input_tokens=400).required > 0
    assert analyze(loaded, avg_input_tokens=10, scale_up_threshold=0.5).required > 0
    assert analyze(loaded, avg_input_tokens=10, kv_cache_threshold=0.2).required > 0


# ---------------------------------------------------------------------------------- collector


def test_collector_takes_what_is_routable_and_known():
    seen = [
        replica("a", model="z"),
        replica("b", model="y"),
        replica("c", routable=False),
        replica("d", model=""),
        replica("e", variant=Variant("", 1)),
        replica("f", model="z"),
    ]
    found = RoutableCollector(ScalingSetup()).collect(FixedCluster(seen), 0)
    assert [(m.model, [r.id for r in m.replicas]) for m in found] == [
        ("y", ["b"]),
        ("z", ["a", "f"]),
    ]


# ------------------------------------------------------------------------------------- engines


def analysis(*variants, required=0.0, spare=0.0):
    """Variants as (variant, replicas, supply of each, cost)."""
    made = tuple(
        VariantCapacity(variant=v, replicas=n, supply=n * each, demand=0.0, cost_per_hour=cost)
        for v, n, each, cost in variants
    )
    return CapacityAnalysis(model="m", required=required, spare=spare, variants=made)


BOTH = ((H100, 2, 100.0, 10.0), (A100, 1, 60.0, 4.0))


def test_unlimited_goes_up_with_the_cheapest_and_down_with_the_dearest():
    engine = UnlimitedEngine(ScalingSetup())
    assert engine.decide([analysis(*BOTH, required=999.0)], {}) == [ScaleDecision("m", A100, 1)]
    assert engine.decide([analysis(*BOTH, spare=999.0)], {}) == [ScaleDecision("m", H100, -1)]
    assert engine.decide([analysis(*BOTH)], {}) == []
    assert engine.decide([analysis(required=5.0)], {}) == []


def test_equal_costs_are_decided_by_gpu_and_degree():
    wide = Variant("A100-80", 2)
    equal = ((H100, 1, 9.0, 5.0), (wide, 1, 9.0, 5.0), (A100, 1, 9.0, 5.0))
    engine = UnlimitedEngine(ScalingSetup())
    for need in ({"required": 1.0}, {"spare": 1.0}):
        (decision,) = engine.decide([analysis(*equal, **need)], {})
        assert decision.variant == A100


def test_greedy_starts_what_is_missing_where_there_is_room():
    engine = GreedyEngine(ScalingSetup())
    free = {A100: 2, H100: 8}
    assert engine.decide([analysis(*BOTH, required=250.0)], free) == [
        ScaleDecision("m", A100, 2),
        ScaleDecision("m", H100, 2),
    ]
    assert engine.decide([analysis(*BOTH, required=50.0)], free) == [ScaleDecision("m", A100, 1)]
    assert engine.decide([analysis(*BOTH, required=50.0)], {}) == []


def test_greedy_starts_variants_that_nobody_has_yet():
    other = Variant("L40S", 1)
    decisions = GreedyEngine(ScalingSetup()).decide(
        [analysis((H100, 1, 100.0, 10.0), required=150.0)], {H100: 0, other: 5, Variant("L4", 2): 4}
    )
    assert decisions == [ScaleDecision("m", other, 2)]


def test_greedy_shares_gpus_among_models():
    needs = [attrs.evolve(analysis(*BOTH, required=100.0), model=name) for name in "pq"]
    decisions = GreedyEngine(ScalingSetup()).decide(needs, {A100: 3})
    assert [(d.model, d.delta) for d in decisions] == [("p", 2), ("q", 1)]


def test_greedy_drains_what_is_to_spare_but_never_all():
    engine = GreedyEngine(ScalingSetup())
    assert engine.decide([analysis(*BOTH, spare=250.0)], {}) == [ScaleDecision("m", H100, -2)]
    assert engine.decide([analysis(*BOTH, spare=1.0)], {}) == [ScaleDecision("m", H100, -1)]
    alone = analysis((H100, 3, 100.0, 1.0), spare=900.0)
    assert engine.decide([alone], {}) == [ScaleDecision("m", H100, -2)]


# ------------------------------------------------------------------------------------ actuator


def test_actuator_starts_and_drains_in_order_of_names():
    names = ("instance_2", "instance_10", "autoscale-m-000001")
    cluster = FixedCluster([replica(name) for name in names], room={H100: 1})
    actuator = DirectActuator(ScalingSetup())
    actuator.actuate([ScaleDecision("m", H100, 2)], cluster)
    assert cluster.launched == [("m", H100)]
    actuator.actuate([ScaleDecision("m", H100, -2)], cluster)
    assert cluster.drained == ["autoscale-m-000001", "instance_10"]


def test_actuator_drains_active_instances_of_the_variant_only():
    others = [
        replica("a", state="warming up"),
        replica("b", state="draining", routable=False),
        replica("c", variant=A100),
        replica("d", model="other"),
    ]
    cluster = FixedCluster(others)
    DirectActuator(ScalingSetup()).actuate([ScaleDecision("m", H100, -1)], cluster)
    assert cluster.drained == []


@pytest.mark.parametrize(
    "stage", [RoutableCollector, SaturationAnalyzer, UnlimitedEngine, GreedyEngine, DirectActuator]
)
def test_built_in_stages_refuse_options_that_they_do_not_know(stage):
    with pytest.raises(BlisError, match="has no options, but got speed"):
        stage(ScalingSetup(options={"speed": 3}))


# ------------------------------------------------------------------------------- stabilisation

UP, DOWN = ScaleDecision("m", H100, 1), ScaleDecision("m", H100, -1)


def test_a_lasting_wish_passes_once_per_window():
    gate = StabilizationGate(60_000, 0)
    times = range(40_000, 400_000, 20_000)
    assert [t for t in times if gate.passing([UP], t)] == [100_000, 180_000, 260_000, 340_000]


def test_an_interrupted_wish_begins_anew():
    gate = StabilizationGate(50, 0)
    assert not gate.passing([UP], 0)
    assert not gate.passing([], 40)
    assert not gate.passing([UP], 60)
    assert gate.passing([UP], 110)


def test_directions_and_models_are_apart():
    gate = StabilizationGate(50, 0)
    other = UP._replace(model="n")
    assert gate.passing([UP, DOWN], 0) == [DOWN]
    assert gate.passing([other], 50) == []
    assert gate.passing([other, UP], 100) == [other]


def test_a_window_below_one_us_still_asks_twice():
    gate = StabilizationGate(0.5, 0)
    assert gate.passing([UP], 0) == []
    assert gate.passing([UP], 0) == [UP]
