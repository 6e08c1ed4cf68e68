"""Stages of the autoscaler with one mistake each."""

from __future__ import annotations

import random

import attrs

from blis_core.api import (
    CapacityAnalysis,
    InstanceStatus,
    ModelReplicas,
    ScaleDecision,
    ScalingActuator,
    ScalingAnalyzer,
    ScalingCollector,
    ScalingEngine,
    Variant,
    VariantCapacity,
)
from blis_core.testing import (
    ScalingActuatorTests,
    ScalingAnalyzerTests,
    ScalingCollectorTests,
    ScalingEngineTests,
)

GPU = Variant("H100", 1)


def case(kit, interface, method, function, law, message):
    """A stage with this method, the law that it breaks, and what is said of it."""
    made = type("Wrong", (interface,), {method: function})
    return type("Kit", (kit,), {"make": lambda self, setup: made()}), law, message


def collector(function, law, message):
    return case(ScalingCollectorTests, ScalingCollector, "collect", function, law, message)


def analyzer(function, law, message):
    return case(ScalingAnalyzerTests, ScalingAnalyzer, "analyze", function, law, message)


def engine(function, law, message):
    return case(ScalingEngineTests, ScalingEngine, "decide", function, law, message)


def actuator(function, law, message):
    return case(ScalingActuatorTests, ScalingActuator, "actuate", function, law, message)


def listed(cluster, model="model-0-1-1"):
    own = tuple(i for i in cluster.instances() if i.model == model)
    return [ModelReplicas(model=model, replicas=own)] if own else []


def misplaced(self, cluster, now):
    return [ModelReplicas(model="m", replicas=tuple(cluster.instances()))]


def starts(self, cluster, now):
    for instance in cluster.instances()[:1]:
        cluster.drain(instance.id)
    return listed(cluster)


def shuffled(self, cluster, now):
    found = listed(cluster)
    return [attrs.evolve(m, model=m.model + str(random.random())) for m in found]


def imagines(self, cluster, now):
    ghost = InstanceStatus(id="g", model="m", variant=GPU, state="active", routable=True)
    return [ModelReplicas(model="m", replicas=(ghost,))]


def of(model, **figures):
    return CapacityAnalysis(model=model.model, **figures)


def invents(self, model):
    ghost = VariantCapacity(
        variant=Variant("L4", 8), replicas=1, supply=1.0, demand=0.0, cost_per_hour=1.0
    )
    return of(model, variants=(ghost,))


def less_is_more(self, model):
    queued = sum(r.queue_depth for r in model.replicas)
    return of(model, required=max(0.0, 100.0 - queued))


def everybody(self, analyses, free):
    return [ScaleDecision(a.model, GPU, 1) for a in analyses]


def drains_all(self, analyses, free):
    return [ScaleDecision(a.model, GPU, -99) for a in analyses if a.spare]


def twice(self, decisions, cluster):
    for d in decisions:
        for _ in range(2 * d.delta):
            cluster.launch(d.model, d.variant)


def wrong_way(self, decisions, cluster):
    for d in decisions:
        if d.delta > 0:
            cluster.drain(next(i.id for i in cluster.instances() if i.model == d.model))


def any_model(self, decisions, cluster):
    for d in decisions:
        for instance in cluster.instances():
            if d.delta < 0 and instance.routable:
                cluster.drain(instance.id)


def trusts(self, decisions, cluster):
    for d in decisions:
        cluster.launched.extend((d.model, d.variant) for _ in range(d.delta))


def eager(self, decisions, cluster):
    cluster.launch("m", GPU)


CASES = [
    collector(misplaced, "lists_instances_under_their_models", "where it does not belong"),
    collector(imagines, "lists_instances_under_their_models", "where it does not belong"),
    collector(
        lambda self, c, now: listed(c) * 2, "lists_instances_under_their_models", "a model twice"
    ),
    collector(starts, "changes_nothing_and_repeats_itself", "leave that to the actuator"),
    collector(shuffled, "changes_nothing_and_repeats_itself", "see the same cluster differently"),
    collector(imagines, "copes_with_an_empty_cluster", "in a cluster without instances"),
    analyzer(lambda self, m: CapacityAnalysis(model="x"), "figures_make_sense", "names 'x'"),
    analyzer(lambda self, m: of(m, spare=-1.0), "figures_make_sense", "spare is -1.0"),
    analyzer(lambda self, m: of(m, demand=float("nan")), "figures_make_sense", "demand is nan"),
    analyzer(lambda self, m: of(m, spare=1.0, required=1.0), "figures_make_sense", "must be 0"),
    analyzer(invents, "figures_make_sense", "of which there is no instance"),
    analyzer(
        lambda self, m: of(m, spare=random.random()),
        "the_same_instances_get_the_same_answer",
        "two new analyzers differ",
    ),
    analyzer(less_is_more, "more_load_never_means_less_need", "the need goes up and down"),
    engine(everybody, "decisions_follow_the_analysis", "although"),
    engine(drains_all, "decisions_follow_the_analysis", "but there are"),
    engine(
        lambda self, a, f: [ScaleDecision("x", GPU, 1)],
        "decisions_follow_the_analysis",
        "was not analysed",
    ),
    engine(
        lambda self, a, f: [ScaleDecision(a[3].model, GPU, 0)],
        "decisions_follow_the_analysis",
        "changes nothing",
    ),
    engine(
        lambda self, a, f: [ScaleDecision(str(random.random()), GPU, 1)],
        "the_same_analyses_get_the_same_decisions",
        "two new engines decide differently",
    ),
    engine(lambda self, a, f: [ScaleDecision("m", GPU, 1)], "copes_with_nothing", "on no models"),
    actuator(twice, "does_at_most_what_was_decided", "a decision to start two"),
    actuator(wrong_way, "does_at_most_what_was_decided", "instead of starting"),
    actuator(any_model, "does_at_most_what_was_decided", "a decision to drain two"),
    actuator(trusts, "copes_with_what_cannot_be_done", "believes that it started"),
    actuator(eager, "does_nothing_unless_told", "acts without a decision"),
]
