"""The search among groups: fewest instances, pruning, failures."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blis_plan.candidates import Group
from blis_plan.plan_search import front, search


def group(number, instances=range(1, 17), tp=1, price=1.0, **changes):
    return Group(
        options={},
        hardware=f"GPU{number}",
        tp=tp,
        max_running=256,
        max_tokens=2048,
        instances=tuple(instances),
        price=price,
        **changes,
    )


@attrs.frozen
class Curve:
    """Mean TTFT of a group: ``floor`` + ``work`` / instances, in ms; at most 200 is met."""

    floor: float
    work: float

    def value(self, instances):
        return self.floor + self.work / instances


class Tries:
    """Tries groups that have curves, and counts."""

    def __init__(self, make_probe, curves):
        self.make_probe, self.curves, self.count = make_probe, curves, 0

    def __call__(self, tries):
        self.count += len(tries)
        return [
            self.make_probe(value=self.curves[g.hardware].value(instances))
            for g, instances in tries
        ]


def exhaustive(groups, curves):
    """The fewest instances of each group that carry the load, and the front, by trying all."""
    best = {}
    for g in groups:
        met = [n for n in g.instances if curves[g.hardware].value(n) <= 200]
        if met:
            n = min(met)
            best[g.hardware] = (n, g.cost(n), 1 - curves[g.hardware].value(n) / 200)
    return best, {
        name
        for name, (_, cost, room) in best.items()
        if not any(c <= cost and r >= room and (c, r) != (cost, room) for _, c, r in best.values())
    }


CURVES = st.builds(Curve, st.floats(1, 250), st.floats(0, 3000))
GROUPS = st.lists(
    st.tuples(CURVES, st.sampled_from([1, 2, 4]), st.floats(0.5, 5), st.integers(1, 12)),
    min_size=1,
    max_size=7,
)


class TestFront:
    @pytest.fixture(autouse=True)
    def remember(self, make_probe):
        type(self).made = staticmethod(make_probe)

    @given(GROUPS)
    def test_pruning_loses_nothing(self, drawn):
        groups = [
            group(i, range(1, most + 1), tp, price) for i, (_, tp, price, most) in enumerate(drawn)
        ]
        curves = {f"GPU{i}": curve for i, (curve, *_) in enumerate(drawn)}
        best, expected = exhaustive(groups, curves)
        pruning = search(groups, Tries(self.made, curves))
        assert {p.group.hardware for p in front(pruning)} == expected
        every = search(groups, Tries(self.made, curves), prune=False)
        assert {p.group.hardware for p in front(every)} == expected
        assert {p.group.hardware: p.instances for p in every if p.instances} == {
            name: n for name, (n, _, _) in best.items()
        }
        for p in pruning:
            assert p.instances in (None, best.get(p.group.hardware, (None,))[0])

    def test_pruning_spares_trials(self):
        groups = [group(0, price=1.0), group(1, range(1, 65), price=9.0)]
        curves = {"GPU0": Curve(10, 100), "GPU1": Curve(150, 1000)}
        spared, whole = Tries(self.made, curves), Tries(self.made, curves)
        found = search(groups, spared)
        search(groups, whole, prune=False)
        assert spared.count < whole.count
        assert found[1].beaten_by is found[0]
        assert found[1].least_cost > found[0].cost

    def test_a_bisection_is_short(self):
        tries = Tries(self.made, {"GPU0": Curve(1, 199 * 700)})
        (found,) = search([group(0, range(1, 1025))], tries)
        assert (found.instances, found.low) == (700, 698)
        assert tries.count <= 12

    def test_instances_with_gaps(self):
        tries = Tries(self.made, {"GPU0": Curve(0, 600)})
        (found,) = search([group(0, (1, 2, 8, 32))], tries)
        assert found.instances == 8

    def test_the_fewest_of_all_will_do(self):
        (found,) = search([group(0)], Tries(self.made, {"GPU0": Curve(1, 0)}))
        assert (found.instances, found.low) == (1, -1)

    def test_not_even_all(self):
        tries = Tries(self.made, {"GPU0": Curve(300, 0)})
        (found,) = search([group(0)], tries)
        assert (found.instances, found.best, tries.count) == (None, None, 1)
        assert found.last.binding == "ttft_mean"
        assert front([found]) == []

    def test_a_failure_harms_no_other(self):
        tries = Tries(self.made, {"GPU1": Curve(1, 500)})

        def attempts(due):
            return ["broken" if g.hardware == "GPU0" else tries([(g, n)])[0] for g, n in due]

        broken, fine, misfit = search([group(0), group(1), group(2, misfit="too large")], attempts)
        assert (broken.error, broken.instances) == ("broken", None)
        assert (misfit.error, misfit.probes) == ("too large", {})
        assert fine.instances == 3
        assert front([broken, fine, misfit]) == [fine]

    def test_equals_stand_side_by_side(self):
        curves = {"GPU0": Curve(1, 500), "GPU1": Curve(1, 500)}
        found = search([group(0), group(1)], Tries(self.made, curves))
        assert front(found) == found
