"""A cluster whose instances come and go: placement on nodes, life cycle, draining.

Everything here happens in rare events of the cluster; between them an instance of an elastic
cluster costs what any other costs. When a draining instance is idle is noticed by its engine, and
looked at when somebody needs its GPUs or asks for its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from blis_core.cluster.agenda import INSTANCE_LOADED, NODE_CHANGED
from blis_core.cluster.lifecycle import (
    DrainPolicy,
    LifecycleSetup,
    State,
    Unit,
    slow_down_cold_requests,
)
from blis_core.cluster.nodes import Node, NodePools, NodeState, Placement, retry_pending
from blis_core.cluster.simulation import Cluster
from blis_core.contracts import Request
from blis_core.contracts_autoscaling import InstanceStatus, ScalableCluster, Variant
from blis_core.engine.instance import NEVER, Instance
from blis_core.errors import BlisError
from blis_core.rng import PartitionedRandom


class InstanceFactory(ABC):
    """Makes the instances of an elastic cluster."""

    @abstractmethod
    def needs(self, model: str) -> Variant:
        """What an instance of ``model`` runs on unless placement says otherwise.

        ``gpu`` is empty if it is unknown, and with node pools unless the model must run there;
        ``tp`` is at least 1. BlisError for a model that is not deployed.
        """

    @abstractmethod
    def make(self, name: str, model: str, gpu: str) -> Instance:
        """A new instance of ``model``, placed on GPUs of type ``gpu`` (empty: without pools)."""

    @abstractmethod
    def label(self, model: str) -> str:
        """GPU type of instances without node pools; empty if it is unknown."""


class FleetEvent(NamedTuple):
    """Something that happened to the fleet."""

    time: int
    """us."""
    what: str
    """placed, no room, given up, ready, draining, terminated, node ordered, node ready, node
    draining."""
    name: str
    """The instance or node."""
    detail: str = ""


class ElasticFleet(ScalableCluster):
    """The instances of a cluster with what is known of their lives, and the nodes under them."""

    def __init__(
        self,
        cluster: Cluster,
        factory: InstanceFactory,
        *,
        random: PartitionedRandom,
        pools: NodePools | None = None,
        setup: LifecycleSetup | None = None,
    ) -> None:
        """``pools`` None: there is room for whatever is asked for at the start, and no more."""
        self.cluster = cluster
        self.pools = pools
        self.units: list[Unit] = []
        """All instances that were ever placed, in order of construction."""
        self.pending: list[str] = []
        """Instances that wait for room."""
        self.events: list[FleetEvent] = []
        self._factory = factory
        self._setup = setup or LifecycleSetup()
        self._random = random
        self._models: dict[str, str] = {}  # of pending instances
        self._by_name: dict[str, Unit] = {}
        self._leaving: list[Unit] = []
        self._warming: list[Unit] = []
        self._launched = 0
        self._several_models = False
        self.now = 0
        """The present, in us; whoever acts on the fleet sets it."""
        if self._setup.warm_up_requests:
            cluster.on_routed.append(self._routed)

    # ------------------------------------------------------------------------- at the start

    def start(self, wanted: Sequence[tuple[str, str]]) -> None:
        """Build the instances (name, model); those without room wait for it."""
        self._several_models = len({model for _, model in wanted}) > 1
        for name, model in wanted:
            if self.pools is None:
                self._add(name, model, None, initial=True)
                continue
            self._models[name] = model
            placement = self._place_pending(name)
            if placement is None:
                self.pending.append(name)
                self._note("no room", name)
            else:
                self._add(name, model, placement, initial=True)
        self._show_routable()

    def _place_pending(self, name: str) -> Placement | None:
        assert self.pools is not None
        needs = self._factory.needs(self._models[name])
        return self.pools.place(name, needs.gpu or None, needs.tp)

    def _add(
        self, name: str, model: str, placement: Placement | None, *, initial: bool = False
    ) -> None:
        """A new instance begins to load. Delays are drawn in order of placement."""
        setup, cost = self._setup, 0.0
        gpu = self._factory.label(model)
        if placement is not None and self.pools is not None:
            gpu = placement.node.pool.gpu
            cost = self.pools.cost_per_hour(gpu)
        instance = self._factory.make(name, model, gpu if placement is not None else "")
        index = self.cluster.add_instance(instance)
        unit = Unit(
            index, instance, model, gpu, placement=placement, cost_per_hour=cost, now=self.now
        )
        self.units.append(unit)
        self._by_name[name] = unit
        where = ", ".join(placement.gpu_names) if placement is not None else ""
        self._note("placed", name, where)
        delay = 0
        if placement is not None and not (initial and setup.warm_start):
            delay = setup.loading_delay.sample(self._random.stream("instance-loading"))
        if delay > 0:
            self.cluster.agenda.add(self.now + delay, INSTANCE_LOADED, self._loaded, unit)
        else:
            self._ready(unit)

    def _loaded(self, unit: Unit, now: int) -> None:
        self.now = now
        if unit.state is State.LOADING:  # else it has been given up meanwhile
            self._ready(unit)
            self._show_routable()

    def _ready(self, unit: Unit) -> None:
        cold = self._setup.warm_up_requests > 0
        unit.move(State.WARMING_UP if cold else State.ACTIVE)
        unit.ready_at = self.now
        self._note("ready", unit.name)
        if cold:
            self._warming.append(unit)

    def _routed(self, index: int, request: Request, now: int) -> None:
        cold = self.units[index].cold
        if len(cold) < self._setup.warm_up_requests:
            cold.append(request)

    # ---------------------------------------------------------------------------- the present

    def _settle(self) -> None:
        """Bring states up to the present: who has warmed up, who has become idle."""
        if not self._leaving and not self._warming:
            return
        self.cluster.fleet.sync(self.now)
        if self._leaving:
            for unit in sorted(self._leaving, key=lambda unit: unit.ends_at):
                if unit.ends_at < self.now:
                    self._end(unit, unit.ends_at)
            self._leaving = [unit for unit in self._leaving if unit.state is State.DRAINING]
        if self._warming:
            for unit in self._warming:
                if unit.state is State.WARMING_UP and (
                    unit.instance.finished >= self._setup.warm_up_requests
                ):
                    unit.move(State.ACTIVE)
            self._warming = [unit for unit in self._warming if unit.state is State.WARMING_UP]

    def _show_routable(self) -> None:
        """Tell the router which instances there are."""
        fleet, units = self.cluster.fleet, self.units
        routable = [unit.index for unit in units if unit.state.routable]
        fleet.set_routable(None if len(routable) == len(units) else routable)
        if self._several_models:
            by_model: dict[str, list[int]] = {}
            for unit in units:
                if unit.state.routable:
                    by_model.setdefault(unit.model, []).append(unit.index)
            fleet.set_models(by_model)

    def _note(self, what: str, name: str, detail: str = "") -> None:
        self.events.append(FleetEvent(self.now, what, name, detail))

    def instances(self) -> Sequence[InstanceStatus]:
        """All instances that were ever there, in order of construction."""
        self._settle()
        fleet = self.cluster.fleet
        fleet.sync_blocks(self.now)
        size = fleet.chains.block_size
        if fleet.stale is not None:
            queued, used = fleet.stale["queue_depth"], fleet.stale["used_blocks"]
            total = used + fleet.stale["free_blocks"]  # 0 before the first refresh
        else:
            queued, used, total = fleet.queue_depth, fleet.used_blocks, fleet.total_blocks
        signals = zip(
            self.units,
            queued.tolist(),
            fleet.in_flight.tolist(),
            used.tolist(),
            total.tolist(),
            strict=True,
        )
        return [
            InstanceStatus(
                *unit.traits,
                waiting,
                in_flight,
                in_use / blocks if blocks else 0.0,
                blocks * size,
                in_use * size,
            )
            for unit, waiting, in_flight, in_use, blocks in signals
        ]

    def free_slots(self) -> Mapping[Variant, int]:
        """Free GPUs by variant; variants are those that there are, and those of free GPUs."""
        if self.pools is None:
            return {}
        self._settle()
        free = self.pools.free_gpus()
        variants = {unit.variant for unit in self.units if unit.state is not State.TERMINATED}
        degrees = {self._factory.needs(model).tp for model in {u.model for u in self.units}}
        variants |= {Variant(gpu, degree) for gpu in free for degree in degrees or {1}}
        return {variant: max(0, free.get(variant.gpu, 0)) for variant in sorted(variants)}

    # ---------------------------------------------------------------------- coming and going

    def launch(self, model: str, variant: Variant) -> str | None:
        """Start an instance if a node has room for it. Names count failed attempts too."""
        self._launched += 1
        name = f"autoscale-{model}-{self._launched:06d}"
        self._factory.needs(model)  # must be deployed
        self._settle()
        placement = None
        if self.pools is not None:
            placement = self.pools.place(name, variant.gpu, variant.tp)
        if placement is None:
            self._note("no room", name)
            return None
        self._add(name, model, placement)
        self._show_routable()
        return name

    def leaving(self, instance_id: str) -> bool:
        """Whether an instance has been drained already."""
        unit = self._by_name.get(instance_id)
        return unit is not None and unit.drained_at >= 0

    def drain(self, instance_id: str) -> None:
        """Drain as the life cycle's setup says."""
        self.drain_with(instance_id, self._setup.drain_policy)

    def drain_with(self, instance_id: str, policy: DrainPolicy | None) -> None:
        """Give an instance no more requests. BlisError if it is unknown or on its way out.

        One that is still loading, or waits for room, is given up.
        """
        if instance_id in self.pending:
            self.pending.remove(instance_id)
            self._note("given up", instance_id)
            return
        unit = self._by_name.get(instance_id)
        if unit is None:
            raise BlisError(f"there is no instance {instance_id!r} to drain")
        self._settle()
        self.cluster.fleet.sync_all(self.now)
        if unit.state is State.LOADING:
            self._end(unit, self.now)
            return
        unit.move(State.DRAINING)
        unit.drained_at = self.now
        self._note("draining", unit.name, policy.value if policy is not None else "")
        self._show_routable()
        self.cluster.touch(unit.index)
        if policy is DrainPolicy.IMMEDIATE:
            self._drain_now(unit)
            return
        if policy is DrainPolicy.REDIRECT:
            moved = unit.instance.take_waiting(to_go_on=True)
            self.cluster.fleet.leave(unit.index, len(moved))
            for request in moved:
                if request in unit.cold:
                    unit.cold.remove(request)
            self.cluster.return_to_entrance(moved, self.now)
        if policy is not None and unit.idle and unit.instance.enters == NEVER:
            self._end(unit, self.now)
            return
        if policy is None and unit.idle:
            # judged by its next event: reference quirk 07-Q17
            unit.ends_at = unit.instance.stirs(self.now)
        if unit.ends_at == NEVER:
            self._watch(unit, overlook_entering=policy is None)
        self._leaving.append(unit)

    def _drain_now(self, unit: Unit) -> None:
        """Waiting requests are lost; those that run still end, but count as gone."""
        instance, fleet = unit.instance, self.cluster.fleet
        lost = instance.take_waiting(to_go_on=False)
        running = len(instance.batch.members)
        fleet.leave(unit.index, len(lost) + running)
        before, left = instance.on_done, running

        def ended(request: Request, tick: int) -> None:
            nonlocal left
            if left:
                left -= 1
                fleet.in_flight[unit.index] += 1
            if before is not None:
                before(request, tick)

        instance.on_done = ended
        self.cluster.give_up(lost, self.now)
        self._end(unit, self.now)

    def _watch(self, unit: Unit, *, overlook_entering: bool) -> None:
        """Let the engine notice the event after which the instance is idle."""
        instance = unit.instance
        before: Callable[[Request, int], None] | None = instance.on_done

        def ended(request: Request, tick: int) -> None:
            if before is not None:
                before(request, tick)
            if unit.idle and (overlook_entering or instance.enters == NEVER):
                unit.ends_at = min(unit.ends_at, instance.ended_at)

        instance.on_done = ended

    def _end(self, unit: Unit, time: int) -> None:
        unit.move(State.TERMINATED)
        unit.ended_at = time
        self.events.append(FleetEvent(time, "terminated", unit.name))
        if self.pools is not None:
            self.pools.release(unit.name, time)

    def close(self) -> None:
        """After the last event: who has become idle meanwhile, whose first tokens came late."""
        self.now = NEVER
        self._settle()
        slow_down_cold_requests(self.units, self._setup.warm_up_factor)

    # ---------------------------------------------------------------------------------- nodes

    def order_node(self, pool: str) -> Node:
        """Order a node; it is ready after the pool's provisioning delay."""
        if self.pools is None:
            raise BlisError(f"there is no node pool {pool!r}: there are no node pools")
        node = self.pools.order(pool, self.now)
        delay = node.pool.provisioning_delay.sample(self._random.stream("node-provisioning"))
        self._note("node ordered", node.name)
        self.cluster.agenda.add(self.now + delay, NODE_CHANGED, self._node_ready, node)
        return node

    def _node_ready(self, node: Node, now: int) -> None:
        """Instances that have been waiting for room are tried again."""
        self.now = now
        if node.state is not NodeState.PROVISIONING:
            return  # given up in the meantime
        node.move(NodeState.READY, now)
        self._note("node ready", node.name)
        self._settle()
        for name, placement in retry_pending(self.pending, self._place_pending):
            self._add(name, self._models[name], placement)
        self._show_routable()

    def drain_node(self, name: str) -> None:
        """Place nothing more on a node, which goes once it is empty."""
        if self.pools is None:
            raise BlisError(f"there is no node {name!r}: there are no node pools")
        self._settle()
        self.pools.drain(name, self.now)
        self._note("node draining", name)
