"""Pools of equal nodes with GPUs, and the placement of instances on them.

Placement is first fit: pools as declared, nodes by number, the lowest free GPUs. All GPUs of an
instance are on one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import attrs

from blis_core.cluster.delays import NO_DELAY, NormalDelay
from blis_core.errors import BlisError
from blis_core.records import Record


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PoolSetup(Record):
    """What a node pool is built from."""

    name: str
    gpu: str
    """GPU type."""
    gpus_per_node: int
    """At least 1."""
    initial_nodes: int = 0
    """Nodes that are ready at time 0."""
    provisioning_delay: NormalDelay = NO_DELAY
    """From ordering a node to having it."""
    cost_per_hour: float = 0.0
    """Of one node."""


class NodeState(Enum):
    """Where a node is in its life."""

    PROVISIONING = "provisioning"
    READY = "ready"
    DRAINING = "draining"
    TERMINATED = "terminated"


_NODE_STEPS = {
    NodeState.PROVISIONING: (NodeState.READY, NodeState.TERMINATED),
    NodeState.READY: (NodeState.DRAINING, NodeState.TERMINATED),
    NodeState.DRAINING: (NodeState.TERMINATED,),
    NodeState.TERMINATED: (),
}


class Node:
    """One machine. ``holders`` names the instance on each GPU, or is None where it is free."""

    def __init__(self, name: str, pool: PoolSetup, state: NodeState, since: int) -> None:
        self.name = name
        self.pool = pool
        self.state = state
        self.holders: list[str | None] = [None] * pool.gpus_per_node
        self.ready_at = since if state is NodeState.READY else -1
        """us; -1 = not yet."""
        self.ended_at = -1
        """When it was terminated, in us; -1 = it is still there."""

    @property
    def free(self) -> int:
        """GPUs that no instance holds."""
        return self.holders.count(None)

    def move(self, state: NodeState, now: int) -> None:
        """Go on to ``state``. BlisError for a step that a node cannot take."""
        if state not in _NODE_STEPS[self.state]:
            raise BlisError(f"node {self.name} is {self.state.value} and cannot be {state.value}")
        self.state = state
        if state is NodeState.READY:
            self.ready_at = now
        elif state is NodeState.TERMINATED:
            self.ended_at = now


class Placement(NamedTuple):
    """Where an instance is."""

    node: Node
    gpus: tuple[int, ...]
    """Numbers of its GPUs on the node."""

    @property
    def gpu_names(self) -> list[str]:
        """Names of its GPUs."""
        return [f"{self.node.name}-gpu-{number}" for number in self.gpus]


class NodePools:
    """All nodes of a cluster."""

    def __init__(self, pools: Sequence[PoolSetup]) -> None:
        """BlisError if two pools have the same name."""
        self.pools = tuple(pools)
        self.nodes: dict[str, list[Node]] = {}
        """By pool; a node's number is its place in the list."""
        for pool in self.pools:
            if pool.name in self.nodes:
                raise BlisError(f"node pool {pool.name!r} is declared twice; rename one")
            self.nodes[pool.name] = []
            for _ in range(pool.initial_nodes):
                self._new(pool, NodeState.READY, 0)
        self._placements: dict[str, Placement] = {}

    def _new(self, pool: PoolSetup, state: NodeState, now: int) -> Node:
        nodes = self.nodes[pool.name]
        node = Node(f"{pool.name}-{len(nodes)}", pool, state, now)
        nodes.append(node)
        return node

    # ----------------------------------------------------------------------------- instances

    def place(self, instance: str, gpu: str | None, degree: int) -> Placement | None:
        """Give ``degree`` GPUs of one node to ``instance``; None if no ready node has them.

        ``gpu`` None: of any type.
        """
        for pool in self.pools:
            if gpu is not None and pool.gpu != gpu:
                continue
            for node in self.nodes[pool.name]:
                if node.state is NodeState.READY and node.free >= degree:
                    free = [i for i, holder in enumerate(node.holders) if holder is None]
                    chosen = tuple(free[:degree])
                    for number in chosen:
                        node.holders[number] = instance
                    placement = self._placements[instance] = Placement(node, chosen)
                    return placement
        return None

    def release(self, instance: str, now: int) -> None:
        """Free all GPUs of ``instance``; a draining node that is empty now is terminated."""
        placement = self._placements.pop(instance, None)
        if placement is None:
            return
        node = placement.node
        for number in placement.gpus:
            node.holders[number] = None
        if node.state is NodeState.DRAINING and node.free == len(node.holders):
            node.move(NodeState.TERMINATED, now)

    def cost_per_hour(self, gpu: str) -> float:
        """Cost of a node with GPUs of type ``gpu``: that of the first pool that has them."""
        return next((pool.cost_per_hour for pool in self.pools if pool.gpu == gpu), 0.0)

    def free_gpus(self) -> dict[str, int]:
        """GPUs of ready nodes by type, less those that instances on such nodes hold."""
        free: dict[str, int] = {}
        for pool in self.pools:
            for node in self.nodes[pool.name]:
                if node.state is NodeState.READY:
                    free[pool.gpu] = free.get(pool.gpu, 0) + node.free
        return free

    # --------------------------------------------------------------------------------- nodes

    def pool(self, name: str) -> PoolSetup:
        """The pool called ``name``. BlisError lists those that there are."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        known = ", ".join(pool.name for pool in self.pools) or "there are none"
        raise BlisError(f"unknown node pool {name!r} (pools: {known})")

    def node(self, name: str) -> Node:
        """The node called ``name``. BlisError if there is none."""
        for nodes in self.nodes.values():
            for node in nodes:
                if node.name == name:
                    return node
        raise BlisError(f"unknown node {name!r}")

    def order(self, pool: str, now: int) -> Node:
        """A new node, which is not ready before ``node.move(NodeState.READY, ...)``."""
        return self._new(self.pool(pool), NodeState.PROVISIONING, now)

    def drain(self, name: str, now: int) -> Node:
        """Place nothing more on a node; it is terminated once it is empty."""
        node = self.node(name)
        node.move(NodeState.DRAINING, now)
        if node.free == len(node.holders):
            node.move(NodeState.TERMINATED, now)
        return node


def retry_pending(
    pending: list[str], place: Callable[[str], Placement | None]
) -> list[tuple[str, Placement]]:
    """Place what has been waiting for room; returns what was placed, in that order.

    A placed entry's place in the list is taken by the last entry, which so comes next.
    """
    placed = []
    i, tries = 0, len(pending)
    while i < len(pending) and i < tries:
        placement = place(pending[i])
        if placement is None:
            i += 1
            continue
        placed.append((pending[i], placement))
        pending[i] = pending[-1]
        pending.pop()
    return placed
