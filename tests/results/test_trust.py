"""Cautions: each fires when it should, says its figures, and a healthy run says nothing."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from blis_core.accuracy import Accuracy
from blis_core.contracts import MAX_INT64
from blis_core.engine.metrics import InstanceMetrics
from blis_core.results.aggregate import build_results
from blis_core.results.trust import Situation
from blis_core.run import simulate
from tests.results.records import instance, record

SECOND = 1_000_000


def served(
    n: int = 200,
    *,
    gap: int = SECOND,
    wait: int = 1000,
    growth: float = 0.0,
    takes: int = SECOND,
    **described: Any,
) -> list[Any]:
    """Completed requests at equal distances; each waits ``growth`` gaps longer than the last."""
    requests = []
    for i in range(n):
        delay = wait + int(i * gap * growth)
        requests.append(
            record(
                f"r{i}",
                i * gap,
                ttft=delay + 1000,
                e2e=delay + takes,
                delay=delay,
                **described,
            )
        )
    return requests


def names(
    instances: Sequence[InstanceMetrics], situation: Situation | None = None, **others: Any
) -> dict[str, str]:
    """The cautions about such instances, by name."""
    situation = situation or Situation(total_blocks=1000, block_size=16)
    results = build_results(instances, several=len(instances) > 1, situation=situation, **others)
    found = dict(text.split(": ", 1) for text in results.cautions)
    assert len(found) == len(results.cautions)
    return found


def test_a_healthy_run_says_nothing() -> None:
    assert names([instance(*served())]) == {}
    assert names([instance(*served(), timed_out=1, dropped_unservable=1, preemptions=1)]) == {}


def test_no_situation_no_cautions() -> None:
    assert build_results([instance()], several=False).cautions == []


def test_no_requests() -> None:
    text = names([instance()], Situation(horizon=60))["no-requests"]
    assert "the horizon of 0.06 ms" in text
    assert "in microseconds" in text
    assert names([instance()]) == {
        "no-requests": "the workload has no requests, so every figure is 0; look at its clients"
    }


def test_nothing_completed() -> None:
    found = names(
        [instance(*(record(f"r{i}", i) for i in range(7)), timed_out=4, still_queued=3)],
        Situation(horizon=2 * SECOND, total_blocks=1, block_size=16),
        shed_by_class={"batch": 5},
    )
    assert list(found) == ["nothing-completed", "horizon", "timeouts"]
    assert found["nothing-completed"].startswith(
        "none of 12 requests completed (4 timed out, 5 were turned away, 3 had not ended"
    )
    assert "E2E" not in found["timeouts"]


@pytest.mark.parametrize(("left", "fires"), [(9, False), (12, True)])
def test_horizon(left: int, fires: bool) -> None:
    situation = Situation(horizon=300 * SECOND)
    found = names([instance(*served(), still_running=left)], situation)
    assert list(found) == ["horizon"] * fires
    if fires:
        assert found["horizon"].startswith(
            "the horizon of 300 s cut off 12 of 212 requests (5.7 %)."
        )


def test_the_horizon_of_a_replay_and_none() -> None:
    situation = Situation(horizon=300 * SECOND, horizon_given=False)
    found = names([instance(*served(), still_running=50)], situation, in_transit=2)
    assert "twice the last arrival of the trace, cut off 52 of 252" in found["horizon"]
    assert names([instance(*served(), still_running=50)], Situation(horizon=MAX_INT64)) == {}


def test_requests_that_are_missing() -> None:
    counts = {"timed_out": 2, "dropped_unservable": 4, "length_capped": 3}
    found = names(
        [instance(*served(), **counts)],
        Situation(total_blocks=10, block_size=16, max_model_len=100),
        rejected_routing=5,
    )
    assert list(found) == ["dropped", "length-capped", "not-served"]
    assert (
        "4 of 211 requests (1.9 %) were dropped: they are longer than the maximum of 100"
        in (found["dropped"])
    )
    found = names([instance(*served(), dropped_unservable=4, timed_out=3)])
    assert list(found) == ["timeouts", "dropped"]
    assert "longer than the KV cache of 16,000 tokens" in found["dropped"]
    assert "look better than what users saw" in found["timeouts"]


def test_a_policy_that_rejects_is_no_news() -> None:
    assert names([instance(*served())], shed_by_class={"batch": 100}) == {}


def test_preemptions() -> None:
    found = names([instance(*served(), preemptions=2)])
    assert list(found) == ["kv-cache"]
    assert "too small: 2 times a running request lost its KV blocks" in found["kv-cache"]


@pytest.mark.parametrize(
    ("growth", "fires"), [(0.0, False), (0.03, False), (0.1, True), (1.0, True)]
)
def test_saturated(growth: float, fires: bool) -> None:
    found = names([instance(*served(growth=growth))])
    assert list(found) == ["saturated"] * fires
    if growth == 1.0:
        assert (
            "second quarter of the run they waited 74.5 s on average, in the last 175 s"
            in (found["saturated"])
        )


def test_a_steady_wait_is_no_saturation() -> None:
    assert names([instance(*served(wait=50 * SECOND))]) == {}
    peak = served(100) + [*served(100, growth=0.5)][::-1]
    assert names([instance(*peak)]) == {}


def test_several_instances_share_the_verdict() -> None:
    busy = instance(*served(growth=0.5))
    assert "saturated" in names([busy, instance(*served(), id="instance_1")])
    few = [instance(*served(9, growth=0.5), id=f"i{i}") for i in range(2)]
    assert "saturated" not in names(few)


def test_those_that_never_ran_waited_longest() -> None:
    waiting = [record(f"w{i}", (200 + i) * SECOND) for i in range(100)]
    found = names(
        [instance(*served(growth=0.1), *waiting, still_queued=100)],
        Situation(horizon=300 * SECOND),
    )
    assert list(found) == ["horizon", "saturated"]


def test_a_burst_is_short_rather_than_saturated() -> None:
    burst = served(gap=100, growth=1.0)
    assert list(names([instance(*burst)], Situation(rate=10_000.0))) == ["short"]
    assert names([instance(*burst)]) == {}  # a file or a trace: it is meant to be so


def test_a_rate_that_was_not_reached() -> None:
    fast = [record(f"r{i}", i, ttft=1, e2e=1, delay=0) for i in range(200)]
    found = names([instance(*fast)], Situation(rate=5e6))
    assert found["rate"].startswith("requests arrived at 1,000,000 /s, not at the 5,000,000 /s")
    assert "rate" not in names([instance(*fast)], Situation(rate=1e6))


def test_few_requests() -> None:
    assert names([instance(*served(99))])["few-requests"].startswith(
        "99 requests completed, so p99 lies between the two slowest"
    )
    assert "at this one" in names([instance(*served(1))])["few-requests"]
    assert names([instance(*served(100))]) == {}


def test_idle_instances() -> None:
    idle = [instance(id=f"instance_{i}") for i in range(1, 6)]
    found = names([instance(*served()), *idle])
    assert (
        "5 of 6 instances never got a request (instance_1, instance_2, instance_3 and others)"
        in (found["idle-instances"])
    )
    assert "idle-instances" not in names([instance(*served(20)), *idle])


def test_a_prefix_that_is_never_found() -> None:
    shared = served(prefix_group="a", prefix_length=10)
    found = names([instance(*shared)])
    assert "the shared prefix of 10 tokens is shorter than a KV block of 16" in found["cache"]
    found = names([instance(*served(prefix_group="a", prefix_length=64))])
    assert "raise --total-kv-blocks" in found["cache"]
    assert names([instance(*shared, cache_hit_rate=0.1)]) == {}
    alone = [
        r for i in range(200) for r in [served(200, prefix_group=f"g{i}", prefix_length=64)[i]]
    ]
    assert names([instance(*alone)]) == {}


def test_prefix_scorers_without_prefixes() -> None:
    two = [instance(*served()), instance(*served(), id="instance_1")]
    chosen = Situation(block_size=16, scorers=("prefix-affinity", "queue-depth"))
    assert "so prefix-affinity saw no difference" in names(two, chosen)["cache"]
    assert names(two) == {}
    assert names(two[:1], chosen) == {}
    recorded = Situation(block_size=16, scorers=("prefix-affinity",), recorded=True)
    assert names(two, recorded) == {}


def test_accuracy() -> None:
    known = Accuracy(outside=("no run on X1",), unstable=("up to 256 of 256 places were taken",))
    found = names([instance(*served())], accuracy=known)
    assert list(found) == ["not-compared", "unstable"]
    assert "no run on X1" in found["not-compared"]
    assert list(names([instance(*served(growth=1.0))], accuracy=known)) == [
        "saturated",
        "not-compared",
    ]
    assert names([instance(*served())], accuracy=Accuracy()) == {}


def test_options_without_effect() -> None:
    found = names([instance(*served())], Situation(idle_options=("--a (b)", "--c (d)")))
    assert found == {"no-effect": "options that change nothing here: --a (b); --c (d)"}


def test_every_caution_is_explained() -> None:
    root = Path(__file__).parents[2]
    code = (root / "blis_core/results/trust.py").read_text(encoding="utf-8")
    page = (root / "docs/results.md").read_text(encoding="utf-8")
    section = page.partition("## Can I trust this run?")[2].partition("\n## ")[0]
    explained = {
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", row)
    }
    assert explained == set(re.findall(r'f?"([a-z-]+): ', code))


# -------------------------------------------------------------------------------- real simulations


def test_real_runs(capsys: pytest.CaptureFixture[str]) -> None:
    calm = simulate(model="qwen/qwen3-14b", rate=5.0, num_requests=150, output_tokens=256)
    assert calm.cautions == []
    assert calm.warnings == []
    flood = simulate(
        model="qwen/qwen3-14b", rate=60.0, num_requests=600, max_num_running_reqs=16, timeout=20
    )
    assert [text.partition(":")[0] for text in flood.cautions] == [
        "timeouts",
        "few-requests",
    ]
    flood = simulate(model="qwen/qwen3-14b", rate=60.0, num_requests=600, max_num_running_reqs=16)
    assert [text.partition(":")[0] for text in flood.cautions] == ["saturated"]
    assert capsys.readouterr().err == ""  # a library does not talk


def test_warnings_are_in_the_results_of_every_run() -> None:
    options = {"model": "acme/unknown", "latency_model": "blackbox", "num_requests": 2}
    coefficients = {"alpha_coeffs": (1.0, 0.0, 0.0), "beta_coeffs": (1000.0, 1.0, 1.0)}
    first, second = (simulate(**options, **coefficients, log="error") for _ in range(2))
    assert any("1000000 blocks are assumed" in text for text in first.warnings)
    assert any("deprecated" in text for text in first.warnings)
    assert first.warnings == second.warnings


@pytest.mark.parametrize(("semantics", "hidden"), [("reference", True), ("vllm", False)])
def test_whether_the_wait_before_a_new_start_counts_depends_on_the_rules(semantics, hidden):
    results = simulate(
        model="qwen/qwen3-14b", rate=50.0, num_requests=150, total_kv_blocks=300,
        max_model_len=4096, semantics=semantics,
    )  # fmt: skip
    (caution,) = [text for text in results.cautions if text.startswith("kv-cache")]
    assert ("E2E leaves out the wait" in caution) is hidden
    assert "Raise --total-kv-blocks" in caution
