"""Random small clusters with all their parts, and the traffic that they get."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import numpy as np

from blis_core.cluster.admission import AdmissionSetup
from blis_core.cluster.decisions import DecisionLog
from blis_core.cluster.fleet import Fleet
from blis_core.cluster.gateway import Gateway, GatewayQueue
from blis_core.cluster.routing import RoutingSetup
from blis_core.cluster.saturation import make_detector
from blis_core.cluster.simulation import Cluster
from blis_core.cluster.slo import SloPriorities
from blis_core.cluster.tenants import TenantBudgets
from blis_core.contracts import (
    COMPLETED,
    MAX_INT64,
    FleetView,
    KVSetup,
    Request,
    RoutingDecision,
    RoutingPolicy,
)
from blis_core.engine.formation import Limits
from blis_core.engine.instance import Instance
from blis_core.engine.schedulers import PRIORITY_POLICIES
from blis_core.kv.chains import ChainTable
from blis_core.kv.paged import PagedKVStore
from blis_core.plugins import get_registry
from blis_core.rng import GoRand
from tests.engine.compare import SCHEDULERS
from tests.engine.regression import ContextSensitive, Regression

MODEL = "the/model"


@attrs.frozen
class Run:
    """A cluster that has run, and what was sent to it."""

    cluster: Cluster
    requests: list[Request]
    """Those of the workload."""
    lost: list[Request]
    """Those that were turned away."""


class Sessions:
    """Answers some completed requests with another one, up to a budget."""

    def __init__(self, seed: int, budget: int) -> None:
        self._seed = seed
        self.left = budget

    def __call__(self, request: Request, tick: int) -> list[Request]:
        rng = Random(f"{self._seed} {request.id}")  # whatever came before
        if not self.left or request.state != COMPLETED or rng.random() < 0.3:
            return []
        self.left -= 1
        arrival = tick + rng.choice([0, 1, 200, 3000])
        return [make_request(rng, f"{request.id}+", arrival)]


def make_request(rng: Random, name: str, arrival: int) -> Request:
    """A prompt of few different tokens, so that beginnings are shared."""
    start = [7] * rng.choice([0, 8, 16]) + [9] * rng.choice([0, 8])
    prompt = start + [rng.randrange(3) for _ in range(rng.randrange(1, 30))]
    output = [rng.randrange(50) for _ in range(rng.randrange(1, 24))]
    return Request(
        name, arrival, np.array(prompt + output, dtype=np.int32), len(prompt), len(output),
        max_output=len(output),
        deadline=arrival + rng.randrange(1, 6000) if rng.random() < 0.2 else 0,
        slo_class=rng.choice(["", "critical", "standard", "batch", "background"]),
        tenant=rng.choice(["", "a", "b"]),
        model=rng.choice(["", "", "", MODEL, "another/model"]),
    )  # fmt: skip


class Moody(RoutingPolicy):
    """Looks at other signals for each request, so that instances lag behind in many ways."""

    SIGNALS = ("queue_depth", "running", "in_flight", "load", "kv_utilization", "free_blocks")

    def route(self, request: Request, fleet: FleetView) -> RoutingDecision:
        rng = Random(request.id)
        score = np.zeros(len(fleet))
        for name in rng.sample(self.SIGNALS, rng.randrange(3)):
            score += getattr(fleet, name)
        if rng.random() < 0.2:
            score += fleet.cached_blocks(request)
        return RoutingDecision(int(score.argmin()), "a mood", score)


def scorers(rng: Random) -> tuple[tuple[Any, float], ...]:
    names = sorted(entry.name for entry in get_registry().entries("scorer"))
    chosen = rng.sample(names, rng.randrange(1, 4))
    return tuple((get_registry().create("scorer", n), rng.choice([1.0, 0.5, 2.0])) for n in chosen)


def make_cluster(rng: Random) -> Cluster:
    """Any mixture of policies, with memory and places in short supply."""
    size = rng.choice([1, 4, 8])
    blocks = rng.choice([80, 90, 120, 400]) // size + 1
    count = rng.choice([1, 2, 3, 3, 11])
    horizon = rng.choice([MAX_INT64, MAX_INT64, 3000, 12_000])
    limits = Limits(
        max_running=rng.choice([1, 2, 5, 50]),
        max_tokens=rng.choice([3, 16, 2048]),
        long_prefill=0,
        max_model_len=rng.choice([0, 0, 50]) if size * blocks >= 50 else 0,
    )
    latency = rng.choice([Regression, ContextSensitive])()
    chains = ChainTable(size)
    scheduler, priority = rng.choice(sorted(SCHEDULERS)), rng.choice(sorted(PRIORITY_POLICIES))
    instances = [
        Instance(
            f"instance_{i}",
            latency=latency,
            store=PagedKVStore(KVSetup(total_blocks=blocks, block_size=size)),
            chains=chains,
            scheduler=SCHEDULERS[scheduler](PRIORITY_POLICIES[priority]),
            limits=limits,
            horizon=horizon,
        )
        for i in range(count)
    ]
    priorities = SloPriorities({"batch": 5} if rng.random() < 0.2 else None)
    admission = get_registry().create(
        "admission-policy",
        rng.choice(["always-admit", "always-admit", "token-bucket", "tier-shed", "gaie-legacy"]),
        AdmissionSetup(
            token_bucket_capacity=100.0,
            token_bucket_refill_rate=10_000.0,
            tier_shed_threshold=rng.choice([0, 3]),
            gaie_qd_threshold=1.0,
            priorities=priorities,
        ),
    )
    chosen = scorers(rng)
    setup = RoutingSetup(random=GoRand(rng.randrange(1000)), scorers=chosen)
    name = rng.choice(["round-robin", "least-loaded", "always-busiest", *["weighted"] * 5, "moody"])
    if name == "moody":
        routing: RoutingPolicy = Moody()
    else:
        routing = get_registry().create("routing-policy", name, setup)
    gateway = tenants = None
    if rng.random() < 0.4:
        gateway = Gateway(
            GatewayQueue(
                priorities, order=rng.choice(["fifo", "priority"]), limit=rng.choice([0, 1, 4])
            ),
            make_detector(
                rng.choice(["utilization", "concurrency", "concurrency"]),
                queue_depth_threshold=1.0,
                kv_cache_util_threshold=0.3,
                max_concurrency=rng.choice([1, 3]),
            ),
        )
    if rng.random() < 0.3:
        tenants = TenantBudgets(
            {"a": rng.choice([0.0, 0.2])},
            instances=count,
            max_running=limits.max_running,
            priorities=priorities,
        )
    return Cluster(
        Fleet(
            instances,
            chains,
            refresh_interval=rng.choice([0, 0, 1, 700]),
            cache_delay=rng.choice([0, 1, 900]),
            cache_read=name == "moody" or any(scorer.reads_cache for scorer, _ in chosen),
        ),
        admission,
        routing,
        model=MODEL,
        horizon=horizon,
        admission_latency=rng.choice([0, 0, 40, 2000]),
        routing_latency=rng.choice([0, 0, 90, 1500]),
        gateway=gateway,
        tenants=tenants,
        log=DecisionLog(counterfactual_k=rng.choice([0, 2]), keep_records=True),
    )


def simulate(seed: int, prepare: Any = None, *, closed: bool = False) -> Run:
    """The run of this seed; ``prepare`` is handed the cluster before it.

    ``closed``: with sessions in any case, though they may have nothing to say.
    """
    rng = Random(seed)
    cluster = make_cluster(rng)
    if prepare is not None:
        prepare(cluster)
    requests, now = [], 0
    for i in range(rng.randrange(1, 40)):
        now += rng.choice([0, 0, 1, 30, 100, 400])
        requests.append(make_request(rng, f"r{i}", now))
    lost: list[Request] = []
    budget = rng.choice([0, 0, 0, 5, 40])
    sessions = Sessions(seed, budget) if budget or closed else None
    cluster.run(requests, sessions, lambda request, _: lost.append(request) or [])
    return Run(cluster, requests, lost)
