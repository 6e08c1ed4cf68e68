"""Laws of the stages of the autoscaler, and a cluster that only takes notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blis_core.contracts_autoscaling import (
    CapacityAnalysis,
    InstanceStatus,
    ModelReplicas,
    ScalableCluster,
    ScaleDecision,
    ScalingActuator,
    ScalingAnalyzer,
    ScalingCollector,
    ScalingEngine,
    ScalingSetup,
    Variant,
    VariantCapacity,
)
from blis_core.errors import BlisError
from blis_core.testing.asking import require_same
from blis_core.testing.checks import UNPREDICTABLE, require

_FAST, _CHEAP = Variant("H100", 1), Variant("A100-80", 2)


class FixedCluster(ScalableCluster):
    """A cluster with given instances, which notes what is asked of it."""

    def __init__(
        self,
        instances: Sequence[InstanceStatus] = (),
        room: Mapping[Variant, int] | None = None,
    ) -> None:
        """``room``: how many more instances of each variant can be started."""
        self._instances = list(instances)
        self._room = dict(room or {})
        self.launched: list[tuple[str, Variant]] = []
        """(model, variant) of each instance that was started."""
        self.drained: list[str] = []
        """Ids of instances that were drained, in order."""

    def instances(self) -> Sequence[InstanceStatus]:
        """All instances, those that were started or drained included."""
        return tuple(self._instances)

    def free_slots(self) -> Mapping[Variant, int]:
        """Free GPUs by variant."""
        return {variant: number * variant.tp for variant, number in self._room.items()}

    def launch(self, model: str, variant: Variant) -> str | None:
        """Start an instance if there is room."""
        if self._room.get(variant, 0) <= 0:
            return None
        self._room[variant] -= 1
        self.launched.append((model, variant))
        name = f"autoscale-{model}-{len(self.launched):06d}"
        self._instances.append(
            InstanceStatus(id=name, model=model, variant=variant, state="loading", routable=False)
        )
        return name

    def drain(self, instance_id: str) -> None:
        """Drain an instance that can take requests."""
        for index, instance in enumerate(self._instances):
            if instance.id == instance_id and instance.routable:
                gone = instance._replace(state="draining", routable=False)
                self._instances[index] = gone
                self.drained.append(instance_id)
                return
        raise BlisError(f"there is no instance {instance_id!r} to drain")


def _status(number: int, model: str, variant: Variant, busy: float) -> InstanceStatus:
    """An instance whose queue and cache are as full as ``busy`` says."""
    return InstanceStatus(
        id=f"{model}-{number}",
        model=model,
        variant=variant,
        state="active",
        routable=True,
        cost_per_hour=8.0 if variant == _FAST else 5.0,
        queue_depth=int(12 * busy),
        in_flight=int(30 * busy),
        kv_utilization=min(1.0, busy),
        capacity_tokens=16_000,
        used_tokens=int(16_000 * min(1.0, busy)),
    )


def _models() -> list[ModelReplicas]:
    """Models without and with load, with one and with several instances and variants."""
    found = [ModelReplicas(model="empty", replicas=())]
    for number, busy in enumerate((0.0, 0.3, 0.9, 2.0)):
        for variants in ((_FAST,), (_FAST,) * 3, (_FAST, _CHEAP, _CHEAP)):
            model = f"model-{number}-{len(set(variants))}-{len(variants)}"
            found.append(
                ModelReplicas(
                    model=model,
                    replicas=tuple(_status(i, model, v, busy) for i, v in enumerate(variants)),
                )
            )
    unknown = _status(0, "new", _FAST, 0.0)._replace(capacity_tokens=0)
    return [*found, ModelReplicas(model="new", replicas=(unknown,))]


def _analyses() -> list[CapacityAnalysis]:
    """Models in need, at ease, and with capacity to spare."""
    variants = tuple(
        VariantCapacity(variant=v, replicas=n, supply=12_800.0 * n, demand=0.0, cost_per_hour=c)
        for v, n, c in ((_CHEAP, 2, 5.0), (_FAST, 1, 8.0))
    )
    return [
        CapacityAnalysis(model=f"model-{i}", variants=chosen, required=required, spare=spare)
        for i, (chosen, required, spare) in enumerate(
            [
                ((), 0.0, 0.0),
                ((), 50.0, 0.0),
                (variants, 0.0, 0.0),
                (variants, 1.0, 0.0),
                (variants, 90_000.0, 0.0),
                (variants, 0.0, 1.0),
                (variants, 0.0, 30_000.0),
                (variants[1:], 20_000.0, 0.0),
            ]
        )
    ]


class _StageTests:
    """What all stages have in common."""

    def setup(self) -> ScalingSetup:
        """What the stage is built from. Override it to have other figures or options."""
        return ScalingSetup()


class ScalingCollectorTests(_StageTests):
    """Subclass it and define ``make``.

    Replicas are instances of the cluster, of the model that they are listed under, each once; the
    cluster is left alone; the same cluster gives the same answer.
    """

    def make(self, setup: ScalingSetup) -> ScalingCollector:
        """A new collector."""
        raise NotImplementedError("define make(self, setup), which returns a new collector")

    def _cluster(self) -> FixedCluster:
        listed = [replica for model in _models() for replica in model.replicas]
        loading = listed[0]._replace(id="loading", state="loading", routable=False)
        return FixedCluster([*listed, loading])

    def test_lists_instances_under_their_models(self) -> None:
        """Signals may be another way of looking at an instance, its model is its own."""
        cluster = self._cluster()
        known = [(status.id, status.model) for status in cluster.instances()]
        found = self.make(self.setup()).collect(cluster, 1000)
        models = [entry.model for entry in found]
        require(len(set(models)) == len(models), f"collect() lists a model twice: {models}")
        for entry in found:
            require(bool(entry.model), "collect() lists a model without a name")
            ids = [replica.id for replica in entry.replicas]
            require(len(set(ids)) == len(ids), f"collect() lists an instance twice: {ids}")
            for replica in entry.replicas:
                require(
                    replica.model == entry.model and (replica.id, replica.model) in known,
                    f"collect() lists {replica.id} under {entry.model}, where it does not belong",
                )

    def test_changes_nothing_and_repeats_itself(self) -> None:
        """Looking is not acting."""
        one, other = self._cluster(), self._cluster()
        require_same(
            list(self.make(self.setup()).collect(one, 1000)),
            list(self.make(self.setup()).collect(other, 1000)),
            f"two new collectors see the same cluster differently ({UNPREDICTABLE})",
        )
        require(
            not one.launched and not one.drained,
            "collect() started or drained an instance; leave that to the actuator",
        )

    def test_copes_with_an_empty_cluster(self) -> None:
        """That is how a run begins if no node has room."""
        for entry in self.make(self.setup()).collect(FixedCluster(), 0):
            require(not entry.replicas, "collect() found replicas in a cluster without instances")


class ScalingAnalyzerTests(_StageTests):
    """Subclass it and define ``make``.

    Figures are finite and at least 0, never both missing and to spare; more load never means less
    need; the same instances give the same answer.
    """

    def make(self, setup: ScalingSetup) -> ScalingAnalyzer:
        """A new analyzer."""
        raise NotImplementedError("define make(self, setup), which returns a new analyzer")

    def test_figures_make_sense(self) -> None:
        """For models with and without instances and load."""
        analyzer = self.make(self.setup())
        for model in _models():
            found = analyzer.analyze(model)
            where = f"for {model.model} with {len(model.replicas)} instances"
            require(found.model == model.model, f"analyze() names {found.model!r} {where}")
            for name in ("supply", "demand", "required", "spare"):
                value = getattr(found, name)
                require(0 <= value < float("inf"), f"analyze(): {name} is {value} {where}")
            require(
                not (found.required and found.spare),
                f"analyze(): {found.required:g} missing and {found.spare:g} to spare {where};"
                " one of them must be 0",
            )
            known = {replica.variant for replica in model.replicas}
            for variant in found.variants:
                require(
                    variant.variant in known and variant.replicas > 0,
                    f"analyze() lists {variant.variant}, of which there is no instance {where}",
                )

    def test_the_same_instances_get_the_same_answer(self) -> None:
        """Two new analyzers agree."""
        one, other = self.make(self.setup()), self.make(self.setup())
        for model in _models():
            require_same(
                one.analyze(model),
                other.analyze(model),
                f"two new analyzers differ for {model.model} ({UNPREDICTABLE})",
            )

    def test_more_load_never_means_less_need(self) -> None:
        """With the same instances."""
        needs = []
        for busy in (0.0, 0.2, 0.5, 0.8, 1.0, 1.5, 3.0):
            replicas = tuple(_status(i, "m", _FAST, busy) for i in range(3))
            analyzer = self.make(self.setup())
            needs.append(analyzer.analyze(ModelReplicas(model="m", replicas=replicas)).required)
        require(
            needs == sorted(needs),
            f"analyze(): under growing load the need goes up and down: {needs}",
        )


class ScalingEngineTests(_StageTests):
    """Subclass it and define ``make``.

    Decisions concern models that were analysed, change something, and go in the direction that the
    analysis asks for; the same analyses give the same decisions.
    """

    def make(self, setup: ScalingSetup) -> ScalingEngine:
        """A new engine."""
        raise NotImplementedError("define make(self, setup), which returns a new engine")

    def test_decisions_follow_the_analysis(self) -> None:
        """Up only where something is missing, down only where something is to spare."""
        analyses = {analysis.model: analysis for analysis in _analyses()}
        free = {_FAST: 4, _CHEAP: 8}
        for decision in self.make(self.setup()).decide(list(analyses.values()), free):
            require(
                decision.model in analyses,
                f"decide() returned {decision!r} for a model that was not analysed",
            )
            found = analyses[decision.model]
            require(decision.delta != 0, f"decide() returned {decision}, which changes nothing")
            wrong = found.spare > 0 if decision.delta > 0 else found.required > 0
            require(not wrong, f"decide() returned {decision} although {found}")
            if decision.delta < 0:
                have = {v.variant: v.replicas for v in found.variants}
                require(
                    have.get(decision.variant, 0) >= -decision.delta,
                    f"decide() returned {decision}, but there are {have}",
                )

    def test_the_same_analyses_get_the_same_decisions(self) -> None:
        """Two new engines agree."""
        one, other = self.make(self.setup()), self.make(self.setup())
        for free in ({}, {_FAST: 4, _CHEAP: 8}):
            require_same(
                list(one.decide(_analyses(), free)),
                list(other.decide(_analyses(), free)),
                f"two new engines decide differently ({UNPREDICTABLE})",
            )

    def test_copes_with_nothing(self) -> None:
        """No models, no GPUs."""
        require(not list(self.make(self.setup()).decide([], {})), "decide() acts on no models")


class ScalingActuatorTests(_StageTests):
    """Subclass it and define ``make``.

    Nothing is started or drained but what was decided; a cluster that has no room, or nothing to
    drain, is no problem.
    """

    def make(self, setup: ScalingSetup) -> ScalingActuator:
        """A new actuator."""
        raise NotImplementedError("define make(self, setup), which returns a new actuator")

    def test_does_at_most_what_was_decided(self) -> None:
        """Never another model, and never more instances."""
        replicas = [_status(i, "m", _FAST, 0.1) for i in range(3)]
        other = _status(7, "other", _FAST, 0.1)
        cluster = FixedCluster([*replicas, other], room={_FAST: 5})
        actuator = self.make(self.setup())
        actuator.actuate([ScaleDecision("m", _FAST, 2)], cluster)
        require(
            len(cluster.launched) <= 2 and {model for model, _ in cluster.launched} <= {"m"},
            f"actuate() started {cluster.launched} for a decision to start two of m",
        )
        require(not cluster.drained, f"actuate() drained {cluster.drained} instead of starting")
        actuator.actuate([ScaleDecision("m", _FAST, -2)], cluster)
        mine = {replica.id for replica in replicas}
        require(
            len(cluster.drained) <= 2 and set(cluster.drained) <= mine,
            f"actuate() drained {cluster.drained} for a decision to drain two of {sorted(mine)}",
        )

    def test_copes_with_what_cannot_be_done(self) -> None:
        """Full nodes, and nothing to drain."""
        cluster = FixedCluster([_status(0, "m", _FAST, 0.1)])
        decisions = [ScaleDecision("m", _FAST, 3), ScaleDecision("m", _CHEAP, -1)]
        self.make(self.setup()).actuate(decisions, cluster)
        require(not cluster.launched, "actuate() believes that it started something")

    def test_does_nothing_unless_told(self) -> None:
        """No decision, no change."""
        cluster = FixedCluster([_status(0, "m", _FAST, 0.1)], room={_FAST: 5})
        self.make(self.setup()).actuate([], cluster)
        require(not cluster.launched and not cluster.drained, "actuate() acts without a decision")
