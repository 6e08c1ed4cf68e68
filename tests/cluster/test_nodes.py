"""Placement of instances on nodes, and the life of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_core.cluster.nodes import NodePools, NodeState, PoolSetup, retry_pending
from blis_core.errors import BlisError


def pool(name="a", gpu="H100", size=2, nodes=1, **more):
    return PoolSetup(name=name, gpu=gpu, gpus_per_node=size, initial_nodes=nodes, **more)


def where(placement):
    return placement and (placement.node.name, placement.gpus)


def test_first_fit():
    pools = NodePools([pool(size=3, nodes=2), pool("b", "A100", 4)])
    assert where(pools.place("w", None, 2)) == ("a-0", (0, 1))
    assert where(pools.place("x", None, 2)) == ("a-1", (0, 1))
    assert where(pools.place("y", None, 1)) == ("a-0", (2,))
    assert where(pools.place("z", None, 2)) == ("b-0", (0, 1))
    assert where(pools.place("v", "H100", 2)) is None
    pools.release("w", 5)
    assert where(pools.place("v", "H100", 2)) == ("a-0", (0, 1))
    assert pools.place("u", "A100", 1).gpu_names == ["b-0-gpu-2"]


def test_gpus_of_an_instance_are_on_one_node():
    pools = NodePools([pool(size=2, nodes=5)])
    assert pools.place("x", None, 3) is None
    assert pools.free_gpus() == {"H100": 10}


def test_the_lowest_free_gpus_are_taken():
    pools = NodePools([pool(size=4)])
    for name in "pqrs":
        pools.place(name, None, 1)
    for name in "sp":
        pools.release(name, 0)
    assert where(pools.place("t", None, 2)) == ("a-0", (0, 3))


def test_release_of_a_stranger_does_nothing():
    pools = NodePools([pool()])
    pools.release("nobody", 1)
    assert pools.free_gpus() == {"H100": 2}


def test_cost_is_that_of_the_first_pool_of_the_type():
    pools = NodePools([pool(cost_per_hour=3), pool("b", cost_per_hour=9)])
    assert (pools.cost_per_hour("H100"), pools.cost_per_hour("L4")) == (3, 0)


def test_names():
    with pytest.raises(BlisError, match="node pool 'a' is declared twice"):
        NodePools([pool(), pool()])
    with pytest.raises(BlisError, match=r"unknown node pool 'b' \(pools: a\)"):
        NodePools([pool()]).order("b", 0)
    with pytest.raises(BlisError, match="unknown node 'a-1'"):
        NodePools([pool()]).drain("a-1", 0)


def test_a_node_that_is_ordered_takes_nothing_before_it_is_ready():
    pools = NodePools([pool(nodes=0)])
    node = pools.order("a", 10)
    assert (node.name, node.state, node.ready_at) == ("a-0", NodeState.PROVISIONING, -1)
    assert pools.place("x", None, 1) is None
    node.move(NodeState.READY, 70)
    assert node.ready_at == 70
    assert where(pools.place("x", None, 1)) == ("a-0", (0,))


def test_a_draining_node_goes_when_it_is_empty():
    pools = NodePools([pool(nodes=2)])
    for name in "xy":
        pools.place(name, None, 1)
    node = pools.drain("a-0", 5)
    assert where(pools.place("z", None, 1)) == ("a-1", (0,))
    pools.release("x", 6)
    assert node.state is NodeState.DRAINING
    pools.release("y", 7)
    assert (node.state, node.ended_at) == (NodeState.TERMINATED, 7)
    assert pools.order("a", 8).name == "a-2"
    with pytest.raises(BlisError, match="node a-0 is terminated and cannot be draining"):
        pools.drain("a-0", 9)


def test_an_empty_node_goes_at_once():
    assert NodePools([pool()]).drain("a-0", 3).state is NodeState.TERMINATED


def test_the_last_one_comes_next_when_somebody_is_placed():
    room = NodePools([pool(size=2)])
    pending = ["instance_1", "instance_2", "instance_3"]
    placed = retry_pending(pending, lambda name: room.place(name, None, 1))
    assert [name for name, _ in placed] == ["instance_1", "instance_3"]
    assert pending == ["instance_2"]


sizes = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3)), min_size=1, max_size=3)
actions = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8)), max_size=60)


@given(sizes, actions)
def test_no_gpu_is_lost_or_given_twice(sizes, actions):
    pools = NodePools([pool(f"p{i}", "G", size, nodes) for i, (size, nodes) in enumerate(sizes)])
    total = sum(size * nodes for size, nodes in sizes)
    held = {}
    for name, degree in actions:
        if name in held:
            pools.release(str(name), 0)
            del held[name]
        elif pools.place(str(name), None, degree) is not None:
            held[name] = degree
        else:  # refused only if no node has that many
            assert all(n.free < degree for nodes in pools.nodes.values() for n in nodes)
        assert pools.free_gpus().get("G", 0) == total - sum(held.values())
        holders = [h for nodes in pools.nodes.values() for n in nodes for h in n.holders if h]
        assert sorted(holders) == sorted(str(n) for n, d in held.items() for _ in range(d))
